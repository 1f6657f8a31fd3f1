package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/service/catalog"
)

// Catalog reads everything at one moment, so that the revision is that of the entries.
func (s *Store) Catalog(ctx context.Context) (c *catalog.Contents, err error) {
	err = s.repeat(ctx, func() error {
		tx, err := s.db.BeginTx(ctx, &s.dialect.snapshot)
		if err != nil {
			return fmt.Errorf("begin to read the catalog: %w", err)
		}
		defer tx.Rollback() // nothing was written
		c, err = reader{tx}.contents(ctx)
		return err
	})
	return c, err
}

// CatalogMark is the catalog's revision without a look at its entries.
func (s *Store) CatalogMark(ctx context.Context) (revision string, err error) {
	if s.guard != nil {
		if err := s.guard.check(); err != nil {
			return "", err
		}
		if err := s.repeat(ctx, func() error { return s.guard.checkWrites(ctx, s.db) }); err != nil {
			return "", err
		}
	}
	err = s.repeat(ctx, func() error {
		revision, err = mark(ctx, s.db)
		return err
	})
	return revision, err
}

// reader reads within one transaction.
type reader struct{ tx *sql.Tx }

func (r reader) contents(ctx context.Context) (*catalog.Contents, error) {
	var c catalog.Contents
	var err error
	if c.Mark, err = mark(ctx, r.tx); err != nil {
		return nil, err
	}
	if c.GPUs, err = r.gpus(ctx, &c); err != nil {
		return nil, err
	}
	if c.Models, err = r.models(ctx, &c); err != nil {
		return nil, err
	}
	if err := r.useHistory(ctx, &c); err != nil {
		return nil, err
	}
	suffix, err := useBuiltin(&c)
	if err != nil {
		return nil, err
	}
	c.Revision, err = revision(&c)
	builtin, changes, changed := strings.Cut(c.Revision, ".")
	if c.Revision = builtin + suffix; changed {
		c.Revision += "." + changes
	}
	return &c, err
}

