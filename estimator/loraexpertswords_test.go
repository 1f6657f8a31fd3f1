package estimator

import (
	"slices"
	"strings"
	"testing"
)

// TestAdaptersOnExperts says of named jobs what is noted or refused.
func TestAdaptersOnExperts(t *testing.T) {
	t.Parallel()
	const qwen = `{"model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
		"num_key_value_heads": 1, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32, "vocab_size": 100`
	job := func(l LoRA, change func(*Training)) Job {
		l.Rank = 4
		training := Training{MicroBatch: 1, SequenceLength: 16, Precision: "bf16", LoRA: &l}
		if change != nil {
			change(&training)
		}
		return Job{Model: Model{HFConfig: []byte(qwen + "}")}, Training: training}
	}
	named := Targets{"q_proj", "gate_proj", "up_proj"}
	for name, c := range map[string]struct {
		job  Job
		want string
	}{
		"one of two in a tensor": {job(LoRA{TargetModules: Targets{"gate_proj"}}, nil),
			"peft cannot put adapters on gate_proj without up_proj"},
		"dropout": {job(LoRA{TargetModules: named, Dropout: new(0.1)}, nil), "lora.ParamWrapper does not work with lora_dropout"},
		"DoRA":    {job(LoRA{TargetModules: named, DoRA: true}, nil), "lora.ParamWrapper does not work with use_dora"},
		"all-linear with peft 0.19": {job(LoRA{TargetModules: Targets{"all-linear"}}, func(u *Training) {
			u.Versions = map[string]string{"peft": "0.19.1"}
		}), "peft 0.19 takes"},
		"a router with peft 0.18": {job(LoRA{TargetModules: Targets{"gate"}}, func(u *Training) {
			u.Versions = map[string]string{"peft": "0.18.1"}
		}), "the targets mean mlp.gate, too, which is no linear layer"},
		"FSDP1": {job(LoRA{TargetModules: named}, func(u *Training) {
			u.Distributed = &Distributed{Data: "fsdp", WorldSize: 2, FSDPVersion: 1}
		}), "under FSDP1"},
		"zero3": {job(LoRA{TargetModules: named}, func(u *Training) {
			u.Distributed = &Distributed{Data: "zero3", WorldSize: 2}
		}), "under zero3 are not modelled"},
		"experts that no layer is named for": {job(LoRA{TargetModules: Targets{"all-linear"}}, func(u *Training) {
			u.Framework = "llama-factory"
		}), ""},
		"attention alone": {job(LoRA{TargetModules: Targets{"q_proj"}, Dropout: new(0.1)}, nil), ""},
		"experts": {job(LoRA{TargetModules: named}, nil), "note: gate_up_proj (of rank 8, for two layers in one) of every " +
			"expert"},
		"all": {job(LoRA{TargetModules: Targets{"all-linear"}}, nil), "note: down_proj of every expert, and on the router"},
	} {
		t.Run(name, func(t *testing.T) {
			res, err := Estimate(Input{Job: c.job})
			if want, noted := strings.CutPrefix(c.want, "note: "); noted || c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				i := slices.IndexFunc(res.Notes, func(n Note) bool { return n.Code == "adapters-on-experts" })
				if noted != (i >= 0) || noted && !strings.Contains(res.Notes[i].Text, want) {
					t.Errorf("the notes are %v, wanted is %q", res.Notes, want)
				}
				if noted && strings.Contains(res.Notes[i].Text, "dense layers") {
					t.Errorf("there are none: %s", res.Notes[i].Text)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v does not say %q", err, c.want)
			}
		})
	}
}
