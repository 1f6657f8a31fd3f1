// Package migrations holds the database schema and the built-in catalog: the schema as
// numbered SQL, the catalog as JSON, one file a kind of entry, which is what the product
// answers from without a database and what it writes into one.
//
// A dialect has a folder of its own; a migration has the same number and name in
// each. A migration that has been released does not change. The catalog is no migration:
// when its data do, `go run ./migrations/gen` makes the next edition of it, and
// service/store brings databases to the edition that a program embeds.
package migrations

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
)

//go:generate go run ./gen -root .

// SQLite holds the migrations for SQLite, in the folder "sqlite".
//
//go:embed sqlite/*.sql
var SQLite embed.FS

// Postgres holds the migrations for PostgreSQL and what speaks its language, in the
// folder "postgres".
//
//go:embed postgres/*.sql
var Postgres embed.FS

// GPUs is the built-in GPU catalog: a JSON array of service/catalog.GPU.
//
//go:embed catalog/gpus.json
var GPUs []byte

// Models is the built-in model catalog: a JSON array of service/catalog.Model.
//
//go:embed catalog/models.json
var Models []byte

// CatalogDigest says which edition of the catalog is embedded, whatever its name is.
func CatalogDigest() string {
	h := sha256.New()
	h.Write(GPUs)
	h.Write(Models)
	return hex.EncodeToString(h.Sum(nil))
}

// Entry is one entry of the built-in catalog as a database keeps it.
type Entry struct {
	ID string
	// Revision is the number of the edition that gave the entry its present state; entries that
	// are older than editions' names have the number of states that they had.
	Revision int64
	// Document is the entry's JSON without what has a column of its own.
	Document []byte
	Aliases  []Alias
}

// Alias is another name of an entry.
type Alias struct{ Name, Note string }

// Entries reads GPUs or Models as rows. Their order is that of the catalog.
func Entries(kind []byte) ([]Entry, error) {
	var documents []json.RawMessage
	if err := json.Unmarshal(kind, &documents); err != nil {
		return nil, fmt.Errorf("read the built-in catalog: %w", err)
	}
	entries := make([]Entry, len(documents))
	for i, document := range documents {
		var head struct {
			ID         string            `json:"id"`
			Revision   int64             `json:"revision"`
			Aliases    []string          `json:"aliases"`
			AliasNotes map[string]string `json:"alias_notes"`
		}
		err := json.Unmarshal(document, &head)
		if err == nil {
			document, err = Without(document, "id", "aliases", "alias_notes", "origin", "revision")
		}
		if err != nil {
			return nil, fmt.Errorf("read entry %d of the built-in catalog: %w", i, err)
		}
		entries[i] = Entry{ID: head.ID, Revision: head.Revision, Document: document}
		for _, name := range head.Aliases {
			entries[i].Aliases = append(entries[i].Aliases, Alias{name, head.AliasNotes[name]})
		}
	}
	return entries, nil
}

// Without is a JSON object less some of its keys. Everything else stays as it is written, in its order.
func Without(object []byte, keys ...string) ([]byte, error) {
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
		if slices.Contains(keys, name) {
			continue
		}
		if out.Len() > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, "%q:%s", name, value)
	}
	return append(append([]byte{'{'}, out.Bytes()...), '}'), nil
}
