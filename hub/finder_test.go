package hub

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

func TestFinder(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if strings.HasPrefix(r.URL.Path, "/org/absent") {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write([]byte(`{"model_type": "gpt2"}`))
	}))
	defer server.Close()
	client, err := NewClient(Options{Endpoint: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	put(t, aCommit, filepath.Join(dir, "models--org--cached", "refs", "main"))
	put(t, `{"model_type": "llama"}`, filepath.Join(dir, "models--org--cached", "snapshots", aCommit, "config.json"))

	find := func(f *Finder, name, config, says string, asks int64) {
		t.Helper()
		before := asked.Load()
		c, err := f.Find(t.Context(), name)
		switch {
		case config != "" && (err != nil || c == nil || !strings.Contains(string(c.Text), config)),
			config == "" && c != nil, says != "" && (err == nil || !strings.Contains(err.Error(), says)),
			says == "" && err != nil:
			t.Errorf("%s: %+v %v", name, c, err)
		}
		if n := asked.Load() - before; n != asks {
			t.Errorf("%s: the Hub was asked %d times, want %d", name, n, asks)
		}
	}
	local := &Finder{Dir: dir}
	find(local, "org/cached", "llama", "", 0)
	find(local, "org/other", "", "has no config.json of it", 0)
	find(local, "no name", "", "", 0)
	find(&Finder{}, "org/other", "", "", 0)

	both := &Finder{Dir: dir, Client: client}
	find(both, "org/cached", "llama", "", 0)
	find(both, "org/other", "gpt2", "", 1)
	find(both, "org/other", "gpt2", "", 0)
	find(both, "org/absent", "", "no config.json of it; "+client.endpoint.Host+" answers 404", 1)
	find(both, "org/absent", "", "answers 404", 0)

	some := &Finder{Client: client, Allowed: []string{"org/o*", "gpt2"}}
	find(some, "org/other", "gpt2", "", 1)
	find(some, "org/cached", "", "", 0)
	find(some, "gpt2", "gpt2", "", 1)
	find(&Finder{Client: client, Allowed: []string{}}, "org/other", "", "", 0)

	// who asks at the same time shares an answer
	before := asked.Load()
	shared := &Finder{Client: client}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			if _, err := shared.Find(t.Context(), "org/shared"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := asked.Load() - before; n != 1 {
		t.Errorf("twenty at once asked the Hub %d times", n)
	}
	// what is remembered is bounded
	for i := range 2 * mostKept {
		if _, err := shared.Find(t.Context(), "org/n"+strings.Repeat("x", i%80)+string(rune('a'+i%26))); err != nil {
			t.Error(err)
		}
	}
	if len(shared.kept) > mostKept || shared.bytes > mostKeptBytes {
		t.Errorf("%d answers of %d bytes are kept", len(shared.kept), shared.bytes)
	}
}

func TestCheckPatterns(t *testing.T) {
	for pattern, good := range map[string]bool{"meta-llama/*": true, "*/*": true, "gpt2": true, "[": false, "": false,
		"a/b/c": false} {
		if err := CheckPatterns([]string{pattern}); (err == nil) != good {
			t.Errorf("%q: %v", pattern, err)
		}
	}
}
