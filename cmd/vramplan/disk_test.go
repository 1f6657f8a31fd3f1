package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A disk that is full, by a limit on the size of files, makes changes fail with a reason and
// nothing else: reads go on, nothing acknowledged is lost, and with room it goes on.
func TestFullDisk(t *testing.T) {
	folder, client := t.TempDir(), newClient()
	database := "file:" + folder + "/vramplan.db"
	key := newKey(t, database)
	put := func(url string, i int) reply {
		body := fmt.Sprintf(`{"name": "Card %d", "memory_bytes": 1048576, "notes": "%0*d"}`, i, 3000, i)
		return ask(client, http.MethodPut, fmt.Sprintf("%s/v1/gpus/full-%d", url, i), body, "Authorization: Bearer "+
			key, "If-None-Match: *")
	}
	// 512-byte blocks
	limited, err := tryService(exec.Command("sh", "-c", "ulimit -f 4000 && exec vramplan serve --listen 127.0.0.1:0 "+
		"--drain 0s --database "+database), folder)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(limited.kill)
	stored, refused := 0, 0
	for i := range 1000 {
		r := put(limited.url, i)
		if r.status == http.StatusCreated {
			stored++
			continue
		}
		if r.status != http.StatusServiceUnavailable || r.header.Get("Retry-After") == "" {
			t.Fatalf("change %d: %d %s %v", i, r.status, r.body, r.err)
		}
		if refused++; refused == 5 {
			break
		}
	}
	if refused == 0 || stored == 0 {
		t.Fatalf("%d changes stored, %d refused", stored, refused)
	}
	for _, path := range []string{"/readyz", "/v1/gpus/full-0", "/v1/gpus"} {
		if r := ask(client, http.MethodGet, limited.url+path, ""); r.status != http.StatusOK {
			t.Errorf("%s on a full disk: %d %s", path, r.status, r.body)
		}
	}
	limited.kill()

	p := startService(t, database, folder)
	for i := range stored {
		if r := ask(client, http.MethodGet, fmt.Sprintf("%s/v1/gpus/full-%d", p.url, i), ""); r.status != http.StatusOK {
			t.Errorf("full-%d was acknowledged and is not there: %d", i, r.status)
		}
	}
	if r := put(p.url, 2000); r.status != http.StatusCreated {
		t.Errorf("with room again: %d %s", r.status, r.body)
	}
	if n := checkHistory(t, client, p.url, key); n != int64(stored)+1 {
		t.Errorf("the history has %d changes, %d were acknowledged", n, stored+1)
	}
}

// A database that may be read and not written: the service says so and ends, and leaves it as it was.
func TestReadOnlyFile(t *testing.T) {
	folder, err := os.MkdirTemp("", "readonly") // not t.TempDir, into which other users cannot look
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(os.Chmod(folder, 0o700), os.RemoveAll(folder)); err != nil {
			t.Error(err)
		}
	})
	file := filepath.Join(folder, "vramplan.db")
	newKey(t, "file:"+file)
	before := mode(t, folder, file, 0o555, 0o444)
	serve := exec.Command("vramplan", "serve", "--listen", "127.0.0.1:0", "--database", "file:"+file)
	if os.Geteuid() == 0 { // root may write everything
		serve.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		serve.Path = readableBinary(t)
	}
	p, err := tryService(serve, "/")
	if err == nil {
		p.kill()
		t.Fatal("the service started on a file that it cannot write")
	}
	if !strings.Contains(err.Error(), "vramplan serve: ") || !strings.Contains(err.Error(), "vramplan.db") ||
		strings.Contains(err.Error(), "goroutine") {
		t.Errorf("the service says: %v", err)
	}
	if after := mode(t, folder, file, 0o755, 0o644); after != before {
		t.Error("the file was changed")
	}
	startService(t, "file:"+file, t.TempDir())
}

// mode sets permissions and returns the file's digest.
func mode(t *testing.T, folder, file string, folderMode, fileMode os.FileMode) [sha256.Size]byte {
	t.Helper()
	content, err := os.ReadFile(file)
	if err := errors.Join(err, os.Chmod(file, fileMode), os.Chmod(folder, folderMode)); err != nil {
		t.Fatal(err)
	}
	return sha256.Sum256(content)
}

// readableBinary is a copy of the program that other users can run.
func readableBinary(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("vramplan")
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := os.MkdirTemp("", "program")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	path = filepath.Join(folder, "vramplan")
	if err := errors.Join(os.Chmod(folder, 0o755), os.WriteFile(path, program, 0o755)); err != nil {
		t.Fatal(err)
	}
	return path
}
