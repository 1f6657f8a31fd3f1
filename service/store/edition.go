package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service"
)

// edition is a state of the built-in catalog. A database has the one that the last program wrote which had a newer one
// than it found: an older program beside it leaves it alone.
type edition struct {
	name string
	// digest is "" in a database that only programs wrote which knew no digests.
	digest string
}

// shippedEdition is that of this program.
func shippedEdition() edition { return edition{migrations.CatalogRevision, migrations.CatalogDigest()} }

// number is that of the name; editions are numbered in their order.
func (e edition) number() (n int64, ok bool) {
	digits, ok := strings.CutPrefix(e.name, "c-")
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, ok && err == nil
}

// newer says that another program made the edition, which this one must not take back.
func (e edition) newer() bool {
	ours, _ := shippedEdition().number()
	n, ok := e.number()
	return !ok || n > ours
}

// stale says that this program has something else to write.
func (e edition) stale() bool { return e != shippedEdition() && !e.newer() }

// readEdition fails with sql.ErrNoRows where the database has lost what it says of its catalog.
func readEdition(ctx context.Context, q interface {
	QueryRowContext(context.Context, string, ...any) *sql.Row
}) (e edition, err error) {
	if err := q.QueryRowContext(ctx, `SELECT builtin FROM catalog_state WHERE id = 1`).Scan(&e.name); err != nil {
		return e, err
	}
	err = q.QueryRowContext(ctx, `SELECT digest FROM catalog_edition WHERE id = 1`).Scan(&e.digest)
	if errors.Is(err, sql.ErrNoRows) {
		err = nil
	}
	return e, err
}

// bringCatalog makes the built-in rows of the database those of this program, unless they are or a newer program's.
// What users entered is in rows of its own and is not touched.
func (s *Store) bringCatalog(ctx context.Context) (brought bool, err error) {
	var now edition
	err = s.repeat(ctx, func() (err error) {
		now, err = readEdition(ctx, s.db)
		return err
	})
	if errors.Is(err, sql.ErrNoRows) { // for Verify to tell
		return false, nil
	}
	if err != nil || !now.stale() {
		return false, err
	}
	err = s.write(ctx, func(tx *writeTx) error {
		brought = false
		// Changes of users take this row first, too (ChangeCatalog).
		if _, err := tx.ExecContext(ctx, `UPDATE catalog_state SET builtin = builtin WHERE id = 1`); err != nil {
			return fmt.Errorf("lock the catalog: %w", err)
		}
		now, err := readEdition(ctx, tx)
		if err != nil || !now.stale() { // another process was faster
			return err
		}
		brought = true
		return writeEdition(ctx, tx)
	})
	if err != nil {
		return false, fmt.Errorf("bring the built-in catalog to %s: %w", migrations.CatalogRevision, err)
	}
	return brought, nil
}

func writeEdition(ctx context.Context, tx *writeTx) error {
	for _, of := range []struct {
		kind     service.EntryKind
		embedded []byte
	}{{service.GPUEntryKind, migrations.GPUs}, {service.ModelEntryKind, migrations.Models}} {
		entries, err := migrations.Entries(of.embedded)
		if err != nil {
			return err
		}
		if err := (builtinRows{tx, of.kind}).become(ctx, entries); err != nil {
			return fmt.Errorf("write the built-in %ss: %w", of.kind, err)
		}
	}
	is := shippedEdition()
	if _, err := tx.ExecContext(ctx, `UPDATE catalog_state SET builtin = $1 WHERE id = 1`, is.name); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, `
INSERT INTO catalog_edition (id, digest) VALUES (1, $1) ON CONFLICT (id) DO UPDATE SET digest = excluded.digest`,
		is.digest)
	return err
}

// builtinRows are the built-in rows of a kind within a transaction.
type builtinRows struct {
	tx   *writeTx
	kind service.EntryKind
}

// writtenAt stands in built-in rows instead of a clock: the same catalog makes the same rows.
const writtenAt = "2026-11-21T00:00:00Z"

type (
	builtinRow struct {
		position, revision int64
		document           string
	}
	builtinAlias struct {
		id       string
		position int64
		note     string
	}
)

