package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/openapi/demo"
)

// call is one request with headers "Name: value", on a demonstration.
func call(h http.Handler, method, target, body string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const (
	withKey  = "Authorization: Bearer " + demo.Key
	creating = "If-None-Match: *"
	card     = `{"name": "Card", "memory_bytes": 25769803776}`
)

// Conditions are checked in this order: key, precondition, document, state.
func TestChangesAreConditional(t *testing.T) {
	for _, c := range []struct {
		name, method, target, body string
		headers                    []string
		status                     int
		etag                       string
	}{
		{"no key", "PUT", "/v1/gpus/new", card, []string{creating}, 401, ""},
		{"another scheme", "PUT", "/v1/gpus/new", card, []string{creating, "Authorization: Basic " + demo.Key}, 401,
			""},
		{"an unknown key", "PUT", "/v1/gpus/new", card, []string{creating, "Authorization: Bearer " +
			"vrp_examplekey_EXAMPLEEXAMPLEEXAMPLEEXAMQ"}, 401, ""},
		{"no key at all", "PUT", "/v1/gpus/new", card, []string{creating, "Authorization: Bearer x"}, 401, ""},
		{"a key without the scope", "DELETE", "/v1/gpus/lab-card", "", []string{"Authorization: Bearer " + demo.ReadKey,
			`If-Match: "user-1"`}, 403, ""},
		{"scheme without case", "PUT", "/v1/gpus/new", card, []string{creating, "Authorization: bearer  " + demo.Key},
			201, `"user-2"`},

		{"create", "PUT", "/v1/gpus/new", card, []string{withKey, creating}, 201, `"user-2"`},
		{"create by the short path", "PUT", "/gpus/new", card, []string{withKey, creating}, 201, `"user-2"`},
		{"create what is there", "PUT", "/v1/gpus/lab-card", card, []string{withKey, creating}, 412, ""},
		{"create what is built in", "PUT", "/v1/gpus/rtx-4070", card, []string{withKey, creating}, 412, ""},
		{"no precondition", "PUT", "/v1/gpus/new", card, []string{withKey}, 428, ""},
		{"no precondition for a change", "PUT", "/v1/gpus/lab-card", card, []string{withKey}, 428, ""},
		{"replace", "PUT", "/v1/gpus/lab-card", card, []string{withKey, `If-Match: "user-1"`}, 200, `"user-2"`},
		{"replace with one of several versions", "PUT", "/v1/gpus/lab-card", card,
			[]string{withKey, `If-Match: "user-9", W/"user-1"`}, 200, `"user-2"`},
		{"replace without quotes", "PUT", "/v1/gpus/lab-card", card, []string{withKey, `If-Match: user-1`}, 200,
			`"user-2"`},
		{"replace any", "PUT", "/v1/gpus/lab-card", card, []string{withKey, `If-Match: *`}, 200, `"user-2"`},
		{"replace an old version", "PUT", "/v1/gpus/lab-card", card, []string{withKey, `If-Match: "user-0"`}, 412, ""},
		{"replace what is not there", "PUT", "/v1/gpus/new", card, []string{withKey, `If-Match: *`}, 412, ""},
		{"override what is built in", "PUT", "/v1/gpus/rtx-4070", card, []string{withKey, `If-Match: "builtin-1"`}, 200,
			`"user-2"`},
		{"contradiction", "PUT", "/v1/gpus/lab-card", card, []string{withKey, creating, `If-Match: *`}, 412, ""},
		{"a version that is none", "PUT", "/v1/gpus/lab-card", card, []string{withKey, `If-Match: "a`}, 400, ""},
		{"other versions than none", "PUT", "/v1/gpus/lab-card", card, []string{withKey, `If-None-Match: "user-1"`},
			400, ""},

		{"delete", "DELETE", "/v1/gpus/lab-card", "", []string{withKey, `If-Match: "user-1"`}, 204, ""},
		{"delete an old version", "DELETE", "/v1/gpus/lab-card", "", []string{withKey, `If-Match: "user-0"`}, 412, ""},
		{"delete without precondition", "DELETE", "/v1/gpus/lab-card", "", []string{withKey}, 428, ""},
		{"delete what is built in", "DELETE", "/v1/gpus/rtx-4070", "", []string{withKey, `If-Match: *`}, 409, ""},
		{"delete what is not there", "DELETE", "/v1/gpus/new", "", []string{withKey}, 404, ""},
		{"delete by an alias", "DELETE", "/v1/gpus/the%20lab's%20card", "", []string{withKey, `If-Match: *`}, 404, ""},
		{"delete a model that is built in", "DELETE", "/v1/models/openai-community/gpt2", "",
			[]string{withKey, `If-Match: *`}, 409, ""},

		{"another spelling of an id", "PUT", "/v1/gpus/RTX_4070", card, []string{withKey, creating}, 409, ""},
		{"an alias of a built-in card as an id", "PUT", "/v1/gpus/4090", card, []string{withKey, creating}, 409, ""},
		{"the driver's name of one", "PUT", "/v1/gpus/NVIDIA-A100-SXM4-80GB", card, []string{withKey, creating}, 409, ""},
		{"a size", "PUT", "/v1/gpus/24gb", card, []string{withKey, creating}, 409, ""},
		{"an instance type", "PUT", "/v1/gpus/p4d.24xlarge", card, []string{withKey, creating}, 409, ""},
		{"an alias of a built-in model as an id", "PUT", "/v1/models/gpt2", `{"nanogpt": {"n_layer": 1, "n_head": 1, ` +
			`"n_embd": 8}}`, []string{withKey, creating}, 409, ""},
		{"another spelling of one", "PUT", "/v1/models/GPT2", `{"nanogpt": {"n_layer": 1, "n_head": 1, "n_embd": 8}}`,
			[]string{withKey, creating}, 409, ""},
		{"the end of a built-in model's id", "PUT", "/v1/models/Llama-3.1-8B", `{"nanogpt": {"n_layer": 1, "n_head": 1, ` +
			`"n_embd": 8}}`, []string{withKey, creating}, 409, ""},
		{"that end under another organisation", "PUT", "/v1/models/lab/Llama-3.1-8B", `{"nanogpt": {"n_layer": 1, ` +
			`"n_head": 1, "n_embd": 8}}`, []string{withKey, creating}, 201, `"user-2"`},
		{"an id that is none", "PUT", "/v1/gpus/-x", card, []string{withKey, creating}, 422, ""},
		{"not JSON", "PUT", "/v1/gpus/new", `{`, []string{withKey, creating}, 400, ""},
		{"an unknown field", "PUT", "/v1/gpus/new", `{"name": "x", "memory_bytes": 1, "memory": 2}`,
			[]string{withKey, creating}, 400, ""},
		{"nothing", "PUT", "/v1/gpus/new", `{}`, []string{withKey, creating}, 422, ""},
		{"another id", "PUT", "/v1/gpus/new", `{"id": "old", "name": "x", "memory_bytes": 1}`,
			[]string{withKey, creating}, 422, ""},
		{"too much usable", "PUT", "/v1/gpus/new", `{"name": "x", "memory_bytes": 1, "usable_bytes": 2}`,
			[]string{withKey, creating}, 422, ""},
		{"a NUL", "PUT", "/v1/gpus/new", `{"name": "x\u0000", "memory_bytes": 1}`, []string{withKey, creating}, 422,
			""},
		{"an alias that is an id", "PUT", "/v1/gpus/new", `{"name": "x", "memory_bytes": 1, "aliases": ["RTX 4090"]}`,
			[]string{withKey, creating}, 422, ""},
		{"an alias of another user's entry", "PUT", "/v1/gpus/new",
			`{"name": "x", "memory_bytes": 1, "aliases": ["The Lab's card"]}`, []string{withKey, creating}, 422, ""},
		{"an alias of a built-in entry", "PUT", "/v1/gpus/new",
			`{"name": "x", "memory_bytes": 1, "aliases": ["NVIDIA GeForce RTX 4070 SUPER"]}`,
			[]string{withKey, creating}, 422, ""},
		{"a model that cannot be", "PUT", "/v1/models/lab/x",
			`{"family": "llama", "kind": "decoder", "layers": 2, "hidden": 100, "heads": 3, "vocab": 100}`,
			[]string{withKey, creating}, 422, ""},
		{"a model of no family", "PUT", "/v1/models/lab/x",
			`{"family": "none", "kind": "decoder", "layers": 2, "hidden": 64, "heads": 2}`, []string{withKey, creating},
			422, ""},
		{"a model", "PUT", "/v1/models/lab/x",
			`{"family": "llama", "kind": "decoder", "layers": 2, "hidden": 64, "heads": 2, "vocab": 100, "max_positions": 64}`, []string{withKey, creating}, 201, `"user-2"`},
		{"a form", "PUT", "/v1/gpus/new", "", []string{withKey, creating, "Content-Type: text/plain"}, 415, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := call(newDemo(t), c.method, c.target, c.body, c.headers...)
			if w.Code != c.status || w.Header().Get("Etag") != c.etag {
				t.Errorf("status %d, ETag %s; want %d, %s: %s", w.Code, w.Header().Get("Etag"), c.status, c.etag,
					w.Body)
			}
			if (c.status == 401) != (w.Header().Get("WWW-Authenticate") != "") {
				t.Errorf("status %d with WWW-Authenticate %q", c.status, w.Header().Get("WWW-Authenticate"))
			}
			if c.status == 201 && w.Header().Get("Location") != c.target {
				t.Errorf("Location %q", w.Header().Get("Location"))
			}
		})
	}
}

