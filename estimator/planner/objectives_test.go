package planner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/samples"
)

// TestTrainersThatAskForTwo: a trainer that refuses a micro-batch of one has a plan all the same, and a job that is
// wrong in another way is refused for that.
func TestTrainersThatAskForTwo(t *testing.T) {
	in := samples.Trained(`{"kind": "kto", "prompt_tokens": 32, "completion_tokens": 32}`, "")
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
	in = samples.Trained(`{"kind": "kto", "prompt_tokens": 32}`, "")
	in.Job.Training.MicroBatch = 4
	if _, err := Make(t.Context(), Request{Input: in}); err == nil ||
		!strings.Contains(err.Error(), "completion_tokens") ||
		strings.Contains(err.Error(), "micro_batch") {
		t.Errorf("without its completions it is refused with %v", err)
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
			in := samples.Trained(c.objective, c.more)
			in.Job.Training.MicroBatch, in.Job.Training.GradientAccumulation = 8, 2
			in.GPUs = []estimator.GPU{{ID: "small", UsableBytes: 300 << 20, ComputeCapability: 89, Multiprocessors: 46}}
			r := Request{Input: in, EffectiveBatch: 16}
			p, err := Make(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(p.Options, func(o document.Option) bool { return o.Changes["objective"] != nil }) {
				t.Fatalf("none of %d options is the trainer's own", len(p.Options))
			}
			checkChanges(t, r, p, estimator.Estimate)
		})
	}
}

// TestChangesOfTwoLeversOfAnObjective says that both stand in the answer, beside what the job says.
func TestChangesOfTwoLeversOfAnObjective(t *testing.T) {
	in := samples.Trained(`{"kind": "dpo", "prompt_tokens": 64, "completion_tokens": 64}`, "")
	ls := slices.DeleteFunc(lever.Neutral(in, "trl"), func(l lever.Lever) bool { return l.Changes["objective"] == nil })
	got, err := json.Marshal(asking.Candidate{With: lever.NewVariant(ls...), Micro: 1, Accum: 1}.Changes(in))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"objective":{"kind":"dpo","prompt_tokens":64,"completion_tokens":64,"reference":"precomputed",` +
		`"use_logits_to_keep":true}}`
	if string(got) != want {
		t.Errorf("changes %s, want %s", got, want)
	}
}
