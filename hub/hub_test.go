package hub

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const aCommit = "0123456789abcdef0123456789abcdef01234567"

func TestParseName(t *testing.T) {
	for text, want := range map[string]string{
		"meta-llama/Llama-3.1-8B":  "meta-llama/Llama-3.1-8B",
		"gpt2":                     "gpt2",
		"a/b@refs/pr/1":            "a/b@refs/pr/1",
		"a/b@main":                 "a/b",
		"a/b@" + aCommit:           "a/b@" + aCommit,
		"":                         "",
		"a/b/c":                    "",
		"../b":                     "",
		"a/..":                     "",
		"a/b@../../x":              "",
		"a/b@x/../y":               "",
		"a/b@":                     "",
		"a/b@/x":                   "",
		"-a/b":                     "",
		"a/b-":                     "",
		"a/b--c":                   "",
		"a/b.git":                  "",
		"a/b?x=1":                  "",
		"a/b%2f..":                 "",
		"http://169.254.169.254/x": "",
		"a\\b":                     "",
		"a b/c":                    "",
		strings.Repeat("a", 97):    "",
	} {
		n, ok := ParseName(text)
		if got := n.String(); ok != (want != "") || ok && got != want {
			t.Errorf("%q: %q %v, want %q", text, got, ok, want)
		}
	}
}

func TestCacheDir(t *testing.T) {
	for _, c := range []struct {
		environ map[string]string
		want    string
	}{
		{map[string]string{}, ""},
		{map[string]string{"HOME": "/h"}, "/h/.cache/huggingface/hub"},
		{map[string]string{"HOME": "/h", "XDG_CACHE_HOME": "/x"}, "/x/huggingface/hub"},
		{map[string]string{"HOME": "/h", "HF_HOME": "~/hf"}, "/h/hf/hub"},
		{map[string]string{"HF_HOME": "/hf", "HF_HUB_CACHE": "/c"}, "/c"},
	} {
		got := CacheDir(func(name string) (string, bool) { v, ok := c.environ[name]; return v, ok })
		if got != filepath.FromSlash(c.want) {
			t.Errorf("%v: %q, want %q", c.environ, got, c.want)
		}
	}
}

