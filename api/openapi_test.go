package api_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/openapi"
	"github.com/vramplan/vramplan/openapi/demo"
)

// specification is the part of the OpenAPI document that the tests look at.
type specification struct {
	OpenAPI string                          `json:"openapi"`
	Paths   map[string]map[string]operation `json:"paths"`
	Tags    []struct{ Name string }         `json:"tags"`

	Components struct {
		Schemas  map[string]any      `json:"schemas"`
		Examples map[string]*example `json:"examples"`
	} `json:"components"`
}

type operation struct {
	OperationID string   `json:"operationId"`
	AlsoAt      string   `json:"x-also-at"`
	Summary     string   `json:"summary"`
	Tags        []string `json:"tags"`
	Parameters  []struct{ Name, In string }
	RequestBody struct {
		Content map[string]media `json:"content"`
	} `json:"requestBody"`
	Responses map[string]struct {
		Content map[string]media `json:"content"`
	} `json:"responses"`
}

type media struct {
	Schema json.RawMessage `json:"schema"`
	// Line is what a line of NDJSON is.
	Line     json.RawMessage `json:"x-itemSchema"`
	Examples map[string]struct {
		Ref string `json:"$ref"`
	} `json:"examples"`
}

type example struct {
	Value       json.RawMessage `json:"value"`
	Request     string          `json:"x-request"`
	RequestType string          `json:"x-request-type"`
	// Headers are sent besides; examples with any are about a database.
	Headers     map[string]string `json:"x-request-headers"`
	RequestBody *struct {
		Ref   string          `json:"$ref"`
		Value json.RawMessage `json:"value"`
	} `json:"x-request-body"`
}

const exampleReferences = "#/components/examples/"

func document(t *testing.T) specification {
	t.Helper()
	var d specification
	if err := json.Unmarshal(openapi.Document, &d); err != nil {
		t.Fatal(err)
	}
	return d
}

func TestEveryRouteIsDocumented(t *testing.T) {
	d := document(t)
	var served, documented []string
	for _, r := range api.Routes() {
		served = append(served, r.Method+" "+r.Path)
		op := d.Paths[r.Path][strings.ToLower(r.Method)]
		var query []string
		for _, p := range op.Parameters {
			if p.In == "query" {
				query = append(query, p.Name)
			}
		}
		slices.Sort(query)
		if want := slices.Sorted(slices.Values(r.Query)); !slices.Equal(query, want) {
			t.Errorf("%s %s takes the parameters %q, documented are %q", r.Method, r.Path, want, query)
		}
		if op.AlsoAt != r.Alias {
			t.Errorf("%s %s is also at %q, documented is %q", r.Method, r.Path, r.Alias, op.AlsoAt)
		}
	}
	for path, item := range d.Paths {
		for method := range item {
			documented = append(documented, strings.ToUpper(method)+" "+path)
		}
	}
	slices.Sort(served)
	slices.Sort(documented)
	if !slices.Equal(served, documented) {
		t.Errorf("served %q\ndocumented %q", served, documented)
	}
}

func TestEveryOperationIsComplete(t *testing.T) {
	d := document(t)
	if d.OpenAPI != "3.1.0" {
		t.Errorf("the document is OpenAPI %q", d.OpenAPI)
	}
	tags := map[string]bool{}
	for _, tag := range d.Tags {
		tags[tag.Name] = true
	}
	ids := map[string]string{}
	for path, item := range d.Paths {
		for method, op := range item {
			at := method + " " + path
			if op.OperationID == "" || ids[op.OperationID] != "" {
				t.Errorf("%s: operationId %q is empty or also that of %s", at, op.OperationID, ids[op.OperationID])
			}
			ids[op.OperationID] = at
			if op.Summary == "" || len(op.Tags) != 1 || !tags[op.Tags[0]] {
				t.Errorf("%s: summary %q, tags %q", at, op.Summary, op.Tags)
			}
			good, bad := false, false
			for status, r := range op.Responses {
				good = good || status == "204" // there is nothing to show
				for kind, m := range r.Content {
					good = good || status < "300" && len(m.Examples) > 0
					bad = bad || status >= "400" && len(m.Examples) > 0
					if status >= "400" && kind != "application/problem+json" {
						t.Errorf("%s: status %s is %s", at, status, kind)
					}
				}
			}
			if !good || !bad {
				t.Errorf("%s: an example of an answer: %v, of a problem: %v", at, good, bad)
			}
		}
	}
}

