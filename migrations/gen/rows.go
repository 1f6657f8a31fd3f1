package main

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service/catalog"
)

// shortName is a name that people use and that is decided to mean the entry which has it.
type shortName struct {
	Name string `json:"name"`
	Note string `json:"note"`
}

// names deals out names so that each means one entry.
type names struct {
	key   func(string) string
	owner map[string]string // by key
	byID  map[string][]migrations.Alias
}

func newNames(key func(string) string) *names {
	return &names{key: key, owner: map[string]string{}, byID: map[string][]migrations.Alias{}}
}

// reserve keeps an id for its entry.
func (n *names) reserve(id string) error {
	if other, taken := n.owner[n.key(id)]; taken {
		return fmt.Errorf("ids %s and %s are the same name", id, other)
	}
	n.owner[n.key(id)] = id
	return nil
}

// add gives an entry a name that was chosen for it.
func (n *names) add(id, name, note string) error {
	if other, taken := n.owner[n.key(name)]; taken && other != id {
		return fmt.Errorf("short name %q cannot mean %s: it means %s", name, id, other)
	}
	n.owner[n.key(name)] = id
	n.byID[id] = append(n.byID[id], migrations.Alias{Name: name, Note: note})
	return nil
}

// offer gives an entry a name from its own list, unless another has it.
func (n *names) offer(id, name string) {
	if other, taken := n.owner[n.key(name)]; taken && other != id {
		return
	}
	for _, a := range n.byID[id] {
		if a.Name == name {
			return
		}
	}
	n.owner[n.key(name)] = id
	n.byID[id] = append(n.byID[id], migrations.Alias{Name: name})
}

// newRow takes out of the document what has a column of its own. The order of its
// keys is kept.
func newRow(id string, document []byte, n *names) (migrations.Entry, error) {
	document, err := migrations.Without(document, "id", "aliases", "short_names")
	if err != nil {
		return migrations.Entry{}, fmt.Errorf("entry %s: %w", id, err)
	}
	return migrations.Entry{ID: id, Document: document, Aliases: n.byID[id]}, nil
}

// snapshot writes the rows as the JSON array that the product embeds, one entry a line.
func snapshot(rows []migrations.Entry) ([]byte, error) {
	out := bytes.NewBufferString("[")
	for i, r := range rows {
		out.WriteString([]string{"\n", ",\n"}[min(i, 1)])
		entry := struct {
			ID         string            `json:"id"`
			Aliases    []string          `json:"aliases,omitempty"`
			AliasNotes map[string]string `json:"alias_notes,omitempty"`
			Origin     catalog.Origin    `json:"origin"`
			Revision   int64             `json:"revision"`
		}{ID: r.ID, Origin: catalog.Builtin, Revision: r.Revision}
		for _, a := range r.Aliases {
			entry.Aliases = append(entry.Aliases, a.Name)
			if a.Note != "" {
				if entry.AliasNotes == nil {
					entry.AliasNotes = map[string]string{}
				}
				entry.AliasNotes[a.Name] = a.Note
			}
		}
		head, err := json.Marshal(entry)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", r.ID, err)
		}
		out.Write(bytes.TrimSuffix(head, []byte("}")))
		out.WriteByte(',')
		out.Write(r.Document[1:])
	}
	out.WriteString("\n]\n")
	return out.Bytes(), nil
}
