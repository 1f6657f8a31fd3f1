package arch

import (
	"math"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// Limits on what a description may say; beyond them no arithmetic is tried. The replay plays every layer once for the
// allocator, so that layers cost time; the deepest published models have about 1,000.
const (
	MaxLayers = 1024
	MaxWidth  = 1 << 24
	MaxRows   = 1 << 30
	// MaxBeside is of the layers of a tower that no batch of text runs, several times those of the deepest published.
	MaxBeside = 256
)

// refusals are the errors of one description.
//
// Every number that a family gets out of a description comes from a method of this file, within the bounds that the
// family gives. For a number that is refused another stands in, within the same bounds, so that the rest can be read
// and everything that is wrong be said at once; of a description in which something was refused nothing is built
// (unrefused).
type refusals struct {
	List *invalid.List
	// standIn says that some number stands in for one that was refused. How others are related to it means nothing.
	standIn bool
	// said are the pointers of what was noted: what is wrong with a value is said once.
	said map[string]bool
}

// related are the codes of errors about several values.
var related = map[string]bool{"conflict": true, "not_divisible": true, "too_large": true}

// Add notes one wrong value; format and args make its detail. A relation that a stand-in may be part of is not noted.
func (r *refusals) Add(pointer, code, format string, args ...any) {
	if r.standIn && related[code] || r.said[pointer] {
		return
	}
	if r.said == nil {
		r.said = map[string]bool{}
	}
	r.said[pointer] = true
	r.List.Add(pointer, code, format, args...)
}

// refuse notes a number that is wrong, for which another stands in.
func (c *Config) refuse(key, code, format string, args ...any) {
	c.Errs.Add(c.Pointer+"/"+key, code, format, args...)
	c.Errs.standIn = true
}

// Check holds the relations between the numbers of a, unless some of them stand in for others.
func (c *Config) Check(a *Architecture, words FieldNames) {
	if !c.Errs.standIn {
		a.Check(c.Pointer, c.Errs.List, words)
	}
}

// Integer is a whole number from 1 to limit.
func (c *Config) Integer(key string, limit float64) int64 {
	v, ok := c.Value(key)
	if ok {
		return c.Whole(key, v, limit)
	}
	if def, has := c.Defaults[key]; has {
		c.refuse(key, "required",
			"%s is null; give a whole number, or leave the key out for the default of the family, %v",
			key, def)
	} else {
		c.refuse(key, "required", "%s is missing or null and the family has no default for it", key)
	}
	return c.standIn(key, limit)
}

// Optional is a whole number from 1 to limit, or 0 where none is given.
func (c *Config) Optional(key string, limit float64) int64 {
	v, ok := c.Value(key)
	if !ok {
		return 0
	}
	return c.Whole(key, v, limit)
}

// Whole is v, which stands at key, as a whole number from 1 to limit.
func (c *Config) Whole(key string, v any, limit float64) int64 {
	f, ok := v.(float64)
	switch {
	case !ok:
		c.refuse(key, "wrong_type", "%s is a whole number, not %s", key, Describe(v))
	case f != math.Trunc(f) || f < 1 || f > limit:
		c.refuse(key, "out_of_range", "%s is %g; it is a whole number from 1 to %.0f", key, f, limit)
	default:
		return int64(f)
	}
	return c.standIn(key, limit)
}

// standIn is read in the place of a number at key that was refused: the class's default, or 1.
func (c *Config) standIn(key string, limit float64) int64 {
	if def, ok := c.Defaults[key].(float64); ok && def == math.Trunc(def) && def >= 1 && def <= limit {
		return int64(def)
	}
	return 1
}

// Signed is a whole number that may be negative or 0.
func (c *Config) Signed(key string) int64 {
	v, _ := c.Value(key)
	f, ok := v.(float64)
	if !ok || f != math.Trunc(f) || f < -MaxRows || f > MaxRows {
		c.refuse(key, "wrong_type", "%s is a whole number, not %s", key, Describe(v))
		return 0
	}
	return int64(f)
}

// Token is the number of a token, 0 where none is given: a negative one means that there is none.
func (c *Config) Token(key string) int64 {
	if v, ok := c.Value(key); !ok || v == nil {
		return 0
	}
	return max(c.Signed(key), 0)
}

// Probability is a number from 0 to below 1.
func (c *Config) Probability(key string) float64 {
	v, ok := c.Value(key)
	if !ok {
		return 0
	}
	p, ok := v.(float64)
	switch {
	case !ok:
		c.Errs.Add(c.Pointer+"/"+key, "wrong_type", "%s is a number, not %s", key, Describe(v))
	case !(p >= 0 && p < 1):
		c.Errs.Add(c.Pointer+"/"+key, "out_of_range", "%s is %g; it is from 0 to below 1", key, p)
	default:
		return p
	}
	return 0
}

// Factor is a number above 0, at most limit; 0 and false where there is none.
func (c *Config) Factor(key string, limit float64) (f float64, ok bool) {
	v, _ := c.Value(key)
	return c.FactorOf(key, v, limit)
}

// FactorOf is v, which stands at key, as such a number.
func (c *Config) FactorOf(key string, v any, limit float64) (f float64, ok bool) {
	f, ok = v.(float64)
	switch {
	case !ok:
		c.refuse(key, "wrong_type", "%s is a number, not %s", key, Describe(v))
	case !(f > 0 && f <= limit):
		c.refuse(key, "out_of_range", "%s is %g; it is above 0 and at most %g", key, f, limit)
	default:
		return f, true
	}
	return 0, false
}

// Number says whether a number stands at key, whatever it is.
func (c *Config) Number(key string) bool {
	v, ok := c.Value(key)
	if _, number := v.(float64); ok && !number {
		c.Errs.Add(c.Pointer+"/"+key, "wrong_type", "%s is a number or null, not %s", key, Describe(v))
	}
	return ok
}

// Positive says whether a number above 0 stands at key.
func (c *Config) Positive(key string) bool {
	v, _ := c.Value(key)
	f, _ := v.(float64)
	return f > 0
}

// IsList says whether v is a list.
func IsList(v any) bool {
	_, ok := v.([]any)
	return ok
}

// Integers is a list of whole numbers from 1 to limit, none where something is wrong with it.
func (c *Config) Integers(key string, limit float64) []int64 {
	v, _ := c.Value(key)
	list, ok := v.([]any)
	if !ok || len(list) == 0 || len(list) > MaxLayers {
		c.refuse(key, "wrong_type", "%s is a list of whole numbers, not %s", key, Describe(v))
		return nil
	}
	out := make([]int64, 0, len(list))
	for _, v := range list {
		out = append(out, c.Whole(key, v, limit))
	}
	return out
}

// LayerList is a list of the numbers of layers, counted from 0. Those that the model does not have mean nothing.
func (c *Config) LayerList(key string) []int64 { return c.LayersBelow(key, MaxLayers) }

// LayersBelow is a list of the numbers of layers, counted from 0, of which there are so many.
func (c *Config) LayersBelow(key string, layers int64) []int64 {
	v, ok := c.Value(key)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok || len(list) > MaxLayers {
		c.refuse(key, "wrong_type", "%s is a list of up to %d layers, counted from 0, not %s", key, MaxLayers,
			Describe(v))
		return nil
	}
	out := make([]int64, 0, len(list))
	for _, item := range list {
		f, ok := item.(float64)
		switch {
		case !ok || f != math.Trunc(f):
			c.refuse(key, "wrong_type", "%s holds %s, which is no layer", key, Describe(item))
			return nil
		case f < 0 || f >= float64(layers):
			c.refuse(key, "out_of_range", "%s has %s, and the layers are 0 to %d", key, Describe(item), layers-1)
			return nil
		}
		out = append(out, int64(f))
	}
	return out
}

// MaxKernel bounds how many tokens a short convolution sees.
const MaxKernel = 1 << 10
