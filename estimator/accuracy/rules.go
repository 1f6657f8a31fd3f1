package main

import (
	"fmt"
	"io"
	"math"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
)

// rule is what people use to guess the allocated bytes of a training step. What a rule does not speak of, it leaves
// out, as its users do.
type rule struct {
	name, source string
	bytes        func(s shape) float64
}

// shape is what the rules know of a job: parameters P, layers L, width h, heads a, MLP width f, vocabulary v, sequences
// b and tokens s of a micro-batch.
type shape struct {
	parameters, layers, hidden, heads, ffn, vocabulary, batch, tokens float64

	halfWeights, fullCheckpointing bool
}

// states is weights, gradients and Adam's two moments in the type of the weights.
func (s shape) states() float64 {
	if s.halfWeights {
		return 8 * s.parameters
	}
	return 16 * s.parameters
}

// tokenWidth is s·b·h.
func (s shape) tokenWidth() float64 { return s.batch * s.tokens * s.hidden }

// activations is perLayer bytes for every token and width in each layer, or, with full checkpointing, the inputs of the
// layers and one layer.
func (s shape) activations(perLayer float64) float64 {
	if s.fullCheckpointing {
		return s.tokenWidth() * (2*s.layers + perLayer)
	}
	return s.tokenWidth() * s.layers * perLayer
}

func (s shape) scores() float64 { return 5 * s.heads * s.tokens / s.hidden }

var rules = []rule{
	{"18 bytes a parameter", "mixed precision with AdamW in Hugging Face's performance guide, activations left out",
		func(s shape) float64 { return 18 * s.parameters }},
	{"activations × 24", "folk rule: 24 half-precision values for every token, layer and width",
		func(s shape) float64 { return s.states() + s.activations(24*2) }},
	{"activations × 160", "folk rule: 160 half-precision values for every token, layer and width",
		func(s shape) float64 { return s.states() + s.activations(160*2) }},
	{"34 + 5as/h", "Korthikanti et al. 2022 (arXiv 2205.05198), equation 2, and EleutherAI's Transformer Math: bytes " +
		"for every token, layer and width, attention unfused",
		func(s shape) float64 { return s.states() + s.activations(34+s.scores()) }},
	{"34", "the same with fused attention (selective recomputation in the paper)",
		func(s shape) float64 { return s.states() + s.activations(34) }},
	{"Megatron's report", "Megatron-LM training/theoretical_memory_usage.py on one GPU: 18 bytes a parameter, 18 + " +
		"4f/h a layer, embeddings, logits",
		func(s shape) float64 {
			return 18*s.parameters + s.activations(18+4*s.ffn/s.hidden) + 8*s.batch*s.tokens + s.tokenWidth() +
				4*s.tokenWidth()*(1+s.vocabulary/s.hidden)
		}},
}

// shapeOf is the shape of a case that the rules speak of: a decoder that is trained in full with Adam.
func shapeOf(c Case, parameters int64) (shape, bool) {
	t := c.Job.Training
	if t.LoRA != nil || t.Distributed != nil || t.Optimizer == nil || t.Optimizer.Name != estimator.DefaultOptimizer {
		return shape{}, false
	}
	var errs invalid.List
	var a model.Architecture
	switch m := c.Job.Model; {
	case m.NanoGPT != nil:
		a = model.FromNanoGPT(*m.NanoGPT, "", &errs)
	case m.HFConfig != nil:
		a = model.FromHF(m.HFConfig, "", &errs)
	}
	if errs.Err() != nil || a.Layers == 0 || a.Vocabulary == 0 {
		return shape{}, false
	}
	return shape{
		parameters: float64(parameters), layers: float64(a.Layers), hidden: float64(a.Hidden), heads: float64(a.Heads),
		ffn:        float64(a.FFN),
		vocabulary: float64(a.Vocabulary), batch: float64(t.MicroBatch), tokens: float64(t.SequenceLength),
		halfWeights:       t.Precision == estimator.PrecisionBF16 || t.Precision == estimator.PrecisionFP16,
		fullCheckpointing: t.GradientCheckpointing != nil && t.GradientCheckpointing.Mode == "full",
	}, true
}

// PrintRules compares the replay with the rules on the cases that all of them speak of.
func (r *Report) PrintRules(w io.Writer) {
	errors := make([][]float64, len(rules)+1)
	better := make([]int, len(rules))
	var lost []string
	n := 0
	for _, row := range r.Rows {
		s, ok := shapeOf(row.Case, row.Truth.Parameters)
		if !ok || row.Failure != nil {
			continue
		}
		n++
		truth, ours := float64(row.Truth.AllocatedBytes), math.Abs(100*row.Allocated)
		errors[0] = append(errors[0], ours)
		for i, rule := range rules {
			e := math.Abs(100 * (rule.bytes(s)/truth - 1))
			errors[i+1] = append(errors[i+1], e)
			if e < ours {
				better[i]++
				lost = append(lost, fmt.Sprintf("%s: %s %.2f %%, the replay %.2f %%", row.ID, rule.name, e, ours))
			}
		}
	}
	if n == 0 {
		return
	}
	fmt.Fprintf(w, "| rule | median error | nine in ten within | largest | nearer than the replay "+
		"|\n|---|---|---|---|---|\n")
	print := func(name string, e []float64, better int) {
		fmt.Fprintf(w, "| %s | %.1f %% | %.1f %% | %.0f %% | %d of %d |\n", name, at(e, .5), at(e, .9), at(e, 1),
			better, n)
	}
	print("the replay", errors[0], 0)
	for i, rule := range rules {
		print(rule.name+": "+rule.source, errors[i+1], better[i])
	}
	for _, l := range lost {
		fmt.Fprintf(w, "\nNearer than the replay: %s\n", l)
	}
}
