package estimator

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// drawnObjective is a random kind of training with the fields that it reads, and what else of training it wants.
func drawnObjective(t *rapid.T, model string) (objective map[string]any, more map[string]any) {
	n := func(name string, low, high int) int { return rapid.IntRange(low, high).Draw(t, name) }
	is := func(name string) bool { return rapid.Bool().Draw(t, name) }
	one := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	kind := one("kind", "sft", "dpo", "orpo", "cpo", "simpo", "kto", "reward", "gkd", "grpo", "rloo", "ppo", "contrastive")
	objective, more = map[string]any{"kind": kind}, map[string]any{}
	switch kind {
	case "sft", "reward", "gkd", "contrastive":
		more["sequence_length"] = n("tokens", 8, 160)
	default:
		objective["prompt_tokens"], objective["completion_tokens"] = n("prompt", 2, 80), n("completion", 2, 80)
	}
	switch kind {
	case "sft":
		objective["padding_free"] = is("padding free")
	case "dpo", "kto":
		if is("said") {
			objective["reference"] = one("reference", "separate", "adapter-off", "precomputed")
		}
		if is("typed") {
			objective["reference_dtype"] = one("reference dtype", "bf16", "fp32")
		}
	case "gkd":
		objective["teacher"] = map[string]any{"hf_config": json.RawMessage(fmt.Sprintf(model, n("teacher's layers", 1, 7)))}
		objective["beta"] = rapid.SampledFrom([]float64{0, 0.5, 1}).Draw(t, "beta")
	case "grpo", "rloo":
		objective["num_generations"] = 2
		objective["beta"] = rapid.SampledFrom([]float64{0, 0.1}).Draw(t, "beta")
	case "ppo":
		objective["rollout_forward_batch"] = n("at once", 1, 9)
	case "contrastive":
		objective["loss"] = one("loss", "mnrl", "cached-mnrl", "matryoshka-mnrl", "triplet")
		if objective["loss"] == "triplet" {
			objective["texts"] = 3
		}
		if objective["loss"] == "cached-mnrl" {
			objective["mini_batch"] = n("mini-batch", 1, 5)
		}
	}
	if kind != "contrastive" {
		more["versions"] = map[string]string{"trl": one("trl", "0.26.2", "1.16.0")}
	}
	return objective, more
}

// TestRandomObjectivesFold holds the short cut for layers that repeat against every layer played by itself, on random
// jobs of every kind of training.
func TestRandomObjectivesFold(t *testing.T) {
	const model = `{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 64, "intermediate_size": 96,
		"num_hidden_layers": %d, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 1024}`
	answered := 0
	rapid.Check(t, func(t *rapid.T) {
		objective, training := drawnObjective(t, model)
		training["objective"] = objective
		training["micro_batch"] = 2 * rapid.IntRange(1, 3).Draw(t, "micro-batch")
		training["gradient_accumulation"] = rapid.IntRange(1, 3).Draw(t, "accumulation")
		training["precision"] = rapid.SampledFrom([]string{"amp-bf16", "amp-fp16", "fp32", "bf16"}).Draw(t, "precision")
		training["gradient_checkpointing"] = rapid.SampledFrom([]string{"none", "full"}).Draw(t, "checkpointing")
		if rapid.Bool().Draw(t, "adapters") {
			training["lora"] = map[string]any{"rank": 4, "target_modules": []string{"q_proj", "up_proj"}}
		}
		document, err := json.Marshal(map[string]any{"training": training, "model": map[string]any{
			"hf_config": json.RawMessage(fmt.Sprintf(model, rapid.IntRange(1, 9).Draw(t, "layers")))}})
		if err != nil {
			t.Fatal(err)
		}
		var in Input
		if err := json.Unmarshal(document, &in.Job); err != nil {
			t.Fatal(err)
		}
		res, err := Estimate(in)
		if refused := (*InvalidJobError)(nil); errors.As(err, &refused) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		answered++
		var plain, folded alloc.Tally
		if err := errors.Join(Replay(in, &plain, 2, true), Replay(in, &folded, 2, false)); err != nil {
			t.Fatal(err)
		}
		most := int64(0)
		for _, p := range res.Phases {
			most = max(most, p.AllocatedBytes)
		}
		if objective["loss"] == "cached-mnrl" { // the ledger may lack kilobytes of the gradients of the mini-batches before
			most = plain.Most
		}
		if plain.Most != folded.Most || plain.Most != most {
			t.Fatalf("every layer: %d; folded: %d; the ledger: %d of %s", plain.Most, folded.Most, most, document)
		}
	})
	if answered == 0 {
		t.Error("no job was answered")
	}
}
