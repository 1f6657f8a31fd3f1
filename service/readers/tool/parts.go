package tool

import (
	"maps"
	"strings"

	"github.com/vramplan/vramplan/estimator/step/optim"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/programs"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Opened decodes a program, up to the line that begins with until; nil where it is out of reach.
func (r *Job) Opened(name, until string) *programs.Program {
	full, text, err := r.OpenProgram(name)
	if err != nil && text == nil {
		return nil
	}
	p, err := programs.Read(r.Files, full, text, until)
	if err != nil {
		return nil
	}
	return p
}

// Accumulate derives the accumulation of tools that are given the batch of all GPUs together.
func (r *Job) Accumulate(global setting.Value, parallel int64) {
	const pointer = "/training/gradient_accumulation"
	g, isInt := global.Int()
	micro, hasMicro := r.Out.Int("/training/micro_batch")
	if !isInt || !hasMicro || g < 1 || micro > 1<<30 || global.Unknown != "" { // a document takes no larger micro-batch
		return
	}
	w := r.GPUs()
	if !w.Known || w.N%max(parallel, 1) != 0 {
		return
	}
	data := w.N / max(parallel, 1)
	if g%(micro*data) != 0 {
		r.Out.Refuse("cannot-start", global.Origin.At, "%s %d is not divisible by %d × %d GPUs (micro-batch %d)",
			global.Origin.Key, g, micro, data, micro)
		return
	}
	r.Out.Derive(pointer, g/(micro*data), "%s %d / (%d × %d GPUs)", global.Origin.Key, g, micro, data)
}

// Classes are optimizers by the names of their classes; PyTorch's also without the package that they come from.
var Classes = func() map[string]draft.Optimizer {
	all := Spelled(optim.ClassPaths())
	for path, o := range maps.Clone(all) {
		if class, torch := strings.CutPrefix(path, "torch.optim."); torch {
			all[class] = o
		}
	}
	return all
}()

// OptimizerClass sets the optimizer by its class; fused is the setting that fuses it.
func (r *Job) OptimizerClass(v, fused setting.Value) {
	o, ok := Classes[v.String()]
	if !ok || v.Unknown != "" {
		r.Out.Refuse("unsupported", v.Origin.At, "the optimizer %s is not modelled", v.String())
		return
	}
	if fused.On() && o.Implementation == "foreach" {
		o.Implementation = "fused"
	}
	r.Out.Put("/training/optimizer", o, v)
}

// Degree puts a degree of parallelism that is above one, and returns it.
func (r *Job) Degree(pointer string, keys ...string) int64 {
	v, ok := r.In.Get(keys...)
	n, isInt := v.Int()
	if !ok || !isInt || n <= 1 {
		return 1
	}
	if pointer != "" {
		r.Out.Put(pointer, n, v)
	}
	return n
}

// Spelled are optimizers by a tool's own words for them.
func Spelled(words map[string]optim.Spelled) map[string]draft.Optimizer {
	all := make(map[string]draft.Optimizer, len(words))
	for word, o := range words {
		all[word] = draft.Optimizer(o)
	}
	return all
}
