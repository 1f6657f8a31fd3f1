package estimator

import (
	"slices"
	"testing"

	"github.com/vramplan/vramplan/estimator/doubt"
)

// expertsJob is a small mixture in torchtitan on so many GPUs, of which experts share those of each layer.
func expertsJob(world, experts int64) Job {
	return Job{
		Model: Model{HFConfig: []byte(`{"model_type":"qwen3_moe","hidden_size":512,"intermediate_size":1024,` +
			`"moe_intermediate_size":256,"num_experts":32,"num_experts_per_tok":4,"num_hidden_layers":4,"head_dim":64,` +
			`"num_attention_heads":8,"num_key_value_heads":4,"vocab_size":2048,"norm_topk_prob":true}`)},
		Training: Training{Framework: "torchtitan", MicroBatch: 1, SequenceLength: 1024, Precision: PrecisionAMPBF16,
			Optimizer:   &Optimizer{Name: "adamw", Implementation: "fused"},
			Versions:    map[string]string{"torch": "2.9.1"},
			Distributed: &Distributed{WorldSize: world, Data: "fsdp", FSDPVersion: 2, ExpertParallel: experts}},
	}
}

// TestExpertsAreDealtOut holds GPUs that share experts against those that deal them out with the rest of a layer: what
// is stored is the same, and no layer's experts are ever whole on one of them.
func TestExpertsAreDealtOut(t *testing.T) {
	whole := mustEstimate(t, Input{Job: expertsJob(16, 0)})
	for _, experts := range []int64{2, 4, 16} {
		shared := mustEstimate(t, Input{Job: expertsJob(16, experts)})
		if whole.Model.Parameters != shared.Model.Parameters {
			t.Errorf("a model of %d parameters has %d where GPUs share its experts", whole.Model.Parameters,
				shared.Model.Parameters)
		}
		a, b := component(whole, "optimizer_state").Bytes, component(shared, "optimizer_state").Bytes
		if a != b {
			t.Errorf("%d GPUs share experts: moments of %d bytes, and of %d where none do", experts, b, a)
		}
		gathered := whole.Peak.AllocatedBytes - shared.Peak.AllocatedBytes
		if layer := int64(3 * 32 * 512 * 256 * 2); experts == 16 && gathered < layer {
			t.Errorf("%d bytes less with 16 GPUs that share experts, and a layer's are %d", gathered, layer)
		}
		for code, from := range map[string][]Note{"expert-parallel": shared.Notes, "sharded": shared.Notes} {
			if !slices.ContainsFunc(from, func(n Note) bool { return n.Code == code }) {
				t.Errorf("no note %s says what was assumed", code)
			}
		}
		if !slices.ContainsFunc(shared.Doubts, func(d DoubtSource) bool { return d.Source == "routing" }) {
			t.Error("no doubt says that the rows are taken evenly divided")
		}
	}
}

// TestUnevenRows holds the doubt about routing to the rows that it is about: it grows with the tokens of a micro-batch,
// nothing is doubted below that is not anyway, and where no rows go to other GPUs there is none.
func TestUnevenRows(t *testing.T) {
	above := func(sequence int64) float64 {
		job := expertsJob(16, 8)
		job.Training.SequenceLength = sequence
		res := mustEstimate(t, Input{Job: job})
		var sharing, routing DoubtSource
		for _, d := range res.Doubts {
			switch d.Source {
			case "sharding":
				sharing = d
			case "routing":
				routing = d
			}
		}
		if routing.BelowBytes != sharing.BelowBytes || routing.AboveBytes <= sharing.AboveBytes {
			t.Errorf("routing %+v beside sharding %+v", routing, sharing)
		}
		return float64(routing.AboveBytes-sharing.AboveBytes) / float64(res.Peak.ReservedBytes)
	}
	short, long := above(256), above(4096)
	if short <= 0 || long <= short || long > doubt.FullestExpert-1 {
		t.Errorf("the doubt is %.3f of what is reserved with 256 tokens and %.3f with 4,096", short, long)
	}
	alone := mustEstimate(t, Input{Job: expertsJob(16, 1)})
	if slices.ContainsFunc(alone.Doubts, func(d DoubtSource) bool { return d.Source == "routing" }) {
		t.Error("a GPU with all experts doubts how many rows go to others")
	}
}

