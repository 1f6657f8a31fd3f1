package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/workplace"
)

var update = flag.Bool("update", false, "write the golden files anew")

// story is the job of the founding question.
const story = `{
  "model": {"preset": "nanogpt/train_gpt2"},
  "training": {
    "micro_batch": 16, "sequence_length": 1024, "gradient_accumulation": 32,
    "precision": "amp-bf16", "optimizer": {"name": "adamw", "implementation": "fused"},
    "gradient_checkpointing": "none", "attention": "sdpa", "loss": "standard", "compile": false
  },
  "gpus": ["rtx-4070"]
}`

func newAPI(o api.Options, limits ...workplace.Limits) *api.API {
	return api.New(limited(limits), o)
}

func limited(limits []workplace.Limits) *service.Service {
	var l workplace.Limits
	for _, l = range limits {
	}
	return service.New(service.EmbeddedCatalog(), service.WithLimits(l))
}

// do sends a request straight to the handler.
// noType sends a body without a Content-Type.
const noType = "none"

func do(h http.Handler, method, target, contentType, body string) *http.Response {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if contentType != "" && contentType != noType {
		r.Header.Set("Content-Type", contentType)
	}
	r.Header.Set("X-Request-Id", "test-1")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func read(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// golden compares got with testdata/name.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got), -update accepts it:\n%s", path, diff)
	}
}

func indented(t *testing.T, body string) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(body), "", "  "); err != nil {
		t.Fatalf("not JSON: %v: %q", err, body)
	}
	return b.String()
}

// Every refusal is a problem with the right status, and its body is a golden file.
func TestProblems(t *testing.T) {
	const jsonType = "application/json"
	with := func(fields string) string { return `{"model": {"preset": "gpt2"}, ` + fields + `}` }
	for _, c := range []struct {
		name, method, target, contentType, body string
		status                                  int
		header                                  [2]string
	}{
		{name: "empty_body", body: "", status: 400},
		{name: "malformed", body: "{\n  \"model\": {\"preset\": \"gpt2\"},\n  \"training\": {micro_batch: 1}\n}",
			status: 400},
		{name: "not_a_number", body: with(`"training": {"micro_batch": NaN}`), status: 400},
		{name: "unknown_fields",
			body:   with(`"training": {"micro_batch_size": 1, "seq_len": 2, "micro_batch": 1}, "gpu": "a100"`),
			status: 400},
		{name: "duplicate_field", body: with(`"training": {"micro_batch": 1, "micro_batch": 2}`), status: 400},
		{name: "unknown_field_and_wrong_value", body: with(`"training": {"micro_batch": -1, "precison": "bf16"}`),
			status: 400},
		{name: "deep", body: strings.Repeat("[", 100_000), status: 400},
		{name: "deep_config", body: `{"model": {"hf_config": ` + strings.Repeat(`{"a":`, 100_000), status: 400},
		{name: "negative", body: with(`"training": {"micro_batch": -4}`), status: 422},
		{name: "zero", body: with(`"training": {"micro_batch": 0}`), status: 422},
		{name: "huge_layers", body: `{"model": {"nanogpt": {"n_layer": 1000000000000000000, "n_head": 12, "n_embd": 768}}, "training": {"micro_batch": 1}}`, status: 422},
		{name: "wrong_types", body: with(`"training": {"micro_batch": "16", "compile": 1, "optimizer": []}`),
			status: 422},
		{name: "nothing", body: `{}`, status: 422},
		{name: "truncated_config", body: `{"model": {"hf_config": {"model_type": "llama", "hidden_size": 4096,`,
			status: 400},
		{name: "empty_config", body: `{"model": {"hf_config": {}}, "training": {"micro_batch": 1}}`, status: 422},
		{name: "unknown_names",
			body:   `{"model": {"preset": "gpt-22"}, "training": {"micro_batch": 1}, "gpus": ["rtx-4070", "rtx-4071"]}`,
			status: 422},
		{name: "unknown_names_and_wrong_values",
			body:   `{"model": {"preset": "gpt-22"}, "training": {"micro_batch": -1}, "gpus": ["rtx-4071", 5]}`,
			status: 422},
		{name: "compare_both", target: "/v1/compare",
			body: `{"a": {"model": {"preset": "gpt-22"}, "training": {"micro_batch": 1}}, "b": {"model": {"preset": "gpt2"}, "training": {}, "gpus": ["rtx-4071"]}}`, status: 422},
		{name: "no_type", contentType: noType, body: story, status: 415},
		{name: "form", contentType: "application/x-www-form-urlencoded", body: story, status: 415},
		{name: "latin1", contentType: "application/json; charset=latin1", body: story, status: 415},
		{name: "query", target: "/v1/estimate?timelin=true&tensor=1", body: story, status: 400},
		{name: "query_value", target: "/v1/estimate?timeline=yes", body: story, status: 400},
		{name: "query_twice", target: "/v1/estimate?timeline=true&timeline=true", body: story, status: 400},
		{name: "plan_batch", target: "/v1/plan", body: with(`"training": {}, "effective_batch": 0`), status: 422},
		{name: "method", method: "DELETE", status: 405, header: [2]string{"Allow", "POST"}},
		{name: "method_get", method: "PATCH", target: "/v1/gpus/a100", status: 405,
			header: [2]string{"Allow", "GET, HEAD, PUT, DELETE"}},
		{name: "path", method: "GET", target: "/v2/estimate", status: 404},
		{name: "gpu", method: "GET", target: "/v1/gpus/rtx-4071", status: 404},
		{name: "model", method: "GET", target: "/v1/models/meta-llama/Llama-3.1-9B", status: 404},
		{name: "problem", method: "GET", target: "/problems/nope", status: 404},
		{name: "gpu_query", method: "GET", target: "/v1/gpus?min_usable_bytes=-1", status: 400},
		{name: "batch_form", target: "/v1/estimate/batch", contentType: "text/csv", body: story, status: 415},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.method == "" {
				c.method = http.MethodPost
			}
			if c.target == "" {
				c.target = "/v1/estimate"
			}
			if c.contentType == "" && c.method == http.MethodPost {
				c.contentType = jsonType
			}
			res := do(newAPI(api.Options{}), c.method, c.target, c.contentType, c.body)
			body := read(t, res)
			if res.StatusCode != c.status {
				t.Errorf("status %d, want %d", res.StatusCode, c.status)
			}
			if got := res.Header.Get("Content-Type"); got != problem.ContentType {
				t.Errorf("Content-Type %q", got)
			}
			if c.header[0] != "" && res.Header.Get(c.header[0]) != c.header[1] {
				t.Errorf("%s is %q, want %q", c.header[0], res.Header.Get(c.header[0]), c.header[1])
			}
			golden(t, "problems/"+c.name+".json", indented(t, body))
		})
	}
}

