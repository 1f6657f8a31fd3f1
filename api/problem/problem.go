// Package problem turns errors into the error bodies of the API: problem
// details (RFC 9457), with every wrong field of a document at once.
//
// Equal requests get equal bodies: nothing in a problem depends on the time or
// on which request it was. The id of the request is in the X-Request-Id header
// and in the log.
package problem

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/workplace"
)

// ContentType is the media type of a problem.
const ContentType = "application/problem+json"

// Problem is the body of every answer that is not a success.
type Problem struct {
	// Type is a relative reference: the service itself explains each problem
	// there. It is stable.
	Type string `json:"type" example:"/problems/invalid_job"`
	// Title is the same for every problem of a type.
	Title  string `json:"title" example:"The job has values that cannot be accepted"`
	Status int    `json:"status" example:"422"`
	// Detail says what is wrong this time.
	Detail string `json:"detail"`
	// Instance is the path that was asked for.
	Instance string `json:"instance,omitempty" example:"/v1/estimate"`
	// Code is the type's last part, for programs.
	Code string `json:"code" example:"invalid_job"`
	// Errors are the wrong fields of the document, all of them, sorted by pointer.
	Errors []invalid.Field `json:"errors,omitempty"`
	// Suggestions are ids that may have been meant.
	Suggestions []string `json:"suggestions,omitempty"`

	// RetryAfterSeconds becomes the Retry-After header.
	RetryAfterSeconds int `json:"-"`
	// cause is what made the problem; for the log.
	cause error
}

// Error is the problem in one line.
func (p *Problem) Error() string {
	if p.cause != nil {
		return fmt.Sprintf("%s: %v", p.Code, p.cause)
	}
	return p.Code + ": " + p.Detail
}

// Unwrap is the cause, for logs.
func (p *Problem) Unwrap() error { return p.cause }

// New makes a problem of a kind.
func New(k Kind, format string, args ...any) *Problem {
	return &Problem{
		Type:   "/problems/" + k.Code,
		Title:  k.Title,
		Status: k.Status,
		Detail: fmt.Sprintf(format, args...),
		Code:   k.Code,
	}
}

// From turns any error into a problem. What it does not know is an internal
// error, whose text stays in the log.
func From(err error) *Problem {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p
	}
	if bad, ok := errors.AsType[*invalid.Error](err); ok {
		return fromInvalid(bad, InvalidJob)
	}
	for _, busy := range []struct {
		why    error
		detail string
		retry  int
	}{
		{workplace.ErrShed, "The service has as many jobs as it was set to take at once, and as many waiting.", 1},
		{workplace.ErrFullOfBytes, "The service holds as many bytes of documents and answers as it was set to hold at " +
			"once.", 1},
		{workplace.ErrGivenUp, "The service was near the memory that it may have, and this was the job that took most " +
			"of it. Ask again, or ask for less at once.", 5},
	} {
		if errors.Is(err, busy.why) {
			p := New(Overloaded, "%s", busy.detail)
			p.RetryAfterSeconds = busy.retry
			return p
		}
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return overloaded(err, "The answer took too long.")
	}
	var failure *service.Error
	if errors.As(err, &failure) {
		switch failure.Code {
		case service.CodeNotFound:
			p := New(NotFound, "%s", failure.Message)
			p.Suggestions = failure.Suggestions
			return p
		case service.CodeOverloaded:
			return overloaded(err, failure.Message)
		case service.CodeUnavailable:
			p := New(Unavailable, "%s", failure.Message)
			p.cause, p.RetryAfterSeconds = err, 5
			return p
		}
		if kind, ok := refusals[failure.Code]; ok {
			p := New(kind, "%s", failure.Message)
			p.Suggestions = failure.Suggestions
			return p
		}
	}
	p := New(Internal, "The service failed. The request id in the X-Request-Id header leads to the cause in its log.")
	p.cause = err
	return p
}

func overloaded(cause error, detail string) *Problem {
	p := New(Overloaded, "%s", detail)
	p.cause, p.RetryAfterSeconds = cause, 1
	return p
}

// refusals are failures whose message says it all.
var refusals = map[service.Code]Kind{
	service.CodeUnauthorized:         Unauthorized,
	service.CodeForbidden:            Forbidden,
	service.CodeConflict:             Conflict,
	service.CodeKeyReused:            KeyReused,
	service.CodeCalibration:          UnknownCalibration,
	service.CodePreconditionFailed:   PreconditionFailed,
	service.CodePreconditionRequired: PreconditionRequired,
}

// Of makes what is wrong with a document a problem of a kind, and leaves other errors as they are.
func Of(k Kind, err error) error {
	if bad, ok := errors.AsType[*invalid.Error](err); ok {
		return fromInvalid(bad, k)
	}
	return err
}

func fromInvalid(bad *invalid.Error, kind Kind) *Problem {
	if jobdoc.Malformed(bad) {
		kind = InvalidDocument
	}
	p := New(kind, "1 problem, listed in errors.")
	if n := len(bad.Fields); n != 1 {
		p.Detail = fmt.Sprintf("%d problems, listed in errors.", n)
	} else if f := bad.Fields[0]; f.Pointer != "" {
		p.Detail = f.Pointer + ": " + f.Detail
	} else {
		p.Detail = f.Detail
	}
	p.Errors = bad.Fields
	return p
}

// Parse is the problem that an answer of the API is; nil where it is none.
func Parse(header http.Header, body []byte) *Problem {
	if header.Get("Content-Type") != ContentType {
		return nil
	}
	p := new(Problem)
	if json.Unmarshal(body, p) != nil {
		return nil
	}
	p.RetryAfterSeconds, _ = strconv.Atoi(header.Get("Retry-After"))
	return p
}

// JSON is the problem on one line, with a line feed at its end.
func (p *Problem) JSON() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(p) // strings and numbers always encode
	return b.Bytes()
}

// Write answers with the problem.
func (p *Problem) Write(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", ContentType)
	h.Set("Cache-Control", "no-store")
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="vramplan"`)
	}
	if p.RetryAfterSeconds > 0 {
		h.Set("Retry-After", fmt.Sprint(p.RetryAfterSeconds))
	}
	w.WriteHeader(p.Status)
	_, _ = w.Write(p.JSON()) // nobody is left to tell
}
