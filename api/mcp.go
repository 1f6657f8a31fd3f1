package api

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"runtime/debug"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/vramplan/vramplan/api/assistant"
	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service/decision"
)

// Message is one message of JSON-RPC 2.0, as the Model Context Protocol has them.
type Message struct {
	Version string `json:"jsonrpc" example:"2.0"`
	// ID is missing of notifications, which are answered with 202.
	ID     any    `json:"id,omitempty"`
	Method string `json:"method,omitempty" example:"tools/call"`
	// Params are an object; what a method cannot read of it is answered with an error of JSON-RPC.
	Params any `json:"params,omitempty"`
}

// Reply answers a [Message].
type Reply struct {
	Version string         `json:"jsonrpc" example:"2.0"`
	ID      any            `json:"id,omitempty"`
	Result  map[string]any `json:"result,omitempty"`
	Error   map[string]any `json:"error,omitempty"`
}

// mcp answers an assistant.
//
//	@Summary		Model Context Protocol
//	@Description	Tools and prompts for assistants (modelcontextprotocol.io), by streamable HTTP: one JSON-RPC message a request, answered in JSON. There are no sessions and no streams. Accept names application/json and text/event-stream, as the protocol has it. tools/list names the tools with their schemas; each asks the routes beside this one, with the limits of its client.
//	@ID				mcp
//	@Tags			assistants
//	@Accept			json
//	@Produce		json
//	@Param			message	body		Message	true	"The message"
//	@Success		200		{object}	Reply
//	@Success		202		"A notification was taken"
//	@Failure		400,403,404,408,413,415,422,429,500,503	{object}	problem.Problem
//	@Router			/mcp [post]
func (a *API) mcp() endpoint {
	serve := sync.OnceValue(func() http.Handler {
		routes := map[string]http.Handler{}
		for _, route := range Routes() {
			if strings.HasPrefix(route.Path, "/v1/") {
				routes[route.Method+" "+route.Path] = a.handle(route, route.handle(a))
			}
		}
		server := assistant.New(assistant.Options{Version: a.options.Version,
			Ask: func(ctx context.Context, method, path string, body []byte) ([]byte, error) {
				return a.askedWithin(ctx, routes, method, path, body)
			},
			Record: func(ctx context.Context, d *decision.Record) {
				if outer, ok := ctx.Value(withinKey{}).(*within); ok {
					a.record(outer.request, d)
				}
			}})
		return mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server },
			&mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true, MaxRequestBodyBytes: -1,
				// Behind a proxy on this host every name is another than localhost.
				DisableLocalhostProtection: len(a.options.Proxies) > 0, PropagateRequestCancellation: true})
	})
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		body, release, err := a.readJob(w, r)
		if err != nil {
			return nil, err
		}
		defer release()
		if err := assistant.Single(body); err != nil {
			return nil, err
		}
		in := r.Clone(context.WithValue(r.Context(), withinKey{}, &within{w, r}))
		in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		said := &collected{ResponseWriter: w, header: http.Header{}, status: http.StatusOK}
		serve().ServeHTTP(said, in)
		return said.answer()
	}
}

// within is the request that an assistant's question came with: what it asks of other routes is its client's.
type within struct {
	writer  http.ResponseWriter
	request *http.Request
}

type withinKey struct{}

// askedWithin asks another route for the client of an assistant's request, which was counted already. It ends with that
// request, and a panic of it ends here: the protocol's server has goroutines of its own.
func (a *API) askedWithin(ctx context.Context, routes map[string]http.Handler, method, path string,
	body []byte) (answer []byte, err error) {
	outer, ok := ctx.Value(withinKey{}).(*within)
	if !ok {
		return nil, errors.New("the question belongs to no request")
	}
	u, err := url.ParseRequestURI(path)
	if err != nil {
		return nil, err
	}
	handler, ok := routes[method+" "+u.Path]
	if !ok {
		return nil, problem.New(problem.NotFound, "%s %s is not a resource of this service.", method, u.Path)
	}
	r := outer.request.Clone(outer.request.Context())
	r.Method, r.URL, r.RequestURI, r.Body, r.ContentLength = method, u, path, http.NoBody, 0
	r.Header = http.Header{}
	for _, name := range []string{"Authorization", requestIDHeader} {
		if given, ok := outer.request.Header[name]; ok {
			r.Header[name] = given
		}
	}
	if body != nil {
		r.Header["Content-Type"] = contentTypeJSON
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}
	said := &collected{ResponseWriter: outer.writer, header: http.Header{}, status: http.StatusOK}
	defer func() {
		if cause := recover(); cause != nil {
			a.panicked(r, cause, debug.Stack())
			answer, err = nil, problem.From(errPanicked)
		}
	}()
	handler.ServeHTTP(said, r)
	if said.status != http.StatusOK {
		return nil, said.problem()
	}
	return said.body.Bytes(), nil
}

// collected keeps what a handler answers. What it sets of the connection it sets of the client's.
type collected struct {
	http.ResponseWriter
	header http.Header
	status int
	wrote  bool
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (c *collected) Header() http.Header { return c.header }

// WriteHeader implements http.ResponseWriter.
func (c *collected) WriteHeader(status int) {
	if !c.wrote {
		c.status, c.wrote = status, true
	}
}

// Write implements http.ResponseWriter.
func (c *collected) Write(b []byte) (int, error) {
	c.wrote = true
	return c.body.Write(b)
}

// Unwrap is for http.ResponseController.
func (c *collected) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// answer is what was collected, as an endpoint gives it.
func (c *collected) answer() (any, error) {
	switch {
	case c.status >= http.StatusBadRequest:
		return nil, c.problem()
	case c.body.Len() == 0:
		return reply{status: c.status}, nil
	}
	return reply{status: c.status, body: raw{contentType: "application/json", body: c.body.Bytes()}}, nil
}

// problem is a refusal that was collected: the API's own, or a line of text of the protocol's server.
func (c *collected) problem() *problem.Problem {
	if p := problem.Parse(c.header, c.body.Bytes()); p != nil {
		return p
	}
	kind := problem.InvalidDocument
	switch c.status {
	case http.StatusForbidden:
		kind = problem.Forbidden
	case http.StatusUnsupportedMediaType:
		kind = problem.UnsupportedMediaType
	case http.StatusRequestEntityTooLarge:
		kind = problem.TooLarge
	case statusClientGone:
		return problem.From(context.Canceled)
	}
	if c.status >= http.StatusInternalServerError {
		return problem.From(errors.New("the protocol's server: " + clip(c.body.String())))
	}
	return problem.New(kind, "%s.", strings.TrimSuffix(clip(strings.TrimSpace(c.body.String())), "."))
}
