package planner

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
)

// What a lever costs the user beside time, as a share of the step time in the
// ranking: one per cent for a setting, more where code has to change or another
// library has to be installed.
const (
	settingEffort = 0.01
	codeEffort    = 0.1
)

// lever is one change to a job other than its pair.
type lever struct {
	code  string // unique among the levers of a plan
	group string // levers of one group exclude each other
	title string
	// apply changes its own copy of the job; it must replace what a pointer points
	// to, never write through it.
	apply    func(*estimator.Input)
	changes  map[string]any
	settings []string
	effort   float64
	// effect is what the lever does to training; empty means nothing.
	effect string
}

func (l lever) changesTraining() bool { return l.effect != "" }

// variant is a set of levers, in the order in which they were pulled.
type variant struct {
	key    string
	levers []lever
}

// with pulls one more lever, in the place of one of the same group.
func (v variant) with(l lever) variant {
	ls := slices.DeleteFunc(slices.Clone(v.levers), func(x lever) bool { return x.group == l.group })
	return newVariant(append(ls, l)...)
}

func newVariant(ls ...lever) variant {
	codes := make([]string, len(ls))
	for i, l := range ls {
		codes[i] = l.code
	}
	return variant{key: strings.Join(codes, "+"), levers: ls}
}

func (v variant) changesTraining() bool {
	for _, l := range v.levers {
		if l.changesTraining() {
			return true
		}
	}
	return false
}

func (v variant) effort() (sum float64) {
	for _, l := range v.levers {
		sum += l.effort
	}
	return sum
}

func (v variant) changes() map[string]any {
	all := map[string]any{}
	for _, l := range v.levers {
		maps.Copy(all, l.changes)
	}
	return all
}

// holds reports whether a lever of the same group is pulled already.
func (v variant) holds(group string) bool {
	for _, l := range v.levers {
		if l.group == group {
			return true
		}
	}
	return false
}

// trainingLever is a lever on one field of the training object.
func trainingLever(code, group, title, field string, value any, set func(*estimator.Training)) lever {
	return lever{
		code: code, group: group, title: title, effort: settingEffort,
		apply:   func(in *estimator.Input) { set(&in.Job.Training) },
		changes: map[string]any{field: value},
	}
}

// neutralLevers are the levers that leave the result of training as it is, apart
// from the order of rounding.
func neutralLevers(in estimator.Input, tool string) []lever {
	t := in.Job.Training
	var ls []lever
	if t.Attention == "eager" {
		ls = append(ls, trainingLever("attention-sdpa", "attention", "Use the fused attention kernel (SDPA)", "attention", "sdpa",
			func(t *estimator.Training) { t.Attention = "sdpa" }))
	}
	if mode := checkpointingMode(t); mode == "none" {
		for _, m := range []struct{ mode, title string }{
			{"full", "Recompute every block (full gradient checkpointing)"},
			{"selective", "Recompute attention only (selective checkpointing)"},
		} {
			ls = append(ls, trainingLever("checkpointing-"+m.mode, "checkpointing", m.title, "gradient_checkpointing", m.mode,
				func(t *estimator.Training) { t.GradientCheckpointing = &estimator.Checkpointing{Mode: m.mode} }))
		}
	} else {
		ls = append(ls, trainingLever("checkpointing-none", "checkpointing", "Keep activations instead of recomputing them", "gradient_checkpointing", "none",
			func(t *estimator.Training) { t.GradientCheckpointing = &estimator.Checkpointing{Mode: "none"} }))
	}
	if t.Loss == nil || t.Loss.Kind == "" || t.Loss.Kind == "standard" {
		for _, k := range []struct{ kind, title string }{
			{"fused-linear", "Fuse the output layer with the loss (no logits kept)"},
			{"chunked", "Compute the loss in chunks"},
			{"fused", "Write the loss gradient over the logits"},
		} {
			ls = append(ls, trainingLever("loss-"+k.kind, "loss", k.title, "loss", k.kind,
				func(t *estimator.Training) { t.Loss = &estimator.Loss{Kind: k.kind} }))
		}
	}
	ls = append(ls, optimizerImplementations(t, tool)...)
	return worded(ls, tool)
}

// optimizerImplementations offers the fused and the looped kernel of the same optimizer.
func optimizerImplementations(t estimator.Training, tool string) []lever {
	o := optimizerOf(t)
	if o.Name != "adamw" && o.Name != "adam" && o.Name != "sgd" && o.Name != "sgd-momentum" {
		return nil
	}
	if o.Implementation == "" && tool == "nanogpt" {
		// model.py's configure_optimizers takes the fused AdamW wherever CUDA is there.
		o.Implementation = "fused"
	}
	var ls []lever
	for _, i := range []struct{ implementation, title string }{
		{"fused", "Use the fused optimizer kernel"},
		{"for-loop", "Step one tensor at a time (foreach off)"},
	} {
		if o.Implementation == i.implementation || o.Implementation == "fused" {
			continue
		}
		set := o
		set.Implementation = i.implementation
		ls = append(ls, trainingLever("optimizer-"+i.implementation, "optimizer", i.title, "optimizer", set,
			func(t *estimator.Training) { t.Optimizer = &set }))
	}
	return ls
}