// mark is "c-2" as shipped, and "c-2.3" after three changes by users.
func mark(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (string, error) {
	var builtin string
	var changes int64
	err := q.QueryRowContext(ctx, `SELECT builtin, user_changes FROM catalog_state WHERE id = 1`).Scan(&builtin,
		&changes)
	if err != nil {
		return "", fmt.Errorf("query the catalog's revision: %w", err)
	}
	if changes == 0 {
		return builtin, nil
	}
	return fmt.Sprintf("%s.%d", builtin, changes), nil
}

// revision names what is in the catalog. The mark alone would name different
// catalogs on two databases, and equal revisions promise equal answers everywhere: so
// what users entered goes into it, as a digest. The revisions of entries are left out,
// because they are the database's own.
func revision(c *catalog.Contents) (string, error) {
	if !strings.Contains(c.Mark, ".") {
		return c.Mark, nil
	}
	h := sha256.New()
	e := json.NewEncoder(h)
	for _, g := range c.GPUs {
		if g.Origin == catalog.User {
			g.Revision = 0
			if err := e.Encode(&g); err != nil {
				return "", fmt.Errorf("name the catalog: %w", err)
			}
		}
	}
	for _, m := range c.Models {
		if m.Origin == catalog.User {
			m.Revision = 0
			if err := e.Encode(&m); err != nil {
				return "", fmt.Errorf("name the catalog: %w", err)
			}
		}
	}
	return c.Mark + "-" + hex.EncodeToString(h.Sum(nil)[:6]), nil
}

// gpus reads all cards. A user's entry stands in place of a built-in one with its id.
func (r reader) gpus(ctx context.Context, c *catalog.Contents) ([]catalog.GPU, error) {
	var list []catalog.GPU
	index := map[string]int{}
	err := r.entries(ctx, `
SELECT id, origin, revision, document FROM gpus AS g
WHERE origin = 'user' OR NOT EXISTS (SELECT 1 FROM gpus AS u WHERE u.id = g.id AND u.origin = 'user')
ORDER BY position, id`,
		func(e entry) error {
			g := catalog.GPU{}
			if json.Unmarshal(e.document, &g) != nil {
				unreadable(c, "GPU", e)
				return nil
			}
			g.ID, g.Origin, g.Revision = e.id, e.origin, e.revision
			index[e.id] = len(list)
			list = append(list, g)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read GPUs: %w", err)
	}
	err = r.aliases(ctx, `SELECT gpu_id, origin, alias, note FROM gpu_aliases ORDER BY gpu_id, position, alias`,
		func(a alias) {
			if i, ok := index[a.id]; ok && list[i].Origin == a.origin {
				a.addTo(&list[i].Aliases, &list[i].AliasNotes)
			}
		})
	if err != nil {
		return nil, fmt.Errorf("read the aliases of GPUs: %w", err)
	}
	return list, nil
}

// models reads all models. A user's entry stands in place of a built-in one with its id.
func (r reader) models(ctx context.Context, c *catalog.Contents) ([]catalog.Model, error) {
	var list []catalog.Model
	index := map[string]int{}
	err := r.entries(ctx, `
SELECT id, origin, revision, document FROM models AS m
WHERE origin = 'user' OR NOT EXISTS (SELECT 1 FROM models AS u WHERE u.id = m.id AND u.origin = 'user')
ORDER BY position, id`,
		func(e entry) error {
			m := catalog.Model{}
			if json.Unmarshal(e.document, &m) != nil {
				unreadable(c, "model", e)
				return nil
			}
			m.ID, m.Origin, m.Revision = e.id, e.origin, e.revision
			if m.Origin == catalog.User {
				m.Aliases = []string{} // as the history has it of a model that has none
			}
			index[e.id] = len(list)
			list = append(list, m)
			return nil
		})
	if err != nil {
		return nil, fmt.Errorf("read models: %w", err)
	}
	err = r.aliases(ctx, `SELECT model_id, origin, alias, note FROM model_aliases ORDER BY model_id, position, alias`,
		func(a alias) {
			if i, ok := index[a.id]; ok && list[i].Origin == a.origin {
				a.addTo(&list[i].Aliases, &list[i].AliasNotes)
			}
		})
	if err != nil {
		return nil, fmt.Errorf("read the aliases of models: %w", err)
	}
	return list, nil
}

// unreadable names an entry that no program wrote. It is as good as missing.
func unreadable(c *catalog.Contents, kind string, e entry) {
	c.Faults = append(c.Faults, fmt.Sprintf("the %s %q of origin %s in the database cannot be read", kind, e.id,
		e.origin))
}

type entry struct {
	id       string
	origin   catalog.Origin
	revision int64
	document []byte
}

func (r reader) entries(ctx context.Context, query string, do func(entry) error) error {
	return each(ctx, r.tx, query, nil, func(rows *sql.Rows) error {
		var e entry
		if err := rows.Scan(&e.id, &e.origin, &e.revision, &e.document); err != nil {
			return err
		}
		if err := do(e); err != nil {
			return fmt.Errorf("entry %s: %w", e.id, err)
		}
		return nil
	})
}

type alias struct {
	id         string
	origin     catalog.Origin
	name, note string
}

func (a alias) addTo(names *[]string, notes *map[string]string) {
	*names = append(*names, a.name)
	if a.note == "" {
		return
	}
	if *notes == nil {
		*notes = map[string]string{}
	}
	(*notes)[a.name] = a.note
}

func (r reader) aliases(ctx context.Context, query string, do func(alias)) error {
	return each(ctx, r.tx, query, nil, func(rows *sql.Rows) error {
		var a alias
		if err := rows.Scan(&a.id, &a.origin, &a.name, &a.note); err != nil {
			return err
		}
		do(a)
		return nil
	})
}
