package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/vramplan/vramplan/service"
)

// CreateKey implements service.Store.
func (s *Store) CreateKey(ctx context.Context, k service.Key) error {
	scopes := make([]string, len(k.Scopes))
	for i, scope := range k.Scopes {
		scopes[i] = string(scope)
	}
	return s.write(ctx, func(tx *writeTx) error {
		sealing, err := sealedKeys.begin(ctx, tx)
		if err != nil {
			return err
		}
		values := []any{k.Name, k.Hash, strings.Join(scopes, " "), timestamp(k.CreatedAt), optional(k.ExpiresAt),
			optional(k.RevokedAt)}
		_, err = tx.ExecContext(ctx, `
INSERT INTO api_keys (id, name, hash, scopes, created_at, expires_at, revoked_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`, append([]any{k.ID}, values...)...)
		if err == nil {
			err = sealing.add(ctx, k.ID, values...)
		}
		if err != nil {
			return fmt.Errorf("store the key %s: %w", k.ID, err)
		}
		return sealing.end(ctx)
	})
}

// Key implements service.Store.
func (s *Store) Key(ctx context.Context, id string) (*service.Key, error) {
	k, err := first(ctx, s, scanKey, sealedKeys.rows(`WHERE t.id = $1`), id)
	if err != nil {
		return nil, fmt.Errorf("read a key: %w", err)
	}
	if k == nil {
		return nil, nil
	}
	if k.seal != whole {
		return nil, &service.AlteredError{What: "the API key " + id}
	}
	return &k.Key, nil
}

// Keys implements service.Store.
func (s *Store) Keys(ctx context.Context) ([]service.Key, error) {
	rows, err := list(ctx, s, scanKey, sealedKeys.rows(`ORDER BY t.created_at, t.id`))
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	var keys []service.Key
	for _, k := range rows {
		keys = append(keys, k.Key)
	}
	return keys, nil
}

// RevokeKey implements service.Store.
func (s *Store) RevokeKey(ctx context.Context, id string, at time.Time) (revoked bool, err error) {
	err = s.write(ctx, func(tx *writeTx) error {
		revoked = false
		sealing, err := sealedKeys.begin(ctx, tx)
		if err != nil {
			return err
		}
		var keys []storedKey
		err = each(ctx, tx, sealedKeys.rows(`WHERE t.id = $1 AND t.revoked_at IS NULL`), []any{id},
			func(rows *sql.Rows) error {
				k, err := scanKey(rows)
				keys = append(keys, k)
				return err
			})
		if err != nil {
			return fmt.Errorf("read the key %s: %w", id, err)
		}
		if len(keys) == 0 {
			return sealing.end(ctx)
		}
		revoked = true
		if _, err = tx.ExecContext(ctx, `UPDATE api_keys SET revoked_at = $1 WHERE id = $2`, timestamp(at), id); err != nil {
			return fmt.Errorf("revoke the key %s: %w", id, err)
		}
		if k := keys[0]; k.seal == whole { // what was altered stays so
			k.values[len(k.values)-1] = timestamp(at)
			if err := sealing.remove(ctx, id); err != nil {
				return fmt.Errorf("revoke the key %s: %w", id, err)
			}
			if err := sealing.add(ctx, id, k.values...); err != nil {
				return fmt.Errorf("revoke the key %s: %w", id, err)
			}
		}
		return sealing.end(ctx)
	})
	return revoked, err
}

// storedKey is a key as its row has it.
type storedKey struct {
	service.Key
	seal   seal
	values []any
}

func scanKey(rows *sql.Rows) (k storedKey, err error) {
	r, err := sealedKeys.scan(rows)
	if err != nil {
		return k, err
	}
	text := func(i int) sql.NullString {
		return sql.NullString{String: string(r.values[i]), Valid: r.values[i] != nil}
	}
	k.ID, k.Name, k.Hash, k.seal = r.key, text(0).String, text(1).String, r.seal
	for i := range r.values {
		k.values = append(k.values, text(i))
	}
	for scope := range strings.FieldsSeq(text(2).String) {
		k.Scopes = append(k.Scopes, service.Scope(scope))
	}
	var errs [3]error
	k.CreatedAt, errs[0] = parseTime(text(3).String)
	k.ExpiresAt, errs[1] = parseOptional(text(4))
	k.RevokedAt, errs[2] = parseOptional(text(5))
	if err := errors.Join(errs[:]...); err != nil && r.seal == whole {
		return k, err
	}
	return k, nil
}
