package readers

import (
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// dimension puts a whole number of the model's shape into model.dimensions, and reports whether there was one.
func (r *reading) dimension(field string, keys ...string) bool {
	return r.number("/model/dimensions/"+field, "What is the model's "+field+"?", keys...)
}

// dimensionOr is dimension with the tool's default.
func (r *reading) dimensionOr(field string, otherwise int64, ref string, keys ...string) {
	if !r.dimension(field, keys...) {
		r.d.fall("/model/dimensions/"+field, otherwise, keys[0], ref)
	}
}

// dimensionSwitch puts a truth value of the model's shape into model.dimensions; inverted turns it around.
func (r *reading) dimensionSwitch(field string, otherwise, inverted bool, ref, key string) {
	v, ok := r.s.Get(key)
	if !ok {
		r.d.fall("/model/dimensions/"+field, otherwise, key, ref)
		return
	}
	r.d.put("/model/dimensions/"+field, v.On() != inverted, v)
}

// dimensionInt is a whole number of the model's shape that is set.
func (r *reading) dimensionInt(field string) int64 {
	n, _ := r.d.int("/model/dimensions/" + field)
	return n
}

// yamlAfterProgram takes a command of the form train.py FILE.yaml, where the file is one of the tool: it holds one of
// the keys. What else stands there, key=value with or without dashes, is laid over the file.
func (r *reading) yamlAfterProgram(program string, keys ...string) bool {
	if r.base() != program || len(r.args) == 0 {
		return false
	}
	first := r.args[0]
	if ext := path.Ext(first.Text); ext != ".yaml" && ext != ".yml" {
		return false
	}
	v := first.argument("config")
	s, _, err := r.load(v)
	if s == nil || err != nil || !s.Any(keys...) {
		return false
	}
	r.yamlWithOverrides(v, r.args[1:])
	return true
}

// yamlWithOverrides reads the file that v names, with overrides of the form key=value or --key=value over it.
func (r *reading) yamlWithOverrides(v setting.Value, words []word) {
	r.s = setting.New()
	for _, w := range words {
		if w.open() {
			r.openWord(w)
			continue
		}
		key, _, ok := strings.Cut(w.Text, "=")
		if !ok {
			continue
		}
		value := w.cut(len(key) + 1).argument(key)
		value.Any = hydraValue(value.Text)
		r.s.Set(strings.TrimLeft(key, "-+~"), value)
	}
	r.under(v)
}

// asksAll asks what settings do that change the memory and whose effect on the job is not known.
func (r *reading) asksAll(keys ...string) {
	ignore := set(r.files.source.Ignore...)
	for _, key := range keys {
		v, ok := r.s.Get(key)
		if ok && !v.Off() && !ignore[key] && !ignore[v.Origin.Key] {
			r.d.askWord(v)
		}
	}
}

// notDivisible refuses a job whose batch cannot be dealt out to its GPUs.
func (r *reading) notDivisible(global setting.Value, n, by int64) {
	r.d.refuse("cannot-start", global.Origin.At, "%s %d is not divisible by the %d GPUs that the data is dealt out to",
		global.Origin.Key, n, by)
}
