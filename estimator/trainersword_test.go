package estimator

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestWhoFillsACache: the Trainer of transformers 5 sets use_cache over the configuration's, others do so whatever the
// release, and a plain loop leaves it as it is. T5's decoder has a copy of the configuration, which the Trainer does
// not reach. The figures are held by accuracy/testdata/kinds/trainer.jsonl.
func TestWhoFillsACache(t *testing.T) {
	const decoder = `{"model_type":"qwen3","architectures":["Qwen3ForCausalLM"],"hidden_size":256,"intermediate_size":512,` +
		`"num_hidden_layers":4,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"vocab_size":1000,` +
		`"max_position_embeddings":2048,"use_cache":true}`
	const gemma = `{"model_type":"gemma3_text","architectures":["Gemma3ForCausalLM"],"num_hidden_layers":4,` +
		`"hidden_size":256,"num_attention_heads":4,"num_key_value_heads":2,"intermediate_size":512,"vocab_size":1000,` +
		`"max_position_embeddings":2048,"head_dim":64,"sliding_window":128,"use_cache":true}`
	const t5 = `{"model_type":"t5","architectures":["T5ForConditionalGeneration"],"d_model":256,"d_kv":64,"d_ff":512,` +
		`"num_layers":2,"num_heads":4,"vocab_size":1000,"use_cache":true}`
	for _, c := range []struct {
		framework, release, config string
		fills                      bool
	}{
		{"hf-trainer", "5.23.0", decoder, false},
		{"hf-trainer", "5.0.0", decoder, false},
		{"hf-trainer", "", decoder, false},
		{"", "5.23.0", decoder, false},
		{"hf-trainer", "4.57.6", decoder, true},
		{"hf-trainer", "5.23.0", gemma, false},
		{"hf-trainer", "5.23.0", t5, true},
		{"unsloth", "5.23.0", decoder, false},
		{"unsloth", "4.57.6", decoder, true},
		{"axolotl", "4.57.6", decoder, false},
		{"llama-factory", "4.57.6", decoder, false},
		{"ms-swift", "4.57.6", decoder, false},
		{"xtuner", "4.57.6", decoder, false},
		{"pytorch", "5.23.0", decoder, true},
		{"accelerate", "5.23.0", gemma, true},
		{"lightning", "5.23.0", decoder, true},
	} {
		job := Job{Model: Model{HFConfig: []byte(c.config)}, Training: Training{MicroBatch: 2, SequenceLength: 256,
			Framework: c.framework, Evaluation: &Evaluation{MicroBatch: 2}}}
		if c.release != "" {
			job.Training.Versions = map[string]string{"torch": "2.9.1", "transformers": c.release}
		}
		res, err := Estimate(Input{Job: job})
		if err != nil {
			t.Fatalf("%s with transformers %s: %v", c.framework, c.release, err)
		}
		noted := slices.ContainsFunc(res.Notes, func(n Note) bool { return n.Code == "kv-cache" })
		if noted != c.fills {
			t.Errorf("%s with transformers %s and %.25s: fills a cache %t, want %t", c.framework, c.release, c.config,
				noted, c.fills)
		}
		job.Model.HFConfig = []byte(`{"use_cache":false,` + c.config[1:len(c.config)-len(`,"use_cache":true}`)] + `}`)
		without, err := Estimate(Input{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		if same := res.Peak.AllocatedBytes == without.Peak.AllocatedBytes; !same && !c.fills {
			t.Errorf("%s with transformers %s: the configuration's use_cache moves the peak from %d to %d bytes",
				c.framework, c.release, without.Peak.AllocatedBytes, res.Peak.AllocatedBytes)
		}
	}
}

// TestFSDPVersionUnsaid: without a version, FSDP is what the framework's release takes.
func TestFSDPVersionUnsaid(t *testing.T) {
	for _, c := range []struct {
		framework, release string
		version            int64
	}{
		{"hf-trainer", "", 2},
		{"hf-trainer", "5.23.0", 2},
		{"hf-trainer", "5.10.1", 2},
		{"hf-trainer", "5.9.0", 1},
		{"hf-trainer", "4.57.6", 1},
		{"trl", "5.23.0", 2},
		{"trl", "4.57.6", 1},
		{"accelerate", "5.23.0", 1},
		{"axolotl", "5.23.0", 1},
		{"llama-factory", "5.23.0", 1},
		{"pytorch", "5.23.0", 2},
	} {
		job := Job{Training: Training{MicroBatch: 2, SequenceLength: 256, Framework: c.framework,
			Distributed: &Distributed{WorldSize: 4, Data: "fsdp"}}}
		if err := json.Unmarshal([]byte(smallLlama), &job.Model); err != nil {
			t.Fatal(err)
		}
		if c.release != "" {
			job.Training.Versions = map[string]string{"torch": "2.15.0", "transformers": c.release}
		}
		unsaid := mustEstimate(t, Input{Job: job})
		for version := int64(1); version <= 2; version++ {
			said := *job.Training.Distributed
			said.FSDPVersion = version
			with := job
			with.Training.Distributed = &said
			res := mustEstimate(t, Input{Job: with})
			same := res.Peak.AllocatedBytes == unsaid.Peak.AllocatedBytes &&
				res.Peak.ReservedBytes == unsaid.Peak.ReservedBytes
			if same != (version == c.version) {
				t.Errorf("%s with transformers %s: like version %d: %t", c.framework, c.release, version, same)
			}
		}
	}
}

// TestPolicyOverFloat32Base: FSDP's own mixed precision gathers a base in float32 and its adapters in half precision,
// and computes in that (what ranks allocate is held by accuracy/testdata/ranks/policies.jsonl); one GPU computes in the
// base's type, which flash attention does not take.
func TestPolicyOverFloat32Base(t *testing.T) {
	job := func(precision, attention, base string, world int64) Job {
		j := Job{Training: Training{Framework: "pytorch", MicroBatch: 2, SequenceLength: 512, Precision: Precision(precision),
			Attention: attention, LoRA: &LoRA{Rank: 8, BasePrecision: base, TargetModules: []string{"all-linear"}}}}
		if err := json.Unmarshal([]byte(smallLlama), &j.Model); err != nil {
			t.Fatal(err)
		}
		if world > 1 {
			j.Training.Distributed = &Distributed{WorldSize: world, Data: "fsdp", FSDPVersion: 2}
		}
		return j
	}
	wide := mustEstimate(t, Input{Job: job("fp32", "sdpa", "fp32", 4)})
	policy := mustEstimate(t, Input{Job: job("bf16", "sdpa", "fp32", 4)})
	if a := policy.Peak.AllocatedBytes; a >= wide.Peak.AllocatedBytes*3/4 {
		t.Errorf("under the policy %d bytes are allocated, in float32 %d", a, wide.Peak.AllocatedBytes)
	}
	mustEstimate(t, Input{Job: job("bf16", "flash", "fp32", 4)})
	mustEstimate(t, Input{Job: job("amp-bf16", "flash", "fp32", 1)})
	if _, err := Estimate(Input{Job: job("bf16", "flash", "fp32", 1)}); err == nil ||
		!strings.Contains(err.Error(), "/training/attention") {
		t.Errorf("flash attention in float32 is answered: %v", err)
	}
}
