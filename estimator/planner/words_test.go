package planner

import (
	"slices"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// Four data-parallel GPUs at 8 × 16: 512 sequences.
func TestPairInTheWordsOfEachTool(t *testing.T) {
	tests := map[string][]string{
		"nanogpt":      {"batch_size = 8", "gradient_accumulation_steps = 64"},
		"hf-trainer":   {"per_device_train_batch_size=8", "gradient_accumulation_steps=16"},
		"diffusers":    {"--train_batch_size=8", "--gradient_accumulation_steps=16"},
		"trl":          {"per_device_train_batch_size=8", "gradient_accumulation_steps=16"},
		"torchtitan":   {"training.local_batch_size = 8", "training.global_batch_size = 512"},
		"megatron":     {"--micro-batch-size 8", "--global-batch-size 512"},
		"litgpt":       {"--train.micro_batch_size 8", "--train.global_batch_size 512"},
		"deepspeed":    {"train_micro_batch_size_per_gpu: 8", "gradient_accumulation_steps: 16"},
		"llm-foundry":  {"device_train_microbatch_size: 8", "global_train_batch_size: 512"},
		"axolotl":      {"micro_batch_size: 8", "gradient_accumulation_steps: 16"},
		"lightning":    {"DataLoader batch_size=8", "Trainer accumulate_grad_batches=16"},
		"another tool": {"micro_batch = 8", "gradient_accumulation = 16"},
	}
	for tool, want := range tests {
		if got := pairSettings(tool, Choice{8, 16}, batch{target: 512, gpus: 4}); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", tool, got, want)
		}
	}
	// A pipeline of torchtitan cuts its local batch into micro-batches, and runs all of them in a step.
	want := []string{"training.local_batch_size = 8", "training.global_batch_size = 16",
		"parallelism.pipeline_parallel_microbatch_size = 1"}
	if got := pairSettings("torchtitan", Choice{1, 8}, batch{target: 16, gpus: 2, stages: 4}); !slices.Equal(got, want) {
		t.Errorf("torchtitan's pipeline: %q, want %q", got, want)
	}
}

// Every framework that a job may name has words for its pair.
func TestEveryFrameworkHasWords(t *testing.T) {
	for _, f := range []string{
		"pytorch", "nanogpt", "hf-trainer", "accelerate", "trl", "torchtune", "torchtitan", "litgpt", "megatron",
		"nanotron", "deepspeed",
		"llm-foundry", "unsloth", "llama-factory", "ms-swift", "xtuner", "axolotl", "lightning",
	} {
		if _, ok := pairWords[f]; !ok {
			t.Errorf("%s has no words", f)
		}
	}
}

func TestLeversHaveSettings(t *testing.T) {
	in := story().Input
	in.Job.Training.Attention, in.Job.Training.Precision = "eager", estimator.PrecisionFP32
	in.Job.Training.Optimizer.Implementation = "foreach"
	for tool := range pairWords {
		for _, l := range append(neutralLevers(in, tool), changingLevers(in, traits.ShapeOf(in, 0), tool)...) {
			if len(l.settings) == 0 || l.settings[0] == "" || len(l.changes) == 0 || l.effort <= 0 {
				t.Errorf("%s, %s: settings %q, changes %v, effort %v", tool, l.code, l.settings, l.changes, l.effort)
			}
		}
	}
}

