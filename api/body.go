package api

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service/workplace"
)

const (
	// maxBodyBytes is the longest document, and the longest line of a batch.
	maxBodyBytes = 1 << 20
	// maxDiagnosisBytes is that of a diagnosis with a memory snapshot: in gzip and base64, two hundred thousand
	// events.
	maxDiagnosisBytes = 5 << 20
	// maxDrainedBytes is how much of a document that is too long is read and thrown away.
	maxDrainedBytes = 16 << 20
)

// readJob is readBody for a document that is to be worked on. Where it could not
// be, it need not be read either.
func (a *API) readJob(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	return a.readJobUpTo(w, r, maxBodyBytes)
}

// readJobUpTo is readJob for documents of another length.
func (a *API) readJobUpTo(w http.ResponseWriter, r *http.Request, most int64) (body []byte, release func(),
	err error) {
	if a.place.Full(clientOf(r.Context())) {
		return nil, nil, a.shed("jobs")
	}
	return a.readUpTo(w, r, most, "application/json")
}

// readBody reads a JSON document. The bytes are valid until release is called.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	return a.readUpTo(w, r, maxBodyBytes, "application/json")
}

// readUpTo is readBody for documents of another length or media type, of which the first is the usual one.
func (a *API) readUpTo(w http.ResponseWriter, r *http.Request, most int64,
	types ...string) (body []byte, release func(), err error) {
	if err := accept(r, types...); err != nil {
		return nil, nil, err
	}
	if r.ContentLength != 0 {
		// Without a deadline, a client that sends a byte a minute would hold the
		// connection for ever. It is lifted again because net/http goes on reading
		// behind the handler, and a deadline that passes there would cancel the
		// request. In-process requests have none to set.
		control := http.NewResponseController(w)
		if control.SetReadDeadline(time.Now().Add(a.limits.BodyTimeout)) == nil {
			defer func() { _ = control.SetReadDeadline(time.Time{}) }()
		}
	}
	if r.ContentLength > most {
		w.Header().Set("Connection", "close")
		drain(r)
		return nil, nil, tooLarge(most)
	}
	booked := a.hold(w, false)
	var read segments
	release = func() {
		booked.Release()
		read.release()
	}
	if err := read.from(http.MaxBytesReader(w, booked.Reader(r.Body), most)); err != nil {
		release()
		// Otherwise net/http would wait for the rest of the body before it answers.
		w.Header().Set("Connection", "close")
		if large := (*http.MaxBytesError)(nil); errors.As(err, &large) {
			drain(r)
		}
		return nil, nil, a.bodyProblem(err)
	}
	return read.joined(), release, nil
}

// drain reads the rest of a body that is too large, within reason. Many clients
// send everything before they read: where the connection was closed on them, they
// would report a reset and not the answer. Whoever asked first (Expect:
// 100-continue) gets the answer instead of the leave to send, and a body that says
// that it is larger still is not read at all.
func drain(r *http.Request) {
	if r.ContentLength <= maxDrainedBytes && r.Header.Get("Expect") == "" {
		_, _ = io.CopyN(io.Discard, r.Body, maxDrainedBytes)
	}
}

func tooLarge(most int64) error {
	return problem.New(problem.TooLarge, "The body is larger than %d MiB (%d bytes), which is the most that a "+
		"document may have.", most>>20, most)
}

// bodyProblem says why a body could not be read.
func (a *API) bodyProblem(err error) error {
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return tooLarge(large.Limit)
	case errors.Is(err, workplace.ErrFullOfBytes):
		return a.shed("memory")
	case errors.Is(err, os.ErrDeadlineExceeded):
		return problem.New(problem.Timeout, "The body did not arrive within %s.", a.limits.BodyTimeout)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return problem.New(problem.InvalidDocument, "The body ended before its Content-Length.")
	}
	return problem.New(problem.InvalidDocument, "The body could not be read.")
}

// accept checks the media type of the body. None at all is refused, since a page of any origin can have a browser send
// that without asking (a "simple request", https://fetch.spec.whatwg.org/#cors-safelisted-request-header); curl's -d
// without a header says that it is a form, which it is not.
func accept(r *http.Request, types ...string) error {
	if encoding := r.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return problem.New(problem.UnsupportedMediaType, "The body has the Content-Encoding %q; accepted: a body "+
			"without compression.", clip(encoding))
	}
	given := r.Header.Get("Content-Type")
	switch given {
	case types[0]:
		return nil
	case "":
		return problem.New(problem.UnsupportedMediaType, "The body has no Content-Type; accepted: %s. With curl, add -H "+
			"'Content-Type: %s'.", strings.Join(types, ", "), types[0])
	}
	kind, params, err := mime.ParseMediaType(given)
	if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
		return problem.New(problem.UnsupportedMediaType, "The body is in %q; accepted: UTF-8.", clip(charset))
	}
	if err != nil || !slices.Contains(types, kind) &&
		!(types[0] == "application/json" && strings.HasPrefix(kind, "application/") &&
			strings.HasSuffix(kind, "+json")) {
		return problem.New(problem.UnsupportedMediaType, "The body is %q; accepted: %s. With curl, add -H "+
			"'Content-Type: %s'.", clip(given), strings.Join(types, ", "), types[0])
	}
	return nil
}
