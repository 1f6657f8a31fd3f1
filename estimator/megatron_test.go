package estimator

import (
	"encoding/json"
	"slices"
	"testing"
)

// megatronJob is a small GPT-2 in Megatron-LM on eight GPUs.
func megatronJob(change func(*Training)) Job {
	job := Job{Model: Model{HFConfig: []byte(`{"model_type":"gpt2","n_embd":512,"n_layer":8,"n_head":8,"vocab_size":50176,"n_positions":1024}`)},
		Training: Training{Framework: "megatron", MicroBatch: 2, SequenceLength: 1024, GradientAccumulation: 8,
			Precision: "bf16", Optimizer: &Optimizer{Name: "adam", Implementation: "fused"},
			Distributed: &Distributed{WorldSize: 8, Data: "ddp"}}, GPUs: []GPURef{{Name: "a100-sxm4-80gb"}}}
	if change != nil {
		change(&job.Training)
	}
	return job
}

// TestMegatronStates: two bytes of a weight, four of its gradient and twelve of master and moments, of which the
// distributed optimizer has one in as many parts as GPUs train on other data.
func TestMegatronStates(t *testing.T) {
	for _, tt := range []struct {
		name       string
		change     func(*Training)
		share, per float64 // of all parameters, and bytes each
	}{
		{"copies", nil, 1, 18},
		{"distributed optimizer", func(u *Training) { u.Distributed.Data = "zero1" }, 1, 6 + 12.0/8},
		{"tensor parallel", func(u *Training) { u.Distributed.TensorParallel = 2 }, .5, 18},
		{"both", func(u *Training) {
			u.Distributed.TensorParallel, u.Distributed.Data = 2, "zero1"
		}, .5, 6 + 12.0/4},
	} {
		res := mustEstimate(t, Input{Job: megatronJob(tt.change)})
		got := float64(component(res, "weights").Bytes + component(res, "gradients").Bytes +
			component(res, "optimizer_state").Bytes)
		want := float64(res.Model.Parameters) * tt.share * tt.per
		if got < .99*want || got > 1.03*want { // norms, biases and positions are whole
			t.Errorf("%s: states of %.0f bytes, want %.0f", tt.name, got, want)
		}
	}
}

// TestMegatronHolds: what sequence parallelism deals out, what stages keep, and what unfused attention does.
func TestMegatronHolds(t *testing.T) {
	allocated := func(change func(*Training)) int64 {
		return mustEstimate(t, Input{Job: megatronJob(change)}).Peak.AllocatedBytes
	}
	stage := func(s Stage, micro int64) func(*Training) {
		return func(u *Training) {
			u.Distributed.PipelineParallel, u.Distributed.PipelineStage, u.GradientAccumulation = 4, &s, micro
		}
	}
	if a, b := allocated(stage(LastStage, 4)), allocated(stage(LastStage, 12)); b-a > 1<<20 {
		t.Errorf("the last stage holds %d bytes of four micro-batches and %d of twelve: it keeps no logits", a, b)
	}
	if a, b := allocated(stage(0, 2)), allocated(stage(0, 4)); b-a < 2*2*30*2*1024*512 {
		t.Errorf("the first stage holds %d bytes of two micro-batches and %d of four", a, b)
	}
	if a, b := allocated(stage(0, 4)), allocated(stage(0, 12)); b-a > 1<<20 {
		t.Errorf("the first of four stages holds %d bytes of four micro-batches and %d of twelve", a, b)
	}
	shared := func(sequence bool) int64 {
		return allocated(func(u *Training) {
			u.Distributed.TensorParallel, u.Distributed.SequenceParallel = 4, sequence
		})
	}
	if whole, dealt := shared(false), shared(true); whole-dealt < 8*5*1024*2*512*2*3/4 {
		t.Errorf("%d bytes with all tokens between the blocks, %d with a quarter", whole, dealt)
	}
	// Probabilities, which of them are dropped and what is left: five bytes a score in each layer.
	unfused := allocated(func(u *Training) { u.Attention = "eager" }) - allocated(nil)
	if want := int64(8 * 5 * 2 * 8 * 1024 * 1024); unfused < want*98/100 || unfused > want*102/100 {
		t.Errorf("unfused attention takes %d bytes more, want about %d", unfused, want)
	}
}

func TestMegatronRefuses(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*Training)
		want   []string
	}{
		{"heads that are no multiple", func(u *Training) {
			u.Distributed.WorldSize, u.Distributed.TensorParallel = 3, 3 // nor is the MLP's width
		}, []string{"/training/distributed/tensor_parallel", "/training/distributed/tensor_parallel"}},
		{"uneven stages", func(u *Training) {
			u.Distributed.WorldSize, u.Distributed.PipelineParallel = 6, 3
		}, []string{"/training/distributed/pipeline_parallel"}},
		{"a schedule of PyTorch's", func(u *Training) {
			u.Distributed.PipelineParallel, u.Distributed.PipelineSchedule = 2, "gpipe"
		}, []string{"/training/distributed/pipeline_schedule"}},
		{"compiled", func(u *Training) { u.Compile = &Compile{Model: true} }, []string{"/training/compile"}},
		{"chunked loss", func(u *Training) { u.Loss = &Loss{Kind: "chunked", Chunks: 4} }, []string{"/training/loss"}},
		{"interleaved", func(u *Training) {
			u.Distributed.PipelineParallel, u.Distributed.VirtualPipeline = 4, 2
		}, nil},
		{"shared sequences", func(u *Training) { u.Distributed.ContextParallel = 2 }, nil},
		{"checkpointed", func(u *Training) { u.GradientCheckpointing = &Checkpointing{Mode: "selective"} }, nil},
	} {
		_, err := Estimate(Input{Job: megatronJob(tt.change)})
		if got := refusedPointers(err); !slices.Equal(got, tt.want) {
			t.Errorf("%s: refused %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestStageNames reads the names of stages.
func TestStageNames(t *testing.T) {
	for text, want := range map[string]int64{`"first"`: 0, `"middle"`: 2, `"last"`: 3, `1`: 1} {
		var s Stage
		if err := json.Unmarshal([]byte(text), &s); err != nil || s.Of(4) != want {
			t.Errorf("%s is stage %d of four (%v), want %d", text, s.Of(4), err, want)
		}
		if back, err := json.Marshal(s); err != nil || string(back) != text && text != `"first"` {
			t.Errorf("%s is written %s (%v)", text, back, err)
		}
	}
	for _, text := range []string{`-1`, `"second"`, `1.5`, `{}`} {
		var s Stage
		if err := json.Unmarshal([]byte(text), &s); err == nil {
			t.Errorf("%s is read as stage %d", text, s)
		}
	}
}
