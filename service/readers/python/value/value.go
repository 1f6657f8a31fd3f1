// Package value follows a program of Python over its tree, as far as its values are known, and executes nothing: what
// calls it makes, with which arguments. Branches whose condition is known not to hold are not followed; of those whose
// condition is not known, both are, and what they leave differently is not known afterwards. It reads no file but
// through its [World], and is bounded in its steps, its depth, and the size of what it makes.
package value

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/vramplan/vramplan/service/readers/python"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Value is what an expression gives: a plain value (nil, bool, int64, float64, string), a *Table, a *function, a *class
// or something outside of the program; or it is unknown.
type Value struct {
	setting.Value
	// rests are the arguments of the program that it rests on.
	rests []string
}

// outside is something that the program imports, or the language has, by its name: torch.bfloat16.
type outside string

// undefined is a name that nothing in the program gives a value.
type undefined string

// Table is a list, a tuple, a dictionary or an object: values by their keys, which are numbered in lists.
type Table struct {
	kind rune
	keys []string
	at   map[string]Value
	// made is the call that made an object, class the class of the program that it is of, and name what it is of.
	made  *Call
	class *class
	name  string
	// vague is what a function outside of the program gave, which may be anything.
	vague bool
}

// The kinds of tables.
const (
	list, tuple, dict, object = 'l', 't', 'd', 'o'
	// open is the key whose value says why a table may have other entries than those that are known.
	open = "\x00open"
)

func newTable(kind rune) *Table { return &Table{kind: kind, at: map[string]Value{}} }

func (t *Table) get(key string) (Value, bool) {
	v, ok := t.at[key]
	return v, ok
}

// why says why the table may have other entries; "" where it has none.
func (t *Table) why() string { return t.at[open].Unknown }

func (t *Table) put(key string, v Value) {
	if _, ok := t.at[key]; !ok && key != open {
		t.keys = append(t.keys, key)
	}
	t.at[key] = v
}

func (t *Table) drop(key string) {
	delete(t.at, key)
	if i := slices.Index(t.keys, key); i >= 0 {
		t.keys = slices.Delete(slices.Clone(t.keys), i, i+1)
	}
}

func (t *Table) items() []Value {
	out := make([]Value, 0, len(t.keys))
	for _, k := range t.keys {
		out = append(out, t.at[k])
	}
	return out
}

func sequence(kind rune, items []Value) Value {
	t := newTable(kind)
	for i, v := range items {
		t.put(strconv.Itoa(i), v)
	}
	return known(t)
}

// function is one of the program, with the object that it is a method of.
type function struct {
	node  *python.Node
	scope *scope
	self  *Value
	// of is the class in whose body it stands.
	of *class
	// defaults are those of its parameters, by name, worked out where it is defined.
	defaults map[string]Value
	// options are those that decorators declare.
	options *Table
}

// class is one of the program.
type class struct {
	node  *python.Node
	bases []Value
	body  *Table
	// fields are those with annotations, in their order.
	fields []string
}

func (c *class) find(name string) (Value, bool) {
	if c == nil {
		return Value{}, false
	}
	if v, ok := c.body.get(name); ok {
		return v, true
	}
	for _, b := range c.bases {
		if base, ok := b.Any.(*class); ok {
			if v, ok := base.find(name); ok {
				return v, true
			}
		}
	}
	return Value{}, false
}

func (c *class) allFields() []string {
	var out []string
	for _, b := range c.bases {
		if base, ok := b.Any.(*class); ok {
			out = append(out, base.allFields()...)
		}
	}
	return append(out, c.fields...)
}

// isOutside says whether a class derives of one that is not the program's.
func (c *class) isOutside() bool {
	for _, b := range c.bases {
		if base, ok := b.Any.(*class); !ok || base.isOutside() {
			return true
		}
	}
	return false
}

// outsides are the classes outside of the program that a class derives of.
func (c *class) outsides(depth int) []string {
	var out []string
	for _, b := range c.bases {
		switch x := b.Any.(type) {
		case *class:
			if depth < maxTurns {
				out = append(out, x.outsides(depth+1)...)
			}
		case outside:
			out = append(out, string(x))
		case undefined:
			out = append(out, string(x))
		}
	}
	return out
}

