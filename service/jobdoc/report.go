package jobdoc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// add reports a problem at the current path.
func (r *reader) add(code, format string, args ...any) {
	r.problems++
	r.list.Add(r.pointer(), code, format, args...)
}

// enough ends the walk of a document in which nearly everything is wrong.
func (r *reader) enough() error {
	if r.problems < maxProblems {
		return nil
	}
	r.halted = true
	r.list.Add("", CodeTooLarge, "more than %d problems; reading stopped here", maxProblems-1)
	return errStop
}

func (r *reader) wrongType(n *node, kind jsontext.Kind, raw []byte) {
	r.add(CodeWrongType, "%s was given; accepted: %s", given(kind, raw), n.accepts())
	if len(r.path) == 0 {
		r.halted = true // nothing in it can be checked
	}
}

func (r *reader) unknownField(n *node, name string) {
	switch near := nearestField(r.root, n, name); {
	case near != "":
		r.add(CodeUnknownField, "is not a field here; did you mean %s?", near)
	default:
		r.add(CodeUnknownField, "is not a field here; accepted: %s", n.fieldNames())
	}
}

// syntax reports what is not JSON, with its line and column, and ends the walk.
func (r *reader) syntax(err error) error {
	if err == nil {
		_, err = r.dec.ReadToken()
	}
	r.halted = true
	at, why := int64(len(r.data)), "the document ends too early"
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) && !errors.Is(err, io.ErrUnexpectedEOF) {
		at = min(syntactic.ByteOffset, int64(len(r.data)))
		why = syntactic.Err.Error()
		rest := r.data[at:]
		for _, word := range []string{"NaN", "Infinity", "-Infinity", "nan", "inf", "-inf", "True", "False", "None"} {
			if bytes.HasPrefix(rest, []byte(word)) || word[0] == '-' && at > 0 &&
				bytes.HasPrefix(r.data[at-1:], []byte(word)) {
				why = word + " is not JSON"
			}
		}
	}
	r.add(CodeMalformed, "malformed JSON at %s: %s", r.position(at), why)
	return errStop
}

// position is a line and a column (in characters), both counted from 1.
func (r *reader) position(at int64) string {
	before := r.data[:at]
	line := bytes.Count(before, []byte("\n"))
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:])
	return fmt.Sprintf("line %d, column %d", line+1, column+1)
}

// maxSegment cuts the names in a pointer: a hostile name can be as long as the document.
const maxSegment = 200

// pointer is the current path as a JSON pointer (RFC 6901).
func (r *reader) pointer() string {
	var b strings.Builder
	for _, s := range r.path {
		b.WriteByte('/')
		if s.end == 0 {
			b.WriteString(strconv.Itoa(s.index))
			continue
		}
		b.WriteString(escapePointer(clip(string(unquoted(r.data[s.start:s.end])), maxSegment)))
	}
	return b.String()
}

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func escapePointer(name string) string { return pointerEscapes.Replace(name) }

// given says what stands in the document, shortened.
func given(kind jsontext.Kind, raw []byte) string {
	switch kind {
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindBeginArray:
		return "a list"
	case jsontext.KindString:
		return clip(string(raw), 64) + " (a string)"
	}
	return clip(string(raw), 64)
}

// clip shortens s to about n bytes at a character's edge.
func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
