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
	return s.write(ctx, func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, `
INSERT INTO api_keys (id, name, hash, scopes, created_at, expires_at, revoked_at) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
			k.ID, k.Name, k.Hash, strings.Join(scopes, " "), timestamp(k.CreatedAt), optional(k.ExpiresAt), optional(k.RevokedAt))
		if err != nil {
			return fmt.Errorf("store the key %s: %w", k.ID, err)
		}
		return nil
	})
}

const selectKeys = `SELECT id, name, hash, scopes, created_at, expires_at, revoked_at FROM api_keys`

// Key implements service.Store.
func (s *Store) Key(ctx context.Context, id string) (*service.Key, error) {
	k, err := first(ctx, s, scanKey, selectKeys+` WHERE id = $1`, id)
	if err != nil {
		return nil, fmt.Errorf("read a key: %w", err)
	}
	return k, nil
}

// Keys implements service.Store.
func (s *Store) Keys(ctx context.Context) ([]service.Key, error) {
	keys, err := list(ctx, s, scanKey, selectKeys+` ORDER BY created_at, id`)
	if err != nil {
		return nil, fmt.Errorf("read the keys: %w", err)
	}
	return keys, nil
}

// RevokeKey implements service.Store.
func (s *Store) RevokeKey(ctx context.Context, id string, at time.Time) (revoked bool, err error) {
	err = s.write(ctx, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `UPDATE api_keys SET revoked_at = $1 WHERE id = $2 AND revoked_at IS NULL`, timestamp(at), id)
		if err != nil {
			return fmt.Errorf("revoke the key %s: %w", id, err)
		}
		n, err := result.RowsAffected()
		revoked = n > 0
		return err
	})
	return revoked, err
}

func scanKey(rows *sql.Rows) (k service.Key, err error) {
	var scopes, created string
	var expires, revoked sql.NullString
	if err := rows.Scan(&k.ID, &k.Name, &k.Hash, &scopes, &created, &expires, &revoked); err != nil {
		return k, err
	}
	for scope := range strings.FieldsSeq(scopes) {
		k.Scopes = append(k.Scopes, service.Scope(scope))
	}
	var errs [3]error
	k.CreatedAt, errs[0] = parseTime(created)
	k.ExpiresAt, errs[1] = parseOptional(expires)
	k.RevokedAt, errs[2] = parseOptional(revoked)
	return k, errors.Join(errs[:]...)
}
