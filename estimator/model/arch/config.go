package arch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// Config reads one config.json: values as they are given, else the class's defaults.
type Config struct {
	Given    map[string]any
	Defaults map[string]any
	Errs     *refusals
	Pointer  string
	// Read are the keys that were asked for.
	Read map[string]bool
	// Asked, where it is there, gets the pointers of all that is asked for, of the parts too.
	Asked map[string]bool
}

// Unrefused is what describe makes of a description in which it finds nothing wrong, else none: nothing can be built
// of what was refused.
func Unrefused(errs *invalid.List, describe func(wrong *invalid.List) Architecture) Architecture {
	var wrong invalid.List
	a := describe(&wrong)
	if found, ok := wrong.Err().(*invalid.Error); ok {
		errs.Append(found.Fields...)
		return Architecture{}
	}
	return a
}

// NewConfig reads an object that stands at pointer.
func NewConfig(pointer string, errs *invalid.List) *Config {
	return &Config{Errs: &refusals{List: errs}, Pointer: pointer, Read: map[string]bool{}}
}

// Architecture is what the object says of a model of the family name, whose numbers the checks call by words.
func (c *Config) Architecture(name string, f *Family, words FieldNames) Architecture {
	c.Defaults = f.Defaults
	c.RopeParameters()
	a := Architecture{Name: name, Family: name, Described: f, Reentrant: true}
	if given, ok := c.Given["_name_or_path"].(string); ok && given != "" && len(given) <= 200 {
		a.Name = given
	}
	a = c.Head(f, a)
	a = f.Read(c, a)
	c.Check(&a, words)
	return a
}

// Head finds the class that the file names, and refuses what is not modelled of the family and weights of another type
// than the stored one.
func (c *Config) Head(f *Family, a Architecture) Architecture {
	switch q := c.Given["quantization_config"]; {
	case q == nil:
	case a.Family == "gpt_oss" && quantMethod(q) == "mxfp4":
		a.Dequantised = true
	default:
		a.Quantised = cmp.Or(quantMethod(q), "an unnamed method")
	}
	classes := f.classNames()
	a.Class = classes[0]
	list, ok := c.Given["architectures"].([]any)
	if !ok || len(list) == 0 {
		return a
	}
	name, _ := list[0].(string)
	for _, end := range classes {
		if strings.HasSuffix(name, end) {
			a.Class = end
			if a.Classes() {
				a.Labels, a.ScoreDropout = c.Labels(), c.scoreDropout()
			}
			return a
		}
	}
	c.Errs.Add(c.Pointer+"/architectures", "unsupported", "%.80q is not modelled; of %s, the classes …%s are", name,
		a.Family, strings.Join(classes, ", …"))
	return a
}

// quantMethod is how the weights are stored, by what quantization_config says.
func quantMethod(q any) string {
	fields, _ := q.(map[string]any)
	method, _ := fields["quant_method"].(string)
	return method
}

// RefuseSlidingWindow refuses windows in some of the layers.
func (c *Config) RefuseSlidingWindow() {
	if c.Boolean("use_sliding_window") {
		c.Errs.Add(c.Pointer+"/use_sliding_window", "unsupported",
			"sliding windows in some of the layers are not modelled yet; set it to false")
	}
}

// Value is what the file or the class says; a null counts as absent from the file and, where null says "derived", from
// the class.
func (c *Config) Value(key string) (any, bool) {
	c.Read[key] = true
	if c.Asked != nil {
		c.Asked[c.Pointer+"/"+key] = true
	}
	if v, ok := c.Given[key]; ok {
		return v, v != nil
	}
	v, ok := c.Defaults[key]
	return v, ok
}

// Boolean is a value that is true or false, false where there is none.
func (c *Config) Boolean(key string) bool {
	v, ok := c.Value(key)
	if !ok {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		c.Errs.Add(c.Pointer+"/"+key, "wrong_type", "%s is true or false, not %s", key, Describe(v))
	}
	return b
}

// Activation is one of the known activations.
func (c *Config) Activation(key string, known ...string) string {
	v, _ := c.Value(key)
	s, _ := v.(string)
	for _, k := range known {
		if s == k {
			if s == "swish" {
				return "silu"
			}
			return s
		}
	}
	c.Errs.Add(c.Pointer+"/"+key, "unsupported", "%s is %s; modelled are %s", key, Describe(v),
		strings.Join(known, ", "))
	return ""
}

// Describe shows a JSON value in an error, shortened.
func Describe(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return "something else"
	}
	if len(b) > 40 {
		return string(b[:40]) + "…"
	}
	return string(b)
}

// String names the architecture in a sentence.
func (a *Architecture) String() string {
	return fmt.Sprintf("%s: %d layers of %d, %d heads, vocabulary %d", a.Name, a.Layers, a.Hidden, a.Heads,
		a.Vocabulary)
}

// Part is the object under key, or under key_dict as older files have it, which wins as a whole.
func (c *Config) Part(key string, defaults map[string]any) *Config {
	given, _ := c.Given[key].(map[string]any)
	if v, ok := c.Given[key]; ok && v != nil && given == nil {
		c.Errs.Add(c.Pointer+"/"+key, "wrong_type", "%s is an object, not %s", key, Describe(v))
	}
	if older, ok := c.Given[key+"_dict"].(map[string]any); ok {
		key, given = key+"_dict", older
	}
	return &Config{Given: given, Defaults: defaults, Errs: c.Errs, Asked: c.Asked, Pointer: c.Pointer + "/" + key,
		Read: map[string]bool{}}
}