// become writes what is another and leaves alone what is there.
func (b builtinRows) become(ctx context.Context, entries []migrations.Entry) error {
	at := columns[b.kind]
	rows, aliases, err := b.read(ctx)
	if err != nil {
		return err
	}
	want := make(map[string]bool, len(entries))
	wantAliases := map[string]builtinAlias{}
	var newRows, newAliases [][]any
	for i, e := range entries {
		want[e.ID] = true
		row := builtinRow{int64(i), e.Revision, string(e.Document)}
		if rows[e.ID] != row {
			newRows = append(newRows, []any{e.ID, row.position, row.document, row.revision})
		}
		for j, a := range e.Aliases {
			alias := builtinAlias{e.ID, int64(j), a.Note}
			wantAliases[a.Name] = alias
			if aliases[a.Name] != alias {
				newAliases = append(newAliases, []any{a.Name, e.ID, alias.position, alias.note})
			}
		}
	}
	for name, alias := range aliases {
		if wantAliases[name] != alias {
			if _, err := b.tx.ExecContext(ctx, `DELETE FROM `+at.aliases+` WHERE alias = $1 AND origin = 'builtin'`,
				name); err != nil {
				return err
			}
		}
	}
	for id := range rows {
		if !want[id] {
			if _, err := b.tx.ExecContext(ctx, `DELETE FROM `+at.entries+` WHERE id = $1 AND origin = 'builtin'`,
				id); err != nil {
				return err
			}
		}
	}
	err = b.insert(ctx, `INSERT INTO `+at.entries+` (id, origin, position, document, revision, created_at, updated_at)`,
		`($%d, 'builtin', $%d, $%d, $%d, '`+writtenAt+`', '`+writtenAt+`')`, `
ON CONFLICT (id, origin) DO UPDATE SET position = excluded.position, document = excluded.document, revision = excluded.revision, updated_at = excluded.updated_at`, newRows)
	if err != nil {
		return err
	}
	return b.insert(ctx, `INSERT INTO `+at.aliases+` (alias, origin, `+at.entryID+`, position, note)`,
		`($%d, 'builtin', $%d, $%d, $%d)`, ``, newAliases)
}

func (b builtinRows) read(ctx context.Context) (map[string]builtinRow, map[string]builtinAlias, error) {
	at := columns[b.kind]
	rows, aliases := map[string]builtinRow{}, map[string]builtinAlias{}
	err := each(ctx, b.tx, `SELECT id, position, revision, document FROM `+at.entries+` WHERE origin = 'builtin'`, nil,
		func(in *sql.Rows) error {
			var id string
			var row builtinRow
			err := in.Scan(&id, &row.position, &row.revision, &row.document)
			rows[id] = row
			return err
		})
	if err != nil {
		return nil, nil, err
	}
	err = each(ctx, b.tx, `SELECT alias, `+at.entryID+`, position, note FROM `+at.aliases+` WHERE origin = 'builtin'`, nil,
		func(in *sql.Rows) error {
			var name string
			var alias builtinAlias
			err := in.Scan(&name, &alias.id, &alias.position, &alias.note)
			aliases[name] = alias
			return err
		})
	return rows, aliases, err
}

// rowsAtOnce is how many rows a statement inserts, so that a server far away is asked some hundred times for a new
// catalog, not two thousand times.
const rowsAtOnce = 25

// insert adds rows of four values, most of them so many at once.
func (b builtinRows) insert(ctx context.Context, into, row, onConflict string, rows [][]any) error {
	for len(rows) > 0 {
		n := 1
		if len(rows) >= rowsAtOnce {
			n = rowsAtOnce
		}
		groups, values := make([]string, n), make([]any, 0, 4*n)
		for i := range n {
			groups[i] = fmt.Sprintf(row, 4*i+1, 4*i+2, 4*i+3, 4*i+4)
			values = append(values, rows[i]...)
		}
		if _, err := b.tx.ExecContext(ctx, into+` VALUES `+strings.Join(groups, ", ")+onConflict, values...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// verifyEdition says which catalog the built-in rows are, where that is not this program's.
func verifyEdition(ctx context.Context, tx *sql.Tx, r *Report) error {
	now, err := readEdition(ctx, tx)
	switch ours := shippedEdition(); {
	case errors.Is(err, sql.ErrNoRows): // which others tell
		return nil
	case err != nil:
		return err
	case now.newer():
		r.add("catalog_state", "1", "its built-in entries are those of %s, and this program has those of %s: it is older "+
			"than the database", now.name, ours.name)
	case now.name != ours.name:
		r.add("catalog_state", "1", "its built-in entries are those of %s: vramplan migrate brings them to %s", now.name,
			ours.name)
	case now != ours:
		r.add("catalog_edition", "1", "the digest is not that of %s as this program has it: vramplan migrate writes its "+
			"entries anew", ours.name)
	}
	return nil
}
