package torchtune

import (
	_ "embed"
	"strings"
	"sync"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

// shippedText has the configurations that "tune run" knows by a name, as far as they change what a GPU holds: a line
// "-- NAME --" and the YAML below it (torchtune 0.6.1 recipes/configs and torchtune/_recipe_registry.py). Those of
// preferences, distillation, quantization and pictures are not among them.
//
//go:embed shipped.txt
var shippedText string

const shippedRef = "torchtune 0.6.1 recipes/configs/"

// shipped are those configurations by their names.
var shipped = sync.OnceValue(func() map[string]string {
	all := map[string]string{}
	for part := range strings.SplitSeq("\n"+shippedText, "\n-- ") {
		if name, text, ok := strings.Cut(part, " --\n"); ok {
			all[name] = text
		}
	}
	return all
})

// knows lays the configuration of a name under the arguments, and reports whether torchtune has it.
func (r *job) knows(v setting.Value) bool {
	text, ok := shipped()[v.String()]
	if !ok {
		return false
	}
	name := v.String() + ".yaml"
	s, err := source.Decode(name, name, []byte(text))
	if err != nil {
		return false
	}
	below := setting.New()
	for _, key := range s.Keys() {
		x, _ := s.Peek(key)
		x.Origin = setting.Origin{Kind: setting.Default, Key: key, Ref: shippedRef + name}
		below.Set(key, x)
	}
	below.Over(r.In)
	r.In = below
	r.Problems = append(r.Problems, func(d *draft.Draft) {
		d.Assume("", "%s (%s) is the configuration of torchtune 0.6.1", v.String(), v.Origin.At.Where())
	})
	return true
}
