package planner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

const tinyLlama = `{"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":512,"intermediate_size":1376,"num_hidden_layers":4,"num_attention_heads":8,"vocab_size":32000}`

// codes are those of levers in a group.
func codes(ls []lever, group string) string {
	var out []string
	for _, l := range ls {
		if l.group == group {
			out = append(out, l.code)
		}
	}
	return strings.Join(out, " ")
}

func TestWhichLeversAreOffered(t *testing.T) {
	llama := func(in *estimator.Input) {
		in.Job.Model = estimator.Model{HFConfig: json.RawMessage(tinyLlama)}
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
			in := story().Input
			if tt.change != nil {
				tt.change(&in)
			}
			tool := traits.ToolOf(in)
			all := append(neutralLevers(in, tool), changingLevers(in, traits.ShapeOf(in, 1e8), tool)...)
			if got := codes(all, tt.group); got != tt.want {
				t.Errorf("levers %q, want %q", got, tt.want)
			}
			for _, l := range all {
				if len(l.settings) == 0 || l.settings[0] == "" {
					t.Errorf("%s says nothing of how to set it", l.code)
				}
				if l.changesTraining() != (l.disturbs > 0) {
					t.Errorf("%s: effect %q, weight %v", l.code, l.effect, l.disturbs)
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
		gpus          int64
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
			in := story().Input
			in.Preset, in.Job.Model = nil, estimator.Model{HFConfig: json.RawMessage(tinyLlama)}
			u := &in.Job.Training
			u.Framework, u.Versions = "hf-trainer", map[string]string{"torch": "2.9.1", "transformers": "4.57.6",
				"peft": "0.18.0", "accelerate": "1.12.0"}
			u.LoRA, u.GradientCheckpointing = c.lora, c.checkpointing
			if c.gpus > 1 {
				u.Distributed = &estimator.Distributed{WorldSize: c.gpus, Data: "ddp"}
			}
			ls := append(neutralLevers(in, "hf-trainer"), changingLevers(in, traits.ShapeOf(in, 1e8), "hf-trainer")...)
			at := slices.IndexFunc(ls, func(l lever) bool { return l.code == c.code })
			if at < 0 {
				t.Fatalf("%s is not offered", c.code)
			}
			if got := strings.Join(ls[at].settings, " "); got != c.want {
				t.Errorf("settings %s, want %s", got, c.want)
			}
			for _, l := range ls {
				if l.group != "adapters" && l.group != "checkpointing" || l.code == "checkpointing-none" {
					continue
				}
				both := in
				ls[at].apply(&both)
				l.apply(&both)
				if ran, err := estimator.Estimate(both); err != nil {
					t.Errorf("with %s: %v", l.code, err)
				} else if slices.ContainsFunc(ran.Notes, func(n estimator.Note) bool { return n.Code == "ready-twice" }) {
					t.Errorf("with %s the job does not get through its first backward", l.code)
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
	in := story().Input
	in.Job.Training.Evaluation = &estimator.Evaluation{MicroBatch: 4, KeepLogits: true}
	in.Job.Training.LoRA = &estimator.LoRA{Rank: 8}
	in.Job.Model = estimator.Model{HFConfig: json.RawMessage(tinyLlama)}
	before, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range append(neutralLevers(in, "hf-trainer"), changingLevers(in, traits.ShapeOf(in, 1e8), "hf-trainer")...) {
		changed := in
		l.apply(&changed)
		after, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(before, after) {
			t.Errorf("%s writes to the job that it was made from", l.code)
		}
		made, err := json.Marshal(changed)
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(made, before) {
			t.Errorf("%s changes nothing", l.code)
		}
	}
}

// An evaluation pass that holds the peak is made smaller, and training is left alone.
func TestEvaluationHoldsThePeak(t *testing.T) {
	r := story()
	r.Input.Job.Training.MicroBatch, r.Input.Job.Training.GradientAccumulation = 4, 1
	r.Input.Job.Training.Evaluation = &estimator.Evaluation{MicroBatch: 64, KeepLogits: true}
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if p.Today.Verdict == estimator.Fits {
		t.Fatalf("the evaluation is meant not to fit: %+v", p.Today)
	}
	o := p.Options[0]
	if _, ok := o.Changes["evaluation"]; !ok || o.Verdict != estimator.Fits || o.ChangesTraining {
		t.Errorf("the first option is %q with %v, %s", o.Title, o.Changes, o.Verdict)
	}
}

// What does not fit in any way as it is can be fine-tuned with adapters.
func TestAdaptersMakeRoom(t *testing.T) {
	r := story()
	r.Input.Job.Model = estimator.Model{HFConfig: json.RawMessage(tinyLlama)}
	r.Input.Job.Training = estimator.Training{MicroBatch: 4, SequenceLength: 512, GradientAccumulation: 4,
		Precision: estimator.PrecisionBF16}
	r.Input.GPUs[0].UsableBytes = 720 * mib
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(p.Options, func(o Option) bool { return o.Verdict == estimator.Fits })
	if i < 0 {
		t.Fatalf("nothing fits:\n%s", p.Text())
	}
	if o := p.Options[i]; o.Changes["lora"] == nil || !o.ChangesTraining ||
		!strings.Contains(o.TrainingEffect, "only adapters are trained") {
		t.Errorf("the first option that fits is %q: %s", o.Title, o.TrainingEffect)
	}
}