func put(t *testing.T, text string, parts ...string) {
	t.Helper()
	name := filepath.Join(parts...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestCached(t *testing.T) {
	dir := t.TempDir()
	repo := filepath.Join(dir, "models--org--name")
	put(t, aCommit+"\n", repo, "refs", "main")
	put(t, `{"model_type": "llama"}`, repo, "snapshots", aCommit, "config.json")
	put(t, aCommit, dir, "models--org--adapters", "refs", "main")
	put(t, `{}`, dir, "models--org--adapters", "snapshots", aCommit, "adapter_config.json")
	put(t, "../../elsewhere", dir, "models--org--odd", "refs", "main")
	put(t, aCommit, dir, "models--org--long", "refs", "main")
	put(t, strings.Repeat(" ", maxConfigBytes+1), dir, "models--org--long", "snapshots", aCommit, "config.json")

	for name, says := range map[string]string{"org/name": "", "org/name@" + aCommit: "", "org/absent": "absent",
		"org/name@v2": "absent", "org/adapters": "adapters and no config.json", "org/odd": "names no commit",
		"org/long": "more than 1048576 bytes"} {
		n, ok := ParseName(name)
		if !ok {
			t.Fatal(name)
		}
		c, err := Cached(dir, n)
		switch {
		case says == "" && (err != nil || string(c.Text) != `{"model_type": "llama"}` || !strings.Contains(c.From, aCommit)):
			t.Errorf("%s: %v %v", name, c, err)
		case says == "absent" && !errors.Is(err, fs.ErrNotExist), says != "" && says != "absent" && (err == nil ||
			!strings.Contains(err.Error(), says)):
			t.Errorf("%s: %v, want %s", name, err, says)
		}
	}
	if _, err := Cached("", Name{Repo: "org/name", Revision: "main"}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a cache: %v", err)
	}
}

// hubOf serves the models of a Hub that is good, and of others.
func hubOf(t *testing.T, elsewhere string) (*httptest.Server, *[]*http.Request) {
	t.Helper()
	var seen []*http.Request
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = append(seen, r)
		switch strings.TrimSuffix(r.URL.EscapedPath(), "/resolve/main/config.json") {
		case "/org/name", "/api/renamed", "/org/name/resolve/refs%2Fpr%2F1/config.json":
			w.Header().Set("X-Repo-Commit", aCommit)
			_, _ = w.Write([]byte(`{"model_type": "llama"}`))
		case "/org/renamed":
			http.Redirect(w, r, "/api/renamed", http.StatusTemporaryRedirect)
		case "/org/elsewhere":
			http.Redirect(w, r, elsewhere+"/file", http.StatusFound)
		case "/org/round":
			http.Redirect(w, r, r.URL.Path, http.StatusFound)
		case "/org/file":
			w.Header().Set("Location", "file:///etc/passwd")
			w.WriteHeader(http.StatusFound)
		case "/org/gated":
			w.Header().Set("X-Error-Code", "GatedRepo")
			w.WriteHeader(http.StatusUnauthorized)
		case "/org/private":
			w.WriteHeader(http.StatusUnauthorized)
		case "/org/forbidden":
			w.WriteHeader(http.StatusForbidden)
		case "/org/huge":
			for range 20 {
				_, _ = w.Write([]byte(strings.Repeat(" ", 100_000)))
			}
		case "/org/slow":
			<-r.Context().Done()
		case "/org/trickle":
			w.WriteHeader(http.StatusOK)
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	t.Cleanup(server.Close)
	return server, &seen
}

func TestClient(t *testing.T) {
	var others []*http.Request
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		others = append(others, r)
		_, _ = w.Write([]byte(`{"model_type": "gpt2"}`))
	}))
	defer other.Close()
	server, seen := hubOf(t, other.URL) // both on 127.0.0.1: another port is another host

	client := func(o Options) *Client {
		o.Endpoint = server.URL + "/"
		c, err := NewClient(o)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	patient := client(Options{Token: "secret"})
	hasty := client(Options{Token: "secret", Timeout: 50 * time.Millisecond})
	for _, test := range []struct{ name, config, says string }{
		{"org/name", "llama", "commit 0123456789ab"},
		{"org/name@refs/pr/1", "llama", "org/name@refs/pr/1 at"},
		{"org/renamed", "llama", ""},
		{"org/elsewhere", "gpt2", ""},
		{"org/round", "", "more than 5 redirects"},
		{"org/file", "", "less safe"},
		{"org/gated", "", "agree to something first: do so at " + server.URL + "/org/gated, and the token in HF_TOKEN"},
		{"org/private", "", "not for everybody"},
		{"org/forbidden", "", "answers 403"},
		{"org/absent", "", "there is no org/absent"},
		{"org/huge", "", "more than 1048576 bytes"},
		{"org/slow", "", "no answer within 50ms"},
		{"org/trickle", "", "within 50ms"},
	} {
		n, ok := ParseName(test.name)
		if !ok {
			t.Fatal(test.name)
		}
		c := patient
		if test.name == "org/slow" || test.name == "org/trickle" {
			c = hasty
		}
		got, err := c.Config(t.Context(), n)
		switch {
		case test.config == "" && (err == nil || !strings.Contains(err.Error(), test.says)):
			t.Errorf("%s: %v, want %q", test.name, err, test.says)
		case test.config != "" && (err != nil || !strings.Contains(string(got.Text), test.config) ||
			!strings.Contains(got.From, test.says)):
			t.Errorf("%s: %+v %v", test.name, got, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the token is in the error: %v", test.name, err)
		}
	}
	for _, r := range *seen {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s came without the token", r.URL)
		}
	}
	if len(others) != 1 || others[0].Header.Get("Authorization") != "" {
		t.Errorf("another host was asked %d times, or got the token", len(others))
	}

	strict := client(Options{OneHost: true})
	if _, err := strict.Config(t.Context(), Name{"org/elsewhere", "main"}); err == nil ||
		!strings.Contains(err.Error(), "another host") || len(others) != 1 {
		t.Errorf("a redirect to another host was followed: %v", err)
	}
	if _, err := strict.Config(t.Context(), Name{"org/renamed", "main"}); err != nil {
		t.Errorf("a redirect on the same host: %v", err)
	}
	if (*seen)[len(*seen)-1].Header.Get("Authorization") != "" {
		t.Error("a client without a token sent one")
	}
}

func TestEndpoints(t *testing.T) {
	for _, bad := range []string{"huggingface.co", "ftp://a", "http://", "https://u:p@a", "https://a?x", "http://a#b", ":"} {
		if _, err := NewClient(Options{Endpoint: bad}); err == nil || !strings.Contains(err.Error(), "HF_ENDPOINT") ||
			strings.Contains(err.Error(), "u:p@") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := NewClient(Options{}); err != nil {
		t.Error(err)
	}
}
