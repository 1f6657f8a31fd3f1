package lever

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/planner/samples"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// tools are those that levers are put into the words of.
var tools = []string{"pytorch", "nanogpt", "hf-trainer", "accelerate", "diffusers", "trl", "torchtune", "torchtitan",
	"litgpt", "megatron", "nanotron", "deepspeed", "llm-foundry", "unsloth", "llama-factory", "ms-swift", "xtuner",
	"axolotl", "lightning"}

// codes are those of levers in a group.
func codes(ls []Lever, group string) string {
	var out []string
	for _, l := range ls {
		if l.Group == group {
			out = append(out, l.Code)
		}
	}
	return strings.Join(out, " ")
}

func TestWhichLeversAreOffered(t *testing.T) {
	llama := func(in *estimator.Input) {
		in.Job.Model = estimator.Model{HFConfig: json.RawMessage(samples.TinyLlama)}
	}
	tests := []struct {
		name   string
		change func(*estimator.Input)
		group  string
		want   string
	}{
		{"compile, where it is off", nil, "compile", "compile-on"},
		{"no compile, where it is on", func(in *estimator.Input) {
			in.Job.Training.Compile = &estimator.Compile{Model: true}
		}, "compile", "compile-off"},
		{"growing segments", nil, "allocator", "allocator-expandable"},
		{"segments that grow already", func(in *estimator.Input) {
			in.Job.Training.Allocator = &estimator.Allocator{ExpandableSegments: true}
		}, "allocator", ""},
		{"no evaluation", nil, "evaluation", ""},
		{"evaluation at the training batch", func(in *estimator.Input) {
			in.Job.Training.Evaluation = &estimator.Evaluation{}
		}, "evaluation", "evaluation-8 evaluation-1"},
		{"evaluation that keeps logits", func(in *estimator.Input) {
			in.Job.Training.Evaluation = &estimator.Evaluation{MicroBatch: 2, KeepLogits: true}
		}, "evaluation", "evaluation-1 evaluation-loss-only"},
		{"half precision", func(in *estimator.Input) {
			in.Job.Training.Precision = estimator.PrecisionFP32
		}, "precision", "precision-amp-bf16"},
		{"half precision before Ampere", func(in *estimator.Input) {
			in.Job.Training.Precision, in.GPUs = estimator.PrecisionFP32,
				[]estimator.GPU{{ID: "t4", ComputeCapability: 75}}
		}, "precision", "precision-amp-fp16"},
		{"half-precision weights", nil, "precision", "precision-bf16"},
		{"weights that are half precision already", func(in *estimator.Input) {
			in.Job.Training.Precision = estimator.PrecisionBF16
		}, "precision", ""},
		{"smaller optimizers", nil, "optimizer", "optimizer-8bit optimizer-adafactor optimizer-lion optimizer-sgd"},
		{"no adapters on what is trained from scratch", nil, "adapters", ""},
		{"adapters on a published model", llama, "adapters", "adapters-lora adapters-qlora"},
		{"a base in 4 bits under adapters", func(in *estimator.Input) {
			llama(in)
			in.Job.Training.LoRA = &estimator.LoRA{Rank: 8}
		}, "adapters", "adapters-nf4"},
		{"a base that is quantised already", func(in *estimator.Input) {
			llama(in)
			in.Job.Training.LoRA = &estimator.LoRA{Rank: 8, BasePrecision: "int8"}
		}, "adapters", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := samples.Story()
			if tt.change != nil {
				tt.change(&in)
			}
			tool := traits.ToolOf(in)
			all := append(Neutral(in, tool), Changing(in, traits.ShapeOf(in, 1e8), tool)...)
			if got := codes(all, tt.group); got != tt.want {
				t.Errorf("levers %q, want %q", got, tt.want)
			}
			for _, l := range all {
				if len(l.Settings) == 0 || l.Settings[0] == "" {
					t.Errorf("%s says nothing of how to set it", l.Code)
				}
				if l.changesTraining() != (l.Disturbs > 0) {
					t.Errorf("%s: effect %q, weight %v", l.Code, l.Effect, l.Disturbs)
				}
			}
		})
	}
}

