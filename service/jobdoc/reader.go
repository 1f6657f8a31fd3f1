package jobdoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// Limits of what is read. MaxDepth is a little more than twice what a job with a
// config.json needs; maxProblems keeps the answer to a hostile document small.
const (
	MaxDepth    = 32
	maxProblems = 100
)

// errStop ends the walk: what follows cannot be understood any more.
var errStop = errors.New("stop reading")

// reader walks the tokens of one document beside its schema.
type reader struct {
	dec  *jsontext.Decoder
	buf  bytes.Buffer
	data []byte // the document; buf is a copy, which the decoder scribbles over
	path []segment
	list invalid.List

	problems int
	halted   bool // the walk ended early
	root     *node
}

// segment is one step of the path: a name (as it stands in data, with its
// quotes) or an index.
type segment struct {
	start, end int
	index      int
}

var readers = sync.Pool{New: func() any {
	return &reader{dec: new(jsontext.Decoder)}
}}

// read fills dst, a struct, from data and returns what is wrong with data.
// complete is false when data could not be walked to its end.
func read(data []byte, n *node, dst reflect.Value) (problems []invalid.Field, complete bool) {
	r := readers.Get().(*reader)
	defer func() {
		r.data, r.list, r.root = nil, invalid.List{}, nil
		readers.Put(r)
	}()
	r.data = bytes.TrimPrefix(data, []byte("\uFEFF")) // Windows editors write a byte order mark
	r.path, r.problems, r.halted, r.root = r.path[:0], 0, false, n
	r.buf.Reset()
	r.buf.Write(r.data)
	r.dec.Reset(&r.buf, jsontext.AllowDuplicateNames(true))

	if len(bytes.TrimSpace(r.data)) == 0 {
		r.add(CodeMalformed, "the document is empty; it should be %s", n.accepts())
		r.halted = true
	} else if err := r.value(n, dst); err == nil {
		r.end()
	}
	var invalidErr *invalid.Error
	if errors.As(r.list.Err(), &invalidErr) {
		problems = invalidErr.Fields
	}
	return problems, !r.halted
}

// end checks that nothing follows the document.
func (r *reader) end() {
	at := r.dec.InputOffset()
	if _, err := r.dec.ReadToken(); err != io.EOF {
		at += int64(len(r.data[at:]) - len(bytes.TrimLeft(r.data[at:], " \t\r\n")))
		r.add(CodeMalformed, "more data follows the document at %s", r.position(at))
		r.halted = true
	}
}

// value reads one value into dst, or reports it and skips it.
func (r *reader) value(n *node, dst reflect.Value) error {
	kind := r.dec.PeekKind()
	switch {
	case kind == jsontext.KindInvalid:
		return r.syntax(nil)
	case kind == jsontext.KindNull && len(r.path) > 0 && r.path[len(r.path)-1].end > 0:
		return r.skip() // "field": null means the default, as encoders of other languages write it
	case n.own&kindOf(kind) != 0:
		return r.short(n, target(n, dst))
	}
	switch {
	case n.shape == shapeObject && kind == jsontext.KindBeginObject:
		return r.object(n, target(n, dst))
	case n.shape == shapeDictionary && kind == jsontext.KindBeginObject:
		return r.dictionary(n, target(n, dst))
	case n.shape == shapeFree && kind == jsontext.KindBeginObject:
		return r.keep(dst)
	case n.shape == shapeList && kind == jsontext.KindBeginArray:
		return r.items(n, target(n, dst))
	case kind == jsontext.KindBeginObject || kind == jsontext.KindBeginArray:
		r.wrongType(n, kind, nil)
		return r.free(false)
	}
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	switch {
	case n.shape == shapeText && kind == jsontext.KindString:
		target(n, dst).SetString(n.text(raw))
	case n.shape == shapeBoolean && (kind == jsontext.KindTrue || kind == jsontext.KindFalse):
		target(n, dst).SetBool(kind == jsontext.KindTrue)
	case n.shape == shapeInteger && kind == jsontext.KindNumber:
		r.integer(n, raw, target(n, dst))
	case n.shape == shapeNumber && kind == jsontext.KindNumber:
		r.number(n, raw, target(n, dst))
	default:
		r.wrongType(n, kind, raw)
	}
	return r.enough()
}

// target makes room behind a pointer field.
func target(n *node, dst reflect.Value) reflect.Value {
	if !n.pointer {
		return dst
	}
	dst.Set(reflect.New(n.typ))
	return dst.Elem()
}

