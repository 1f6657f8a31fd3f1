package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// config reads one config.json: values as they are given, else the class's defaults.
type config struct {
	given    map[string]any
	defaults map[string]any
	errs     *refusals
	pointer  string
	// read are the keys that were asked for.
	read map[string]bool
	// asked, where it is there, gets the pointers of all that is asked for, of the parts too.
	asked map[string]bool
}

// unrefused is what describe makes of a description in which it finds nothing wrong, else none: nothing can be built
// of what was refused.
func unrefused(errs *invalid.List, describe func(wrong *invalid.List) Architecture) Architecture {
	var wrong invalid.List
	a := describe(&wrong)
	if found, ok := wrong.Err().(*invalid.Error); ok {
		errs.Append(found.Fields...)
		return Architecture{}
	}
	return a
}

// newConfig reads an object that stands at pointer.
func newConfig(pointer string, errs *invalid.List) *config {
	return &config{errs: &refusals{list: errs}, pointer: pointer, read: map[string]bool{}}
}

// architecture is what the object says of a model of the family name, whose numbers the checks call by words.
func (c *config) architecture(name string, f *family, words fieldNames) Architecture {
	c.defaults = f.defaults
	c.ropeParameters()
	a := Architecture{Name: name, Family: name, family: f, Reentrant: true}
	if given, ok := c.given["_name_or_path"].(string); ok && given != "" && len(given) <= 200 {
		a.Name = given
	}
	c.head(f, &a)
	f.read(c, &a)
	c.check(&a, words)
	return a
}

// head finds the class that the file names, and refuses what is not modelled of the family and weights of another type
// than the stored one.
func (c *config) head(f *family, a *Architecture) {
	switch q := c.given["quantization_config"]; {
	case q == nil:
	case a.Family == "gpt_oss" && quantMethod(q) == "mxfp4":
		a.Dequantised = true
	default:
		a.Quantised = cmp.Or(quantMethod(q), "an unnamed method")
	}
	classes := f.classNames()
	a.Class = classes[0]
	list, ok := c.given["architectures"].([]any)
	if !ok || len(list) == 0 {
		return
	}
	name, _ := list[0].(string)
	for _, end := range classes {
		if strings.HasSuffix(name, end) {
			a.Class = end
			if a.classes() {
				a.Labels, a.ScoreDropout = c.labels(), c.scoreDropout()
			}
			return
		}
	}
	c.errs.Add(c.pointer+"/architectures", "unsupported", "%.80q is not modelled; of %s, the classes …%s are", name,
		a.Family, strings.Join(classes, ", …"))
}

// quantMethod is how the weights are stored, by what quantization_config says.
func quantMethod(q any) string {
	fields, _ := q.(map[string]any)
	method, _ := fields["quant_method"].(string)
	return method
}

func (c *config) refuseSlidingWindow() {
	if c.boolean("use_sliding_window") {
		c.errs.Add(c.pointer+"/use_sliding_window", "unsupported",
			"sliding windows in some of the layers are not modelled yet; set it to false")
	}
}

// value is what the file or the class says; a null counts as absent from the file and, where null says "derived", from
// the class.
func (c *config) value(key string) (any, bool) {
	c.read[key] = true
	if c.asked != nil {
		c.asked[c.pointer+"/"+key] = true
	}
	if v, ok := c.given[key]; ok {
		return v, v != nil
	}
	v, ok := c.defaults[key]
	return v, ok
}

func (c *config) boolean(key string) bool {
	v, ok := c.value(key)
	if !ok {
		return false
	}
	b, ok := v.(bool)
	if !ok {
		c.errs.Add(c.pointer+"/"+key, "wrong_type", "%s is true or false, not %s", key, describe(v))
	}
	return b
}

func (c *config) activation(key string, known ...string) string {
	v, _ := c.value(key)
	s, _ := v.(string)
	for _, k := range known {
		if s == k {
			if s == "swish" {
				return "silu"
			}
			return s
		}
	}
	c.errs.Add(c.pointer+"/"+key, "unsupported", "%s is %s; modelled are %s", key, describe(v),
		strings.Join(known, ", "))
	return ""
}

// describe shows a JSON value in an error, shortened.
func describe(v any) string {
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

// part is the object under key, or under key_dict as older files have it, which wins as a whole.
func (c *config) part(key string, defaults map[string]any) *config {
	given, _ := c.given[key].(map[string]any)
	if v, ok := c.given[key]; ok && v != nil && given == nil {
		c.errs.Add(c.pointer+"/"+key, "wrong_type", "%s is an object, not %s", key, describe(v))
	}
	if older, ok := c.given[key+"_dict"].(map[string]any); ok {
		key, given = key+"_dict", older
	}
	return &config{given: given, defaults: defaults, errs: c.errs, asked: c.asked, pointer: c.pointer + "/" + key,
		read: map[string]bool{}}
}