// Every example is sent to the service. The answer must have the documented
// status and type, and both it and the documented answer must be of the
// documented shape. Numbers may differ: they are the estimator's.
func TestEveryExampleIsTrue(t *testing.T) {
	d := document(t)
	schemas := compile(t)
	h := newAPI(api.Options{Version: "v1.0.0"})
	used := map[string]bool{}
	for path, item := range d.Paths {
		for method, op := range item {
			for kind, m := range op.RequestBody.Content {
				for name, ref := range m.Examples {
					key := strings.TrimPrefix(ref.Ref, exampleReferences)
					used[key] = true
					if kind == "application/json" {
						schemas.check(t, key, m.Schema, d.Components.Examples[key].Value)
					}
					_, ok := op.Responses["200"].Content[kind].Examples[name]
					_, created := op.Responses["201"].Content[kind].Examples[name]
					if !ok && !created {
						t.Errorf("%s %s: the request %s has no answer of the same name", method, path, name)
					}
				}
			}
			for status, r := range op.Responses {
				for kind, m := range r.Content {
					for name, ref := range m.Examples {
						key := strings.TrimPrefix(ref.Ref, exampleReferences)
						used[key] = true
						t.Run(op.OperationID+"/"+name, func(t *testing.T) {
							e := d.Components.Examples[key]
							h := h
							if len(e.Headers) > 0 {
								h = newDemo(t)
							}
							w := send(t, h, d, e)
							if got, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";"); fmt.Sprint(w.Code) != status || got != kind {
								t.Fatalf("%s: status %d and %s, documented are %s and %s: %.500s", e.Request, w.Code,
									got, status, kind, w.Body)
							}
							if strings.HasSuffix(kind, "json") && kind != "application/x-ndjson" {
								schemas.check(t, "the documented answer", m.Schema, e.Value)
								schemas.check(t, "the answer", m.Schema, w.Body.Bytes())
							}
							if kind == "application/x-ndjson" {
								if len(m.Line) == 0 {
									t.Fatal("it is not documented what a line is")
								}
								for line := range bytes.Lines(w.Body.Bytes()) {
									schemas.check(t, "a line of the answer", m.Line, line)
								}
							}
						})
					}
				}
			}
		}
	}
	for key := range d.Components.Examples {
		if !used[key] {
			t.Errorf("the example %s is not used", key)
		}
	}
}

func send(t *testing.T, h http.Handler, d specification, e *example) *httptest.ResponseRecorder {
	t.Helper()
	var body []byte
	if b := e.RequestBody; b != nil {
		body = b.Value
		if b.Ref != "" {
			body = d.Components.Examples[strings.TrimPrefix(b.Ref, exampleReferences)].Value
		}
		var text string
		if json.Unmarshal(body, &text) == nil {
			body = []byte(text)
		}
	}
	method, target, _ := strings.Cut(e.Request, " ")
	r := httptest.NewRequest(method, target, bytes.NewReader(body))
	if e.RequestType != "" {
		r.Header.Set("Content-Type", e.RequestType)
	}
	for name, value := range e.Headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// newDemo is the API on a new database with a key and an entry of a user's.
func newDemo(t testing.TB) *api.API {
	t.Helper()
	s, end, err := demo.New(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	})
	return api.New(s, api.Options{Version: "v1.0.0"})
}

// schemas compiles parts of the document as JSON Schema, which OpenAPI 3.1 schemas are.
type schemas struct{ compiler *jsonschema.Compiler }

func compile(t *testing.T) schemas {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(openapi.Document))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("openapi.json", doc); err != nil {
		t.Fatal(err)
	}
	return schemas{c}
}

func (s schemas) check(t *testing.T, what string, schema json.RawMessage, value []byte) {
	t.Helper()
	var ref struct {
		Ref string `json:"$ref"`
	}
	if err := json.Unmarshal(schema, &ref); err != nil {
		t.Fatal(err)
	}
	if ref.Ref == "" {
		return // any value
	}
	compiled, err := s.compiler.Compile("openapi.json" + ref.Ref)
	if err != nil {
		t.Fatalf("%s: %v", ref.Ref, err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if err := compiled.Validate(v); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// The generator of the document is no part of the program.
func TestGeneratorIsNotLinked(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./", "../cmd/vramplan").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for _, banned := range []string{"swaggo", "kin-openapi", "santhosh-tekuri", "net/http/httptest", "testing"} {
		for dep := range strings.FieldsSeq(string(out)) {
			if strings.Contains(dep, banned) {
				t.Errorf("the program links %s", dep)
			}
		}
	}
}
