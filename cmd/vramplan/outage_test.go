package main

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/store/pgtest"
)

// eventually asks until the answer is as it should be.
func eventually(t testing.TB, what string, ask func() (string, bool)) {
	t.Helper()
	last := ""
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		var ok bool
		if last, ok = ask(); ok {
			return
		}
	}
	t.Fatalf("%s: %s", what, last)
}

// askers ask for answers of all kinds until stop, with a calibration and without, and count what fails.
type askers struct {
	asked, failed atomic.Int64
	end           chan struct{}
	done          sync.WaitGroup
	first         sync.Once
	failure       string
}

func readFrom(url, calibration string) *askers {
	r := &askers{end: make(chan struct{})}
	for i := range 4 {
		r.done.Go(func() {
			c := newClient()
			defer c.CloseIdleConnections()
			for n := i; ; n++ {
				select {
				case <-r.end:
					return
				default:
				}
				var got reply
				switch n % 5 {
				case 0: // another job each time, so that no answer is remembered
					got = ask(c, http.MethodPost, url+"/v1/estimate",
						fmt.Sprintf(`{"model": {"preset": "gpt2"}, "training": {"micro_batch": %d, "sequence_length": 64}, "gpus": ["lab-card"]}`, n%97+1))
				case 1:
					got = ask(c, http.MethodGet, url+"/v1/gpus/lab-card", "")
				case 2:
					got = ask(c, http.MethodGet, url+"/readyz", "")
				case 3:
					got = ask(c, http.MethodGet, url+"/v1/models?family=gpt2", "")
				case 4:
					got = ask(c, http.MethodPost, url+"/v1/estimate?calibration="+calibration, runJob(int64(n)))
				}
				r.asked.Add(1)
				if got.status != http.StatusOK {
					r.failed.Add(1)
					r.first.Do(func() { r.failure = fmt.Sprintf("%d %s %v", got.status, got.body, got.err) })
				}
			}
		})
	}
	return r
}

// PostgreSQL goes away and comes back under load. No read and no decision fails, changes are refused
// with a reason, a replica can start meanwhile with all that users entered, and everything
// recovers by itself. What one replica changes, the other sees. A calibration that is not in force answers all the
// while, by its id.
func TestDatabaseOutage(t *testing.T) {
	server := pgtest.Own(t)
	database := server.Database(t)
	key := newKey(t, database)
	folders := []string{t.TempDir(), t.TempDir()}
	a, b := startService(t, database, folders[0]), startService(t, database, folders[1])
	client := newClient()
	put := func(p *process, id string, headers ...string) reply {
		return ask(client, http.MethodPut, p.url+"/v1/gpus/"+id, `{"name": "Lab card", "memory_bytes": 25769803776}`,
			append(headers, "Authorization: Bearer "+key)...)
	}
	sees := func(p *process, id string) func() (string, bool) {
		return func() (string, bool) {
			r := ask(client, http.MethodGet, p.url+"/v1/gpus/"+id, "")
			return string(r.body), r.status == http.StatusOK
		}
	}
	if r := put(a, "lab-card", "If-None-Match: *"); r.status != http.StatusCreated {
		t.Fatalf("%d %s", r.status, r.body)
	}
	eventually(t, "the other replica sees the change", sees(b, "lab-card"))
	calibrated := &calibrations{t: t, client: client, key: key, url: a.url, stored: map[string]service.Calibration{},
		answers: map[string][]byte{}}
	for range 32 {
		if !calibrated.measure() {
			t.FailNow()
		}
	}
	pinned, ok := calibrated.fit() // and not activated: nothing but its id leads to it
	if !ok {
		t.FailNow()
	}
	withPinned := func(p *process) reply {
		return ask(client, http.MethodPost, p.url+"/v1/estimate?calibration="+pinned, runJob(5))
	}
	eventually(t, "the other replica keeps the calibration", func() (string, bool) {
		kept, err := os.ReadFile(filepath.Join(folders[1], "vramplan-catalog.json"))
		return fmt.Sprint(err), bytes.Contains(kept, []byte(pinned))
	})

	var asked int64
	finish := func(r *askers) {
		close(r.end)
		r.done.Wait()
		asked += r.asked.Load()
		if n := r.failed.Load(); n > 0 {
			t.Errorf("%d of %d reads failed, the first: %s", n, r.asked.Load(), r.failure)
		}
	}
	onA, onB := readFrom(a.url, pinned), readFrom(b.url, pinned)
	for outage := range 2 {
		before := withPinned(a)
		eventually(t, "the replicas answer alike", func() (string, bool) {
			return string(before.body), before.status == http.StatusOK && bytes.Equal(before.body, withPinned(b).body)
		})
		server.Stop()
		eventually(t, "the service notices", func() (string, bool) {
			r := ask(client, http.MethodGet, a.url+"/readyz", "")
			return string(r.body), r.status == http.StatusOK &&
				strings.Contains(string(r.body), `"database":"unreachable"`)
		})
		id := fmt.Sprintf("during-%d", outage)
		for range 3 {
			if r := put(a, id, "If-None-Match: *"); r.status != http.StatusServiceUnavailable ||
				r.header.Get("Retry-After") == "" || !strings.Contains(string(r.body), "unavailable") {
				t.Errorf("a change without the database: %d %s %v", r.status, r.body, r.err)
			}
		}

		// A restart meanwhile.
		finish(onB)
		b.kill()
		b = startService(t, database, folders[1])
		if state, ok := sees(b, "lab-card")(); !ok {
			t.Errorf("a replica that started without the database does not know the card: %s", state)
		}
		for _, p := range []*process{a, b} {
			if r := withPinned(p); !bytes.Equal(r.body, before.body) {
				t.Errorf("with %s: %d %s %v, and before\n%s", pinned, r.status, r.body, r.err, before.body)
			}
		}
		if r := ask(client, http.MethodPost, b.url+"/v1/estimate?calibration=cal-9-000000000000", runJob(5)); r.status != http.StatusServiceUnavailable ||
			r.header.Get("Retry-After") == "" || !strings.Contains(string(r.body), "not in memory") {
			t.Errorf("a calibration that nobody knows without the database: %d %s %v", r.status, r.body, r.err)
		}
		onB = readFrom(b.url, pinned)

		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		for _, p := range []*process{a, b} {
			eventually(t, "the service recovers", func() (string, bool) {
				r := ask(client, http.MethodGet, p.url+"/readyz", "")
				return string(r.body), strings.Contains(string(r.body), `"database":"ok"`)
			})
		}
		if r := put(b, id, "If-None-Match: *"); r.status != http.StatusCreated {
			t.Errorf("a change after the outage: %d %s", r.status, r.body)
		}
		eventually(t, "the other replica sees the change", sees(a, id))
	}
	finish(onA)
	finish(onB)
	t.Logf("%d reads and decisions, none failed", asked)
	if log := a.log(); strings.Count(log, "going on with the last catalog") > 4 ||
		!strings.Contains(log, "the database answers again") {
		t.Errorf("the log: %s", log)
	}
}