// An entry can be read, sent back as it is, changed and deleted, and answers follow.
func TestLifeOfAnEntry(t *testing.T) {
	h := newDemo(t)
	usable := func() string {
		w := call(h, "POST", "/v1/estimate",
			`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}, "gpus": ["rtx-4070"]}`)
		var answer struct {
			Versions struct{ Catalog string }
			GPUs     []struct {
				Usable int64 `json:"usable_bytes"`
			}
		}
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer.GPUs) != 1 {
			t.Fatalf("%v: %s", err, w.Body)
		}
		if got := strings.Count(answer.Versions.Catalog, "."); got != 1 {
			t.Errorf("the answer is from the catalog %s", answer.Versions.Catalog)
		}
		return fmt.Sprintf("%d by %s", answer.GPUs[0].Usable,
			answer.Versions.Catalog[:strings.IndexByte(answer.Versions.Catalog, '-')+4])
	}
	builtin := usable()
	read := call(h, "GET", "/v1/gpus/rtx-4070", "")
	if read.Header().Get("Etag") != `"builtin-1"` {
		t.Fatalf("ETag %s", read.Header().Get("Etag"))
	}
	if w := call(h, "GET", "/v1/gpus/rtx-4070", "", "If-None-Match: "+read.Header().Get("Etag")); w.Code != 304 ||
		w.Body.Len() != 0 {
		t.Errorf("status %d with %d bytes for what the client has", w.Code, w.Body.Len())
	}
	same := call(h, "PUT", "/v1/gpus/rtx-4070", read.Body.String(), withKey, `If-Match: "builtin-1"`)
	if same.Code != 200 {
		t.Fatalf("what was read cannot be sent back: %s", same.Body)
	}
	if got, want := strings.NewReplacer(`"builtin"`, `"user"`, `"revision":1`,
		`"revision":2`).Replace(read.Body.String()), same.Body.String(); got != want {
		t.Errorf("sent back as it was read, it is\n%s, not\n%s", want, got)
	}
	smaller := strings.Replace(read.Body.String(), `"usable_bytes":12576620544`, `"usable_bytes":1000000000`, 1)
	if w := call(h, "PUT", "/v1/gpus/rtx-4070", smaller, withKey, "If-Match: "+same.Header().Get("Etag")); w.Code != 200 {
		t.Fatalf("%s", w.Body)
	}
	if got := usable(); got != "1000000000 by "+migrations.CatalogRevision+".3" {
		t.Errorf("%s after the change", got)
	}
	if w := call(h, "DELETE", "/v1/gpus/rtx-4070", "", withKey, `If-Match: "user-3"`); w.Code != 204 {
		t.Fatalf("%s", w.Body)
	}
	if got, want := usable(), strings.Replace(builtin, migrations.CatalogRevision+".1", migrations.CatalogRevision+".4", 1); got != want {
		t.Errorf("%s after the delete, want %s", got, want)
	}
	// The version of an entry never comes back, though it was deleted in between.
	if w := call(h, "PUT", "/v1/gpus/rtx-4070", smaller, withKey, `If-Match: "builtin-1"`); w.Header().Get("Etag") != `"user-5"` {
		t.Errorf("%d, %s: %s", w.Code, w.Header().Get("Etag"), w.Body)
	}

	var history api.ChangeList
	var actions []string
	for token := ""; ; token = history.NextPageToken {
		w := call(h, "GET", "/v1/catalog/changes?id=rtx-4070&kind=gpu&page_size=3&page_token="+token, "", withKey)
		if token == "" {
			w = call(h, "GET", "/v1/catalog/changes?id=rtx-4070&kind=gpu&page_size=3", "", withKey)
		}
		history = api.ChangeList{}
		if err := json.Unmarshal(w.Body.Bytes(), &history); err != nil {
			t.Fatalf("%v: %s", err, w.Body)
		}
		for _, c := range history.Changes {
			actions = append(actions, fmt.Sprintf("%d %s by %s", c.Change, c.Action, c.By.Name))
		}
		if history.NextPageToken == "" {
			break
		}
	}
	if got, want := strings.Join(actions, ", "), "5 replace by ci, 4 delete by ci, 3 replace by ci, 2 replace by ci"; got != want {
		t.Errorf("history %s, want %s", got, want)
	}
}

