package lever

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/samples"
)

// TestObjectivesHaveLevers says which settings of its trainer each kind is offered, and that each takes the job as it
// is, says how it is set, and leaves the job that it was made from alone.
func TestObjectivesHaveLevers(t *testing.T) {
	for _, c := range []struct{ name, objective, more, want string }{
		{"dpo", `{"kind": "dpo", "prompt_tokens": 64, "completion_tokens": 64}`, "",
			"reference-precomputed logits-to-keep completion-32"},
		{"dpo with adapters beside a second model",
			`{"kind": "dpo", "prompt_tokens": 64, "completion_tokens": 64, "reference": "separate"}`,
			`, "lora": {"rank": 8}`, "reference-precomputed reference-adapter-off logits-to-keep completion-32"},
		{"nothing is left of the reference",
			`{"kind": "kto", "prompt_tokens": 32, "completion_tokens": 32, "reference": "precomputed"}`, "", ""},
		{"a reference that stays though it is not asked",
			`{"kind": "kto", "prompt_tokens": 32, "completion_tokens": 32, "reference": "precomputed", "reference_resident": true}`,
			"", "reference-precomputed"},
		{"grpo", `{"kind": "grpo", "prompt_tokens": 64, "completion_tokens": 64, "num_generations": 4, "beta": 0.1}`,
			`, "gradient_accumulation": 2`, "beta-0 completion-32"},
		{"grpo that writes for two optimizer steps", `{"kind": "grpo", "prompt_tokens": 64, "completion_tokens": 64,
			"num_generations": 4, "beta": 0.1, "steps_per_generation": 4}`,
			`, "gradient_accumulation": 2`, "steps-per-generation-2 beta-0 completion-32"},
		{"sft", `"sft"`, `, "sequence_length": 128, "versions": {"trl": "1.5.0"}`, "loss-type-chunked_nll"},
		{"the loss of the model", `"language-model"`, `, "sequence_length": 128`, ""},
		{"ppo", `{"kind": "ppo", "prompt_tokens": 32, "completion_tokens": 32}`, `, "gradient_accumulation": 4`,
			"rollout-forward-batch-4"},
		{"embeddings", `"contrastive"`, `, "micro_batch": 128, "sequence_length": 64`, "cached-mnrl"},
		{"embeddings in mini-batches", `{"kind": "contrastive", "loss": "cached-mnrl", "mini_batch": 16}`,
			`, "micro_batch": 128, "sequence_length": 64`, "mini-batch-8"},
		{"few texts", `"contrastive"`, `, "sequence_length": 64`, ""},
		{"a picture's adapters", `"diffusion"`,
			`, "resolution": 1024, "lora": {"rank": 4}, "script": "train_dreambooth_lora_flux.py"`,
			"latents-cached resolution-512x512"},
		{"a script that cannot cache", `"diffusion"`, `, "resolution": [512, 768], "script": "train_text_to_image.py"`,
			"resolution-256x384"},
		{"pictures", `{"kind": "vision-language", "image_size": [672, 448]}`, "",
			"freeze-vision image-size-336x224"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := samples.Trained(c.objective, c.more)
			before, _ := json.Marshal(in.Job)
			var codes []string
			ls := append(objectives(in.Job.Training, false), objectives(in.Job.Training, true)...)
			for _, l := range ls {
				codes = append(codes, l.Code)
				changed := in
				l.Apply(&changed)
				after, _ := json.Marshal(changed.Job)
				if string(after) == string(before) || len(l.Settings) == 0 || l.Library == "" {
					t.Errorf("%s changes %v; settings %q of %q", l.Code, l.Changes, l.Settings, l.Library)
				}
			}
			if got := strings.Join(codes, " "); got != c.want {
				t.Errorf("offers %q, want %q", got, c.want)
			}
			if left, _ := json.Marshal(in.Job); string(left) != string(before) {
				t.Errorf("wrote to the job: %s", left)
			}
		})
	}
}

