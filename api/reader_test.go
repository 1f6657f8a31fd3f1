package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/openapi/demo"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/store"
)

// What users reported is for those who have a key; where the operator lets others read, they see nobody's name.
func TestReadingNeedsAScope(t *testing.T) {
	s, end, err := demo.New(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	closed, opened := api.New(s, api.Options{}), api.New(s, api.Options{AnonymousReads: true})
	for _, path := range []string{"/v1/observations", "/v1/calibrations", "/v1/calibrations/" + demo.Calibration,
		"/v1/calibrations/active"} {
		if w := call(closed, "GET", path, ""); w.Code != http.StatusUnauthorized ||
			!strings.Contains(w.Body.String(), ":read") {
			t.Errorf("%s without a key: %d %s", path, w.Code, w.Body)
		}
		if w := call(closed, "GET", path, "", withKey); w.Code != http.StatusOK {
			t.Errorf("%s with a key that may write: %d %s", path, w.Code, w.Body)
		}
		if w := call(opened, "GET", path, ""); w.Code != http.StatusOK ||
			strings.Contains(w.Body.String(), `"name":"ci"`) || strings.Contains(w.Body.String(), "examplekey") {
			t.Errorf("%s where anybody may read: %d %s", path, w.Code, w.Body)
		}
	}
	if w := call(closed, "GET", "/v1/calibrations", "", "Authorization: Bearer "+demo.ReadKey); w.Code != http.StatusForbidden {
		t.Errorf("calibrations with a key for observations: %d", w.Code)
	}
	if w := call(closed, "GET", "/v1/accuracy", ""); w.Code != http.StatusOK {
		t.Errorf("the report without a key: %d %s", w.Code, w.Body)
	}
}

// A database without keys keeps nothing from anybody.
func TestReadingWithoutKeys(t *testing.T) {
	db, err := store.Open(t.Context(), "file:"+filepath.Join(t.TempDir(), "vramplan.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := service.New(service.EmbeddedCatalog(), service.WithStore(db))
	h := api.New(s, api.Options{})
	if w := call(h, "GET", "/v1/observations", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("before the database was looked at: %d", w.Code)
	}
	for _, want := range []int{http.StatusOK, http.StatusUnauthorized} {
		if err := s.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w := call(h, "GET", "/v1/observations", ""); w.Code != want {
			t.Errorf("status %d, want %d", w.Code, want)
		}
		scopes := []service.Scope{service.ScopeObservationsRead}
		if _, _, err := s.Keyring().Create(t.Context(), "ci", scopes, nil); err != nil {
			t.Fatal(err)
		}
	}
}

// Observations are small, and a page of them is too, whatever is asked for.
func TestObservationsAreSmall(t *testing.T) {
	h := newDemo(t)
	note := strings.Repeat("x", 900)
	config := fmt.Sprintf(`{"job": {"model": {"hf_config": {"model_type": "llama", "x": %q}}, "training": {"micro_batch": 1}, "gpus": ["a100-40gb"]}, "measured": {"device_bytes": 1}}`, strings.Repeat("y", 20<<10))
	if w := call(h, "POST", "/v1/observations", config, withKey); w.Code != http.StatusRequestEntityTooLarge ||
		!strings.Contains(w.Body.String(), "16384") {
		t.Errorf("20 KiB: %d %s", w.Code, w.Body)
	}
	small := fmt.Sprintf(`{"job": {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}, "gpus": ["a100-40gb"]}, "measured": {"device_bytes": 4000000000}, "note": %q}`, note)
	w := call(h, "POST", "/v1/observations", strings.Repeat(small+"\n", 900)+config+"\n", withKey,
		"Content-Type: application/x-ndjson")
	if w.Code != http.StatusOK || strings.Count(w.Body.String(), `"id":"obs-`) != 900 ||
		!strings.Contains(w.Body.String(), `#line=901","code":"too_large"`) {
		t.Fatalf("%d %.300s", w.Code, w.Body)
	}
	seen, pages := map[string]bool{}, 0
	for token := ""; pages == 0 || token != ""; pages++ {
		w := call(h, "GET", "/v1/observations?page_size=1000&gpu=a100-40gb"+token, "", withKey)
		if w.Code != http.StatusOK || w.Body.Len() > 3<<19 {
			t.Fatalf("%d, %d bytes", w.Code, w.Body.Len())
		}
		var page api.ObservationList
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Observations {
			seen[o.ID] = true
		}
		if token = page.NextPageToken; token != "" {
			token = "&page_token=" + token
		}
	}
	if len(seen) != 900 || pages < 2 {
		t.Errorf("%d observations on %d pages", len(seen), pages)
	}
}

func TestObservationsCanBeDeleted(t *testing.T) {
	h := newDemo(t)
	path := "/v1/observations/" + demo.Observation
	for _, c := range []struct {
		target  string
		headers []string
		status  int
	}{
		{path, nil, 401}, {path, []string{withKey}, 204}, {path, []string{withKey}, 404},
		{"/v1/observations/obs-%00", []string{withKey}, 404},
	} {
		if w := call(h, "DELETE", c.target, "", c.headers...); w.Code != c.status {
			t.Errorf("%s %v: %d %s, want %d", c.target, c.headers, w.Code, w.Body, c.status)
		}
	}
	if w := call(h, "GET", "/v1/accuracy", ""); !strings.Contains(w.Body.String(), `"observations":1`) {
		t.Errorf("the report has it still: %s", w.Body)
	}
}
