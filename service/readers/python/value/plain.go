package value

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// plain is a value for those who know settings alone.
func (f *follower) plain(v Value, depth int) setting.Value {
	out := v.Value
	out.Any = nil
	if v.Unknown != "" {
		return out
	}
	switch x := v.Any.(type) {
	case nil, bool, int64, float64, string:
		out.Any = x
		return out
	case outside:
		if strings.HasPrefix(string(x), "torch.") {
			out.Any = string(x)
			return out
		}
	case *function:
		if x.node.Is("Lambda") && depth == 0 && len(x.node.Part("args").List("args")) == 0 {
			inner := f.plain(f.enter(x, &arguments{}), 1)
			if out.Any = inner.Any; inner.Unknown == "" {
				return out
			}
		}
	case *Table:
		if plain, ok := f.collection(x, depth); ok {
			out.Any = plain
			return out
		}
	}
	out.Any, out.Unknown = nil, notPlain
	return out
}

func (f *follower) collection(t *Table, depth int) (any, bool) {
	if t.kind == object || t.why() != "" || depth > 8 || !f.afford() {
		return nil, false
	}
	items := make([]any, 0, len(t.keys))
	entries := make(map[string]any, len(t.keys))
	for _, key := range t.keys {
		v := f.plain(t.at[key], depth+1)
		if v.Unknown != "" || t.kind == dict && (key == "" || key[0] == 0) {
			return nil, false
		}
		items = append(items, v.Any)
		entries[key] = v.Any
	}
	if t.kind == dict {
		return entries, true
	}
	return items, true
}

// Plainly is what a value says, to compare it with others.
func Plainly(v setting.Value) string { return fmt.Sprintf("%T %v", v.Any, v.Any) }

func (f *follower) finish() {
	slices.SortStableFunc(f.calls, func(a, b *Call) int { return cmp.Compare(a.start, b.start) })
	for _, c := range f.calls {
		f.out.Calls = append(f.out.Calls, *c)
	}
}

// loaded makes a value of what a file says.
func loaded(s *setting.Settings) Value {
	t := newTable(dict)
	for _, key := range s.Keys() {
		if !beneath(s, key) {
			t.put(key, ofSetting(s, key, 0))
		}
	}
	return known(t)
}

// beneath says whether a key is an entry of another one.
func beneath(s *setting.Settings, key string) bool {
	for i := len(key) - 1; i > 0; i-- {
		if key[i] == '.' && s.Has(key[:i]) {
			return true
		}
	}
	return false
}

func ofSetting(s *setting.Settings, key string, depth int) Value {
	v, ok := s.Peek(key)
	if !ok || depth > 16 {
		return unknown(notPlain)
	}
	out := Value{Value: v}
	switch x := v.Any.(type) {
	case map[string]any:
		t := newTable(dict)
		names := make([]string, 0, len(x))
		for name := range x {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			t.put(name, ofSetting(s, key+"."+name, depth+1))
		}
		out.Any = t
	case []any:
		t := newTable(list)
		for i := range x {
			name := fmt.Sprint(i)
			if s.Has(key + "." + name) {
				t.put(name, ofSetting(s, key+"."+name, depth+1))
			} else {
				t.put(name, known(x[i]))
			}
		}
		out.Any = t
	}
	return out
}
