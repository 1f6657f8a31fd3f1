package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/openapi/demo"
	"github.com/vramplan/vramplan/service"
)

// example is one request and what came back. The answers are recorded, so that
// the document changes only when somebody means it to; a test sends every
// request again and compares the shape of the answers.
type example struct {
	Operation string `json:"operation"`
	Name      string `json:"name"`
	Summary   string `json:"summary"`
	// Request is the method and target.
	Request     string `json:"request"`
	ContentType string `json:"content_type,omitempty"`
	// Headers are sent besides. Examples that have any are about a database, and get a new one each.
	Headers map[string]string `json:"headers,omitempty"`
	// Body is a JSON value, or the text of another media type.
	Body json.RawMessage `json:"body,omitempty"`

	Status       int             `json:"status"`
	ResponseType string          `json:"response_type,omitempty"`
	Response     json.RawMessage `json:"response,omitempty"`
}

func readExamples(file string) ([]example, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var examples []example
	return examples, json.Unmarshal(b, &examples)
}

// recordExamples sends every request of the file to the service and writes down the answers.
func recordExamples(file string) error {
	examples, err := readExamples(file)
	if err != nil {
		return err
	}
	handler := api.New(service.New(service.EmbeddedCatalog()), api.Options{Version: "v1.0.0"})
	for i := range examples {
		if err := examples[i].recordOn(handler); err != nil {
			return fmt.Errorf("example %s/%s: %w", examples[i].Operation, examples[i].Name, err)
		}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(examples); err != nil {
		return err
	}
	return os.WriteFile(file, b.Bytes(), 0o644)
}

// maxText is how much of a page or of the metrics an example shows.
const maxText = 400

// sent is the body as it goes over the wire.
func (e *example) sent() []byte {
	var text string
	if json.Unmarshal(e.Body, &text) == nil {
		return []byte(text)
	}
	return e.Body
}

// ask sends the request to a handler.
func (e *example) ask(h http.Handler) *httptest.ResponseRecorder {
	method, target, _ := strings.Cut(e.Request, " ")
	r := httptest.NewRequest(method, target, bytes.NewReader(e.sent()))
	if e.ContentType != "" {
		r.Header.Set("Content-Type", e.ContentType)
	}
	for name, value := range e.Headers {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// recordOn records the answer of a handler, or of a demonstration where the example is about
// a database.
func (e *example) recordOn(h http.Handler) (err error) {
	if len(e.Headers) == 0 {
		return e.record(h)
	}
	folder, err := os.MkdirTemp("", "demo")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	s, end, err := demo.New(context.Background(), folder)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	return e.record(api.New(s, api.Options{Version: "v1.0.0"}))
}

func (e *example) record(h http.Handler) error {
	w := e.ask(h)
	var err error
	e.Status = w.Code
	if w.Body.Len() == 0 {
		e.ResponseType, e.Response = "", nil
		return nil
	}
	if e.ResponseType, _, err = mime.ParseMediaType(w.Header().Get("Content-Type")); err != nil {
		return err
	}
	switch text := w.Body.String(); {
	case e.Operation == "openapi" && e.Status == http.StatusOK:
		e.Response = json.RawMessage(`{"openapi": "3.1.0"}`) // not the document within itself
	case e.ResponseType == "application/json", e.ResponseType == problem.ContentType:
		e.Response = json.RawMessage(strings.TrimSpace(text))
	default:
		if len(text) > maxText && e.ResponseType != "application/x-ndjson" {
			text = text[:strings.LastIndexByte(text[:maxText], '\n')+1] + "…"
		}
		e.Response, err = quoted(text)
	}
	return err
}

// quoted is text as JSON, with its < and > as they are.
func quoted(text string) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(text)
	return bytes.TrimSpace(b.Bytes()), err
}

// addTo puts the example into its operation, by reference to the shared
// examples. What is refused is no example of a request, so a problem carries the
// body that led to it.
func (e *example) addTo(op, shared object) error {
	key := e.Operation + "." + e.Name
	refer := func(content object, mediaType, suffix string, value object) error {
		media, ok := content[mediaType].(object)
		if !ok {
			return fmt.Errorf("example %s: the document does not say that this is sent as %s", key, mediaType)
		}
		examples, _ := media["examples"].(object)
		if examples == nil {
			examples = object{}
			media["examples"] = examples
		}
		shared[key+suffix] = value
		examples[e.Name] = object{"$ref": "#/components/examples/" + key + suffix}
		return nil
	}
	answer := object{"summary": e.Summary, "value": e.Response, "x-request": e.Request}
	if len(e.Headers) > 0 {
		answer["x-request-headers"] = e.Headers
	}
	if e.Body != nil {
		answer["x-request-type"] = e.ContentType
		if e.Status < 400 {
			content := op["requestBody"].(object)["content"].(object)
			if err := refer(content, e.ContentType, ".request", object{"summary": e.Summary, "value": e.Body,
				"x-request": e.Request}); err != nil {
				return err
			}
			answer["x-request-body"] = object{"$ref": "#/components/examples/" + key + ".request"}
		} else {
			answer["x-request-body"] = object{"value": e.Body}
		}
	}
	response, ok := op["responses"].(object)[strconv.Itoa(e.Status)].(object)
	if !ok {
		return fmt.Errorf("example %s: the document does not have the status %d", key, e.Status)
	}
	if e.ResponseType == "" { // there is nothing to show but the request that led to it
		response["x-request"], response["x-request-headers"] = e.Request, e.Headers
		return nil
	}
	return refer(response["content"].(object), e.ResponseType, "", answer)
}
