// Package decode makes settings of the formats that trainers are configured in: YAML, TOML, JSON with comments, and
// Python's assignments, calls and dataclasses. Nothing is executed, everything is bounded, and every value knows the
// bytes of the file that it stands in.
package decode

import (
	"fmt"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// Limits of what is decoded of one file.
const (
	// MaxBytes is the most that is read of a file.
	MaxBytes = 1 << 20
	maxDepth = 32
	maxNodes = 50000
)

// Error says what is wrong with a file, and where.
type Error struct {
	File string
	Line int
	Say  string
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return fmt.Sprintf("%s: %s", e.File, e.Say)
	}
	return fmt.Sprintf("%s:%d: %s", e.File, e.Line, e.Say)
}

// text knows where the lines of a file begin.
type text struct {
	file  string
	bytes []byte
	lines []int
}

func newText(file string, b []byte) (*text, error) {
	if len(b) > MaxBytes {
		return nil, &Error{File: file, Say: fmt.Sprintf("is larger than %d bytes", MaxBytes)}
	}
	t := &text{file: file, bytes: b, lines: []int{0}}
	for i, c := range b {
		if c == '\n' {
			t.lines = append(t.lines, i+1)
		}
	}
	return t, nil
}

// line is the number of the line that an offset lies in, from 1.
func (t *text) line(offset int) int {
	low, high := 0, len(t.lines)
	for low+1 < high {
		if mid := (low + high) / 2; t.lines[mid] <= offset {
			low = mid
		} else {
			high = mid
		}
	}
	return low + 1
}

// start is the offset at which a line begins; the end of the text for lines that it does not have.
func (t *text) start(line int) int {
	if line < 1 {
		return 0
	}
	if line > len(t.lines) {
		return len(t.bytes)
	}
	return t.lines[line-1]
}

// span is a stretch of the text; where quotes are around it they are left out.
func (t *text) span(start, end int) setting.Span {
	start, end = min(max(start, 0), len(t.bytes)), min(max(end, 0), len(t.bytes))
	if end-start >= 2 {
		if q := t.bytes[start]; (q == '"' || q == '\'') && t.bytes[end-1] == q {
			start, end = start+1, end-1
		}
	}
	return setting.Span{File: t.file, Start: start, End: end, Line: t.line(start)}
}

// value is a scalar that stands in the file.
func (t *text) value(x any, written string, at setting.Span) setting.Value {
	return setting.Value{Any: x, Text: written, Origin: setting.Origin{Kind: setting.File, At: at}}
}
