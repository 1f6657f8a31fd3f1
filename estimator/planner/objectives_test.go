package planner

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
)

// trained is a job of tinyLlama with an objective and what else is said of its training.
func trained(t *testing.T, objective, more string) estimator.Input {
	t.Helper()
	var in estimator.Input
	document := fmt.Sprintf(`{"model": {"hf_config": %s}, "training": {"micro_batch": 4, "objective": %s%s}}`, tinyLlama,
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

// TestChangesOfTwoLeversOfAnObjective says that both stand in the answer.
func TestChangesOfTwoLeversOfAnObjective(t *testing.T) {
	in := trained(t, `{"kind": "dpo", "prompt_tokens": 64, "completion_tokens": 64}`, "")
	ls := objectives(in.Job.Training, false)
	got, err := json.Marshal(newVariant(ls...).changes())
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"objective":{"kind":"dpo","reference":"precomputed","use_logits_to_keep":true}}`; string(got) != want {
		t.Errorf("changes %s, want %s", got, want)
	}
}