// TestPrecomputedReferenceGivesItsWeightsBack holds a lever against the estimates before and after it.
func TestPrecomputedReferenceGivesItsWeightsBack(t *testing.T) {
	in := samples.Trained(`{"kind": "dpo", "prompt_tokens": 64, "completion_tokens": 64}`, "")
	before, err := estimator.Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	NewVariant(objectives(in.Job.Training, false)[0]).Levers[0].Apply(&in)
	after, err := estimator.Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	const inBatch = 512 // the log-probabilities that were computed come with the batch
	weights := before.Model.Parameters * 4
	if saved := before.Peak.AllocatedBytes - after.Peak.AllocatedBytes; saved < weights-inBatch {
		t.Errorf("%d bytes are saved, and the reference's weights are %d", saved, weights)
	}
}

// TestLeversOfModelsGiveMemoryBack holds levers of embeddings, PPO and pictures against the estimates before and after.
func TestLeversOfModelsGiveMemoryBack(t *testing.T) {
	const flux = `{"model": {"diffusion": {"preset": "black-forest-labs/FLUX.1-dev"}}, "training": {"micro_batch": 4,
		"resolution": 1024, "gradient_checkpointing": "full", "lora": {"rank": 16}, "objective": {"kind": "diffusion"}}}`
	var pictures estimator.Input
	if err := json.Unmarshal([]byte(flux), &pictures.Job); err != nil {
		t.Fatal(err)
	}
	for name, in := range map[string]estimator.Input{
		"latents-cached":     pictures,
		"resolution-512x512": pictures,
		"cached-mnrl":        samples.Trained(`"contrastive"`, `, "micro_batch": 256, "sequence_length": 64`),
		"mini-batch-16": samples.Trained(`{"kind": "contrastive", "loss": "cached-mnrl"}`,
			`, "micro_batch": 256, "sequence_length": 64`),
		"rollout-forward-batch-4": samples.Trained(`{"kind": "ppo", "prompt_tokens": 8, "completion_tokens": 256}`,
			`, "gradient_accumulation": 8`),
	} {
		t.Run(name, func(t *testing.T) {
			before, err := estimator.Estimate(in)
			if err != nil {
				t.Fatal(err)
			}
			ls := append(objectives(in.Job.Training, false), objectives(in.Job.Training, true)...)
			for _, l := range ls {
				if l.Code != name {
					continue
				}
				l.Apply(&in)
				after, err := estimator.Estimate(in)
				if err != nil {
					t.Fatal(err)
				}
				if after.Peak.AllocatedBytes > before.Peak.AllocatedBytes {
					t.Errorf("allocates %d, and %d before", after.Peak.AllocatedBytes, before.Peak.AllocatedBytes)
				}
				return
			}
			t.Error("is not offered")
		})
	}
}

// TestLigersLossIsOffered: SFTTrainer takes Liger's loss before its own has no logits, and the others do not.
func TestLigersLossIsOffered(t *testing.T) {
	for _, c := range []struct {
		name, objective, more string
		offered, taken        bool
	}{
		{"sft", `"sft"`, `, "sequence_length": 128, "versions": {"trl": "0.26.2"}`, true, true},
		{"sft without logits", `"sft"`, `, "sequence_length": 128, "versions": {"trl": "1.16.0"}`, true, false},
		{"dpo", `{"kind": "dpo", "prompt_tokens": 64, "completion_tokens": 64}`, "", false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := samples.Trained(c.objective, c.more)
			ls := losses(in.Job.Training)
			if len(ls) > 0 != c.offered || len(ls) > 1 {
				t.Fatalf("%d losses are offered", len(ls))
			}
			for _, l := range ls {
				l.Apply(&in)
			}
			if _, err := estimator.Estimate(in); c.offered && (err == nil) != c.taken {
				t.Errorf("with it: %v", err)
			}
		})
	}
}
