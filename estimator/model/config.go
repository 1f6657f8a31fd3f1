package model

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
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

// FromHF reads the object of a Hugging Face config.json. Keys that do not matter are ignored, absent ones mean
// the class's default; of a family that is not described, a key that may matter and is not understood is refused.
// Problems go to errs under pointer, and there is no architecture then.
func FromHF(raw json.RawMessage, pointer string, errs *invalid.List) Architecture {
	return unrefused(errs, func(wrong *invalid.List) Architecture {
		a := newConfig(pointer, wrong).hf(raw)
		if wrong.Err() == nil && a.immense() {
			wrong.Add(pointer, "too_large", "the model, with its towers, would have more than %.0e parameters",
				float64(maxParameters))
		}
		return a
	})
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

// Asked are the pointers of what reading the object of a config.json asks for, whether or not it is there, in order.
func Asked(raw json.RawMessage) []string {
	c := newConfig("", &invalid.List{})
	c.asked = map[string]bool{}
	c.hf(raw)
	return slices.Sorted(maps.Keys(c.asked))
}

// hf is what the config.json in raw describes.
func (c *config) hf(raw json.RawMessage) Architecture {
	if err := json.Unmarshal(raw, &c.given); err != nil {
		c.errs.Add(c.pointer, "wrong_type", "hf_config is the object of a config.json: %v", err)
		return Architecture{}
	}
	kind, ok := c.given["model_type"].(string)
	if !ok || kind == "" {
		c.errs.Add(c.pointer+"/model_type", "required", "model_type is missing: it names the family, such as %q", "llama")
		return Architecture{}
	}
	f, ok := families[strings.ToLower(kind)]
	if !ok {
		if whole, ok := wholes[strings.ToLower(kind)]; ok {
			return c.ofWhole(kind, whole)
		}
		return c.fromUnknown(kind)
	}
	a := c.architecture(strings.ToLower(kind), f, f.keys)
	a.Unread = c.strays(a.Family)
	return a
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