// Where the framework's own checkpoints would end the run, others are offered, in the tool's words, with the adapters
// that the job has and with those that a plan adds.
func TestCheckpointsThatRun(t *testing.T) {
	const plain, off = "gradient_checkpointing=True", `gradient_checkpointing_kwargs={"use_reentrant": False}`
	lora := &estimator.LoRA{Rank: 8}
	full := &estimator.Checkpointing{Mode: "full", Every: 2}
	for _, c := range []struct {
		name          string
		GPUs          int64
		lora          *estimator.LoRA
		checkpointing *estimator.Checkpointing
		code, want    string
	}{
		{"adapters on several GPUs", 4, lora, nil, "checkpointing-full", plain + " " + off},
		{"adapters on one GPU", 1, lora, nil, "checkpointing-full", plain},
		{"adapters that may come", 4, nil, nil, "checkpointing-full", plain + " " + off},
		{"none on one GPU", 1, nil, nil, "checkpointing-full", plain},
		{"checkpoints before adapters", 4, nil, full, "adapters-lora",
			`peft.LoraConfig(r=16, target_modules="all-linear") ` + off},
		{"checkpoints before adapters, one GPU", 1, nil, full, "adapters-lora",
			`peft.LoraConfig(r=16, target_modules="all-linear")`},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := samples.Story()
			in.Preset, in.Job.Model = nil, estimator.Model{HFConfig: json.RawMessage(samples.TinyLlama)}
			u := &in.Job.Training
			u.Framework, u.Versions = "hf-trainer", map[string]string{"torch": "2.9.1", "transformers": "4.57.6",
				"peft": "0.18.0", "accelerate": "1.12.0"}
			u.LoRA, u.GradientCheckpointing = c.lora, c.checkpointing
			if c.GPUs > 1 {
				u.Distributed = &estimator.Distributed{WorldSize: c.GPUs, Data: "ddp"}
			}
			ls := append(Neutral(in, "hf-trainer"), Changing(in, traits.ShapeOf(in, 1e8), "hf-trainer")...)
			at := slices.IndexFunc(ls, func(l Lever) bool { return l.Code == c.code })
			if at < 0 {
				t.Fatalf("%s is not offered", c.code)
			}
			if got := strings.Join(ls[at].Settings, " "); got != c.want {
				t.Errorf("settings %s, want %s", got, c.want)
			}
			for _, l := range ls {
				if l.Group != "adapters" && l.Group != "checkpointing" || l.Code == "checkpointing-none" {
					continue
				}
				both := in
				ls[at].Apply(&both)
				l.Apply(&both)
				if ran, err := estimator.Estimate(both); err != nil {
					t.Errorf("with %s: %v", l.Code, err)
				} else if slices.ContainsFunc(ran.Notes, func(n estimator.Note) bool { return n.Code == "ready-twice" }) {
					t.Errorf("with %s the job does not get through its first backward", l.Code)
				}
			}
			if c.checkpointing != nil && (full.Reentrant != nil || full.Every != 2) {
				t.Errorf("the job's own checkpoints are %+v now", full)
			}
		})
	}
}

// Applying a lever must leave the job that it was made from as it is.
func TestLeversKeepTheJob(t *testing.T) {
	in := samples.Story()
	in.Job.Training.Evaluation = &estimator.Evaluation{MicroBatch: 4, KeepLogits: true}
	in.Job.Training.LoRA = &estimator.LoRA{Rank: 8}
	in.Job.Model = estimator.Model{HFConfig: json.RawMessage(samples.TinyLlama)}
	before, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range append(Neutral(in, "hf-trainer"), Changing(in, traits.ShapeOf(in, 1e8), "hf-trainer")...) {
		changed := in
		l.Apply(&changed)
		after, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(before, after) {
			t.Errorf("%s writes to the job that it was made from", l.Code)
		}
		made, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(made, before) {
			t.Errorf("%s changes nothing", l.Code)
		}
	}
}

func TestLeversHaveSettings(t *testing.T) {
	in := samples.Story()
	in.Job.Training.Attention, in.Job.Training.Precision = "eager", estimator.PrecisionFP32
	in.Job.Training.Optimizer.Implementation = "foreach"
	for _, tool := range tools {
		for _, l := range append(Neutral(in, tool), Changing(in, traits.ShapeOf(in, 0), tool)...) {
			if len(l.Settings) == 0 || l.Settings[0] == "" || len(l.Changes) == 0 || l.Effort <= 0 {
				t.Errorf("%s, %s: settings %q, changes %v, effort %v", tool, l.Code, l.Settings, l.Changes, l.Effort)
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
		{"nanoGPT", samples.Story(), []string{"layers-9", "layers-6", "layers-3", "width-512", "width-256"}},
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
		for _, l := range SmallerModels(tt.in) {
			codes = append(codes, l.Code)
			in := tt.in
			l.Apply(&in)
			if d := in.Job.Model.Dimensions; d != nil && (d.Hidden%d.Heads != 0 || d.Heads%d.KVHeads != 0) {
				t.Errorf("%s, %s: heads do not divide: %+v", tt.name, l.Code, d)
			}
			if n := in.Job.Model.NanoGPT; n != nil && (n.Embedding%n.Heads != 0 || n.Embedding/n.Heads != 64) {
				t.Errorf("%s, %s: the head size changed: %+v", tt.name, l.Code, n)
			}
		}
		if !slices.Equal(codes, tt.codes) {
			t.Errorf("%s: %q, want %q", tt.name, codes, tt.codes)
		}
	}
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

func TestCardsWords(t *testing.T) {
	for _, tt := range []struct {
		tool, data string
		want       leverWord
	}{
		{"nanogpt", "ddp", leverWord{"torchrun --standalone --nproc_per_node=4 train.py", false}},
		{"nanogpt", "fsdp", leverWord{"torchrun --nproc_per_node=4 with fully_shard (torch.distributed.fsdp) on every " +
			"layer and the model", true}},
		{"pytorch", "ddp", leverWord{"torchrun --nproc_per_node=4 with DistributedDataParallel(model)", true}},
		{"accelerate", "ddp", leverWord{"accelerate launch --multi_gpu --num_processes=4", false}},
		{"torchtitan", "fsdp", leverWord{"torchrun --nproc_per_node=4 with parallelism.data_parallel_shard_degree = 4",
			false}},
	} {
		if got := cardsWord(tt.tool, tt.data, 4); got != tt.want {
			t.Errorf("%s, %s: %+v, want %+v", tt.tool, tt.data, got, tt.want)
		}
	}
	for tool, words := range cardsWords {
		for data := range words {
			if got := cardsWord(tool, data, 8).setting; strings.Contains(got, "!") || !strings.Contains(got, "8") {
				t.Errorf("%s, %s: %q", tool, data, got)
			}
		}
	}
}
