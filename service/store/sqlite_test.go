package store_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/service/store"
)

func TestNames(t *testing.T) {
	dir := t.TempDir()
	for name, want := range map[string]string{
		"":                                     "use file:PATH",
		":memory:":                             "is not a file",
		"file::memory:?cache=shared":           "is not a file",
		"file:x.db?mode=memory":                "is not a file",
		"file:":                                "is not a file",
		"postgres://me:secret@host:port/x":     "database: ",
		"mysql://localhost/x":                  "use file:PATH",
		"mysql://me:secret@host/x":             "use file:PATH",
		"file:x.db?%zz":                        "parameters",
		"file:" + dir + "/no/such/folder/x.db": "open database",
		"file:" + dir:                          "open database",
	} {
		s, err := store.Open(t.Context(), name)
		if err == nil {
			t.Errorf("%q was opened", name)
			_ = s.Close()
		} else if !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", name, err, want)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the error shows the password: %v", name, err)
		}
	}
	if s, err := store.Open(t.Context(), filepath.Join(dir, "plain path.db")); err != nil {
		t.Errorf("a path without file: %v", err)
	} else if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// modernc.org/sqlite works only with the modernc.org/libc that its own go.mod names. go.mod has no replace for it, with
// which go install PATH@VERSION would not work: since v1.61.0 of the driver names one as late as the other modules ask
// for. This holds the two together.
func TestLibcIsTheOneThatSQLiteNames(t *testing.T) {
	module := func(path string) (m struct {
		Version, GoMod string
	}) {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-json", path).Output()
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &m); err != nil {
			t.Fatal(err)
		}
		return m
	}
	used := module("modernc.org/libc").Version
	wanted, err := os.ReadFile(module("modernc.org/sqlite").GoMod)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(wanted), "modernc.org/libc "+used+"\n") {
		t.Errorf("go.mod uses modernc.org/libc %s; that of modernc.org/sqlite names another", used)
	}
}
