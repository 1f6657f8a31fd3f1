package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service/catalog"
)

// builtin is the catalog of this program.
type builtin struct {
	gpus   []catalog.GPU
	models []catalog.Model
}

// shipped reads the catalog of this program once.
var shipped = sync.OnceValues(func() (*builtin, error) {
	var b builtin
	if err := json.Unmarshal(migrations.GPUs, &b.gpus); err != nil {
		return nil, fmt.Errorf("read the built-in GPUs: %w", err)
	}
	if err := json.Unmarshal(migrations.Models, &b.models); err != nil {
		return nil, fmt.Errorf("read the built-in models: %w", err)
	}
	return &b, nil
})

// useBuiltin sees to it that equal revisions mean equal built-in entries. Where the database has the revision of this
// program, its rows have to be what this program ships: what differs, is missing or does not belong there is
// named in Faults, and answers are made with what was shipped. The rows of another revision, which another program
// made, cannot be compared; their digest is a part of the revision's name then.
func useBuiltin(c *catalog.Contents) (suffix string, err error) {
	name, _, _ := strings.Cut(c.Mark, ".")
	if name != migrations.CatalogRevision {
		digest, err := builtinDigest(c)
		return "+" + digest, err
	}
	b, err := shipped()
	if err != nil {
		return "", err
	}
	c.GPUs, err = restored(c, "GPU", c.GPUs, b.gpus, func(g *catalog.GPU) (string, catalog.Origin, *int64) {
		return g.ID, g.Origin, &g.Revision
	})
	if err != nil {
		return "", err
	}
	c.Models, err = restored(c, "model", c.Models, b.models, func(m *catalog.Model) (string, catalog.Origin, *int64) {
		return m.ID, m.Origin, &m.Revision
	})
	return "", err
}

// restored is a list with the built-in entries as they were shipped and in their order, those of users in their places
// or behind them. The revision of a row says how often an upgrade has written it, so it is the database's own.
func restored[E any](c *catalog.Contents, kind string, list, as []E, of func(*E) (id string, origin catalog.Origin,
	revision *int64)) ([]E, error) {
	present := make(map[string]*E, len(list))
	for i := range list {
		id, _, _ := of(&list[i])
		present[id] = &list[i]
	}
	all := make([]E, 0, len(list))
	for _, entry := range as {
		id, _, revision := of(&entry)
		row := present[id]
		delete(present, id)
		if row == nil {
			c.Faults = append(c.Faults, fmt.Sprintf("the built-in %s %q is missing in the database", kind, id))
			all = append(all, entry)
			continue
		}
		_, origin, written := of(row)
		if origin != catalog.Builtin {
			all = append(all, *row)
			continue
		}
		*revision = *written
		same, err := equal(row, &entry)
		if err != nil {
			return nil, err
		}
		if !same {
			c.Faults = append(c.Faults, fmt.Sprintf("the built-in %s %q of the database was altered", kind, id))
		}
		all = append(all, entry)
	}
	for i := range list {
		switch id, origin, _ := of(&list[i]); {
		case present[id] == nil:
		case origin == catalog.Builtin:
			c.Faults = append(c.Faults, fmt.Sprintf("the built-in %s %q of the database is none of %s", kind, id,
				migrations.CatalogRevision))
		default:
			all = append(all, list[i])
		}
	}
	return all, nil
}

func equal(a, b any) (bool, error) {
	x, err := json.Marshal(a)
	if err != nil {
		return false, fmt.Errorf("compare with the built-in catalog: %w", err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		return false, fmt.Errorf("compare with the built-in catalog: %w", err)
	}
	return string(x) == string(y), nil
}

// builtinDigest names the built-in entries that no user's entry hides.
func builtinDigest(c *catalog.Contents) (string, error) {
	h := sha256.New()
	e := json.NewEncoder(h)
	for i := range c.GPUs {
		if c.GPUs[i].Origin == catalog.Builtin {
			if err := e.Encode(&c.GPUs[i]); err != nil {
				return "", fmt.Errorf("name the catalog: %w", err)
			}
		}
	}
	for i := range c.Models {
		if c.Models[i].Origin == catalog.Builtin {
			if err := e.Encode(&c.Models[i]); err != nil {
				return "", fmt.Errorf("name the catalog: %w", err)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:6]), nil
}
