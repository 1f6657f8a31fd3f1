package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/service/catalog"
)

// crashes is how often each service is killed: 20 times, or VRAMPLAN_CRASHES (make crash).
func crashes(t *testing.T) int {
	if n, err := strconv.Atoi(os.Getenv("VRAMPLAN_CRASHES")); err == nil && n > 0 {
		return n
	}
	if testing.Short() {
		return 3
	}
	return 20
}

// writer changes one entry again and again, and knows in which states it can be.
type writer struct {
	id   string
	next int64
	// acknowledged is the entry's figure as it was acknowledged last; 0 is no entry.
	acknowledged int64
	version      string
	// asked is the figure that a request without an answer asked for; -1 without such a request.
	asked int64
	count *atomic.Int64
	wrong func(format string, args ...any)
}

// run changes the entry until the service is gone.
func (w *writer) run(c *http.Client, url, key string) {
	for {
		method, condition, body := http.MethodPut, `If-Match: "`+w.version+`"`, ""
		w.next++
		w.asked = w.next
		switch {
		case w.acknowledged == 0:
			condition = "If-None-Match: *"
		case w.next%5 == 0:
			method, w.asked = http.MethodDelete, 0
		}
		if method == http.MethodPut {
			body = fmt.Sprintf(`{"name": "Card %s", "memory_bytes": %d, "usable_bytes": %d, "aliases": ["%s a", "%s b"]}`, w.id, w.asked<<20, w.asked, w.id, w.id)
		}
		r := ask(c, method, url+"/v1/gpus/"+w.id, body, "Authorization: Bearer "+key, condition)
		if r.err != nil {
			return // killed: what became of the request shows after the start
		}
		if r.status >= 300 {
			w.wrong("%s %s with %s: %d %s", method, w.id, condition, r.status, r.body)
			return
		}
		w.acknowledged, w.version, w.asked = w.asked, unquote(r.header.Get("Etag")), -1
		w.count.Add(1)
	}
}

func unquote(etag string) string {
	s, err := strconv.Unquote(etag)
	if err != nil {
		return ""
	}
	return s
}

// check compares the entry with what it can be, and goes on from what it is.
func (w *writer) check(c *http.Client, url string) {
	r := ask(c, http.MethodGet, url+"/v1/gpus/"+w.id, "")
	var found int64
	switch r.status {
	case http.StatusOK:
		var g catalog.GPU
		if err := json.Unmarshal(r.body, &g); err != nil {
			w.wrong("%s: %v", w.id, err)
			return
		}
		found, w.version = g.UsableBytes, g.Version()
		if g.MemoryBytes != found<<20 || g.Name != "Card "+w.id || len(g.Aliases) != 2 {
			w.wrong("%s is half written: %s", w.id, r.body)
		}
	case http.StatusNotFound:
	default:
		w.wrong("read %s: %d %s %v", w.id, r.status, r.body, r.err)
		return
	}
	if found != w.acknowledged && found != w.asked {
		w.wrong("%s is %d; acknowledged was %d, asked for %d", w.id, found, w.acknowledged, w.asked)
	}
	w.acknowledged, w.asked = found, -1
	w.next = max(w.next, found)
}

// The service is killed with kill -9 at random moments while it changes the catalog. Nothing
// that it acknowledged is lost, nothing is half written, and it starts again.
func TestCrashesWhileChanging(t *testing.T) {
	for name, create := range databases {
		t.Run(name, func(t *testing.T) {
			database, folder, client := create(t), t.TempDir(), newClient()
			key := newKey(t, database)
			var acknowledged atomic.Int64
			writers := make([]*writer, 4)
			for i := range writers {
				writers[i] = &writer{id: fmt.Sprintf("card-%d", i), asked: -1, count: &acknowledged, wrong: t.Errorf}
			}
			random := rand.New(rand.NewPCG(1, uint64(len(name))))
			total := crashes(t)
			for range total {
				p := startService(t, database, folder)
				for _, w := range writers {
					w.check(client, p.url)
				}
				var working sync.WaitGroup
				for _, w := range writers {
					working.Go(func() { w.run(client, p.url, key) })
				}
				time.Sleep(time.Duration(random.IntN(300_000)) * time.Microsecond)
				p.kill()
				working.Wait()
				client.CloseIdleConnections()
				settle(t, database)
				if t.Failed() {
					t.Fatal(p.log())
				}
			}
			p := startService(t, database, folder)
			for _, w := range writers {
				w.check(client, p.url)
			}
			changes := checkHistory(t, client, p.url, key)
			if n := acknowledged.Load(); n == 0 || changes < n {
				t.Errorf("%d changes were acknowledged in %d runs, the history has %d", n, total, changes)
			}
			t.Logf("killed %d times; %d changes acknowledged, %d stored", total, acknowledged.Load(), changes)
		})
	}
}

// The making of the tables and of the built-in catalog is killed at random moments; the next
// start finishes it.
func TestCrashesWhileMigrating(t *testing.T) {
	for name, create := range databases {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(2, uint64(len(name))))
			for range max(1, crashes(t)/10) {
				database := create(t)
				killed := 0
				for range 10 {
					migrate := exec.Command("vramplan", "migrate", "--database", database)
					if err := migrate.Start(); err != nil {
						t.Fatal(err)
					}
					timer := time.AfterFunc(time.Duration(10_000+random.IntN(150_000))*time.Microsecond, func() { _ = migrate.Process.Kill() })
					err := migrate.Wait()
					timer.Stop()
					if err == nil {
						break
					}
					killed++
				}
				p := startService(t, database, t.TempDir())
				var list api.GPUList
				r := ask(newClient(), http.MethodGet, p.url+"/v1/gpus", "")
				if err := json.Unmarshal(r.body, &list); err != nil || len(list.GPUs) != 170 || list.Catalog != "c-1" {
					t.Fatalf("after %d kills: %d cards of %s, %v", killed, len(list.GPUs), list.Catalog, err)
				}
				p.kill()
			}
		})
	}
}

// checkHistory reads the whole history. Its numbers have no gaps, and replayed it gives the catalog.
func checkHistory(t *testing.T, c *http.Client, url, key string) (changes int64) {
	t.Helper()
	newest := map[string]json.RawMessage{}
	expected := int64(-1)
	for token := ""; ; {
		r := ask(c, http.MethodGet, url+"/v1/catalog/changes?page_size=1000"+token, "", "Authorization: Bearer "+key)
		var list api.ChangeList
		if err := json.Unmarshal(r.body, &list); err != nil || r.status != http.StatusOK {
			t.Fatalf("history: %d %s %v", r.status, r.body, err)
		}
		for _, h := range list.Changes {
			if expected < 0 {
				changes, expected = h.Change, h.Change
			}
			if h.Change != expected {
				t.Errorf("change %d follows %d", h.Change, expected+1)
			}
			expected = h.Change - 1
			if _, seen := newest[h.ID]; !seen {
				newest[h.ID] = h.Entry
			}
		}
		if list.NextPageToken == "" {
			break
		}
		token = "&page_token=" + list.NextPageToken
	}
	if expected > 0 {
		t.Errorf("changes up to %d are missing", expected)
	}
	for id, entry := range newest {
		r := ask(c, http.MethodGet, url+"/v1/gpus/"+id, "")
		if entry == nil && r.status != http.StatusNotFound || entry != nil && string(r.body) != string(entry)+"\n" {
			t.Errorf("%s: the history has %s, the catalog %s", id, entry, r.body)
		}
	}
	return changes
}