// changingLevers are the levers that change the result of training, in the order
// in which they disturb it, least first.
func changingLevers(in estimator.Input, shape Shape, tool string) []lever {
	t := in.Job.Training
	var ls []lever
	if t.Precision == estimator.PrecisionFP32 || t.Precision == estimator.PrecisionTF32 {
		l := trainingLever("precision-amp-bf16", "precision", "Compute in bfloat16 (mixed precision)", "precision", estimator.PrecisionAMPBF16,
			func(t *estimator.Training) { t.Precision = estimator.PrecisionAMPBF16 })
		l.effect = "other rounding: matrix products in bfloat16, weights stay float32"
		ls = append(ls, l)
	}
	if o := optimizerOf(t); o.Name == "adamw" || o.Name == "adam" {
		small, sgd := estimator.Optimizer{Name: "adamw-8bit"}, estimator.Optimizer{Name: "sgd-momentum"}
		l := trainingLever("optimizer-8bit", "optimizer", "Keep the optimizer state in 8 bits", "optimizer", small,
			func(t *estimator.Training) { t.Optimizer = &small })
		l.effect, l.effort = "the moments of AdamW are rounded to 8 bits", codeEffort
		s := trainingLever("optimizer-sgd", "optimizer", "Train with SGD and momentum", "optimizer", sgd,
			func(t *estimator.Training) { t.Optimizer = &sgd })
		s.effect = "another optimizer: learning rate and schedule have to be found again"
		ls = append(ls, l, s)
	}
	length := sequenceLength(in, shape)
	for _, n := range []int64{length / 2, length / 4} {
		if n < 64 {
			break
		}
		ls = append(ls, sequenceLever(n, length))
	}
	return append(worded(ls, tool), smallerModels(in)...)
}

func sequenceLever(n, today int64) lever {
	l := trainingLever(fmt.Sprintf("sequence-%d", n), "sequence", "Shorten the sequence", "sequence_length", n,
		func(t *estimator.Training) { t.SequenceLength = n })
	l.effect = fmt.Sprintf("the model sees %d tokens at a time instead of %d, and fewer in a step", n, today)
	return l
}

// smallerModels cuts layers, or width with the head size kept. It is offered
// where the model is described by its own numbers, as one is that is trained from
// scratch; cutting a published model leaves nothing that its weights fit.
func smallerModels(in estimator.Input) []lever {
	var ls []lever
	add := func(code, group, title, setting string, m estimator.Model) {
		ls = append(ls, lever{
			code: code, group: group, title: title, effort: settingEffort,
			effect:   "a smaller model: another result",
			apply:    func(in *estimator.Input) { in.Job.Model, in.Preset = m, nil },
			changes:  map[string]any{"model": m},
			settings: []string{setting},
		})
	}
	if g := nanoGPT(in); g != nil {
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
				fmt.Sprintf("n_embd = %d, n_head = %d", m.Embedding, n), estimator.Model{NanoGPT: &m, Head: in.Job.Model.Head})
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
				fmt.Sprintf("hidden = %d, heads = %d", m.Hidden, n), estimator.Model{Dimensions: &m, Head: in.Job.Model.Head})
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

// nanoGPT is the job's nanoGPT configuration, also where a preset names it.
func nanoGPT(in estimator.Input) *model.NanoGPT {
	if in.Job.Model.NanoGPT != nil {
		return in.Job.Model.NanoGPT
	}
	if p := in.Preset; p != nil && strings.HasPrefix(p.ID, "nanogpt/") {
		return &model.NanoGPT{
			Layers: p.Layers, Heads: p.Heads, Embedding: p.Hidden, BlockSize: p.MaxPositions,
			Vocabulary: p.Vocabulary, Bias: p.Bias.MLP, Dropout: p.Dropout.Residual,
		}
	}
	return nil
}

func checkpointingMode(t estimator.Training) string {
	c := t.GradientCheckpointing
	switch {
	case c == nil:
		return "none"
	case c.Mode == "" && c.Every > 0:
		return "full"
	case c.Mode == "":
		return "none"
	}
	return c.Mode
}

func optimizerOf(t estimator.Training) estimator.Optimizer {
	var o estimator.Optimizer
	if t.Optimizer != nil {
		o = *t.Optimizer
	}
	if o.Name == "" {
		o.Name = "adamw"
	}
	return o
}