// TestLastExpertsHoldAsMuch asks for the first and the last GPU, which the answer calls alike.
func TestLastExpertsHoldAsMuch(t *testing.T) {
	first, last := int64(0), int64(15)
	a, b := expertsJob(16, 8), expertsJob(16, 8)
	a.Training.Distributed.Rank, b.Training.Distributed.Rank = &first, &last
	if x, y := mustEstimate(t, Input{Job: a}), mustEstimate(t, Input{Job: b}); x.Peak != y.Peak &&
		x.Peak.ReservedBytes != y.Peak.ReservedBytes {
		t.Errorf("the first GPU reserves %d bytes, the last %d", x.Peak.ReservedBytes, y.Peak.ReservedBytes)
	}
}

// TestExpertParallelRefuses lists what is not modelled together with shared experts.
func TestExpertParallelRefuses(t *testing.T) {
	const pointer = "/training/distributed/expert_parallel"
	tests := []struct {
		name   string
		change func(*Training)
		want   []string
	}{
		{"nothing", func(*Training) {}, nil},
		{"checkpointed", func(u *Training) { u.GradientCheckpointing = &Checkpointing{Mode: "full"} }, nil},
		{"another framework", func(u *Training) { u.Framework = "hf-trainer" }, []string{pointer}},
		{"DeepSpeed", func(u *Training) {
			u.Framework, u.Distributed.Data, u.Distributed.FSDPVersion = "hf-trainer", "zero2", 0
		}, []string{pointer}},
		{"selective checkpointing", func(u *Training) {
			u.GradientCheckpointing = &Checkpointing{Mode: "selective-op"}
		}, []string{pointer, "/training/gradient_checkpointing"}},
		{"float32", func(u *Training) { u.Precision = PrecisionFP32 }, []string{pointer}},
		{"experts that do not divide", func(u *Training) {
			u.Distributed.ExpertParallel, u.Distributed.WorldSize = 3, 12
		}, []string{pointer}},
		{"GPUs that do not divide", func(u *Training) { u.Distributed.WorldSize = 12 }, []string{pointer}},
		{"more GPUs than experts", func(u *Training) { u.Distributed.WorldSize = 64 }, nil},
		{"columns that do not divide", func(u *Training) { u.Distributed.WorldSize = 8 * 3 * 8 }, []string{pointer}},
		{"several copies", func(u *Training) { u.Distributed.ShardGroup = 8 }, nil},
		{"GPUs that share layers", func(u *Training) { u.Distributed.TensorParallel = 2 }, nil},
		{"GPUs that share layers without experts", func(u *Training) {
			u.Distributed.TensorParallel, u.Distributed.ExpertParallel = 2, 0
		}, nil},
		{"fewer than those that share layers", func(u *Training) {
			u.Distributed.TensorParallel, u.Distributed.ExpertParallel = 4, 2
		}, []string{pointer}},
		{"stages", func(u *Training) { u.Distributed.PipelineParallel, u.GradientAccumulation = 2, 4 }, nil},
		{"stages and layers", func(u *Training) {
			u.Distributed.PipelineParallel, u.Distributed.TensorParallel, u.GradientAccumulation = 2, 2, 4
			u.Distributed.ExpertParallel = 4
		}, nil},
		{"sequences, which torchtitan's Qwen3 cannot", func(u *Training) { u.Distributed.ContextParallel = 2 },
			[]string{"/training/distributed/context_parallel"}},
		{"copies that do not hold all experts", func(u *Training) {
			u.Distributed.WorldSize, u.Distributed.ShardGroup = 16, 4
		}, []string{pointer}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := expertsJob(16, 8)
			tt.change(&job.Training)
			_, err := Estimate(Input{Job: job})
			if got := refusedPointers(err); !slices.Equal(got, tt.want) {
				t.Errorf("refused %q, want %q: %v", got, tt.want, err)
			}
		})
	}
}
