package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/store"
)

type keysCommand struct {
	Create keysCreateCommand `cmd:"" help:"Make an API key. It is shown once."`
	List   keysListCommand   `cmd:"" help:"List the API keys, without what proves them."`
	Revoke keysRevokeCommand `cmd:"" help:"End an API key, on all replicas at once."`
}

type keyFlags struct {
	databaseFlags `embed:""`
	Output        string `short:"o" enum:"table,json" default:"table" setting:"VRAMPLAN_OUTPUT" help:"table or json."`
}

// keyDocument is an API key in JSON.
type keyDocument struct {
	// Key proves it; only where it was just made.
	Key       string          `json:"key,omitempty"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Scopes    []service.Scope `json:"scopes"`
	State     string          `json:"state"`
	CreatedAt time.Time       `json:"created_at"`
	ExpiresAt *time.Time      `json:"expires_at,omitempty"`
	RevokedAt *time.Time      `json:"revoked_at,omitempty"`
}

func newKeyDocument(k *service.Key, token string) keyDocument {
	return keyDocument{Key: token, ID: k.ID, Name: k.Name, Scopes: k.Scopes, State: k.State(time.Now()),
		CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt, RevokedAt: k.RevokedAt}
}

// with opens the database, brings it up to date and hands a service on it to do. It says where it made a new one:
// keys in it open nothing until a service runs on it.
func (f *keyFlags) with(ctx context.Context, t *terminal,
	do func(s *service.Service, database string) error) (err error) {
	db, err := store.Open(ctx, f.Database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ran, err := db.Migrate(ctx)
	if err != nil {
		return err
	}
	name := db.Name()
	if !db.Remote() {
		if name, err = filepath.Abs(name); err != nil {
			return err
		}
	}
	if len(ran) > 0 && ran[0].Version == 1 {
		fmt.Fprintf(t.stderr, "Made the database %s, which did not exist; --database or VRAMPLAN_DATABASE names "+
			"another.\n", screen.Plain(name))
	}
	return do(service.New(service.EmbeddedCatalog(), service.WithStore(db)), name)
}

type keysCreateCommand struct {
	keyFlags  `embed:""`
	Name      string        `required:"" help:"Who uses the key, as the history of changes shows it."`
	Scope     []string      `required:"" placeholder:"SCOPE" help:"What the key may do: catalog:write, observations:write, calibrations:write, observations:read or calibrations:read; who may write may read. Give it again for more."`
	ExpiresIn time.Duration `placeholder:"DURATION" help:"How long the key is good, such as 2160h; without it, until it is revoked."`
}

// Run makes a key and prints it.
func (c *keysCreateCommand) Run(ctx context.Context, t *terminal) error {
	return c.with(ctx, t, func(s *service.Service, database string) error {
		var scopes []service.Scope
		for _, scope := range c.Scope {
			scopes = append(scopes, service.Scope(scope))
		}
		var expires *time.Time
		if c.ExpiresIn != 0 {
			at := time.Now().UTC().Add(c.ExpiresIn).Truncate(time.Second)
			expires = &at
		}
		k, token, err := s.Keyring().Create(ctx, c.Name, scopes, expires)
		if bad, ok := errors.AsType[*invalid.Error](err); ok {
			var details []string
			for _, f := range bad.Fields {
				details = append(details, strings.TrimPrefix(f.Pointer, "/")+": "+f.Detail)
			}
			return usage("%s", strings.Join(details, "; "))
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(t.stderr, "The key is good for services on the database %s.\n", screen.Plain(database))
		if c.Output == "json" {
			return json.NewEncoder(t.stdout).Encode(newKeyDocument(&k, token))
		}
		fmt.Fprintln(t.stdout, token)
		fmt.Fprintf(t.stderr, "This is the key %s for %s. It is not stored and will not be shown again.\n", k.ID,
			screen.Plain(k.Name))
		return nil
	})
}

type keysListCommand struct {
	keyFlags `embed:""`
}

// Run lists the keys.
func (c *keysListCommand) Run(ctx context.Context, t *terminal) error {
	return c.with(ctx, t, func(s *service.Service, _ string) error {
		keys, err := s.Keyring().List(ctx)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(t.stdout)
		if c.Output == "json" {
			list := make([]keyDocument, len(keys))
			for i := range keys {
				list[i] = newKeyDocument(&keys[i], "")
			}
			return errors.Join(json.NewEncoder(out).Encode(map[string]any{"keys": list}), out.Flush())
		}
		g := screen.NewGrid("left", "left", "left", "left", "left", "left")
		g.Add("id", "name", "scopes", "state", "created", "expires")
		for i := range keys {
			k := newKeyDocument(&keys[i], "")
			expires := "never"
			if k.ExpiresAt != nil {
				expires = k.ExpiresAt.Format(time.RFC3339)
			}
			g.Add(k.ID, screen.Plain(k.Name), strings.Trim(fmt.Sprint(k.Scopes), "[]"), k.State,
				k.CreatedAt.Format(time.RFC3339), expires)
		}
		g.Write(out)
		return out.Flush()
	})
}

type keysRevokeCommand struct {
	keyFlags `embed:""`
	ID       string `arg:"" help:"The key's id, as keys list shows it."`
}

// Run revokes a key.
func (c *keysRevokeCommand) Run(ctx context.Context, t *terminal) error {
	return c.with(ctx, t, func(s *service.Service, _ string) error {
		if err := s.Keyring().Revoke(ctx, c.ID); err != nil {
			return err
		}
		if c.Output == "json" {
			return json.NewEncoder(t.stdout).Encode(map[string]any{"revoked": c.ID})
		}
		fmt.Fprintf(t.stdout, "The key %s is revoked.\n", c.ID)
		return nil
	})
}
