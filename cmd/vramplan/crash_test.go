package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/store"
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
	// outage says that changes may be refused for want of a database.
	outage bool
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
		if w.outage && r.status == http.StatusServiceUnavailable {
			return // as above; where nothing was stored, it says so
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

// reporter reports one run after the other, and knows which were acknowledged.
type reporter struct {
	name  string
	next  int
	ids   map[string]string // by idempotency key; "" where no answer came
	wrong func(format string, args ...any)
}

func (o *reporter) send(c *http.Client, url, key, run string) bool {
	body := `{"job": {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}, "gpus": ["rtx-4090"]}, "measured": {"device_bytes": 4000000000}, "note": "` + run + `"}`
	r := ask(c, http.MethodPost, url+"/v1/observations", body, "Authorization: Bearer "+key, "Idempotency-Key: "+run)
	if r.err != nil {
		o.ids[run] = ""
		return false
	}
	var stored service.Observation
	if err := json.Unmarshal(r.body, &stored); err != nil || r.status != http.StatusCreated &&
		r.status != http.StatusOK || stored.Note != run {
		o.wrong("report %s: %d %s", run, r.status, r.body)
		return false
	}
	o.ids[run] = stored.ID
	return true
}

// run reports until the service is gone.
func (o *reporter) run(c *http.Client, url, key string) {
	for {
		o.next++
		if !o.send(c, url, key, fmt.Sprintf("%s-%d", o.name, o.next)) {
			return
		}
	}
}

// check sends again what was not answered, and finds everything exactly once.
func (o *reporter) check(c *http.Client, url, key string) {
	for run, id := range o.ids {
		if id == "" {
			o.send(c, url, key, run)
		}
	}
	found := map[string]string{}
	for token := ""; ; {
		r := ask(c, http.MethodGet, url+"/v1/observations?page_size=1000"+token, "", "Authorization: Bearer "+key)
		var list api.ObservationList
		if err := json.Unmarshal(r.body, &list); err != nil || r.status != http.StatusOK {
			o.wrong("observations: %d %s %v", r.status, r.body, err)
			return
		}
		for _, s := range list.Observations {
			if strings.HasPrefix(s.Note, o.name+"-") {
				if found[s.Note] != "" {
					o.wrong("%s is there twice", s.Note)
				}
				found[s.Note] = s.ID
			}
		}
		if list.NextPageToken == "" {
			break
		}
		token = "&page_token=" + list.NextPageToken
	}
	for run, id := range o.ids {
		if found[run] != id {
			o.wrong("%s was acknowledged as %s and is %q", run, id, found[run])
		}
	}
	if len(found) != len(o.ids) {
		o.wrong("%s: %d observations, %d were sent", o.name, len(found), len(o.ids))
	}
}

// The service is killed with kill -9 at random moments while it changes the catalog and takes
// observations. Nothing that it acknowledged is lost, nothing is half written, and it starts again.
func TestCrashesWhileChanging(t *testing.T) {
	for name, create := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time is spent waiting
			database, folder, client := create(t), t.TempDir(), newClient()
			key := newKey(t, database)
			var acknowledged atomic.Int64
			writers := make([]*writer, 4)
			for i := range writers {
				writers[i] = &writer{id: fmt.Sprintf("card-%d", i), asked: -1, count: &acknowledged, wrong: t.Errorf}
			}
			reporters := make([]*reporter, 2)
			for i := range reporters {
				reporters[i] = &reporter{name: fmt.Sprintf("run-%d", i), ids: map[string]string{}, wrong: t.Errorf}
			}
			random := rand.New(rand.NewPCG(1, uint64(len(name))))
			total := crashes(t)
			for n := range total {
				p := startService(t, database, folder)
				for _, w := range writers {
					w.check(client, p.url)
				}
				var working sync.WaitGroup
				for _, w := range writers {
					working.Go(func() { w.run(client, p.url, key) })
				}
				for _, o := range reporters {
					working.Go(func() { o.run(client, p.url, key) })
				}
				if n == 0 { // however slow the machine is, something is written
					eventually(t, "a change", func() (string, bool) {
						return "none yet", acknowledged.Load() > 0 || t.Failed()
					})
				}
				time.Sleep(time.Duration(random.IntN(300_000)) * time.Microsecond)
				p.kill()
				working.Wait()
				client.CloseIdleConnections()
				settle(t, database)
				wholeDatabase(t, database)
				if t.Failed() {
					t.Fatal(p.log())
				}
			}
			p := startService(t, database, folder)
			for _, w := range writers {
				w.check(client, p.url)
			}
			changes := checkHistory(t, client, p.url, key)
			reported := 0
			for _, o := range reporters {
				o.check(client, p.url, key)
				reported += len(o.ids)
			}
			if n := acknowledged.Load(); n == 0 || changes < n {
				t.Errorf("%d changes were acknowledged in %d runs, the history has %d", n, total, changes)
			}
			t.Logf("killed %d times; %d changes acknowledged, %d stored; %d observations", total, acknowledged.Load(),
				changes, reported)
		})
	}
}

// The making of the tables and of the built-in catalog is killed at random moments; the next
// start finishes it.
func TestCrashesWhileMigrating(t *testing.T) {
	for name, create := range databases {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // most of the time is spent waiting
			random := rand.New(rand.NewPCG(2, uint64(len(name))))
			for range max(1, crashes(t)/10) {
				database := create(t)
				killed := 0
				for range 10 {
					migrate := exec.Command("vramplan", "migrate", "--database", database)
					if err := migrate.Start(); err != nil {
						t.Fatal(err)
					}
					timer := time.AfterFunc(time.Duration(10_000+random.IntN(150_000))*time.Microsecond, func() {
						_ = migrate.Process.Kill()
					})
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
				if err := json.Unmarshal(r.body, &list); err != nil || len(list.GPUs) == 0 ||
					list.Catalog != migrations.CatalogRevision {
					t.Fatalf("after %d kills: %d cards of %s, %v", killed, len(list.GPUs), list.Catalog, err)
				}
				p.kill()
				wholeDatabase(t, database)
			}
		})
	}
}

// wholeDatabase finds every row as it was written, and all of them.
func wholeDatabase(t *testing.T, database string) {
	t.Helper()
	s, err := store.OpenExisting(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	report, err := s.Verify(t.Context())
	if err != nil || report.Count > 0 {
		t.Errorf("the database is not whole: %+v, %v", report, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// checkHistory reads the whole history. Its numbers have no gaps, and replayed it gives the catalog.
func checkHistory(t *testing.T, c *http.Client, url, key string) (changes int64) {
	t.Helper()
	newest := map[string]json.RawMessage{}
	expected := int64(-1)
	for token := ""; ; {
		var r reply
		eventually(t, "the history is read", func() (string, bool) { // a slow machine may need a second try for the key
			r = ask(c, http.MethodGet, url+"/v1/catalog/changes?page_size=1000"+token, "", "Authorization: Bearer "+key)
			return fmt.Sprintf("%d %s", r.status, r.body), r.status != http.StatusServiceUnavailable
		})
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
