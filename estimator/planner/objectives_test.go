package planner

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
)

// trained is a job of tinyLlama with an objective and what else is said of its training.
func trained(t *testing.T, objective, more string) estimator.Input {
	t.Helper()
	var in estimator.Input
	document := fmt.Sprintf(`{"model": {"hf_config": %s}, "training": {"micro_batch": 4, "objective": %s%s}}`,
		tinyLlama,
		objective, more)
	if err := json.Unmarshal([]byte(document), &in.Job); err != nil {
		t.Fatal(err)
	}
	return in
}

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
			in := trained(t, c.objective, c.more)
			before, _ := json.Marshal(in.Job)
			var codes []string
			ls := append(objectives(in.Job.Training, false), objectives(in.Job.Training, true)...)
			for _, l := range ls {
				codes = append(codes, l.code)
				changed := in
				l.apply(&changed)
				after, _ := json.Marshal(changed.Job)
				if string(after) == string(before) || len(l.settings) == 0 || l.library == "" {
					t.Errorf("%s changes %v; settings %q of %q", l.code, l.changes, l.settings, l.library)
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
	in := trained(t, `{"kind": "dpo", "prompt_tokens": 64, "completion_tokens": 64}`, "")
	before, err := estimator.Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	newVariant(objectives(in.Job.Training, false)[0]).levers[0].apply(&in)
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

// TestChangesOfTwoLeversOfAnObjective says that both stand in the answer, beside what the job says.
func TestChangesOfTwoLeversOfAnObjective(t *testing.T) {
	in := trained(t, `{"kind": "dpo", "prompt_tokens": 64, "completion_tokens": 64}`, "")
	ls := objectives(in.Job.Training, false)
	got, err := json.Marshal(candidate{with: newVariant(ls...), micro: 1, accum: 1}.changes(in))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"objective":{"kind":"dpo","prompt_tokens":64,"completion_tokens":64,"reference":"precomputed",` +
		`"use_logits_to_keep":true}}`
	if string(got) != want {
		t.Errorf("changes %s, want %s", got, want)
	}
}

// TestTrainersThatAskForTwo: a trainer that refuses a micro-batch of one has a plan all the same, and a job that is
// wrong in another way is refused for that.
func TestTrainersThatAskForTwo(t *testing.T) {
	in := trained(t, `{"kind": "kto", "prompt_tokens": 32, "completion_tokens": 32}`, "")
	in.Job.Training.MicroBatch = 4
	p, err := Make(t.Context(), Request{Input: in})
	if err != nil {
		t.Fatal(err)
	}
	var pairs []int64
	for _, pair := range p.Pairs {
		pairs = append(pairs, pair.MicroBatch)
	}
	if !slices.Equal(pairs, []int64{4, 2}) {
		t.Errorf("the pairs have the micro-batches %v, want 4 and 2", pairs)
	}
	in = trained(t, `{"kind": "kto", "prompt_tokens": 32}`, "")
	in.Job.Training.MicroBatch = 4
	if _, err := Make(t.Context(), Request{Input: in}); err == nil ||
		!strings.Contains(err.Error(), "completion_tokens") ||
		strings.Contains(err.Error(), "micro_batch") {
		t.Errorf("without its completions it is refused with %v", err)
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
		"cached-mnrl":        trained(t, `"contrastive"`, `, "micro_batch": 256, "sequence_length": 64`),
		"mini-batch-16": trained(t, `{"kind": "contrastive", "loss": "cached-mnrl"}`,
			`, "micro_batch": 256, "sequence_length": 64`),
		"rollout-forward-batch-4": trained(t, `{"kind": "ppo", "prompt_tokens": 8, "completion_tokens": 256}`,
			`, "gradient_accumulation": 8`),
	} {
		t.Run(name, func(t *testing.T) {
			before, err := estimator.Estimate(in)
			if err != nil {
				t.Fatal(err)
			}
			ls := append(objectives(in.Job.Training, false), objectives(in.Job.Training, true)...)
			for _, l := range ls {
				if l.code != name {
					continue
				}
				l.apply(&in)
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
			in := trained(t, c.objective, c.more)
			ls := losses(in.Job.Training)
			if len(ls) > 0 != c.offered || len(ls) > 1 {
				t.Fatalf("%d losses are offered", len(ls))
			}
			for _, l := range ls {
				l.apply(&in)
			}
			if _, err := estimator.Estimate(in); c.offered && (err == nil) != c.taken {
				t.Errorf("with it: %v", err)
			}
		})
	}
}

// TestOptionsOfATrainersJobCanBeAppliedAsTheyStand puts the changes of every option into the job.
func TestOptionsOfATrainersJobCanBeAppliedAsTheyStand(t *testing.T) {
	for _, c := range []struct{ name, objective, more string }{
		{"grpo", `{"kind": "grpo", "prompt_tokens": 64, "completion_tokens": 64, "num_generations": 4, "beta": 0.1, ` +
			`"num_iterations": 2}`, ""},
		{"dpo", `{"kind": "dpo", "prompt_tokens": 64, "completion_tokens": 64}`, ""},
		{"embeddings", `{"kind": "contrastive", "loss": "cached-mnrl", "mini_batch": 16}`, `, "sequence_length": 64`},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := trained(t, c.objective, c.more)
			in.Job.Training.MicroBatch, in.Job.Training.GradientAccumulation = 8, 2
			in.GPUs = []estimator.GPU{{ID: "small", UsableBytes: 300 << 20, ComputeCapability: 89, Multiprocessors: 46}}
			r := Request{Input: in, EffectiveBatch: 16}
			p, err := Make(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(p.Options, func(o Option) bool { return o.Changes["objective"] != nil }) {
				t.Fatalf("none of %d options is the trainer's own", len(p.Options))
			}
			checkChanges(t, r, p, estimator.Estimate)
		})
	}
}