func (r *reader) object(n *node, dst reflect.Value) error {
	if err := r.enter(); err != nil {
		return err
	}
	var seen uint64
	for r.dec.PeekKind() != jsontext.KindEndObject {
		name, err := r.name()
		if err != nil {
			return err
		}
		i, known := n.byName[string(name)]
		switch {
		case !known:
			r.unknownField(n, string(name))
			err = r.free(false)
		case seen&(1<<i) != 0:
			r.add(CodeDuplicateField, "is given more than once")
			err = r.free(false)
		default:
			seen |= 1 << i
			f := &n.fields[i]
			err = r.value(f.node, dst.FieldByIndex(f.index))
		}
		r.path = r.path[:len(r.path)-1]
		if err != nil {
			return err
		}
		if err := r.enough(); err != nil {
			return err
		}
	}
	return r.leave()
}

func (r *reader) items(n *node, dst reflect.Value) error {
	if err := r.enter(); err != nil {
		return err
	}
	list := reflect.MakeSlice(n.typ, 0, 1)
	count := 0
	for ; r.dec.PeekKind() != jsontext.KindEndArray; count++ {
		r.path = append(r.path, segment{index: count})
		var err error
		if n.maxLength > 0 && count >= n.maxLength {
			err = r.free(false) // walked for its grammar, not stored
		} else {
			list = reflect.Append(list, reflect.Zero(n.typ.Elem()))
			err = r.value(n.elem, list.Index(count))
		}
		r.path = r.path[:len(r.path)-1]
		if err != nil {
			return err
		}
	}
	if n.maxLength > 0 && count > n.maxLength {
		r.add(CodeTooLarge, "has %d items; accepted: up to %d", count, n.maxLength)
	}
	dst.Set(list)
	return r.leave()
}

func (r *reader) dictionary(n *node, dst reflect.Value) error {
	if err := r.enter(); err != nil {
		return err
	}
	dict := reflect.MakeMap(n.typ)
	count := 0
	for r.dec.PeekKind() != jsontext.KindEndObject {
		raw, err := r.name()
		if err != nil {
			return err
		}
		name := reflect.ValueOf(string(raw))
		switch {
		case dict.MapIndex(name).IsValid():
			r.add(CodeDuplicateField, "is given more than once")
			err = r.free(false)
		case n.maxLength > 0 && count >= n.maxLength:
			count++
			err = r.free(false)
		default:
			count++
			item := reflect.New(n.typ.Elem()).Elem()
			err = r.value(n.elem, item)
			dict.SetMapIndex(name, item)
		}
		r.path = r.path[:len(r.path)-1]
		if err != nil {
			return err
		}
	}
	if n.maxLength > 0 && count > n.maxLength {
		r.add(CodeTooLarge, "has %d entries; accepted: up to %d", count, n.maxLength)
	}
	dst.Set(dict)
	return r.leave()
}

// keep stores an object of another tool as it is.
func (r *reader) keep(dst reflect.Value) error {
	from := r.dec.InputOffset()
	if err := r.free(true); err != nil {
		return err
	}
	dst.SetBytes(bytes.Clone(bytes.TrimLeft(r.data[from:r.dec.InputOffset()], " \t\r\n:,")))
	return nil
}

// free walks a value whose fields nobody knows. Equal keys are reported where
// somebody will read the value later.
func (r *reader) free(unique bool) error {
	switch r.dec.PeekKind() {
	case jsontext.KindBeginObject:
		if err := r.enter(); err != nil {
			return err
		}
		var seen map[string]struct{}
		for r.dec.PeekKind() != jsontext.KindEndObject {
			name, err := r.name()
			if err != nil {
				return err
			}
			if unique {
				if seen == nil {
					seen = make(map[string]struct{}, 32)
				}
				if _, dup := seen[string(name)]; dup {
					r.add(CodeDuplicateField, "is given more than once")
				} else {
					seen[string(name)] = struct{}{}
				}
			}
			if err := r.freeStep(unique); err != nil {
				return err
			}
		}
		return r.leave()
	case jsontext.KindBeginArray:
		if err := r.enter(); err != nil {
			return err
		}
		for i := 0; r.dec.PeekKind() != jsontext.KindEndArray; i++ {
			r.path = append(r.path, segment{index: i})
			if err := r.freeStep(unique); err != nil {
				return err
			}
		}
		return r.leave()
	}
	return r.skip()
}

func (r *reader) freeStep(unique bool) error {
	err := r.free(unique)
	r.path = r.path[:len(r.path)-1]
	if err != nil {
		return err
	}
	return r.enough()
}

