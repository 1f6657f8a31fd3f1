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
	packed := func(t *Training) { t.Objective = &Objective{Packing: true} }
	packedTrainer := func(t *Training) { t.Objective = &Objective{Kind: "sft", Packing: true} }
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
		{"packed", "", packed, packedTrainer, false},
		{"former", "0.26.2", unsaid, func(t *Training) { t.Loss = &Loss{Kind: "standard"} }, false},
		{"several GPUs", "", two, and(two, liger), true},
		{"several GPUs, former", "0.26.2", two, and(two, func(t *Training) { t.Loss = &Loss{Kind: "standard"} }), false},
		{"evaluated", "", evaluated, and(evaluated, trainer), false},
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
			if has != c.doubts || noted != (c.release == "") && c.name != "packed" {
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

// TestQuantisedBaseUnderTRL: trl's trainers prepare a base in four bits up to some release, and then leave it as it was
// loaded and cast the adapters.
func TestQuantisedBaseUnderTRL(t *testing.T) {
	const config = `{"model_type":"llama","architectures":["LlamaForCausalLM"],"hidden_size":256,"intermediate_size":512,` +
		`"num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,"vocab_size":32000,` +
		`"max_position_embeddings":2048}`
	yes, no := true, false
	weights := func(t *testing.T, kind, release string, l LoRA) int64 {
		t.Helper()
		l.Rank, l.BasePrecision = 8, "nf4"
		j := Job{Model: Model{HFConfig: []byte(config)}, Training: Training{MicroBatch: 1, SequenceLength: 256,
			Precision: PrecisionAMPBF16, Framework: "trl", LoRA: &l, Versions: map[string]string{"trl": release}}}
		if kind != "" {
			j.Training.Objective = &Objective{Kind: kind}
			if kind != "sft" {
				j.Training.Objective.PromptTokens, j.Training.Objective.CompletionTokens = 128, 128
			}
		}
		res, err := Estimate(Input{Job: j})
		if err != nil {
			t.Fatal(err)
		}
		return res.Components[0].Bytes
	}
	for _, c := range []struct {
		kind, release string
		leaves        bool
	}{
		{"", "0.25.1", false}, {"", "0.26.2", true}, {"", "1.16.0", true}, {"sft", "1.16.0", true},
		{"dpo", "0.26.2", false}, {"dpo", "1.16.0", true}, {"orpo", "0.26.2", false},
	} {
		t.Run(c.kind+" "+c.release, func(t *testing.T) {
			got := weights(t, c.kind, c.release, LoRA{})
			left := weights(t, c.kind, c.release, LoRA{UpcastBase: &no, AdapterDtype: "bf16"})
			prepared := weights(t, c.kind, c.release, LoRA{UpcastBase: &yes, AdapterDtype: "fp32"})
			if left >= prepared {
				t.Fatalf("a base as it was loaded takes %d, a prepared one %d", left, prepared)
			}
			want := prepared
			if c.leaves {
				want = left
			}
			if got != want {
				t.Errorf("weights take %d; as they were loaded %d, prepared %d", got, left, prepared)
			}
		})
	}
}
