package recording

import (
	"fmt"
	"strconv"
	"strings"
)

// reader reads the fields of a line and keeps the first error.
type reader struct {
	err error
	// sizes are those that were read before, by their text; nil keeps none.
	sizes map[string]Size
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf(format, args...)
	}
}

// number is a whole number from 0 to most.
func (r *reader) number(text string, most int) int {
	n, err := strconv.ParseUint(text, 10, 31)
	if err != nil || int(n) > most {
		r.fail("%.20q is no whole number from 0 to %d", text, most)
		return 0
	}
	return int(n)
}

func (r *reader) positive(text string) int64 {
	n := r.number(text, maxWidth)
	if n == 0 {
		r.fail("%.20q is no number of heads or elements", text)
		return 1
	}
	return int64(n)
}

func (r *reader) register(text string) int { return r.number(text, maxRegisters-1) }

func (r *reader) flag(text string) bool { return r.number(text, 1) == 1 }

func (r *reader) size(text string) Size {
	if s, known := r.sizes[text]; known {
		return s
	}
	s, err := parseSize(text)
	if err != nil {
		r.fail("%w", err)
	} else if r.sizes != nil {
		r.sizes[text] = s
	}
	return s
}

func (r *reader) kind(text string) Type {
	t, ok := types[text]
	if !ok {
		r.fail("%.20q is no type; f32, bf16, f16, f64, i64 and u8 are", text)
	}
	return t
}

func (r *reader) over(text string) Reduction {
	switch text {
	case "rows":
		return OverRows
	case "cols":
		return OverColumns
	case "all":
		return OverAll
	}
	r.fail("%.20q is no reduction; rows, cols and all are", text)
	return OverAll
}

func (r *reader) name(text string) string {
	if text == "" || len(text) > maxName {
		r.fail("the name of an operation has 1 to %d bytes", maxName)
	}
	return text
}

// behind says whether a line is of the backward of the node before it.
func behind(line string) bool { return line != "" && (line[0] >= 'a' || Kind(line[0]) == SendSaved) }

// forwardOf is how many of the lines are of no node's backward, backwardOf with how many others they begin.
func forwardOf(lines []string) (n int) {
	for _, line := range lines {
		if !behind(line) {
			n++
		}
	}
	return n
}

func backwardOf(lines []string) int {
	for n, line := range lines {
		if !behind(line) {
			return n
		}
	}
	return len(lines)
}

// mostFields is how many fields a line has at most.
const mostFields = 14

// fields splits a line into list; n is how many it has to have behind the letter.
func fields(line string, list *[mostFields + 1]string, n int) ([]string, error) {
	count := strings.Count(line, " ")
	if count != n {
		return nil, fmt.Errorf("has %d fields, not %d", count, n)
	}
	for i := range n {
		list[i], line, _ = strings.Cut(line, " ")
	}
	list[n] = line
	return list[1 : n+1], nil
}

// result reads "44 50.0": a value and the node that made it.
func (s *scope) result(text string) (Result, error) {
	value, edge, _ := strings.Cut(text, " ")
	r := reader{}
	res := Result{Value: s.used(&r, value), Edge: s.edge(&r, edge)}
	return res, r.err
}

// outputs reads values that are there, each once.
func (s *scope) outputs(list []string) ([]Ref, error) {
	var refs []Ref
	seen := map[Ref]bool{}
	for _, text := range list {
		r := reader{}
		ref := s.used(&r, text)
		if r.err != nil {
			return nil, r.err
		}
		if seen[ref] {
			return nil, fmt.Errorf("%.20q stands there twice", text)
		}
		seen[ref] = true
		refs = append(refs, ref)
	}
	return refs, nil
}

// pointerToken is s as a part of a JSON pointer.
func pointerToken(s string) string {
	if len(s) > 40 {
		s = s[:40]
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}