// Pages put together are the list, also where a filter narrows it and an entry goes in between.
func TestPages(t *testing.T) {
	h := newDemo(t)
	list := func(query string) api.GPUList {
		w := call(h, "GET", "/v1/gpus?"+query, "")
		var l api.GPUList
		if err := json.Unmarshal(w.Body.Bytes(), &l); err != nil || w.Code != 200 {
			t.Fatalf("%s: %s", query, w.Body)
		}
		return l
	}
	for _, filter := range []string{"", "vendor=amd", "q=rtx-40", "q=nothing"} {
		all := list(filter)
		var got []string
		token := ""
		for range 200 {
			l := list(filter + "&page_size=7" + token)
			for _, g := range l.GPUs {
				got = append(got, g.ID)
			}
			if l.NextPageToken == "" {
				break
			}
			token = "&page_token=" + url.QueryEscape(l.NextPageToken)
		}
		var want []string
		for _, g := range all.GPUs {
			want = append(want, g.ID)
		}
		if strings.Join(got, " ") != strings.Join(want, " ") || all.NextPageToken != "" {
			t.Errorf("%q: %d entries in pages, %d at once", filter, len(got), len(want))
		}
	}
	for _, query := range []string{"page_size=0", "page_size=1001", "page_size=x", "page_token=%21",
		"page_token=LTEgeA"} {
		if w := call(h, "GET", "/v1/models?"+query, ""); w.Code != 400 {
			t.Errorf("%s has status %d", query, w.Code)
		}
	}
	end := list("page_size=3&page_token=" + "OTk5OTkgeA") // behind the end, and an entry that is gone
	if len(end.GPUs) != 0 || end.NextPageToken != "" {
		t.Errorf("%d entries behind the end", len(end.GPUs))
	}
}

