package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
)

// maxAnswerBytes bounds what is read of one answer. A plan of a highly composite
// batch for the whole catalog is well below a tenth of it.
const maxAnswerBytes = 64 << 20

// serverFlags choose who answers: this process, or a service.
type serverFlags struct {
	Server  string        `placeholder:"URL" setting:"VRAMPLAN_SERVER" help:"Ask this service instead of answering locally."`
	Timeout time.Duration `default:"10s" setting:"VRAMPLAN_TIMEOUT" help:"How long an answer of --server may take."`
}

// backend asks the HTTP API, of a service or of this process. Local answers go
// through the same handlers without a network in between, so that the two are
// the same to the byte, errors included.
type backend struct {
	base   string
	client *http.Client
}

func (f *serverFlags) backend(t *terminal) (*backend, error) {
	if f.Server == "" {
		return localBackend(t, service.EmbeddedCatalog(), nil), nil
	}
	base, err := url.Parse(f.Server)
	if err != nil || base.Host == "" || (base.Scheme != "http" && base.Scheme != "https") {
		return nil, usage("--server %q is not a URL such as http://127.0.0.1:8080", f.Server)
	}
	if f.Timeout <= 0 {
		return nil, usage("--timeout %s: must be more than nothing", f.Timeout)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = workers()
	return &backend{
		base:   strings.TrimSuffix(base.String(), "/"),
		client: &http.Client{Transport: transport, Timeout: f.Timeout},
	}, nil
}

// localBackend answers in this process, with a calibration where there is one.
func localBackend(t *terminal, c *catalog.Catalog, with *service.Calibration) *backend {
	return &backend{base: "http://localhost", client: &http.Client{Transport: inProcess{localHandler(t, c, with)}}}
}

// refusal is a problem that the API answered with.
type refusal struct {
	problem.Problem
	// body is the answer as it came.
	body []byte
}

// Error says everything that is wrong, one field a line.
func (p *refusal) Error() string {
	if len(p.Errors) == 0 && p.Detail != "" { // otherwise it counts the errors
		return screen.Plain(p.Detail)
	}
	var s strings.Builder
	s.WriteString(screen.Plain(p.Title))
	for _, e := range p.Errors {
		pointer := e.Pointer
		if pointer == "" {
			pointer = "the document"
		}
		fmt.Fprintf(&s, "\n  %s: %s", screen.Plain(pointer), screen.Plain(e.Detail))
	}
	return s.String()
}

// undecided says whether this is a question that vramplan cannot answer, as
// opposed to one that was asked wrongly: a name that it does not know, an option
// that it does not model, a fault of its own.
func (p *refusal) undecided() bool {
	switch p.Status {
	case http.StatusUnprocessableEntity:
		for _, e := range p.Errors {
			if e.Code != "unknown_gpu" && e.Code != "unknown_model" && e.Code != "unsupported" {
				return false
			}
		}
		return len(p.Errors) > 0
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return false
	}
	return true
}

// get asks for a resource; its error is a *refusal where the API says no.
func (b *backend) get(ctx context.Context, path string) ([]byte, error) {
	return b.send(ctx, apiRequest{method: http.MethodGet, path: path})
}

// post sends one job document.
func (b *backend) post(ctx context.Context, path string, doc document) ([]byte, error) {
	var body io.Reader = bytes.NewReader(doc.text)
	if doc.tooLong {
		// The API refuses by size alone, so it need not see the rest of the line.
		body = io.LimitReader(spaces{}, maxDocumentBytes+1)
	}
	return b.send(ctx, apiRequest{method: http.MethodPost, path: path, body: body})
}

// apiRequest is what the API is asked.
type apiRequest struct {
	method, path string
	// key is the API key, and known the ETag of what the request is to change; empty where none is needed.
	key, known string
	// body is nil where there is none.
	body io.Reader
}

// send returns the answer to a request; its error is a *refusal where the API says no.
func (b *backend) send(ctx context.Context, r apiRequest) ([]byte, error) {
	answer, _, err := b.exchange(ctx, r)
	return answer, err
}

// exchange is send with the header of the answer.
func (b *backend) exchange(ctx context.Context, r apiRequest) ([]byte, http.Header, error) {
	path := r.path
	req, err := http.NewRequestWithContext(ctx, r.method, b.base+path, r.body)
	if err != nil {
		return nil, nil, err
	}
	if r.key != "" {
		req.Header.Set("Authorization", "Bearer "+r.key)
	}
	if r.known != "" {
		req.Header.Set("If-Match", r.known)
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	req.Header.Set("User-Agent", "vramplan/"+buildVersion())
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	res, err := b.client.Do(req)
	if err != nil {
		return nil, nil, fmt.Errorf("no answer: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes+1))
	if err != nil {
		return nil, nil, fmt.Errorf("no answer: %w", err)
	}
	if len(answer) > maxAnswerBytes {
		return nil, nil, fmt.Errorf("no answer: %s sent more than %s", b.base, screen.Size(maxAnswerBytes))
	}
	answer = bytes.TrimSpace(answer)
	if res.StatusCode < 400 {
		if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusCreated {
			return nil, nil, fmt.Errorf("no answer: %s%s says %s", b.base, path, res.Status)
		}
		return answer, res.Header, nil
	}

	if kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type")); kind == problem.ContentType {
		p := &refusal{body: answer}
		if err := json.Unmarshal(answer, &p.Problem); err != nil {
			return nil, nil, fmt.Errorf("no answer: %s%s says %s with a body that is not a problem: %w", b.base, path,
				res.Status, err)
		}
		p.Status = res.StatusCode
		if _, here := b.client.Transport.(inProcess); here {
			ofThisProcess(&p.Problem)
		}
		return nil, nil, p
	}
	// Something in between answered, such as a proxy: it is no judge of a job.
	return nil, nil, fmt.Errorf("no answer: %s%s says %s", b.base, path, res.Status)
}

// asProblem finds the API's refusal in an error.
func asProblem(err error) (*refusal, bool) {
	return errors.AsType[*refusal](err)
}

// spaces is an endless blank document.
type spaces struct{}

func (spaces) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	return len(b), nil
}

// inProcess is a transport without a network: the handler is called where the
// request is sent.
type inProcess struct{ handler http.Handler }

// RoundTrip implements http.RoundTripper.
func (t inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	// As behind a network, the handler learns that its client hung up, not why: a client that waits no longer is no
	// fault of the service's, and leaves no line in its log.
	ctx, hangUp := context.WithCancel(context.WithoutCancel(req.Context()))
	defer hangUp()
	defer context.AfterFunc(req.Context(), hangUp)()
	in := req.Clone(ctx) // a transport must not change the request
	in.RequestURI = in.URL.RequestURI()
	in.RemoteAddr = "127.0.0.1:0"
	switch {
	case in.Body == nil:
		in.Body = http.NoBody
	case in.ContentLength == 0: // a client's way to say that it does not know
		in.ContentLength = -1
	}
	w := &response{header: http.Header{}, status: http.StatusOK}
	t.handler.ServeHTTP(w, in)
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	return &http.Response{
		Status:        strconv.Itoa(w.status) + " " + http.StatusText(w.status),
		StatusCode:    w.status,
		Proto:         "HTTP/1.1",
		ProtoMajor:    1,
		ProtoMinor:    1,
		Header:        w.header,
		Body:          io.NopCloser(&w.body),
		ContentLength: int64(w.body.Len()),
		Request:       req,
	}, nil
}

// response collects what a handler writes.
type response struct {
	header http.Header
	body   bytes.Buffer
	status int
	wrote  bool
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(status int) {
	if !w.wrote && status >= 200 {
		w.status, w.wrote = status, true
	}
}

func (w *response) Write(b []byte) (int, error) {
	w.wrote = true
	return w.body.Write(b)
}
