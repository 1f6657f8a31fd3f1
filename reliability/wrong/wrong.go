// Package wrong makes documents of which single values are wrong: every key of a document, to every kind of value that
// it may be given by mistake or in malice, one at a time or two together.
package wrong

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
)

// Values are those that a key is set to: too small, too large, of no whole number, of another type, lists and objects
// that are too short or hold something else, and numbers near the right one, which mostly fit to no other. Absent
// leaves the key out.
var Values = []any{Absent, half, double, oneMore, oneLess, 0, -1, 1, 2, 3, 7, 20, 1000, 1 << 31, int64(1) << 53, 1e30, 0.5, nil, true, false, "", "x",
	[]any{}, map[string]any{}, []any{0}, []any{-1}, []any{7, 7, 7}, "sliding_attention", []any{"full_attention"},
	[]any{"full_attention", "full_attention", "full_attention"}, map[string]any{"a": 1},
	map[string]any{"model_type": "llama"}}

// near is a number that is made of the right one; the value stays as it is where it is none.
type near int

const (
	half near = iota
	double
	oneMore
	oneLess
)

// to is the number near the value v.
func (n near) to(v any) any {
	f, ok := v.(float64)
	if !ok {
		return v
	}
	return [...]float64{half: math.Floor(f / 2), double: 2 * f, oneMore: f + 1, oneLess: f - 1}[n]
}

// absent is the type of Absent.
type absent struct{}

// Absent is the value of a key that is left out.
var Absent = absent{}

// Document is one that is right, and the places in it that can be made wrong.
type Document struct {
	Name string
	// Whole is the document, Places the keys on the way to each value of it.
	Whole  map[string]any
	Places [][]string
}

// Of is the document that text holds. Its places are those of its values, of a list those of its first items, and those
// of further, whether or not they are there.
func Of(name string, text []byte, further [][]string) (Document, error) {
	d := Document{Name: name}
	if err := json.Unmarshal(text, &d.Whole); err != nil {
		return d, fmt.Errorf("%s: %w", name, err)
	}
	const items = 2 // of a list, which are mostly alike
	var walk func(v any, before []string)
	walk = func(v any, before []string) {
		at := func(key string, below any) {
			place := append(slices.Clone(before), key)
			d.Places = append(d.Places, place)
			walk(below, place)
		}
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				at(key, v[key])
			}
		case []any:
			for i, below := range v[:min(items, len(v))] {
				at(strconv.Itoa(i), below)
			}
		}
	}
	walk(d.Whole, nil)
	for _, place := range further {
		if !slices.ContainsFunc(d.Places, func(p []string) bool { return slices.Equal(p, place) }) {
			d.Places = append(d.Places, place)
		}
	}
	return d, nil
}

// Right is the document as it is.
func (d *Document) Right() []byte { return d.with() }

// Singles is how many documents have one wrong value.
func (d *Document) Singles() int { return len(d.Places) * len(Values) }

// Single is the i-th of them.
func (d *Document) Single(i int) []byte {
	return d.with([2]int{i / len(Values), i % len(Values)})
}

// Pair is a document of which two values are wrong.
func (d *Document) Pair(random *rand.Rand) []byte {
	return d.with([2]int{random.IntN(len(d.Places)), random.IntN(len(Values))},
		[2]int{random.IntN(len(d.Places)), random.IntN(len(Values))})
}

// with is the document in which each place, the first number of a change, has the value that is the second.
func (d *Document) with(changes ...[2]int) []byte {
	whole := d.Whole
	for _, c := range changes {
		whole = set(whole, d.Places[c[0]], Values[c[1]]).(map[string]any)
	}
	text, err := json.Marshal(whole)
	if err != nil { // what was read from JSON, with values of the table above, can be written
		panic(err)
	}
	return text
}

// set is whole with the value v at place; whole itself stays as it is. What is neither an object nor a list with such
// an item becomes an object.
func set(whole any, place []string, v any) any {
	if len(place) == 0 {
		if n, ok := v.(near); ok {
			return n.to(whole)
		}
		return v
	}
	key := place[0]
	if list, ok := whole.([]any); ok {
		if i, err := strconv.Atoi(key); err == nil && i < len(list) {
			list = slices.Clone(list)
			list[i] = set(list[i], place[1:], v)
			if list[i] == Absent {
				list = slices.Delete(list, i, i+1)
			}
			return list
		}
	}
	o, _ := whole.(map[string]any)
	if n, ok := v.(near); ok && len(place) == 1 && n.to(o[key]) == nil { // there is nothing to be near to
		return whole
	}
	changed := maps.Clone(o)
	if changed == nil {
		changed = map[string]any{}
	}
	if changed[key] = set(o[key], place[1:], v); changed[key] == Absent {
		delete(changed, key)
	}
	return changed
}
