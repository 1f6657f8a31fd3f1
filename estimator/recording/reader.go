package recording

import (
	"fmt"
	"strconv"
	"strings"
)

// reader reads the fields of a line and keeps the first error.
type reader struct{ err error }

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
	s, err := parseSize(text)
	if err != nil {
		r.fail("%w", err)
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

// pointerToken is s as a part of a JSON pointer.
func pointerToken(s string) string {
	if len(s) > 40 {
		s = s[:40]
	}
	return strings.ReplaceAll(strings.ReplaceAll(s, "~", "~0"), "/", "~1")
}
