package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/store"
	"github.com/vramplan/vramplan/service/store/pgtest"
)

// What logs and errors call a database does not have its password.
func TestNamesWithoutPasswords(t *testing.T) {
	for name, want := range map[string]string{
		"postgres://me:secret@db:5432/vramplan?sslmode=require":       "postgres://me@db:5432/vramplan",
		"postgresql://db/vramplan?user=me&password=secret":            "postgres://db/vramplan",
		"postgres://me@/vramplan?host=%2Frun&password=secret":         "postgres://me@%2Frun/vramplan",
		"postgres://me:secret@a:5432,b:5432/vramplan?sslmode=disable": "postgres://me@a:5432,b:5432/vramplan",
	} {
		s, err := store.Open(t.Context(), name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if s.Name() != want || !s.Remote() {
			t.Errorf("%s is called %s, want %s", name, s.Name(), want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A store can be opened while its server is away, and works when it is back.
func TestServerThatComesLater(t *testing.T) {
	t.Parallel()
	server := pgtest.Own(t)
	name := server.Database(t)
	server.Stop()
	s := open(t, name)
	if _, err := s.Migrate(t.Context()); err == nil {
		t.Error("migrated a database whose server is stopped")
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if ran, err := s.Migrate(t.Context()); err != nil || len(ran) == 0 {
		t.Errorf("after the start: ran %v, %v", ran, err)
	}
	if err := openAndCount(t.Context(), name); err != nil {
		t.Error(err)
	}
}

// A role that may not do what is asked is told so, and not that the server is away; nothing is changed by then.
func TestRoleWithoutRights(t *testing.T) {
	t.Parallel()
	name := pgtest.Database(t)
	db := direct(t, name)
	config, err := pgx.ParseConfig(name)
	if err != nil {
		t.Fatal(err)
	}
	role := "guest_of_" + config.Database // roles are the server's
	exec1(t, db, `CREATE ROLE `+role+` LOGIN`)
	t.Cleanup(func() { exec1(t, db, `DROP OWNED BY `+role); exec1(t, db, `DROP ROLE `+role) })
	guest := open(t, strings.Replace(name, "test@", role+"@", 1))
	const says = "has no right to this (GRANT it"

	if _, err := guest.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("a role that may not make tables gets %v", err)
	}
	migrated(t, name)
	if _, err := guest.Catalog(t.Context()); err == nil || !strings.Contains(err.Error(), says) {
		t.Errorf("a role that may not read gets %v", err)
	}
	exec1(t, db, `GRANT SELECT ON ALL TABLES IN SCHEMA public TO `+role)
	if _, err := guest.Catalog(t.Context()); err != nil {
		t.Errorf("a role that may read gets %v", err)
	}
	_, err = guest.ChangeCatalog(t.Context(), put(card("lab-card", 1), service.Created))
	if _, nothing := errors.AsType[*service.NotStored](err); !nothing || !strings.Contains(err.Error(), says) {
		t.Errorf("a role that may not write gets %v", err)
	}
	// Rights on some tables only leave nothing half done.
	exec1(t, db, `GRANT UPDATE ON catalog_state, table_digests TO `+role)
	exec1(t, db, `GRANT INSERT, DELETE ON gpus, gpu_aliases TO `+role)
	if _, err = guest.ChangeCatalog(t.Context(), put(card("lab-card", 1), service.Created)); err == nil ||
		!strings.Contains(err.Error(), says) {
		t.Errorf("a role that may write a part gets %v", err)
	}
	if check, err := guest.Check(t.Context()); err != nil || check.Count > 0 {
		t.Errorf("afterwards %+v, %v", check, err)
	}
}
