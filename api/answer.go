package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/workplace"
)

// endpoint handles a request and returns what to answer: any value that encodes
// as JSON, or a [raw], or a [reply], or nil where it has written the answer itself.
type endpoint func(w http.ResponseWriter, r *http.Request, q query) (any, error)

// raw is an answer that is bytes already.
type raw struct {
	contentType string
	body        []byte
	// policy is the Content-Security-Policy of a page; empty for data.
	policy string
	// framed pages may be shown in frames of other origins, which policy names.
	framed bool
}

// reply is an answer with a status of its own. Without a body it is the status alone.
type reply struct {
	status int
	body   any
}

// contentTypeJSON is shared by all answers; net/http only reads it.
var contentTypeJSON = []string{"application/json"}

// handle makes an HTTP handler of an endpoint. This is the one place that writes answers.
func (a *API) handle(route Route, e endpoint) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q, err := parseQuery(r.URL.RawQuery, route.Query)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		// Reading, working and writing are one request in the turns for the cores.
		r = r.WithContext(workplace.For(r.Context(), clientOf(r.Context()), routeOf(r)))
		answer, err := e(w, r, q)
		if err != nil {
			a.refuse(w, r, err)
			return
		}
		status := http.StatusOK
		if own, ok := answer.(reply); ok {
			if status, answer = own.status, own.body; answer == nil {
				w.WriteHeader(status)
				return
			}
		}
		switch answer := answer.(type) {
		case nil:
		case raw:
			h := w.Header()
			h.Set("Content-Type", answer.contentType)
			if answer.policy != "" {
				h.Set("Content-Security-Policy", answer.policy)
			}
			if answer.framed {
				h.Del("X-Frame-Options") // it knows no list
			}
			a.send(w, r, status, answer.body)
		default:
			b, err := a.encode(r, answer)
			if err != nil {
				a.refuse(w, r, err)
				return
			}
			defer b.release()
			booked := a.hold(w, true)
			defer booked.Release()
			if !booked.Take(b.Len()) {
				a.refuse(w, r, a.shed("memory"))
				return
			}
			w.Header()["Content-Type"] = contentTypeJSON
			a.send(w, r, status, b.Bytes())
		}
	})
}

func (a *API) send(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	a.place.Sent(senderOf(r), len(body))
	w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	if status != http.StatusOK {
		w.WriteHeader(status)
	}
	_, _ = w.Write(body) // a client that is gone needs no answer
}

// refuse answers with a problem, and logs the cause where it is ours.
func (a *API) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if errors.Is(err, context.Canceled) && r.Context().Err() != nil {
		w.WriteHeader(statusClientGone)
		return
	}
	p := *problem.From(a.noted(r, err))
	if p.Code == problem.Overloaded.Code {
		a.place.Refused(r.Context(), senderOf(r))
	}
	p.Instance = clip(r.URL.Path)
	if cause := p.Unwrap(); cause != nil {
		failure(r).Err(cause).Str("code", p.Code).Msg("no answer")
	}
	p.Write(w)
}

// statusClientGone is for the log alone, after nginx: nobody is left to read it.
const statusClientGone = 499

// encoded is a pooled buffer with an encoder that writes to it.
type encoded struct {
	bytes.Buffer
	encoder *json.Encoder
}

// maxPooledBytes keeps one large answer from staying in memory for ever.
const maxPooledBytes = 256 << 10

var encodedPool = sync.Pool{New: func() any {
	b := new(encoded)
	b.encoder = json.NewEncoder(&b.Buffer)
	b.encoder.SetEscapeHTML(false)
	return b
}}

// encode writes v as JSON on one line, with a line feed at its end.
func encode(v any) (*encoded, error) {
	b := encodedPool.Get().(*encoded)
	b.Reset()
	if err := b.encoder.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the answer: %w", err)
	}
	return b, nil
}

// encode is encode with a core of the client's where the answer may be long: one of megabytes takes as long as an
// estimate.
func (a *API) encode(r *http.Request, v any) (*encoded, error) {
	if !isShort(v) {
		defer a.place.Core(r.Context())()
	}
	return encode(v)
}

// isShort says that an answer has some kibibytes at most.
func isShort(v any) bool {
	const cards = 16
	switch v := v.(type) {
	case *estimator.Result:
		return len(v.GPUs) <= cards && len(v.Tensors) == 0 && v.Timeline == nil
	case briefly:
		return len(v.GPUs) <= cards
	case verdict:
		return len(v.GPUs) <= cards
	case Readiness:
		return true
	}
	return false
}

func (b *encoded) release() {
	if b.Cap() <= maxPooledBytes {
		encodedPool.Put(b)
	}
}

// clip shortens what a client sent before it is sent back.
func clip(s string) string {
	const longest = 200
	if len(s) <= longest {
		return s
	}
	return s[:longest] + "…"
}
