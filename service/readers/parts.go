package readers

import (
	"maps"
	"path"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/estimator/step/optim"
	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// openProgram opens a program where the job runs, and beside the script that starts it: many scripts are started in
// their own directory, whatever directory was named.
func (l *launch) openProgram(name string) (full string, text []byte, err error) {
	return l.open(name, l.beside(l.at))
}

// opened decodes a program, up to the line that begins with until; nil where it is out of reach.
func (r *reading) opened(name, until string) *decode.Program {
	full, text, err := r.openProgram(name)
	if err != nil && text == nil {
		return nil
	}
	p, err := decode.Python(r.files.shown(full), text, until)
	if err != nil {
		return nil
	}
	return p
}

var interpolated = regexp.MustCompile(`^\$\{([A-Za-z0-9_.]+)\}$`)

// interpolate follows OmegaConf's ${key}; resolvers such as ${oc.env:X} leave the value unknown.
func interpolate(s *setting.Settings) {
	for _, key := range s.Keys() {
		v, _ := s.Peek(key)
		text, isString := v.Any.(string)
		for range 8 {
			if !isString || !strings.HasPrefix(text, "${") {
				break
			}
			m := interpolated.FindStringSubmatch(text)
			if m == nil {
				v.Unknown = text + " is worked out at run time"
				break
			}
			other, ok := s.Peek(m[1])
			if !ok {
				v.Unknown = text + " is not there"
				break
			}
			v = other
			text, isString = v.Any.(string)
		}
		if old, _ := s.Peek(key); old.Text != v.Text || v.Unknown != "" {
			v.Origin.Key = key
			s.Replace(key, v)
		}
	}
}

// accumulate derives the accumulation of tools that are given the batch of all GPUs together.
func (r *reading) accumulate(global setting.Value, parallel int64) {
	const pointer = "/training/gradient_accumulation"
	g, isInt := global.Int()
	micro, hasMicro := r.d.int("/training/micro_batch")
	if !isInt || !hasMicro || g < 1 || micro > 1<<30 || global.Unknown != "" { // a document takes no larger micro-batch
		return
	}
	w := r.gpus()
	if !w.known || w.n%max(parallel, 1) != 0 {
		return
	}
	data := w.n / max(parallel, 1)
	if g%(micro*data) != 0 {
		r.d.refuse("cannot-start", global.Origin.At, "%s %d is not divisible by %d × %d GPUs (micro-batch %d)",
			global.Origin.Key, g, micro, data, micro)
		return
	}
	r.d.derive(pointer, g/(micro*data), "%s %d / (%d × %d GPUs)", global.Origin.Key, g, micro, data)
}

// gpus is the world, with what the user said.
func (l *launch) gpus() count {
	if n := l.files.source.GPUs; n > 0 {
		return count{n: n, known: true,
			from: setting.Value{Any: n, Origin: setting.Origin{Kind: setting.Said, Key: "--gpus"}}}
	}
	return l.world()
}

// fixed is a world that a setting gives.
func (l *launch) fixed(c count) { l.counted = func() count { return c } }

// classes are optimizers by the names of their classes; PyTorch's also without the package that they come from.
var classes = func() map[string]optimizer {
	all := spelled(optim.ClassPaths())
	for path, o := range maps.Clone(all) {
		if class, torch := strings.CutPrefix(path, "torch.optim."); torch {
			all[class] = o
		}
	}
	return all
}()

// optimizerClass sets the optimizer by its class; fused is the setting that fuses it.
func (r *reading) optimizerClass(v, fused setting.Value) {
	o, ok := classes[v.String()]
	if !ok || v.Unknown != "" {
		r.d.refuse("unsupported", v.Origin.At, "the optimizer %s is not modelled", v.String())
		return
	}
	if fused.On() && o.Implementation == "foreach" {
		o.Implementation = "fused"
	}
	r.d.put("/training/optimizer", o, v)
}

// degree puts a degree of parallelism that is above one, and returns it.
func (r *reading) degree(pointer string, keys ...string) int64 {
	v, ok := r.s.Get(keys...)
	n, isInt := v.Int()
	if !ok || !isInt || n <= 1 {
		return 1
	}
	if pointer != "" {
		r.d.put(pointer, n, v)
	}
	return n
}

// base is the last part of a program's name.
func (l *launch) base() string { return path.Base(l.program.Text) }