// Without a database nothing can be changed, and clients are told so.
func TestChangesNeedADatabase(t *testing.T) {
	h := newAPI(api.Options{})
	for _, c := range [][2]string{{"PUT", "/v1/gpus/x"}, {"DELETE", "/v1/models/x"}, {"GET", "/v1/catalog/changes"}} {
		w := call(h, c[0], c[1], "", withKey, creating)
		if w.Code != 503 || w.Header().Get("Retry-After") == "" ||
			!strings.Contains(w.Body.String(), "without a database") {
			t.Errorf("%s %s: status %d, %s", c[0], c[1], w.Code, w.Body)
		}
	}
}

// A probe can ask whether changes would be taken, apart from whether answers are given.
func TestReadyForWrites(t *testing.T) {
	without, demo := newAPI(api.Options{}), newDemo(t)
	for _, c := range []struct {
		h      http.Handler
		target string
		status int
		want   string
	}{
		{without, "/readyz", 200, `"database":"none","writes":"refused"`},
		{without, "/readyz?for=answers", 200, `"writes":"refused"`},
		{without, "/readyz?for=writes", 503, `the database is none`},
		{without, "/readyz?for=fun", 400, `accepted: answers, writes`},
		{demo, "/readyz?for=writes", 200, `"database":"ok","writes":"accepted"`},
	} {
		if w := call(c.h, "GET", c.target, ""); w.Code != c.status || !strings.Contains(w.Body.String(), c.want) {
			t.Errorf("%s: status %d, no %s in %s", c.target, w.Code, c.want, w.Body)
		}
	}
}

