package jobdoc

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

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
	r.doubtful = r.doubtful || !n.allowsShort(kind, raw)
	if err := dst.Addr().Interface().(json.Unmarshaler).UnmarshalJSON(raw); err != nil {
		r.add(CodeUnknownValue, "%s was given; accepted: %s", given(kind, raw), n.acceptsOr(err))
	}
	return r.enough()
}

// allowsShort says whether a short form certainly satisfies the rules of the field
// that it stands for, which is the first.
func (n *node) allowsShort(kind jsontext.Kind, raw []byte) bool {
	switch {
	case kind == jsontext.KindTrue || kind == jsontext.KindFalse:
		return true
	case kind != jsontext.KindString || len(n.fields) == 0 || bytes.IndexByte(raw, '\\') >= 0:
		return false
	}
	first, inner := n.fields[0].node, raw[1:len(raw)-1]
	if first.interned != nil {
		_, ok := first.interned[string(inner)]
		return ok
	}
	return len(inner) > 0 && len(inner) <= first.maxLength
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
	r.doubtful = r.doubtful || !n.allows(float64(i))
	dst.SetInt(i)
}

func (r *reader) number(n *node, raw []byte, dst reflect.Value) {
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		r.add(CodeOutOfRange, "%s was given; accepted: %s", given(jsontext.KindNumber, raw), n.accepts())
		return
	}
	r.zero(n, f == 0)
	r.doubtful = r.doubtful || !n.allows(f)
	dst.SetFloat(f)
}

// zero refuses a given 0 where the Go type cannot tell it from an absent field
// and it is not a value of the field.
func (r *reader) zero(n *node, isZero bool) {
	if isZero && !n.pointer && (n.minimum > 0 || n.minimum == 0 && n.above || len(n.choices) > 0) {
		r.add(CodeOutOfRange, "0 was given; accepted: %s", n.accepts())
	}
}
