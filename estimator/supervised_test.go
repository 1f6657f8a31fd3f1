package estimator

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestFrameworkTRLIsSFTTrainer: a job of trl that names no objective runs SFTTrainer, with the loss that its release
// has by default.
func TestFrameworkTRLIsSFTTrainer(t *testing.T) {
	const config = `{"model_type":"qwen3","architectures":["Qwen3ForCausalLM"],"hidden_size":256,"intermediate_size":512,` +
		`"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"vocab_size":32000,` +
		`"max_position_embeddings":2048}`
	job := func(release string, change func(*Training)) Job {
		j := Job{Model: Model{HFConfig: []byte(config)}, Training: Training{MicroBatch: 4, SequenceLength: 512,
			Precision: PrecisionAMPBF16, Framework: "trl", GradientCheckpointing: &Checkpointing{Mode: "full"}}}
		if release != "" {
			j.Training.Versions = map[string]string{"trl": release}
		}
		change(&j.Training)
		return j
	}
	estimate := func(t *testing.T, j Job) *Result {
		t.Helper()
		res, err := Estimate(Input{Job: j})
		if err != nil {
			t.Fatal(err)
		}
		return res
	}
	unsaid := func(*Training) {}
	trainer := func(t *Training) { t.Objective = &Objective{Kind: "sft"} }
	liger := func(t *Training) { t.Loss = &Loss{Kind: "fused-linear"} }
	two := func(t *Training) { t.Distributed = &Distributed{WorldSize: 2, Data: "ddp"} }
	evaluated := func(t *Training) { t.Evaluation = &Evaluation{MicroBatch: 1} }
	and := func(changes ...func(*Training)) func(*Training) {
		return func(t *Training) {
			for _, change := range changes {
				change(t)
			}
		}
	}
	for _, c := range []struct {
		name, release string
		given, like   func(*Training)
		doubts        bool
	}{
		{"today's", "", unsaid, trainer, false},
		{"with adapters", "", and(func(t *Training) { t.LoRA = &LoRA{Rank: 8} }),
			and(func(t *Training) { t.LoRA = &LoRA{Rank: 8} }, trainer), false},
		{"former", "0.26.2", unsaid, func(t *Training) { t.Loss = &Loss{Kind: "standard"} }, false},
		{"several GPUs", "", two, and(two, liger), true},
		{"several GPUs, former", "0.26.2", two, and(two, func(t *Training) { t.Loss = &Loss{Kind: "standard"} }), false},
		{"evaluated", "", evaluated, and(evaluated, liger), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, want := estimate(t, job(c.release, c.given)), estimate(t, job(c.release, c.like))
			if got.Peak.AllocatedBytes != want.Peak.AllocatedBytes ||
				got.Peak.ReservedBytes != want.Peak.ReservedBytes {
				t.Errorf("allocated %d, reserved %d; want %d and %d", got.Peak.AllocatedBytes, got.Peak.ReservedBytes,
					want.Peak.AllocatedBytes, want.Peak.ReservedBytes)
			}
			if diff := cmp.Diff(want.Components, got.Components); diff != "" && !c.doubts {
				t.Errorf("components (-want +got):\n%s", diff)
			}
			has := slices.ContainsFunc(got.Doubts, func(d DoubtSource) bool { return d.Source == "sft-loss" })
			noted := slices.ContainsFunc(got.Notes, func(n Note) bool { return n.Code == "no-logits" })
			if has != c.doubts || noted != (c.release == "") {
				t.Errorf("a doubt %t, want %t; a note %t, want %t", has, c.doubts, noted, c.release == "")
			}
		})
	}
	said := estimate(t, job("", func(t *Training) { t.Loss = &Loss{Kind: "standard"} }))
	if unsaid := estimate(t, job("", unsaid)); said.Peak.AllocatedBytes <= unsaid.Peak.AllocatedBytes {
		t.Errorf("a loss of all logits that the job names allocates %d, and without them %d", said.Peak.AllocatedBytes,
			unsaid.Peak.AllocatedBytes)
	}
}
