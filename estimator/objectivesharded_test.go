package estimator

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// dealtJob is a job of trl 0.26 on several GPUs.
func dealtJob(t *testing.T, objective, distributed, more string) Input {
	t.Helper()
	const model = `"model": {"hf_config": {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 6, "num_attention_heads": 4, "vocab_size": 2048}}`
	text := "{" + model + `, "training": {"framework": "trl", "versions": {"torch": "2.9.1", "transformers": "4.57.6", "trl": "0.26.2"}, "micro_batch": 4, "objective": ` +
		objective + `, "distributed": ` + distributed + more + `}}`
	var in Input
	if err := json.Unmarshal([]byte(text), &in.Job); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return in
}

const dealtLengths = `, "prompt_tokens": 64, "completion_tokens": 64`

// TestDealtObjectivesThatFail: what trl's trainers were seen to fail with is refused, by the field that helps.
func TestDealtObjectivesThatFail(t *testing.T) {
	const (
		zero3 = `{"world_size": 4, "data": "zero3"}`
		zero2 = `{"world_size": 4, "data": "zero2"}`
		flat  = `{"world_size": 4, "data": "fsdp", "fsdp_version": 1}`
		each  = `{"world_size": 4, "data": "fsdp", "fsdp_version": 2}`
	)
	dpo, kto := `{"kind": "dpo"`+dealtLengths, `{"kind": "kto"`+dealtLengths
	teacher := `, "teacher": {"hf_config": {"model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 2048}}`
	gkd := `{"kind": "gkd", "prompt_tokens": 64, "completion_tokens": 64` + teacher
	const sequence = `, "sequence_length": 128`
	for name, c := range map[string]struct{ objective, distributed, more, pointer string }{
		"a reference in FSDP1 with the policy of FSDP2": {dpo + "}", each, "", "/training/distributed/fsdp_version"},
		"adapters that write completions under FSDP": {`{"kind": "grpo", "num_generations": 4` + dealtLengths + "}", flat,
			`, "lora": {"rank": 8}`, "/training/lora"},
		"one of GRPO":                           {`{"kind": "grpo", "beta": 0.1, "num_generations": 4` + dealtLengths + "}", each, "", "/training/distributed/fsdp_version"},
		"a reference of KTO on the CPU":         {kto + "}", flat, "", "/training/objective/reference"},
		"a teacher on the CPU":                  {gkd + "}", flat, sequence, "/training/objective/teacher"},
		"precomputed before the model is there": {dpo + `, "reference": "precomputed"}`, zero2, "", "/training/objective/reference"},
		"precomputed under ZeRO-3":              {dpo + `, "reference": "precomputed"}`, zero3, "", "/training/objective/reference"},
		"offloaded":                             {dpo + "}", `{"world_size": 4, "data": "zero3", "offload_optimizer": true}`, "", "/training/distributed"},
		"a quantised base": {dpo + "}", zero3, `, "lora": {"rank": 8, "base_precision": "nf4"}`,
			"/training/lora/base_precision"},
		"vLLM on the card": {`{"kind": "grpo", "num_generations": 4, "rollout": "vllm-colocate"` + dealtLengths + "}", zero3, "",
			"/training/objective/rollout"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Estimate(dealtJob(t, c.objective, c.distributed, c.more))
			var refused *InvalidJobError
			if !errors.As(err, &refused) {
				t.Fatalf("got %v, want a refusal at %s", err, c.pointer)
			}
			if !slices.ContainsFunc(refused.Fields, func(e invalid.Field) bool { return e.Pointer == c.pointer }) {
				t.Errorf("refused at %v, want %s", refused.Fields, c.pointer)
			}
		})
	}
}

// TestDealtReference: a reference of DPO is whole on each GPU under ZeRO-2, and a part of it under ZeRO-3 and FSDP1.
func TestDealtReference(t *testing.T) {
	weights := func(data string) (bytes int64, noted bool) {
		in := dealtJob(t, `{"kind": "dpo"`+dealtLengths+"}", `{"world_size": 8, "data": `+data+"}", "")
		res, err := Estimate(in)
		if err != nil {
			t.Fatal(err)
		}
		noted = slices.ContainsFunc(res.Notes, func(n Note) bool {
			return n.Code == "model-beside" && strings.Contains(n.Text, "dealt out")
		})
		for _, p := range res.Phases {
			if p.Name == "steady" {
				bytes = p.AllocatedBytes
			}
		}
		return bytes, noted
	}
	whole, said := weights(`"zero2"`)
	if said {
		t.Error("ZeRO-2 is said to deal the reference out")
	}
	for _, data := range []string{`"zero3", "deepspeed": {"reduce_bucket_size": "auto"}`, `"fsdp", "fsdp_version": 1`} {
		if part, said := weights(data); part >= whole || !said {
			t.Errorf("%s: between steps %d bytes, with ZeRO-2 %d; noted: %v", data, part, whole, said)
		}
	}
}
