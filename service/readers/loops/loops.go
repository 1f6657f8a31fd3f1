// Package loops is what tools share that train in a loop of their own, and often a model that they describe
// themselves: its shapes, batches of all GPUs together, and files of YAML with overrides over them.
package loops

import (
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/shards"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Job is a job of a tool with a loop of its own.
type Job struct{ shards.Job }

// Of is a job before anything is read of it.
func Of(j *tool.Job) Job { return Job{shards.Of(j)} }

// Dimension puts a whole number of the model's shape into model.dimensions, and reports whether there was one.
func (r *Job) Dimension(field string, keys ...string) bool {
	return r.Number("/model/dimensions/"+field, "What is the model's "+field+"?", keys...)
}

// DimensionOr is dimension with the tool's default.
func (r *Job) DimensionOr(field string, otherwise int64, ref string, keys ...string) {
	if !r.Dimension(field, keys...) {
		r.Out.Fall("/model/dimensions/"+field, otherwise, keys[0], ref)
	}
}

// DimensionSwitch puts a truth value of the model's shape into model.dimensions; inverted turns it around.
func (r *Job) DimensionSwitch(field string, otherwise, inverted bool, ref, key string) {
	v, ok := r.In.Get(key)
	if !ok {
		r.Out.Fall("/model/dimensions/"+field, otherwise, key, ref)
		return
	}
	r.Out.Put("/model/dimensions/"+field, v.On() != inverted, v)
}

// DimensionInt is a whole number of the model's shape that is set.
func (r *Job) DimensionInt(field string) int64 {
	n, _ := r.Out.Int("/model/dimensions/" + field)
	return n
}

// YAMLAfterProgram takes a command of the form train.py FILE.yaml, where the file is one of the tool: it holds one of
// the keys. What else stands there, key=value with or without dashes, is laid over the file.
func (r *Job) YAMLAfterProgram(program string, keys ...string) bool {
	if r.Base() != program || len(r.Args) == 0 {
		return false
	}
	first := r.Args[0]
	if ext := path.Ext(first.Text); ext != ".yaml" && ext != ".yml" {
		return false
	}
	v := first.Argument("config")
	s, _, err := r.Load(v)
	if s == nil || err != nil || !s.Any(keys...) {
		return false
	}
	r.YAMLWithOverrides(v, r.Args[1:])
	return true
}

// YAMLWithOverrides reads the file that v names, with overrides of the form key=value or --key=value over it.
func (r *Job) YAMLWithOverrides(v setting.Value, words []argv.Word) {
	r.In = setting.New()
	for _, w := range words {
		if w.Open() {
			r.OpenWord(w)
			continue
		}
		key, _, ok := strings.Cut(w.Text, "=")
		if !ok {
			continue
		}
		value := w.Cut(len(key) + 1).Argument(key)
		value.Any = argv.HydraValue(value.Text)
		r.In.Set(strings.TrimLeft(key, "-+~"), value)
	}
	r.Under(v)
}

// AsksAll asks what settings do that change the memory and whose effect on the job is not known.
func (r *Job) AsksAll(keys ...string) {
	ignore := setting.SetOf(r.Files.Source.Ignore...)
	for _, key := range keys {
		v, ok := r.In.Get(key)
		if ok && !v.Off() && !ignore[key] && !ignore[v.Origin.Key] {
			r.Out.AskWord(v)
		}
	}
}

// NotDivisible refuses a job whose batch cannot be dealt out to its GPUs.
func (r *Job) NotDivisible(global setting.Value, n, by int64) {
	r.Out.Refuse("cannot-start", global.Origin.At, "%s %d is not divisible by the %d GPUs that the data is dealt out to",
		global.Origin.Key, n, by)
}