// Whatever a user with a key sends as an entry is stored or refused, and a stored model
// can be asked about without a fault of the program.
func FuzzEntries(f *testing.F) {
	f.Add(false, card)
	f.Add(false, `{"name": "x", "memory_bytes": 1, "mig_profiles": [{"name": "1g.10gb", "memory_bytes": 1}], "aliases": ["a"], "alias_notes": {"a": "b"}}`)
	f.Add(true, `{"family": "llama", "kind": "decoder", "layers": 2, "hidden": 64, "heads": 2, "vocab": 100, "max_positions": 64}`)
	f.Add(true, `{"family": "deepseek_v3", "kind": "decoder", "layers": 2, "hidden": 64, "heads": 2, "vocab": 100, "moe": {"experts": 4, "top_k": 2, "expert_ffn": 8}, "mla": {"kv_lora_rank": 4}}`)
	f.Add(true, `{"family": "vit", "kind": "vision-encoder", "layers": 1, "hidden": 64, "heads": 2, "image_size": 32, "patch_size": 16}`)
	f.Add(true, `{"family": "gpt2", "kind": "decoder", "layers": 1, "hidden": 1, "heads": 1, "ffn": 1, "vocab": 1, "dropout": {"attention": 0.5}}`)
	h := newDemo(f)
	f.Fuzz(func(t *testing.T, model bool, body string) {
		target := "/v1/gpus/fuzzed"
		if model {
			target = "/v1/models/fuzzed"
		}
		w := call(h, "PUT", target, body, withKey, creating, "Content-Type: application/json")
		if w.Code >= 500 {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		if w.Code != 201 {
			return
		}
		defer call(h, "DELETE", target, "", withKey, "If-Match: *")
		for _, training := range []string{`"micro_batch": 2`,
			`"micro_batch": 1, "precision": "bf16", "gradient_checkpointing": "full", "sequence_length": 16`,
			`"micro_batch": 1, "lora": {"rank": 4}, "attention": "eager"`} {
			job := `{"model": {"preset": "fuzzed"}, "training": {` + training + `}, "gpus": ["rtx-4090"]}`
			if !model {
				job = `{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}, "gpus": ["fuzzed"]}`
			}
			if w := call(h, "POST", "/v1/estimate", job); w.Code >= 500 {
				t.Fatalf("%s: status %d: %s", job, w.Code, w.Body)
			}
		}
	})
}
