package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"

	"github.com/tidwall/sjson"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
)

// behindBuiltin is the position of users' entries that stand in no built-in one's place.
const behindBuiltin = 1 << 30

// ChangeCatalog implements service.Store.
func (s *Store) ChangeCatalog(ctx context.Context,
	decide func(*catalog.Contents) (*service.CatalogChange, error)) (int64, error) {
	var number int64
	err := s.write(ctx, func(tx *writeTx) error {
		// Whoever has this row is the only one to change the catalog until the end of the
		// transaction; on PostgreSQL the others wait here. So the numbers have no gaps.
		if _, err := tx.ExecContext(ctx, `UPDATE catalog_state SET user_changes = user_changes + 1 WHERE id = 1`); err != nil {
			return fmt.Errorf("lock the catalog: %w", err)
		}
		if err := tx.QueryRowContext(ctx, `SELECT user_changes FROM catalog_state WHERE id = 1`).Scan(&number); err != nil {
			return fmt.Errorf("count the change: %w", err)
		}
		now, err := reader{tx.Tx}.contents(ctx)
		if err != nil {
			return err
		}
		change, err := decide(now)
		if err != nil {
			return err
		}
		sealing, err := sealedHistory.begin(ctx, tx)
		if err != nil {
			return err
		}
		if err := (writer{tx, number, sealing}).apply(ctx, change); err != nil {
			return err
		}
		return sealing.end(ctx)
	})
	return number, err
}

// writer makes the change of one number within a transaction.
type writer struct {
	tx      *writeTx
	number  int64
	history *sealing
}

// columns are where a kind of entries is. They are put into SQL, so they come from here only.
var columns = map[service.EntryKind]struct{ entries, aliases, entryID string }{
	service.GPUEntryKind:   {"gpus", "gpu_aliases", "gpu_id"},
	service.ModelEntryKind: {"models", "model_aliases", "model_id"},
}

func (w writer) apply(ctx context.Context, c *service.CatalogChange) error {
	at, ok := columns[c.Kind]
	if !ok {
		return fmt.Errorf("unknown kind of entry %q", c.Kind)
	}
	whole, err := w.document(c)
	if err != nil {
		return fmt.Errorf("encode %s %s: %w", c.Kind, c.ID, err)
	}
	for _, table := range []string{at.aliases + " WHERE " + at.entryID, at.entries + " WHERE id"} {
		if _, err := w.tx.ExecContext(ctx, `DELETE FROM `+table+` = $1 AND origin = 'user'`, c.ID); err != nil {
			return fmt.Errorf("remove the %s %s: %w", c.Kind, c.ID, err)
		}
	}
	if c.Action != service.Deleted {
		if err := w.insert(ctx, c, whole); err != nil {
			return fmt.Errorf("store the %s %s: %w", c.Kind, c.ID, err)
		}
	}
	values := []any{string(c.Kind), c.ID, string(c.Action), c.By.KeyID, c.By.Name, timestamp(c.At),
		sql.NullString{String: string(whole), Valid: whole != nil}}
	_, err = w.tx.ExecContext(ctx, `
INSERT INTO catalog_history (change_number, kind, entry_id, action, key_id, key_name, changed_at, document)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)`, append([]any{w.number}, values...)...)
	if err == nil {
		err = w.history.add(ctx, w.number, values...)
	}
	if err != nil {
		return fmt.Errorf("note the change of the %s %s: %w", c.Kind, c.ID, err)
	}
	return nil
}

// document is the whole entry after the change; nil after a delete.
func (w writer) document(c *service.CatalogChange) ([]byte, error) {
	switch {
	case c.Action == service.Deleted:
		return nil, nil
	case c.GPU != nil && c.Kind == service.GPUEntryKind:
		g := *c.GPU
		g.Revision = w.number
		return json.Marshal(&g)
	case c.Model != nil && c.Kind == service.ModelEntryKind:
		m := *c.Model
		m.Revision = w.number
		return json.Marshal(&m)
	}
	return nil, fmt.Errorf("a change of a %s without one", c.Kind)
}

func (w writer) insert(ctx context.Context, c *service.CatalogChange, whole []byte) error {
	at := columns[c.Kind]
	var aliases []string
	var notes map[string]string
	if c.GPU != nil {
		aliases, notes = c.GPU.Aliases, c.GPU.AliasNotes
	} else {
		aliases, notes = c.Model.Aliases, c.Model.AliasNotes
	}
	document := whole
	for _, column := range []string{"id", "aliases", "alias_notes", "origin", "revision"} {
		var err error
		if document, err = sjson.DeleteBytes(document, column); err != nil {
			return err
		}
	}
	// The entry stands where the built-in one of its id would.
	position := int64(behindBuiltin)
	err := w.tx.QueryRowContext(ctx, `SELECT position FROM `+at.entries+` WHERE id = $1 AND origin = 'builtin'`,
		c.ID).Scan(&position)
	if err != nil && err != sql.ErrNoRows {
		return err
	}
	_, err = w.tx.ExecContext(ctx, `
INSERT INTO `+at.entries+` (id, origin, position, document, revision, created_at, updated_at) VALUES ($1, 'user', $2, $3, $4, $5, $5)`,
		c.ID, position, string(document), w.number, timestamp(c.At))
	if err != nil {
		return err
	}
	for i, alias := range aliases {
		_, err := w.tx.ExecContext(ctx, `
INSERT INTO `+at.aliases+` (alias, origin, `+at.entryID+`, position, note) VALUES ($1, 'user', $2, $3, $4)`, alias, c.ID, i, notes[alias])
		if err != nil {
			return err
		}
	}
	return nil
}
