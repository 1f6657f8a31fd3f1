package api_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/api"
)

// maxPageBytes is what a first visit may load, answers apart.
const maxPageBytes = 250_000

// TestThePageIsWhole follows the page to everything that it loads: all of it is served here, and it is small.
func TestThePageIsWhole(t *testing.T) {
	h := newAPI(api.Options{})
	references := regexp.MustCompile(`(?:src|href)="(/docs/[^"]+)"|from "\./([^"]+)"|import\("\./([^"]+)"`)
	seen, total := map[string]bool{}, 0
	for todo := []string{"/"}; len(todo) > 0; todo = todo[1:] {
		path := todo[0]
		if seen[path] {
			continue
		}
		seen[path] = true
		w := do(h, http.MethodGet, path, "", "")
		if w.StatusCode != http.StatusOK {
			t.Errorf("%s is answered with %d", path, w.StatusCode)
		}
		body, err := io.ReadAll(w.Body)
		if err != nil {
			t.Fatal(err)
		}
		total += len(body)
		for _, found := range references.FindAllStringSubmatch(string(body), -1) {
			name := found[1]
			if name == "" {
				name = "/docs/" + found[2] + found[3]
			}
			todo = append(todo, name)
		}
	}
	for _, name := range []string{"/docs/calculator.js", "/docs/calculator.css", "/docs/heatmap.js",
		"/docs/elements.js"} {
		if !seen[name] {
			t.Errorf("the page does not load %s", name)
		}
	}
	t.Logf("%d files, %d bytes", len(seen), total)
	if total > maxPageBytes {
		t.Errorf("the page and what it loads have %d bytes, more than %d", total, maxPageBytes)
	}
}

func TestPagesAreFramedByNamedOriginsAlone(t *testing.T) {
	for _, c := range []struct {
		origins       []string
		policy, frame string
	}{
		{nil, "frame-ancestors 'none'", "DENY"},
		{[]string{"https://portal.example.com", "https://wiki.example.com"},
			"frame-ancestors https://portal.example.com https://wiki.example.com", ""},
	} {
		w := do(newAPI(api.Options{Origins: c.origins}), http.MethodGet, "/", "", "")
		policy := w.Header.Get("Content-Security-Policy")
		if !strings.HasSuffix(policy, c.policy) || !strings.Contains(policy, "require-trusted-types-for 'script'") ||
			strings.Contains(policy, "unsafe") {
			t.Errorf("with origins %q the policy is %q", c.origins, policy)
		}
		if got := w.Header.Get("X-Frame-Options"); got != c.frame {
			t.Errorf("with origins %q X-Frame-Options is %q, want %q", c.origins, got, c.frame)
		}
		if data := do(newAPI(api.Options{Origins: c.origins}), http.MethodGet, "/v1/version", "", ""); data.Header.Get("X-Frame-Options") != "DENY" {
			t.Errorf("with origins %q data may be framed", c.origins)
		}
	}
}
