package lever

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// SmallerModels cuts layers, or width with the head size kept. It is offered
// where the model is described by its own numbers, as one is that is trained from
// scratch; cutting a published model leaves nothing that its weights fit.
func SmallerModels(in estimator.Input) []Lever {
	var ls []Lever
	add := func(code, group, title, setting string, m estimator.Model) {
		ls = append(ls, Lever{
			Code: code, Group: group, Title: title, Effort: SettingEffort,
			Effect: "a smaller model: another result", Disturbs: disturbsArchitecture,
			Apply:    func(in *estimator.Input) { in.Job.Model, in.Preset = m, nil },
			Changes:  map[string]any{"model": m},
			Settings: []string{setting},
		})
	}
	if g := traits.NanoGPTOf(in); g != nil {
		for _, n := range shares(g.Layers, 1, 4) {
			m := *g
			m.Layers = n
			add(fmt.Sprintf("layers-%d", n), "layers", "Fewer layers", fmt.Sprintf("n_layer = %d", n),
				estimator.Model{NanoGPT: &m, Head: in.Job.Model.Head})
		}
		for _, n := range shares(g.Heads, 1, 3) {
			if g.Heads < 1 || g.Embedding%g.Heads != 0 {
				break
			}
			m := *g
			m.Heads, m.Embedding = n, g.Embedding/g.Heads*n
			add(fmt.Sprintf("width-%d", m.Embedding), "width", "A narrower model",
				fmt.Sprintf("n_embd = %d, n_head = %d", m.Embedding, n),
				estimator.Model{NanoGPT: &m, Head: in.Job.Model.Head})
		}
	}
	for _, c := range shallower(in.Job.Model.HFConfig) {
		add(fmt.Sprintf("layers-%d", c.layers), "layers", "Fewer layers", fmt.Sprintf("%s = %d", c.key, c.layers),
			estimator.Model{HFConfig: c.config, Head: in.Job.Model.Head})
	}
	if d := in.Job.Model.Dimensions; d != nil {
		for _, n := range shares(d.Layers, 1, 4) {
			m := *d
			m.Layers = n
			add(fmt.Sprintf("layers-%d", n), "layers", "Fewer layers", fmt.Sprintf("layers = %d", n),
				estimator.Model{Dimensions: &m, Head: in.Job.Model.Head})
		}
		group := int64(1) // query heads that share one key-value head stay together
		if d.KVHeads > 0 && d.Heads%d.KVHeads == 0 {
			group = d.Heads / d.KVHeads
		}
		for _, n := range shares(d.Heads, group, 3) {
			if d.Heads < 1 || d.Hidden%d.Heads != 0 {
				break
			}
			m := *d
			m.Heads, m.Hidden, m.FFN = n, d.Hidden/d.Heads*n, d.FFN/d.Heads*n
			if d.KVHeads > 0 {
				m.KVHeads = n / group
			}
			add(fmt.Sprintf("width-%d", m.Hidden), "width", "A narrower model",
				fmt.Sprintf("hidden = %d, heads = %d", m.Hidden, n),
				estimator.Model{Dimensions: &m, Head: in.Job.Model.Head})
		}
	}
	return ls
}

// shares gives n less one part in parts, less two, …, each a multiple of unit,
// falling and without repeats.
func shares(n, unit, parts int64) []int64 {
	var out []int64
	last := n
	for k := parts - 1; k > 0; k-- {
		// n is at most 10⁶ heads or 10⁵ layers.
		if m := n * k / parts / unit * unit; m > 0 && m < last {
			out, last = append(out, m), m
		}
	}
	return out
}