func TestCatalog(t *testing.T) {
	h := newAPI(api.Options{})
	for _, c := range []struct{ target, want string }{
		{"/v1/gpus/rtx-4070", `"id":"rtx-4070"`},
		{"/gpus/NVIDIA%20GeForce%20RTX%204070", `"id":"rtx-4070"`},
		{"/v1/models/meta-llama/Llama-3.1-8B", `"id":"meta-llama/Llama-3.1-8B"`},
		{"/v1/models/meta-llama%2FLlama-3.1-8B", `"id":"meta-llama/Llama-3.1-8B"`},
		{"/models/gpt2", `"id":"openai-community/gpt2"`},
		{"/v1/gpus?vendor=nvidia&q=4070", `"rtx-4070-ti"`},
		{"/v1/models?family=llama", `"id":"meta-llama/Llama-3.1-8B"`},
		{"/v1/version", `"catalog":"` + migrations.CatalogRevision + `"`},
		{"/v1/releases", `"switch":"returns-workspace"`},
		{"/healthz", `{"status":"ok"}`},
		{"/readyz", `"status":"ready"`},
	} {
		res := do(h, http.MethodGet, c.target, "", "")
		if body := read(t, res); res.StatusCode != http.StatusOK || !strings.Contains(body, c.want) {
			t.Errorf("GET %s: status %d, no %s in %.300s", c.target, res.StatusCode, c.want, body)
		}
		if res := do(h, http.MethodHead, c.target, "", ""); res.StatusCode != http.StatusOK {
			t.Errorf("HEAD %s: status %d", c.target, res.StatusCode)
		}
	}
	var list struct {
		GPUs   []struct{ ID string } `json:"gpus"`
		Models []struct{ ID string } `json:"models"`
	}
	for _, target := range []string{"/v1/gpus", "/v1/models"} {
		if err := json.Unmarshal([]byte(read(t, do(h, http.MethodGet, target, "", ""))), &list); err != nil {
			t.Fatal(err)
		}
	}
	gpus, err := service.EmbeddedCatalog().GPUs()
	if err != nil {
		t.Fatal(err)
	}
	models, err := service.EmbeddedCatalog().Models()
	if err != nil {
		t.Fatal(err)
	}
	if len(list.GPUs) != len(gpus) || len(list.Models) != len(models) {
		t.Errorf("%d GPUs and %d models, want %d and %d", len(list.GPUs), len(list.Models), len(gpus), len(models))
	}
	if body := read(t, do(h, http.MethodGet, "/v1/gpus?q=no-such-card", "", "")); !strings.Contains(body, `"gpus":[]`) {
		t.Errorf("an empty list is %s", body)
	}
}