type scope struct {
	vars *Table
	up   *scope
	// elsewhere are names that a statement says belong to another scope.
	elsewhere map[string]*scope
	of        *class
}

const notPlain = "is not a plain value"

func known(x any) Value { return Value{Value: setting.Value{Any: x}} }

func unknown(why string, of ...Value) Value {
	v := Value{Value: setting.Value{Unknown: why}}
	for _, o := range of {
		v = v.resting(o)
	}
	return v
}

// maxRests is the most arguments that are remembered of what a value rests on.
const maxRests = 32

// resting adds what another value rests on.
func (v Value) resting(on Value) Value {
	if v.Assumed == "" {
		v.Assumed = on.Assumed
	}
	for _, name := range on.rests {
		if !slices.Contains(v.rests, name) && len(v.rests) < maxRests {
			v.rests = append(slices.Clip(v.rests), name)
		}
	}
	return v
}

func (v Value) table(kinds ...rune) (*Table, bool) {
	t, ok := v.Any.(*Table)
	return t, ok && v.Unknown == "" && (len(kinds) == 0 || slices.Contains(kinds, t.kind))
}

// truth is whether a value counts as true.
func (v Value) truth() (on, ok bool) {
	if v.Unknown != "" {
		return false, false
	}
	switch x := v.Any.(type) {
	case nil:
		return false, true
	case bool:
		return x, true
	case int64:
		return x != 0, true
	case float64:
		return x != 0, true
	case string:
		return x != "", true
	case *Table:
		if x.kind == object {
			return true, !x.vague
		}
		return len(x.keys) > 0, x.why() == "" || len(x.keys) > 0
	}
	return true, true
}

// same says whether two values are surely the same.
func same(a, b Value) bool {
	switch a.Any.(type) {
	case nil, bool, int64, float64, string, outside, undefined, *Table, *function, *class:
		return a.Any == b.Any && a.Unknown == b.Unknown
	}
	return false
}

// maxJoined is how deep tables are joined entry by entry.
const maxJoined = 3

// common is what is known where either of two values may be.
func (f *follower) common(a, b Value, line, depth int) Value {
	if same(a, b) || !f.afford() {
		return a.resting(b)
	}
	if a.Unknown != "" || b.Unknown != "" {
		if a.Unknown == "" {
			a, b = b, a
		}
		out := unknown(a.Unknown, a, b)
		out.Any = a.Any
		if _, plain := a.Any.(undefined); plain {
			out.Any = b.Any
		}
		return out
	}
	s, okS := a.Any.(*Table)
	t, okT := b.Any.(*Table)
	if okS && okT && s.kind == t.kind && s.class == t.class && depth < maxJoined {
		out := newTable(s.kind)
		out.made, out.class, out.name = s.made, s.class, s.name
		if s.kind == list && len(s.keys) != len(t.keys) {
			out.at[open] = unknown(differs(a, b, line))
		}
		for _, key := range append(slices.Clone(s.keys), t.keys...) {
			v, inS := s.get(key)
			w, inT := t.get(key)
			if !inS || !inT {
				v = v.resting(w)
				v = unknown(fmt.Sprintf("is set or not: what line %d goes by is not known", line), v)
				out.put(key, v)
				continue
			}
			out.put(key, f.common(v, w, line, depth+1))
		}
		for _, w := range []string{s.why(), t.why()} {
			if w != "" {
				out.at[open] = unknown(w)
			}
		}
		return known(out)
	}
	out := unknown(differs(a, b, line), a, b)
	if okS && s.kind == object {
		out.Any = s
	} else if okT && t.kind == object {
		out.Any = t
	}
	return out
}

func differs(a, b Value, line int) string {
	return fmt.Sprintf("is %s or %s: what line %d goes by is not known", a.word(), b.word(), line)
}

// word is a value for people.
func (v Value) word() string {
	switch x := v.Any.(type) {
	case nil:
		return "None"
	case bool:
		if x {
			return "True"
		}
		return "False"
	case int64:
		return strconv.FormatInt(x, 10)
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	case string:
		if len(x) > 60 {
			x = x[:60]
		}
		return x
	case outside:
		return string(x)
	case *Table:
		if x.kind == object {
			return "a " + x.name
		}
		return "a collection"
	}
	return "something else"
}