// skip passes over a scalar.
func (r *reader) skip() error {
	if _, err := r.dec.ReadValue(); err != nil {
		return r.syntax(err)
	}
	return nil
}

// short hands a scalar to the type's own UnmarshalJSON.
func (r *reader) short(n *node, dst reflect.Value) error {
	kind := r.dec.PeekKind()
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	if kind == jsontext.KindNumber {
		if _, err := strconv.ParseFloat(string(raw), 64); err != nil {
			r.add(CodeOutOfRange, "%s was given; accepted: %s", given(kind, raw), n.accepts())
			return r.enough()
		}
	}
	if err := dst.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw); err != nil {
		r.add(CodeUnknownValue, "%s was given; accepted: %s", given(kind, raw), n.acceptsOr(err))
	}
	return r.enough()
}

// acceptsOr prefers the words of a type's own reader for what it accepts.
func (n *node) acceptsOr(err error) string {
	if words, _, ok := strings.Cut(err.Error(), ", not "); ok {
		if _, what, ok := strings.Cut(words, " is "); ok {
			return what
		}
	}
	return n.accepts()
}

// text is the value of a JSON string, without an allocation for the values of an enum.
func (n *node) text(raw []byte) string {
	if inner := raw[1 : len(raw)-1]; bytes.IndexByte(inner, '\\') < 0 {
		if s, ok := n.interned[string(inner)]; ok {
			return s
		}
		return string(inner)
	}
	s, _ := jsontext.AppendUnquote(nil, raw) // the decoder has checked it
	return string(s)
}

// integer accepts every spelling of a whole number: Lua and JavaScript write 16.0 and 1e3.
func (r *reader) integer(n *node, raw []byte, dst reflect.Value) {
	i, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		f, ferr := strconv.ParseFloat(string(raw), 64)
		switch {
		case ferr == nil && f != math.Trunc(f):
			r.add(CodeWrongType, "%s was given; accepted: %s", given(jsontext.KindNumber, raw), n.accepts())
			return
		case ferr != nil || math.Abs(f) > 1<<53:
			r.add(CodeOutOfRange, "%s was given; accepted: %s", given(jsontext.KindNumber, raw), n.accepts())
			return
		}
		i = int64(f)
	}
	r.zero(n, i == 0)
	dst.SetInt(i)
}

func (r *reader) number(n *node, raw []byte, dst reflect.Value) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		r.add(CodeOutOfRange, "%s was given; accepted: %s", given(jsontext.KindNumber, raw), n.accepts())
		return
	}
	r.zero(n, f == 0)
	dst.SetFloat(f)
}

// zero refuses a given 0 where the Go type cannot tell it from an absent field
// and it is not a value of the field.
func (r *reader) zero(n *node, isZero bool) {
	if isZero && !n.pointer && (n.minimum > 0 || len(n.choices) > 0) {
		r.add(CodeOutOfRange, "0 was given; accepted: %s", n.accepts())
	}
}

// name reads a name, puts it on the path and returns it unquoted. The bytes are
// valid until the next read.
func (r *reader) name() ([]byte, error) {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return nil, r.syntax(err)
	}
	end := int(r.dec.InputOffset())
	r.path = append(r.path, segment{start: end - len(raw), end: end})
	return unquoted(raw), nil
}

func unquoted(raw []byte) []byte {
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	name, _ := jsontext.AppendUnquote(nil, raw)
	return name
}

func (r *reader) enter() error {
	if r.dec.StackDepth() >= MaxDepth {
		r.halted = true
		r.add(CodeTooDeep, "is nested deeper than %d levels", MaxDepth)
		return errStop
	}
	if _, err := r.dec.ReadToken(); err != nil {
		return r.syntax(err)
	}
	return nil
}

func (r *reader) leave() error {
	if _, err := r.dec.ReadToken(); err != nil {
		return r.syntax(err)
	}
	return nil
}

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
			if bytes.HasPrefix(rest, []byte(word)) || word[0] == '-' && at > 0 && bytes.HasPrefix(r.data[at-1:], []byte(word)) {
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

func kindOf(k jsontext.Kind) kinds {
	switch k {
	case jsontext.KindString:
		return kindString
	case jsontext.KindNumber:
		return kindNumber
	case jsontext.KindTrue, jsontext.KindFalse:
		return kindBool
	case jsontext.KindBeginArray:
		return kindArray
	}
	return 0
}

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