func TestRequestIDsAndHeaders(t *testing.T) {
	h := newAPI(api.Options{})
	for given, keep := range map[string]bool{
		"job-1.a_B": true, "": false, "no spaces": false, strings.Repeat("x", 65): false, "a\"b": false,
	} {
		r := httptest.NewRequest(http.MethodGet, "/healthz", nil)
		r.Header.Set("X-Request-Id", given)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := w.Header().Get("X-Request-Id")
		if (got == given) != keep || got == "" {
			t.Errorf("X-Request-Id %q is answered with %q", given, got)
		}
	}
	res := do(h, http.MethodGet, "/docs", "", "")
	for name, want := range map[string]string{
		"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer",
		"Content-Type": "text/html; charset=utf-8",
	} {
		if got := res.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if policy := res.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") ||
		strings.Contains(policy, "unsafe") {
		t.Errorf("Content-Security-Policy is %q", policy)
	}
}

func TestLogHasRequestsAndNoBodies(t *testing.T) {
	var out bytes.Buffer
	logger := zerolog.New(&out)
	h := newAPI(api.Options{Logger: &logger})
	do(h, http.MethodPost, "/v1/estimate?timeline=nope", "application/json", `{"model": {"preset": "secret"}}`)
	do(h, http.MethodPost, "/v1/estimate", "application/json", `{"model": {"preset": "secret"}}`)
	if strings.Contains(out.String(), "secret") {
		t.Errorf("the log has parts of a body: %s", out.String())
	}
	var line struct {
		Level, Message, Method, Route, Path string
		RequestID                           string `json:"request_id"`
		Status                              int
	}
	if err := json.NewDecoder(&out).Decode(&line); err != nil {
		t.Fatal(err)
	}
	if line.RequestID != "test-1" || line.Route != "/v1/estimate" || line.Status != 400 || line.Method != "POST" ||
		line.Message != "request" {
		t.Errorf("the log line is %+v", line)
	}
}

func TestMetricsHaveRoutesForLabels(t *testing.T) {
	h := newAPI(api.Options{Version: "v1"})
	do(h, http.MethodGet, "/v1/gpus/rtx-4070", "", "")
	do(h, http.MethodGet, "/v1/models/meta-llama/Llama-3.1-8B", "", "")
	do(h, http.MethodGet, "/no/such/path", "", "")
	do(h, "BREW", "/v1/gpus", "", "")
	body := read(t, do(h, http.MethodGet, "/metrics", "", ""))
	for _, want := range []string{
		`vramplan_http_requests_total{code="200",method="GET",route="/v1/gpus/{id}"} 1`,
		`vramplan_http_requests_total{code="200",method="GET",route="/v1/models/{id}"} 1`,
		`vramplan_http_requests_total{code="404",method="GET",route="unmatched"} 1`,
		`vramplan_http_requests_total{code="405",method="other",route="unmatched"} 1`,
		`vramplan_http_request_duration_seconds_count{route="/v1/gpus/{id}"} 1`,
		`vramplan_http_in_flight_requests 1`, `vramplan_build_info{`, `go_goroutines`, `vramplan_cache_hits_total`,
	} {
		if !strings.Contains(body, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if strings.Contains(body, "Llama") || strings.Contains(body, "/no/such") {
		t.Error("a client's words are in the metrics")
	}
}
