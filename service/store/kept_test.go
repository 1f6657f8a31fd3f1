package store_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/store"
)

func TestKeptCatalog(t *testing.T) {
	s := migrated(t, backends[0].create(t))
	mustChange(t, s, put(card("lab-card", 1<<40), service.Created))
	want, err := s.Catalog(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kept.json")
	if _, err := store.Kept(path, "db"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before the first: %v", err)
	}
	for range 2 {
		if err := store.Keep(path, "db", service.Snapshot{Catalog: want, Writes: map[string]int64{"api_keys": 7}}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := store.Kept(path, "db")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(service.Snapshot{Catalog: want, Writes: map[string]int64{"api_keys": 7}}, got); diff != "" {
		t.Errorf("(-kept +read):\n%s", diff)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("%d files beside each other, %v", len(files), err)
	}

	if _, err := store.Kept(path, "other"); err == nil || !strings.Contains(err.Error(), "not of other") {
		t.Errorf("another database's: %v", err)
	}
	document, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, damaged := range map[string]string{
		"cut":     string(document[:len(document)/2]),
		"changed": strings.Replace(string(document), "lab-card", "lab-carp", 1),
		"empty":   "",
	} {
		if err := os.WriteFile(path, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Kept(path, "db"); err == nil {
			t.Errorf("%s: read without an error", name)
		}
	}
	if err := store.Keep(filepath.Join(path, "no", "folder"), "db",
		service.Snapshot{Catalog: want, Writes: map[string]int64{"api_keys": 7}}); err == nil {
		t.Error("kept in a folder that is not there")
	}
}
