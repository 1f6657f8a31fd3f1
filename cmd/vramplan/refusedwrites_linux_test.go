package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestRefusedWritesAreSaid: on a file system that fills up, the probe and the gauge say that changes are refused from
// the first that failed on, and that they are taken again, without a restart and without anybody's trying, once there
// is room. Answers go on all the while.
func TestRefusedWritesAreSaid(t *testing.T) {
	mount := smallFileSystem(t)
	database, client := "file:"+filepath.Join(mount, "vramplan.db"), newClient()
	key := newKey(t, database)
	p := startService(t, database, t.TempDir())
	put := func(i int) reply {
		body := fmt.Sprintf(`{"name": "Card %d", "memory_bytes": 1048576, "notes": "%0*d"}`, i, 3000, i)
		return ask(client, http.MethodPut, fmt.Sprintf("%s/v1/gpus/card-%d", p.url, i), body,
			"Authorization: Bearer "+key, "If-None-Match: *")
	}
	taken := func() bool {
		t.Helper()
		ready := ask(client, http.MethodGet, p.url+"/readyz?for=writes", "")
		metrics := ask(client, http.MethodGet, p.url+"/metrics", "")
		gauge := strings.Contains(string(metrics.body), "\nvramplan_database_writes_accepted 1\n")
		again := ask(client, http.MethodGet, p.url+"/readyz?for=writes", "")
		// between the two looks the service's own probe may have succeeded
		if ready.status == again.status && (ready.status == http.StatusOK) != gauge {
			t.Errorf("the probe says %d, and the gauge %t", ready.status, gauge)
		}
		return again.status == http.StatusOK
	}
	if r := put(0); r.status != http.StatusCreated || !taken() {
		t.Fatalf("before: %d %s", r.status, r.body)
	}
	fill(t, filepath.Join(mount, "filler"))
	failed := 0
	for i := range 30 {
		switch r := put(100 + i); {
		case r.status == http.StatusCreated && failed == 0: // there was room in what the file had
		case r.status != http.StatusServiceUnavailable:
			t.Fatalf("change %d, after %d that failed: %d %s", i, failed, r.status, r.body)
		default:
			failed++
			if taken() {
				t.Fatalf("change %d failed, and changes are said to be taken", i)
			}
		}
	}
	if failed == 0 {
		t.Fatal("no change failed")
	}
	for _, path := range []string{"/readyz", "/v1/gpus/card-0", "/v1/gpus/rtx-4090"} {
		if r := ask(client, http.MethodGet, p.url+path, ""); r.status != http.StatusOK {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	if err := os.Remove(filepath.Join(mount, "filler")); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(75 * time.Second); !taken(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("nothing says that changes are taken again")
		}
	}
	if r := put(1); r.status != http.StatusCreated {
		t.Errorf("afterwards: %d %s", r.status, r.body)
	}
}

// fill writes a file until there is no room.
func fill(t *testing.T, name string) {
	t.Helper()
	filler, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = filler.Write(block)
	}
	if err := filler.Close(); err != nil {
		t.Fatal(err)
	}
}

// smallFileSystem is a file system of 12 MiB of the test's own; the test is left out where it may not make one.
func smallFileSystem(t *testing.T) string {
	t.Helper()
	mount, err := os.MkdirTemp("", "small")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", mount, "tmpfs", 0, "size=12m"); err != nil {
		_ = os.Remove(mount) // it is empty
		t.Skipf("a file system of its own needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(mount, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
		if err := os.Remove(mount); err != nil {
			t.Error(err)
		}
	})
	return mount
}
