package store_test

import (
	"testing"

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
