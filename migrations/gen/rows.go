package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service/catalog"
)

// The seeds that carry the present data. Data that change after a release go
// into seeds with new numbers; those that were released stay as they are.
const (
	gpuSeed   = "00002_seed_gpus.sql"
	modelSeed = "00014_seed_models.sql"
	// The revision of the catalog that a seed leaves behind: seeds that are not written anew keep the one that they
	// were released with.
	gpuRevision   = "c-1"
	modelRevision = migrations.CatalogRevision
	// seededAt stands in the rows instead of a clock: the same data make the same database.
	seededAt = "2026-11-21T00:00:00Z"
)

// row is one entry as a database keeps it.
type row struct {
	id       string
	document []byte // without id and aliases
	aliases  []alias
	// revision counts the states that the entry has had; 0 leaves counting to the database.
	revision int
}

type alias struct{ name, note string }

// shortName is a name that people use, and the entry that it is decided to mean.
type shortName struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	Note string `json:"note"`
}

// names deals out names so that each means one entry.
type names struct {
	key   func(string) string
	owner map[string]string // by key
	ids   map[string]bool
	byID  map[string][]alias
}

func newNames(key func(string) string) *names {
	return &names{key: key, owner: map[string]string{}, ids: map[string]bool{}, byID: map[string][]alias{}}
}

// reserve keeps an id for its entry.
func (n *names) reserve(id string) error {
	if other, taken := n.owner[n.key(id)]; taken {
		return fmt.Errorf("ids %s and %s are the same name", id, other)
	}
	n.owner[n.key(id)], n.ids[id] = id, true
	return nil
}

// add gives an entry a name that was chosen for it.
func (n *names) add(id, name, note string) error {
	if !n.ids[id] {
		return fmt.Errorf("short name %q: there is no entry %q", name, id)
	}
	if other, taken := n.owner[n.key(name)]; taken && other != id {
		return fmt.Errorf("short name %q cannot mean %s: it means %s", name, id, other)
	}
	n.owner[n.key(name)] = id
	n.byID[id] = append(n.byID[id], alias{name, note})
	return nil
}

// offer gives an entry a name from its own list, unless another has it.
func (n *names) offer(id, name string) {
	if other, taken := n.owner[n.key(name)]; taken && other != id {
		return
	}
	for _, a := range n.byID[id] {
		if a.name == name {
			return
		}
	}
	n.owner[n.key(name)] = id
	n.byID[id] = append(n.byID[id], alias{name, ""})
}

// newRow takes out of the document what has a column of its own. The order of its
// keys is kept.
func newRow(id string, document []byte, n *names) (row, error) {
	document, err := without(document, "id", "aliases")
	if err != nil {
		return row{}, fmt.Errorf("entry %s: %w", id, err)
	}
	return row{id: id, document: document, aliases: n.byID[id]}, nil
}

func without(object []byte, keys ...string) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(object))
	if _, err := decoder.Token(); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for decoder.More() {
		token, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		name, ok := token.(string)
		if !ok {
			return nil, fmt.Errorf("unexpected %v in an object", token)
		}
		drop := false
		for _, k := range keys {
			drop = drop || k == name
		}
		if drop {
			continue
		}
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:%s", name, value)
	}
	return append(append([]byte{'{'}, out.Bytes()...), '}'), nil
}

// snapshot writes the rows as the JSON array that the product embeds, one entry a line.
func snapshot(rows []row) ([]byte, error) {
	var out bytes.Buffer
	for i, r := range rows {
		out.WriteString([]string{"[\n", ",\n"}[min(i, 1)])
		entry := struct {
			ID         string            `json:"id"`
			Aliases    []string          `json:"aliases,omitempty"`
			AliasNotes map[string]string `json:"alias_notes,omitempty"`
			Origin     catalog.Origin    `json:"origin"`
			Revision   int64             `json:"revision"`
		}{ID: r.id, Origin: catalog.Builtin, Revision: int64(max(r.revision, 1))}
		for _, a := range r.aliases {
			entry.Aliases = append(entry.Aliases, a.name)
			if a.note != "" {
				if entry.AliasNotes == nil {
					entry.AliasNotes = map[string]string{}
				}
				entry.AliasNotes[a.name] = a.note
			}
		}
		head, err := json.Marshal(entry)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", r.id, err)
		}
		out.Write(bytes.TrimSuffix(head, []byte("}")))
		out.WriteByte(',')
		out.Write(r.document[1:])
	}
	out.WriteString("\n]\n")
	return out.Bytes(), nil
}

// seed writes the rows as a migration. It runs once in every database, also in one
// that holds an older catalog: built-in rows are written anew, with a new
// revision where they differ, and a user's are left alone.
func seed(table string, rows []row, revision string) []byte {
	singular := strings.TrimSuffix(table, "s")
	var b strings.Builder
	fmt.Fprintf(&b, "-- Code generated by migrations/gen; DO NOT EDIT.\n\n-- +goose Up\n")
	ids := make([]string, len(rows))
	for i, r := range rows {
		ids[i] = quote(r.id)
	}
	fmt.Fprintf(&b, "DELETE FROM %s_aliases WHERE origin = 'builtin';\n", singular)
	fmt.Fprintf(&b, "DELETE FROM %s WHERE origin = 'builtin' AND id NOT IN (\n%s\n);\n", table,
		strings.Join(ids, ",\n"))
	counted := rows[0].revision > 0
	column := ""
	if counted {
		column = "revision, "
	}
	fmt.Fprintf(&b, "INSERT INTO %s (id, origin, position, %sdocument, created_at, updated_at) VALUES\n", table, column)
	for i, r := range rows {
		value := ""
		if counted {
			value = fmt.Sprintf("%d, ", r.revision)
		}
		fmt.Fprintf(&b, "(%s, 'builtin', %d, %s%s, '%s', '%s')%s\n", quote(r.id), i, value, quote(string(r.document)),
			seededAt, seededAt, comma(i, len(rows)))
	}
	next := fmt.Sprintf("CASE WHEN %[1]s.document = excluded.document THEN %[1]s.revision ELSE %[1]s.revision + 1 END",
		table)
	if counted {
		next = "excluded.revision"
	}
	fmt.Fprintf(&b, `ON CONFLICT (id, origin) DO UPDATE SET
    position = excluded.position,
    revision = %[2]s,
    updated_at = CASE WHEN %[1]s.document = excluded.document THEN %[1]s.updated_at ELSE excluded.updated_at END,
    document = excluded.document;
`, table, next)
	var values []string
	for _, r := range rows {
		for i, a := range r.aliases {
			values = append(values, fmt.Sprintf("(%s, 'builtin', %s, %d, %s)", quote(a.name), quote(r.id), i,
				quote(a.note)))
		}
	}
	fmt.Fprintf(&b, "INSERT INTO %s_aliases (alias, origin, %s_id, position, note) VALUES\n%s;\n", singular, singular,
		strings.Join(values, ",\n"))
	fmt.Fprintf(&b, "UPDATE catalog_state SET builtin = '%s' WHERE id = 1;\n", revision)
	fmt.Fprintf(&b, "\n-- +goose Down\nDELETE FROM %s_aliases WHERE origin = 'builtin';\nDELETE FROM %s WHERE "+
		"origin = 'builtin';\n", singular, table)
	return []byte(b.String())
}

func comma(i, n int) string {
	if i == n-1 {
		return ""
	}
	return ","
}

// quote makes an SQL string literal.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
