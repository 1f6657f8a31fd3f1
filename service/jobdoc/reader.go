package jobdoc

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"sync"

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
	// doubtful says that a value may break a rule of its validate tag. Nearly all
	// documents have none, and for them the validator, which takes as long as the
	// whole walk, need not run. Where in doubt, it decides.
	doubtful bool
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
// complete is false when data could not be walked to its end, and doubtful is
// true unless all values certainly satisfy their validate tags.
func read(data []byte, n *node, dst reflect.Value) (problems []invalid.Field, complete, doubtful bool) {
	r := readers.Get().(*reader)
	defer func() {
		r.data, r.list, r.root = nil, invalid.List{}, nil
		readers.Put(r)
	}()
	r.data = bytes.TrimPrefix(data, []byte("\uFEFF")) // Windows editors write a byte order mark
	r.path, r.problems, r.halted, r.doubtful, r.root = r.path[:0], 0, false, false, n
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
	return problems, !r.halted, r.doubtful || len(problems) > 0
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
		r.doubtful = true
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
		text := n.text(raw)
		r.doubtful = r.doubtful || !n.allowsText(text)
		target(n, dst).SetString(text)
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
	r.doubtful = r.doubtful || seen&n.required != n.required
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
		if err := r.enough(); err != nil {
			return err
		}
	}
	if n.maxLength > 0 && count > n.maxLength {
		r.add(CodeTooLarge, "has %d items; accepted: up to %d", count, n.maxLength)
	}
	r.doubtful = r.doubtful || n.length > 0 && count != n.length
	dst.Set(list)
	return r.leave()
}

func (r *reader) dictionary(n *node, dst reflect.Value) error {
	if err := r.enter(); err != nil {
		return err
	}
	r.doubtful = true // its names have rules too
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
		if err := r.enough(); err != nil {
			return err
		}
	}
	if n.maxLength > 0 && count > n.maxLength {
		r.add(CodeTooLarge, "has %d entries; accepted: up to %d", count, n.maxLength)
	}
	dst.Set(dict)
	return r.leave()
}

// skip passes over a scalar.
func (r *reader) skip() error {
	if _, err := r.dec.ReadValue(); err != nil {
		return r.syntax(err)
	}
	return nil
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
