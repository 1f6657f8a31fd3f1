package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// sealing keeps the digests of a table while a transaction writes it. Whoever has it is the only one to write the table
// until the end of the transaction, so it is taken before the first row is touched.
type sealing struct {
	sealed
	tx   *writeTx
	rows int64
	sum  sum
}

func (t sealed) begin(ctx context.Context, tx *writeTx) (*sealing, error) {
	s := &sealing{sealed: t, tx: tx}
	n, err := affected(tx.ExecContext(ctx, `UPDATE table_digests SET writes = writes + 1 WHERE table_name = $1`,
		t.name))
	if err == nil && n != 1 {
		err = errors.New("its row in table_digests is missing: vramplan verify says what else is wrong")
	}
	if err != nil {
		return nil, fmt.Errorf("lock the table %s: %w", t.name, err)
	}
	var writes int64
	var text string
	err = tx.QueryRowContext(ctx, `SELECT writes, row_count, digest FROM table_digests WHERE table_name = $1`,
		t.name).Scan(&writes, &s.rows, &text)
	if err == nil {
		s.sum, err = parseSum(text)
	}
	if err == nil && writes == 0 { // the first write since there are digests
		err = s.acceptAll(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read the digest of the table %s: %w", t.name, err)
	}
	tx.writes[t.name] = writes
	return s, nil
}

// add notes a row that is written in the same transaction; values are those of the columns.
func (s *sealing) add(ctx context.Context, key any, values ...any) error {
	digest, err := s.digestOfValues(key, values)
	if err != nil {
		return err
	}
	text, _, err := asText(key)
	if err != nil {
		return err
	}
	return s.note(ctx, text, digest)
}

func (s *sealing) note(ctx context.Context, key, digest string) error {
	if _, err := s.tx.ExecContext(ctx, `INSERT INTO row_digests (table_name, row_key, digest) VALUES ($1, $2, $3)`,
		s.name, key, digest); err != nil {
		return err
	}
	s.rows++
	return s.sum.add(digest)
}

// remove forgets a row. One that has no digest is none that was counted.
func (s *sealing) remove(ctx context.Context, key string) error {
	var digest string
	err := s.tx.QueryRowContext(ctx, `SELECT digest FROM row_digests WHERE table_name = $1 AND row_key = $2`, s.name,
		key).Scan(&digest)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := s.tx.ExecContext(ctx, `DELETE FROM row_digests WHERE table_name = $1 AND row_key = $2`, s.name, key); err != nil {
		return err
	}
	s.rows--
	return s.sum.remove(digest)
}

// end writes the digest of the table.
func (s *sealing) end(ctx context.Context) error {
	_, err := s.tx.ExecContext(ctx, `UPDATE table_digests SET row_count = $1, digest = $2 WHERE table_name = $3`,
		s.rows, s.sum.String(), s.name)
	if err != nil {
		return fmt.Errorf("write the digest of the table %s: %w", s.name, err)
	}
	return nil
}

// acceptAll gives all rows the digests of what they are now.
func (s *sealing) acceptAll(ctx context.Context) error {
	digests := map[string]string{}
	err := each(ctx, s.tx, s.sealed.rows(""), nil, func(rows *sql.Rows) error {
		r, err := s.scan(rows)
		digests[r.key] = r.digest
		return err
	})
	if err != nil {
		return err
	}
	if _, err := s.tx.ExecContext(ctx, `DELETE FROM row_digests WHERE table_name = $1`, s.name); err != nil {
		return err
	}
	s.rows, s.sum = 0, sum{}
	for key, digest := range digests {
		if err := s.note(ctx, key, digest); err != nil {
			return err
		}
	}
	return nil
}

// adopt gives digests to what older programs wrote, once, after the migration that makes the tables of digests.
func (s *Store) adopt(ctx context.Context) error {
	for _, t := range sealedTables {
		var writes int64
		err := s.repeat(ctx, func() error {
			return s.db.QueryRowContext(ctx, `SELECT writes FROM table_digests WHERE table_name = $1`,
				t.name).Scan(&writes)
		})
		if err == nil && writes < 0 {
			err = s.write(ctx, func(tx *writeTx) error {
				sealing, err := t.begin(ctx, tx)
				if err != nil {
					return err
				}
				return sealing.end(ctx)
			})
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) { // a row that is missing is for Verify to tell
			return fmt.Errorf("give the rows of %s digests: %w", t.name, err)
		}
	}
	return nil
}

// Accept takes what the tables hold now as what they are meant to hold: after older programs wrote beside this one, or
// an operator by hand. Nothing but the digests is changed.
func (s *Store) Accept(ctx context.Context) error {
	return s.write(ctx, func(tx *writeTx) error {
		for _, t := range sealedTables {
			_, err := tx.ExecContext(ctx, `
INSERT INTO table_digests (table_name, writes, row_count, digest) VALUES ($1, 0, 0, '') ON CONFLICT (table_name) DO UPDATE SET digest = ''`, t.name)
			if err != nil {
				return fmt.Errorf("accept the table %s: %w", t.name, err)
			}
			sealing, err := t.begin(ctx, tx)
			if err != nil {
				return err
			}
			if err := sealing.acceptAll(ctx); err != nil {
				return fmt.Errorf("accept the table %s: %w", t.name, err)
			}
			if err := sealing.end(ctx); err != nil {
				return err
			}
		}
		return nil
	})
}