func TestSmallerModels(t *testing.T) {
	gqa := &model.Dimensions{Layers: 32, Hidden: 4096, Heads: 32, KVHeads: 8, FFN: 14336, Vocabulary: 128256}
	tests := []struct {
		name  string
		in    estimator.Input
		codes []string
	}{
		{"nanoGPT", story().Input, []string{"layers-9", "layers-6", "layers-3", "width-512", "width-256"}},
		{"nanoGPT preset", estimator.Input{Preset: &model.Preset{ID: "nanogpt/train_gpt2", Layers: 12, Hidden: 768,
			Heads: 12}},
			[]string{"layers-9", "layers-6", "layers-3", "width-512", "width-256"}},
		{"published model", estimator.Input{Preset: &model.Preset{ID: "gpt2", Layers: 12, Hidden: 768, Heads: 12}},
			nil},
		{"one layer, one head",
			estimator.Input{Job: estimator.Job{Model: estimator.Model{NanoGPT: &model.NanoGPT{Layers: 1, Heads: 1,
				Embedding: 64}}}}, nil},
		{"grouped heads", estimator.Input{Job: estimator.Job{Model: estimator.Model{Dimensions: gqa}}},
			[]string{"layers-24", "layers-16", "layers-8", "width-2560", "width-1024"}},
	}
	for _, tt := range tests {
		var codes []string
		for _, l := range smallerModels(tt.in) {
			codes = append(codes, l.code)
			in := tt.in
			l.apply(&in)
			if d := in.Job.Model.Dimensions; d != nil && (d.Hidden%d.Heads != 0 || d.Heads%d.KVHeads != 0) {
				t.Errorf("%s, %s: heads do not divide: %+v", tt.name, l.code, d)
			}
			if n := in.Job.Model.NanoGPT; n != nil && (n.Embedding%n.Heads != 0 || n.Embedding/n.Heads != 64) {
				t.Errorf("%s, %s: the head size changed: %+v", tt.name, l.code, n)
			}
		}
		if !slices.Equal(codes, tt.codes) {
			t.Errorf("%s: %q, want %q", tt.name, codes, tt.codes)
		}
	}
}

func TestEffectOfAnotherBatch(t *testing.T) {
	adam, sgd := estimator.Training{}, estimator.Training{Optimizer: &estimator.Optimizer{Name: "sgd"}}
	lion := estimator.Training{Optimizer: &estimator.Optimizer{Name: "lion"}}
	tests := []struct {
		training estimator.Training
		from, to int64
		want     string
	}{
		{adam, 512, 256, "effective batch 512 → 256 (-50 %); starting points: learning rate × 0.71, beta2 0.95 → " +
			"0.9747 or 0.999 → 0.99950"},
		{adam, 512, 64, "effective batch 512 → 64 (-88 %); starting points: learning rate × 0.35, beta2 0.95 → 0.9936 " +
			"or 0.999 → 0.99987"},
		{sgd, 512, 256, "effective batch 512 → 256 (-50 %); starting point: learning rate × 0.5"},
		{lion, 512, 256, "effective batch 512 → 256 (-50 %); the learning rate has to follow"},
		{adam, 512, 511, "effective batch 512 → 511 (-0.2 %); settings can stay"},
	}
	for _, tt := range tests {
		if got := effectiveBatchEffect(tt.training, tt.from, tt.to); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func BenchmarkPlanWithoutTheEstimator(b *testing.B) {
	f := storyFake()
	for b.Loop() {
		if _, err := MakeWith(b.Context(), story(), f.estimate); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(f.asked.Load())/float64(b.N), "estimates/op")
}

// What a plan writes for an optimizer is what the tool's releases of today take, and the implementation that was
// counted.
func TestOptimizersInTheWordsOfEachTool(t *testing.T) {
	for _, c := range []struct{ tool, name, implementation, want string }{
		{"hf-trainer", "adamw", "fused", `optim="adamw_torch_fused"`},
		{"hf-trainer", "adamw-8bit", "", `optim="adamw_bnb_8bit"`},
		{"hf-trainer", "adamw", "for-loop", ""}, // transformers 5 has no adamw_hf any more
		{"hf-trainer", "muon", "", ""},          // which its Trainer does not know
		{"llama-factory", "adafactor", "", "optim: adafactor"},
		{"ms-swift", "lion", "bitsandbytes", "--optim lion_32bit"},
		{"torchtune", "adamw-8bit", "", "optimizer=bitsandbytes.optim.AdamW8bit"},
		{"pytorch", "adamw", "fused", "torch.optim.AdamW(..., fused=True)"},
		{"pytorch", "adafactor", "", "transformers.optimization.Adafactor"},
		{"pytorch", "adafactor", "torch", "torch.optim.Adafactor"},
		{"pytorch", "sgd-momentum", "", ""},
	} {
		w, ok := optimizerWord(c.tool, estimator.Optimizer{Name: c.name, Implementation: c.implementation})
		if w.setting != c.want || ok != (c.want != "") {
			t.Errorf("%s by %q in the words of %s: %q, %t; want %q", c.name, c.implementation, c.tool, w.setting, ok, c.want)
		}
	}
}
