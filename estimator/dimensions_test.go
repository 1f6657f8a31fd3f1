package estimator

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/resolve"
)

// randomDimensions draws a decoder over everything that its numbers can say.
func randomDimensions(t *rapid.T) *model.Dimensions {
	heads := rapid.SampledFrom([]int64{1, 2, 3, 4, 8}).Draw(t, "heads")
	dim := rapid.SampledFrom([]int64{8, 16, 20, 64, 96}).Draw(t, "head_dim")
	flag := func(name string) *bool {
		return rapid.SampledFrom([]*bool{nil, new(bool), ptr(true)}).Draw(t, name)
	}
	groups := rapid.SampledFrom([]int64{1, 2, 4}).Draw(t, "groups")
	d := &model.Dimensions{Layers: rapid.Int64Range(1, 9).Draw(t, "layers"), Heads: heads * groups, KVHeads: heads,
		HeadDim: dim, Hidden: heads * groups * dim,
		FFN: rapid.Int64Range(8, 900).Draw(t, "ffn"), Vocabulary: rapid.Int64Range(3, 60000).Draw(t, "vocab"),
		MaxPositions:   1500,
		Dropout:        rapid.SampledFrom([]float64{0, 0, 0.1}).Draw(t, "dropout"),
		TiedEmbeddings: flag("tied"), NormBias: flag("norm_bias"), MLPBias: flag("mlp_bias"),
		Norm:     rapid.SampledFrom([]string{"", "layernorm", "rmsnorm"}).Draw(t, "norm"),
		Position: rapid.SampledFrom([]string{"", "rope", "learned", "alibi", "none"}).Draw(t, "position"),
		MLP: rapid.SampledFrom([]string{"", "gelu", "gelu_new", "relu", "relu2", "swiglu", "geglu"}).Draw(t,
			"mlp"),
		AttentionBias: rapid.SampledFrom([]model.AttentionBias{"", model.AttentionBiasNone, model.AttentionBiasQKV,
			model.AttentionBiasAll}).Draw(t, "attention_bias"),
		LMHeadBias: rapid.Bool().Draw(t, "lm_head_bias"), QKNorm: model.HeadNorms(rapid.Bool().Draw(t, "qk_norm")),
		RotaryFraction: rapid.SampledFrom([]float64{0, 1, 0.5, 0.25}).Draw(t, "rotary_fraction")}
	if d.Position != "" && d.Position != "rope" {
		d.RotaryFraction = 0
	}
	switch rapid.SampledFrom([]string{"before", "behind", "parallel", "parallel on one", "four"}).Draw(t, "norms") {
	case "behind":
		d.NormPosition = "post"
	case "parallel":
		d.ParallelResidual = true
	case "parallel on one":
		d.ParallelResidual, d.NormsPerLayer = true, 1
	case "four":
		d.NormsPerLayer = 4
	}
	if (d.MLP == "" || d.MLP == "swiglu") && rapid.Bool().Draw(t, "sparse") {
		d.Experts = rapid.Int64Range(1, 6).Draw(t, "experts")
		d.ExpertsPerToken, d.ExpertFFN = rapid.Int64Range(1, d.Experts).Draw(t, "experts_per_token"), 40
		d.SharedExperts = rapid.Int64Range(0, 2).Draw(t, "shared_experts")
	}
	return d
}

// TestDimensionsFoldedEqualsPlain holds the two engines against each other where a decoder is put together from its
// dimensions.
func TestDimensionsFoldedEqualsPlain(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		job := randomJob(t)
		job.Model = Model{Dimensions: randomDimensions(t)}
		job.Training.LoRA, job.Training.TargetSequenceLength = nil, 0
		job.Training.SequenceLength = rapid.Int64Range(1, 700).Draw(t, "tokens")
		if _, err := resolve.Resolve(&Input{Job: job}); err != nil { // what fitted the other need not fit
			job.Training.States, job.Training.Loss, job.Training.Evaluation, job.Training.AttentionMask = nil, nil, nil,
				""
			job.Training.Optimizer.InBackward, job.Training.GradientCheckpointing = false, nil
		}
		foldedEqualsPlain(t, onDrawnGPU(t, job))
	})
}

func ptr[T any](v T) *T { return &v }

// TestGenericNearDescribed holds the decoder that is put together from its parts against the blocks that are
// described, where hardly anything sets them apart.
func TestGenericNearDescribed(t *testing.T) {
	yes := true
	for name, pair := range map[string][2]model.Dimensions{
		"Llama and, with a bias on the head, a generic decoder": {
			{Layers: 8, Hidden: 512, Heads: 8, KVHeads: 4, FFN: 1376, Vocabulary: 32000},
			{Layers: 8, Hidden: 512, Heads: 8, KVHeads: 4, FFN: 1376, Vocabulary: 32000, LMHeadBias: true}},
		"GPT-2 and, with a bias on the head, a generic decoder": {
			{Layers: 8, Hidden: 512, Heads: 8, Vocabulary: 32000, MaxPositions: 1024, Position: "learned",
				Norm: "layernorm", MLP: "gelu_new"},
			{Layers: 8, Hidden: 512, Heads: 8, Vocabulary: 32000, MaxPositions: 1024, Position: "learned",
				Norm: "layernorm", MLP: "gelu_new", LMHeadBias: true, TiedEmbeddings: &yes}},
	} {
		var peaks [2]int64
		for i := range pair {
			res := mustEstimate(t,
				Input{Job: Job{Model: Model{Dimensions: &pair[i]},
					Training: Training{MicroBatch: 4, SequenceLength: 512}}})
			peaks[i] = res.Peak.AllocatedBytes
		}
		if ratio := float64(peaks[1]) / float64(peaks[0]); ratio < 0.98 || ratio > 1.02 {
			t.Errorf("%s: %v", name, peaks)
		}
	}
}
