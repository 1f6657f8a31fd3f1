package api

import (
	"net/http"
	"strings"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service"
)

// etag is a version as HTTP writes it.
func etag(version string) string { return `"` + version + `"` }

// versioned answers with a body of a version, or with 304 to a client that has it. A cache
// must ask each time: a change is seen within seconds.
func versioned(w http.ResponseWriter, r *http.Request, version string, body any) (any, error) {
	h := w.Header()
	h.Set("Etag", etag(version))
	h.Set("Cache-Control", "no-cache")
	known, err := versions(r, "If-None-Match")
	if err != nil {
		return nil, err
	}
	for _, v := range known {
		if v == version || v == "*" {
			return reply{status: http.StatusNotModified}, nil
		}
	}
	return body, nil
}

// precondition is what a change says it knows.
func precondition(r *http.Request) (known service.Precondition, err error) {
	if known.Versions, err = versions(r, "If-Match"); err != nil {
		return known, err
	}
	absent, err := versions(r, "If-None-Match")
	if err != nil {
		return known, err
	}
	for _, v := range absent {
		if v != "*" {
			return known, problem.New(problem.InvalidQuery, "If-None-Match is %q; accepted for a change: *.",
				clip(r.Header.Get("If-None-Match")))
		}
		known.Absent = true
	}
	return known, nil
}

// versions reads a list of entity tags: "*", or quoted ones with commas between them. Tags
// without their quotes are accepted, since many clients lose them; a weak tag is never what this
// service sent, but what a proxy made of it.
func versions(r *http.Request, header string) ([]string, error) {
	const most = 16
	var list []string
	for _, line := range r.Header.Values(header) {
		for tag := range strings.SplitSeq(line, ",") {
			tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
			if len(tag) >= 2 && tag[0] == '"' && tag[len(tag)-1] == '"' {
				tag = tag[1 : len(tag)-1]
			}
			if tag == "" || strings.Contains(tag, `"`) || len(list) == most {
				return nil, problem.New(problem.InvalidQuery,
					"%s is %q; accepted: *, or up to %d ETags such as \"user-3\".", header, clip(line), most)
			}
			list = append(list, tag)
		}
	}
	return list, nil
}

// author is whose key a request came with.
func (a *API) author(r *http.Request, scope service.Scope) (service.Author, error) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		token = ""
	}
	return a.authorize(r, strings.TrimSpace(token), scope)
}
