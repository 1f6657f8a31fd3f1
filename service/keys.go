package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// Scope is something that a key may do.
type Scope string

// The scopes.
const (
	ScopeCatalogWrite      Scope = "catalog:write"
	ScopeObservationsWrite Scope = "observations:write"
	ScopeCalibrationsWrite Scope = "calibrations:write"
	// The scopes to read are part of those to write. They are needed only where the database has keys.
	ScopeObservationsRead Scope = "observations:read"
	ScopeCalibrationsRead Scope = "calibrations:read"
)

// Scopes lists all scopes.
func Scopes() []Scope {
	return []Scope{ScopeCatalogWrite, ScopeObservationsWrite, ScopeCalibrationsWrite, ScopeObservationsRead,
		ScopeCalibrationsRead}
}

// Key is an API key as it is stored. The key itself is not: it is shown once.
type Key struct {
	// ID is the part of the key that is no secret.
	ID   string
	Name string
	// Hash is the SHA-256 of the whole key in hexadecimal. A key has 130 bits from the
	// system's generator, so nobody can try them all and a slow hash would add nothing.
	Hash   string
	Scopes []Scope

	CreatedAt time.Time
	// ExpiresAt and RevokedAt are nil where they do not apply.
	ExpiresAt, RevokedAt *time.Time
}

// State says whether the key is good at a moment.
func (k *Key) State(now time.Time) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked"
	case k.ExpiresAt != nil && !now.Before(*k.ExpiresAt):
		return "expired"
	}
	return "active"
}

// keyForm is vrp_ID_SECRET. The prefix lets scanners for secrets find one that was published.
var keyForm = regexp.MustCompile(`^vrp_([a-z2-7]{10})_[A-Z2-7]{26}$`)

// Keyring are the API keys of a database. Without one it is empty, and opens nothing.
type Keyring struct {
	store Store
	now   func() time.Time
	// refused are keys that need not be looked for.
	refused refusedKeys
	// keyless says that the database has no keys, looked that it was asked.
	keyless, looked atomic.Bool
}

// Keyring is where the service's API keys are made, listed, ended and recognised.
func (s *Service) Keyring() *Keyring { return &s.keys }

// Create makes a key, and returns it with the text that proves it.
func (r *Keyring) Create(ctx context.Context, name string, scopes []Scope,
	expiresAt *time.Time) (Key, string, error) {
	if r.store == nil {
		return Key{}, "", noDatabase()
	}
	var wrong invalid.List
	textOf(&wrong)("/name", name)
	if n := len(strings.TrimSpace(name)); n == 0 || n > 100 {
		wrong.Add("/name", "required", "is the name of who uses the key: 1 to 100 characters")
	}
	if len(scopes) == 0 {
		wrong.Add("/scopes", "required", "a key needs a scope; accepted: %s", scopeNames())
	}
	for _, scope := range scopes {
		if !slices.Contains(Scopes(), scope) {
			wrong.Add("/scopes", "unknown_value", "%.100q was given; accepted: %s", scope, scopeNames())
		}
	}
	now := r.now().UTC()
	if expiresAt != nil && !expiresAt.After(now) {
		wrong.Add("/expires_at", "out_of_range", "%s has passed", expiresAt.Format(time.RFC3339))
	}
	if err := wrong.Err(); err != nil {
		return Key{}, "", err
	}
	id := strings.ToLower(rand.Text()[:10])
	token := "vrp_" + id + "_" + rand.Text()
	k := Key{ID: id, Name: name, Hash: hashKey(token), Scopes: slices.Compact(slices.Sorted(slices.Values(scopes))),
		CreatedAt: now, ExpiresAt: expiresAt}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if err := r.store.CreateKey(ctx, k); err != nil {
		return Key{}, "", storeError(err, "the key could not be stored")
	}
	return k, token, nil
}

// List is all keys.
func (r *Keyring) List(ctx context.Context) ([]Key, error) {
	if r.store == nil {
		return nil, noDatabase()
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	keys, err := r.store.Keys(ctx)
	if err != nil {
		return nil, storeError(err, "the keys could not be read")
	}
	return keys, nil
}

// Revoke ends a key on all replicas at once.
func (r *Keyring) Revoke(ctx context.Context, id string) error {
	if r.store == nil {
		return noDatabase()
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	revoked, err := r.store.RevokeKey(ctx, id, r.now().UTC())
	switch {
	case err != nil:
		return storeError(err, "the key could not be revoked")
	case !revoked:
		return failed(CodeNotFound, "there is no key %.40q that could be revoked", id)
	}
	return nil
}

// Authorize finds out whose key a request came with, and whether it may do what scope
// says. The database is asked each time, so that a revoked key is refused at once, on
// every replica; text that cannot be a key, or was refused lately, is refused without asking.
func (r *Keyring) Authorize(ctx context.Context, token string, scope Scope) (Author, error) {
	if r.store == nil {
		return Author{}, noDatabase()
	}
	if token == "" {
		return Author{}, failed(CodeUnauthorized, "this needs an API key with the scope %s: Authorization: Bearer KEY",
			scope)
	}
	const refused = "the API key is not known, was revoked or has expired"
	m := keyForm.FindStringSubmatch(token)
	if m == nil || r.refused.has(token) {
		return Author{}, failed(CodeUnauthorized, refused)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	k, err := r.store.Key(ctx, m[1])
	switch {
	case err != nil:
		return Author{}, storeError(err, "the API key could not be checked, because the database does not answer")
	case k == nil, subtle.ConstantTimeCompare([]byte(k.Hash), []byte(hashKey(token))) != 1,
		k.State(r.now()) != "active":
		r.refused.add(token)
		return Author{}, failed(CodeUnauthorized, refused)
	case !k.may(scope):
		return Author{}, failed(CodeForbidden, "the API key %q does not have the scope %s", k.Name, scope)
	}
	return Author{KeyID: k.ID, Name: k.Name}, nil
}

// may says whether a key has a scope, or one that it is part of.
func (k *Key) may(scope Scope) bool {
	switch scope {
	case ScopeObservationsRead:
		return slices.Contains(k.Scopes, scope) || slices.Contains(k.Scopes, ScopeObservationsWrite)
	case ScopeCalibrationsRead:
		return slices.Contains(k.Scopes, scope) || slices.Contains(k.Scopes, ScopeCalibrationsWrite)
	}
	return slices.Contains(k.Scopes, scope)
}

// InUse says whether the database has API keys, so that what users reported is for those who have one. Where nobody
// could look yet, it has.
func (r *Keyring) InUse() bool { return r.store != nil && !r.keyless.Load() }

// look notes whether there are any. A key once made is never removed from a database.
func (r *Keyring) look(ctx context.Context) error {
	if r.InUse() && r.looked.Load() {
		return nil
	}
	keys, err := r.store.Keys(ctx)
	if err != nil {
		return err
	}
	r.keyless.Store(len(keys) == 0)
	r.looked.Store(true)
	return nil
}

func hashKey(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func scopeNames() string {
	var names []string
	for _, s := range Scopes() {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}
