package fleet

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Kind is what a file holds.
type Kind string

// The kinds of files that are read.
const (
	Accounting   Kind = "accounting"   // sacct --parsable2
	Exposition   Kind = "exposition"   // the text of dcgm-exporter's /metrics
	Query        Kind = "query"        // the answer of Prometheus' /api/v1/query_range or /api/v1/query
	Decisions    Kind = "decisions"    // what check and the admission webhook record
	Observations Kind = "observations" // what GET /v1/observations answers, or an observation a line
)

// Bounds on what is held at once.
const (
	maxLine     = 1 << 20  // bytes of a line; longer ones are passed over
	maxElement  = 16 << 20 // bytes of a series or of a page of observations
	maxExamples = 5        // unreadable lines that are named by file
	headBytes   = 64 << 10 // by which a file's kind is told
)

// Unreadable is a place in a file that could not be read. It does not repeat what stands there, which may name
// people.
type Unreadable struct {
	Place string `json:"place"`
	Why   string `json:"why"`
}

// Source is a file, and what became of it.
type Source struct {
	File string `json:"file"`
	Kind Kind   `json:"kind"`
	// Read counts the lines, series or observations that were of use, Passed those that are about something else.
	Read   int64 `json:"read"`
	Passed int64 `json:"passed_over,omitempty"`
	// Unreadable counts those that could not be read; Examples are the first of them.
	Unreadable int64        `json:"unreadable"`
	Examples   []Unreadable `json:"unreadable_examples,omitempty"`

	in *bufio.Reader
}

// Open tells by its beginning what a file holds. The reader stays the caller's to close.
func Open(name string, r io.Reader) (*Source, error) {
	s := &Source{File: name, in: bufio.NewReaderSize(r, headBytes)}
	head, err := s.in.Peek(headBytes)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if bytes.HasPrefix(head, []byte("\xef\xbb\xbf")) {
		_, _ = s.in.Discard(3) // it is in the buffer
		head = head[3:]
	}
	if s.Kind = kindOf(head); s.Kind == "" {
		return nil, fmt.Errorf("%s: neither sacct's output (sacct --parsable2, with its line of column names), nor "+
			"Prometheus' JSON of a query, nor the text of dcgm-exporter, nor records of decisions, nor observations of "+
			"GET /v1/observations", name)
	}
	return s, nil
}

func kindOf(head []byte) Kind {
	text := strings.TrimSpace(string(head))
	first, _, _ := strings.Cut(text, "\n")
	switch {
	case isHeader(first):
		return Accounting
	case strings.Contains(first, `"decision_id"`):
		return Decisions
	case strings.HasPrefix(text, "{") && strings.Contains(text, `"resultType"`):
		return Query
	case strings.HasPrefix(text, "{") && (strings.Contains(text, `"observations"`) || strings.Contains(text, `"measured"`)):
		return Observations
	case strings.HasPrefix(text, "# HELP ") || strings.HasPrefix(text, "# TYPE ") || strings.HasPrefix(text, usedMetric):
		return Exposition
	case strings.Contains(text, `"decision_id"`):
		return Decisions
	}
	return ""
}

// isHeader knows sacct's line of column names.
func isHeader(line string) bool {
	for column := range strings.SplitSeq(strings.ToLower(strings.TrimSpace(line)), "|") {
		if column == "jobid" || column == "jobidraw" {
			return strings.Contains(line, "|")
		}
	}
	return false
}

func (s *Source) unreadable(place, format string, args ...any) {
	if s.Unreadable++; len(s.Examples) < maxExamples {
		s.Examples = append(s.Examples, Unreadable{place, fmt.Sprintf(format, args...)})
	}
}

// lines calls each for every line that is not empty.
func (s *Source) lines(each func(place string, line []byte) error) error {
	var line []byte
	long := false
	for n := int64(1); ; {
		part, err := s.in.ReadSlice('\n')
		if !long {
			line = append(line, part...)
		}
		if len(line) > maxLine {
			line, long = line[:0], true
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("%s, line %d: %w", s.File, n, err)
		}
		place := fmt.Sprintf("line %d", n)
		if long {
			s.unreadable(place, "longer than %d bytes", maxLine)
		} else if text := bytes.TrimSpace(line); len(text) > 0 {
			if err := each(place, text); err != nil {
				return fmt.Errorf("%s, %w", s.File, err)
			}
		}
		if err != nil {
			return nil
		}
		line, long = line[:0], false
		n++
	}
}

// bounded is a reader of JSON that fails where one element is longer than an element may be.
type bounded struct {
	in   io.Reader
	left int64
}

var errElement = fmt.Errorf("an element longer than %d bytes", maxElement)

func (b *bounded) next() { b.left = maxElement }

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errElement
	}
	n, err := b.in.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}
