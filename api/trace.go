package api

import (
	"net/http"

	"github.com/rs/zerolog"
)

// traceparent is the position of a request in its caller's trace, after
// https://www.w3.org/TR/trace-context/#traceparent-header.
type traceparent struct{ traceID, parentID string }

// traceparentOf reads the header of a request. What does not follow the
// specification is ignored, as the specification says.
func traceparentOf(r *http.Request) (traceparent, bool) {
	given := r.Header["Traceparent"]
	if len(given) != 1 {
		return traceparent{}, false
	}
	return parseTraceparent(given[0])
}

// parseTraceparent reads version-trace-parent-flags. Later versions may add
// fields behind the flags, version 00 may not; ff is no version.
func parseTraceparent(s string) (traceparent, bool) {
	const length = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if len(s) < length || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return traceparent{}, false
	}
	version, rest := s[:2], s[length:]
	if version == "ff" || version == "00" && rest != "" || rest != "" && rest[0] != '-' {
		return traceparent{}, false
	}
	t := traceparent{traceID: s[3:35], parentID: s[36:52]}
	for _, part := range []string{version, t.traceID, t.parentID, s[53:55]} {
		if !lowerHex(part) {
			return traceparent{}, false
		}
	}
	return t, !zeros(t.traceID) && !zeros(t.parentID)
}

func lowerHex(s string) bool {
	for _, c := range []byte(s) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func zeros(s string) bool {
	for _, c := range []byte(s) {
		if c != '0' {
			return false
		}
	}
	return true
}

// identify puts into a line of the log what finds the request elsewhere.
func identify(e *zerolog.Event, r *http.Request) *zerolog.Event {
	e = e.Str("request_id", r.Header.Get(requestIDHeader))
	if t, ok := traceparentOf(r); ok {
		e = e.Str("trace_id", t.traceID).Str("parent_id", t.parentID)
	}
	return e
}
