package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/store"
)

// written is an SQLite database with one acknowledged write, which is still in the log.
func written(t *testing.T) (path string, s *store.Store) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "vramplan.db")
	s = open(t, "file:"+path)
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	add(t, s, "obs-1")
	return path, s
}

func add(t *testing.T, s *store.Store, id string) {
	t.Helper()
	if _, err := s.AddObservations(t.Context(), []service.StoredObservation{run(id, "t4", "")}); err != nil {
		t.Fatal(err)
	}
}

// Whatever becomes of the file while it is open, nothing is acknowledged that would be lost, and the next look says so.
func TestFileIsWatched(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"gone":      os.Remove,
		"empty":     func(path string) error { return os.Truncate(path, 0) },
		"cut":       func(path string) error { return os.Truncate(path, 8192) },
		"no header": func(path string) error { return overwrite(path, make([]byte, 100)) },
		"another": func(path string) error {
			whole, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if err := os.WriteFile(path+".new", whole, 0o644); err != nil {
				return err
			}
			return os.Rename(path+".new", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, s := written(t)
			if _, err := s.CatalogMark(t.Context()); err != nil {
				t.Fatal(err)
			}
			// Everything is in the file itself, so that its header says how long it is.
			if err := s.Checkpoint(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := harm(path); err != nil {
				t.Fatal(err)
			}
			if _, err := s.CatalogMark(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("a look says %v", err)
			}
			if _, err := s.AddObservations(t.Context(), []service.StoredObservation{run("obs-2", "t4", "")}); err == nil {
				t.Error("a write was acknowledged")
			}
		})
	}
}

func overwrite(path string, with []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if _, err := f.WriteAt(with, 0); err != nil {
		return err
	}
	return f.Close()
}

// So is its log, which has what is not in the file yet.
func TestLogIsWatched(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"cut":  func(path string) error { return os.Truncate(path+"-wal", 0) },
		"half": func(path string) error { return os.Truncate(path+"-wal", 4096) },
		"gone": func(path string) error { return os.Remove(path + "-wal") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, s := written(t)
			if _, err := s.CatalogMark(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := harm(path); err != nil {
				t.Fatal(err)
			}
			if _, err := s.CatalogMark(t.Context()); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("a look says %v", err)
			}
			if _, err := s.AddObservations(t.Context(), []service.StoredObservation{run("obs-2", "t4", "")}); err == nil {
				t.Error("a write was acknowledged")
			}
		})
	}
	// A checkpoint that somebody asked for is no harm.
	_, s := written(t)
	if _, err := s.CatalogMark(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	add(t, s, "obs-2")
	if _, err := s.CatalogMark(t.Context()); err != nil {
		t.Error(err)
	}
}

// A start finds out that acknowledged writes are missing, and says how to go on all the same.
func TestLostWritesAreNoticedAtTheStart(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"gone":           os.Remove,
		"empty":          func(path string) error { return os.Truncate(path, 0) },
		"without a log":  func(path string) error { return os.Remove(path + "-wal") },
		"log cut":        func(path string) error { return os.Truncate(path+"-wal", 0) },
		"no number":      func(path string) error { return os.WriteFile(path+"-acknowledged", []byte("x"), 0o644) },
		"as it was left": func(string) error { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path, s := written(t)
			add(t, s, "obs-2")
			// A copy of the files is what a process leaves that was killed.
			killed := filepath.Join(t.TempDir(), "vramplan.db")
			for _, suffix := range []string{"", "-wal", "-acknowledged"} {
				copyTo(t, killed+suffix, path+suffix)
			}
			if err := harm(killed); err != nil {
				t.Fatal(err)
			}
			again, err := store.Open(t.Context(), "file:"+killed)
			if name == "as it was left" {
				if err != nil {
					t.Fatal(err)
				}
				if err := again.Close(); err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil {
				t.Fatal("nobody noticed", again.Close())
			}
			if !strings.Contains(err.Error(), "-acknowledged") {
				t.Errorf("%v", err)
			}
			if name == "gone" {
				if _, err := os.Stat(killed); err == nil {
					t.Error("a new file was made")
				}
			}
			// An operator who means it goes on.
			if err := os.Remove(killed + "-acknowledged"); err != nil {
				t.Fatal(err)
			}
			if _, err := open(t, "file:"+killed).Migrate(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// A process that was killed in a checkpoint leaves a file whose header tells more than there is: the rest is in the
// log.
func TestCheckpointThatWasKilled(t *testing.T) {
	path, s := written(t)
	killed := filepath.Join(t.TempDir(), "vramplan.db")
	for _, suffix := range []string{"", "-wal", "-acknowledged"} {
		copyTo(t, killed+suffix, path+suffix)
	}
	if err := s.Checkpoint(t.Context()); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Of the pages that the checkpoint writes one after the other, the first alone was written.
	const page = 4096
	if err := overwrite(killed, whole[:page]); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(killed); err != nil || info.Size() >= int64(len(whole)) {
		t.Fatalf("%v, %v: the file is no shorter than its header says", info.Size(), err)
	}
	cut := filepath.Join(t.TempDir(), "vramplan.db")
	copyTo(t, cut, killed)
	copyTo(t, cut+"-acknowledged", killed+"-acknowledged")

	again := open(t, "file:"+killed)
	if _, err := again.CatalogMark(t.Context()); err != nil {
		t.Error(err)
	}
	add(t, again, "obs-2")
	if report, err := again.Verify(t.Context()); err != nil || report.Count > 0 {
		t.Errorf("the database is not whole: %+v, %v", report, err)
	}
	// Without its log it is a file that was cut.
	if s, err := store.Open(t.Context(), "file:"+cut); err == nil {
		if _, err := s.CatalogMark(t.Context()); err == nil {
			t.Error("nobody noticed that the rest is nowhere")
		}
		_ = s.Close()
	}
}

// A checkpoint that is through is what readers go by, though the log still has the same pages.
func TestFileIsCutBehindItsCheckpoint(t *testing.T) {
	path, s := written(t)
	if err := s.CheckpointAndKeepLog(t.Context()); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path + "-wal"); err != nil || info.Size() == 0 {
		t.Fatalf("%v, %v: there is no log any more", info, err)
	}
	if _, err := s.CatalogMark(t.Context()); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-4096); err != nil {
		t.Fatal(err)
	}
	if _, err := s.CatalogMark(t.Context()); err == nil || !strings.Contains(err.Error(), "was cut") {
		t.Errorf("a look says %v", err)
	}
}

func copyTo(t *testing.T, to, from string) {
	t.Helper()
	content, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, content, 0o644); err != nil {
		t.Fatal(err)
	}
}
