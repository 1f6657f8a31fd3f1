package estimator

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

const (
	smallLlama = `{"hf_config": {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 1000}}`
	smallGPT2  = `{"hf_config": {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "vocab_size": 512}}`
	smallBERT  = `{"hf_config": {"model_type": "bert", "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 512}}`
)

// TestNothingIsIgnoredSilently: where a field of the job changes nothing, a note has its name and the reason; where it
// changes something, no note says otherwise.
func TestNothingIsIgnoredSilently(t *testing.T) {
	for _, c := range []struct {
		name, model, training string
		want                  string // of a note; empty for none
	}{
		{"tf32", smallLlama, `"precision": "tf32"`, "precision tf32"},
		{"fp32", smallLlama, `"precision": "fp32"`, ""},
		{"a kernel without its operation", smallGPT2, `"kernels": ["rmsnorm", "layernorm", "swiglu"]`,
			"kernels rmsnorm, swiglu:"},
		{"a kernel with its operation", smallLlama, `"kernels": ["rmsnorm", "swiglu", "rope"]`, ""},
		{"eager attention's softmax", smallLlama, `"kernels": ["softmax"], "attention": "eager"`, ""},
		{"sdpa's softmax", smallLlama, `"kernels": ["softmax"]`, "kernels softmax:"},
		{"a kernel that keeps as much", smallGPT2, `"kernels": ["bias-dropout-add"]`, "kernels bias-dropout-add"},
		{"adapters that are not fused", smallLlama, `"kernels": ["lora"], "lora": {"rank": 8}`, "kernels lora"},
		{"adapters that are", smallLlama, `"kernels": ["lora"], "lora": {"rank": 8}, "framework": "unsloth"`, ""},
		{"dropout where there is none", smallLlama, `"dropout": 0.1`, "dropout:"},
		{"dropout in eager attention", smallLlama, `"dropout": 0.1, "attention": "eager"`, ""},
		{"no dropout", smallLlama, `"dropout": 0`, ""},
		{"dropout", smallGPT2, `"dropout": {"hidden": 0.1}`, ""},
		{"states of adapters", smallLlama,
			`"precision": "bf16", "lora": {"rank": 8}, "states": {"gradients": "bf16", "optimizer": "fp32"}`,
			"states.gradients: what is trained"},
		{"states that adapters have", smallLlama,
			`"precision": "bf16", "lora": {"rank": 8}, "states": {"gradients": "fp32", "master_weights": "none"}`, ""},
		{"weights of a quantised base", smallLlama,
			`"lora": {"rank": 8, "base_precision": "nf4"}, "states": {"weights": "bf16"}`, "states.weights"},
		{"weights of a base", smallLlama, `"lora": {"rank": 8}, "states": {"weights": "fp32"}`, ""},
		{"states of an 8-bit optimizer", smallLlama, `"optimizer": "adamw-8bit", "states": {"optimizer": "bf16"}`,
			"states.optimizer"},
		{"states of none", smallLlama, `"optimizer": "sgd", "states": {"optimizer": "bf16"}`, "states.optimizer"},
		{"states of AdamW", smallLlama, `"states": {"optimizer": "bf16"}`, ""},
		{"gradients of no master weights", smallLlama, `"precision": "bf16", "states": {"master_gradients": "fp32"}`,
			"states.master_gradients"},
		{"gradients of master weights", smallLlama,
			`"precision": "bf16", "states": {"master_weights": "fp32", "master_gradients": "fp32"}`, ""},
		{"clipping without gradients", smallLlama,
			`"optimizer": {"name": "adamw", "in_backward": true}, "clip_grad_norm": true`, "clip_grad_norm"},
		{"no clipping", smallLlama, `"optimizer": {"name": "adamw", "in_backward": true}, "clip_grad_norm": false`, ""},
		{"a copy that the loss makes", smallLlama, `"logits_dtype": "fp32"`, "logits_dtype"},
		{"a copy that it does not", smallBERT, `"logits_dtype": "fp32"`, ""},
		{"a copy of float32", smallBERT, `"logits_dtype": "fp32", "precision": "fp32"`, "logits_dtype"},
		{"more than the layers", smallLlama, `"gradient_checkpointing": {"every": 3}`,
			"gradient_checkpointing every 3"},
		{"a GPTQ base", smallLlama, `"lora": {"rank": 8, "base_precision": "gptq-int4", "upcast_base": true}`,
			"lora.upcast_base"},
		{"a 4-bit base", smallLlama, `"lora": {"rank": 8, "base_precision": "nf4", "upcast_base": true}`, ""},
		{"T5 with sdpa, which transformers 4 does not have for it", `{"hf_config": {"model_type": "t5"}}`,
			`"attention": "sdpa", "versions": {"torch": "2.9.1", "transformers": "4.57.6"}`, "attention sdpa"},
		{"pictures", `{"hf_config": {"model_type": "vit"}}`, ``, "sequence_length is ignored"},
		{"sound", `{"hf_config": {"model_type": "whisper"}}`, `"target_sequence_length": 50`,
			"sequence_length is ignored"},
		{"one GPU", smallLlama, `"distributed": {"data": "fsdp", "world_size": 1}`, "distributed.data"},
		{"FSDP's options without it", smallLlama, `"distributed": {"world_size": 2, "fsdp_version": 2}`,
			"distributed.fsdp_version"},
		{"accumulated whole", smallLlama,
			`"distributed": {"world_size": 2, "no_sync": true}, "gradient_accumulation": 2`, "distributed.no_sync"},
		{"accumulated whole under FSDP", smallLlama,
			`"distributed": {"data": "fsdp", "world_size": 2, "no_sync": true}, "gradient_accumulation": 2`, ""},
		{"a pipeline's option", smallLlama, `"distributed": {"world_size": 2, "pipeline_schedule": "1f1b"}`,
			"pipeline_schedule"},
		{"FSDP1's option", smallLlama,
			`"distributed": {"data": "fsdp", "world_size": 2, "fsdp_version": 2, "limit_all_gathers": false}`,
			"distributed.limit_all_gathers"},
		{"not a version", smallLlama, `"versions": {"torch": "banana"}`, `versions: torch "banana"`},
		{"of no matter", smallLlama, `"versions": {"torch": "2.9.1", "driver": "570.1", "Torch": "2.0"}`,
			"versions: nothing that is replayed depends on Torch, driver"},
		{"versions", smallLlama, `"versions": {"torch": "2.9.1+cu128", "transformers": "4.57.6"}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var idle []string
			for _, n := range mustEstimate(t,
				Input{Job: jobOf(t, c.model, c.training), GPUs: []GPU{tracedGPUs["a100-sxm4-80gb"]}}).Notes {
				if n.Code == "no-effect" {
					idle = append(idle, n.Text)
				}
			}
			if got := strings.Join(idle, "\n"); c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("noted is %q, want %q", got, c.want)
			}
		})
	}
}

// TestRefusedWithTheReason: a field that cannot be followed is named, with what is accepted.
func TestRefusedWithTheReason(t *testing.T) {
	for _, c := range []struct{ name, training, pointer, says string }{
		{"over how many GPUs", `"distributed": {"data": "fsdp"}`, "/training/distributed/world_size",
			"over how many GPUs"},
		{"gathers without a limit",
			`"distributed": {"data": "fsdp", "world_size": 2, "fsdp_version": 1, "limit_all_gathers": false}`,
			"/training/distributed/limit_all_gathers", "any number of layers"},
		{"an implementation of another", `"optimizer": {"name": "lion", "implementation": "fused"}`,
			"/training/optimizer/implementation", "for lion accepted are bitsandbytes, for-loop"},
		{"double quantization of nothing", `"lora": {"rank": 8, "double_quantization": true}`,
			"/training/lora/double_quantization", "which is not given here"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Estimate(Input{Job: jobOf(t, smallLlama, c.training)})
			var bad *InvalidJobError
			if !errors.As(err, &bad) || len(bad.Fields) != 1 || bad.Fields[0].Pointer != c.pointer ||
				!strings.Contains(bad.Fields[0].Detail, c.says) {
				t.Errorf("got %v, want %s with %q", err, c.pointer, c.says)
			}
		})
	}
}

// TestBaseOfAdapters: states.weights is what the frozen base is stored in, where lora.base_precision is not given.
func TestBaseOfAdapters(t *testing.T) {
	weights := func(training string) int64 {
		return component(mustEstimate(t, Input{Job: jobOf(t, smallLlama, training)}), "weights").Bytes
	}
	half, full := weights(`"lora": {"rank": 8}`), weights(`"lora": {"rank": 8, "base_precision": "fp32"}`)
	if got := weights(`"lora": {"rank": 8}, "states": {"weights": "fp32"}`); got != full || got == half {
		t.Errorf("with states.weights fp32 the weights take %d bytes, want %d as with base_precision fp32", got, full)
	}
	if got := weights(`"lora": {"rank": 8, "base_precision": "bf16"}, "states": {"weights": "fp32"}`); got != half {
		t.Errorf("with base_precision bf16 the weights take %d bytes, want %d", got, half)
	}
}

// TestWordsAboutAnEvaluation: where the peak is an evaluation's, its micro-batch is named and not training's.
func TestWordsAboutAnEvaluation(t *testing.T) {
	res := mustEstimate(t, Input{Job: jobOf(t, smallLlama, `"evaluation": {"micro_batch": 77}`)})
	if res.Peak.Phase != "evaluation" {
		t.Fatalf("the peak is in %s", res.Peak.Phase)
	}
	for _, text := range []string{component(res, "logits_and_loss").How, component(res, "activations").How,
		res.Notes[0].Text} {
		if !strings.Contains(text, "77 × 128") && !strings.Contains(text, "in evaluation") {
			t.Errorf("%q does not speak of the evaluation", text)
		}
	}
}

// TestWhoHoldsTheLogits: a note on logits that are kept blames the loop only where it is the loop's doing.
func TestWhoHoldsTheLogits(t *testing.T) {
	for training, want := range map[string]string{`"framework": "pytorch"`: "the training loop (pytorch)",
		`"hold_logits": true`: "hold_logits:"} {
		found := false
		for _, n := range mustEstimate(t, Input{Job: jobOf(t, smallLlama, training)}).Notes {
			found = found || n.Code == "held-logits" && strings.HasPrefix(n.Text, want)
		}
		if !found {
			t.Errorf("with %s nothing says %q", training, want)
		}
	}
}

// TestReserveBeyondTheCard: what is left is never less than nothing, and the headroom is what is left less the job.
func TestReserveBeyondTheCard(t *testing.T) {
	job := jobOf(t, smallLlama, "")
	job.ReserveBytes = 1 << 45
	res := mustEstimate(t, Input{Job: job, GPUs: []GPU{{ID: "card", UsableBytes: 1 << 40}}})
	if g := res.GPUs[0]; g.UsableBytes != 0 || g.HeadroomBytes != -res.Peak.DeviceBytes || g.Verdict != DoesNotFit {
		t.Errorf("got %+v for a job of %d bytes", g, res.Peak.DeviceBytes)
	}
}

// jobOf is a job of a small micro-batch with more fields of training.
func jobOf(t *testing.T, model, training string) Job {
	t.Helper()
	var job Job
	fields := `"micro_batch": 2, "sequence_length": 128`
	if training != "" {
		fields += ", " + training
	}
	if err := json.Unmarshal([]byte(`{"model": `+model+`, "training": {`+fields+`}}`), &job); err != nil {
		t.Fatal(err)
	}
	return job
}

// TestWordsAboutLogits: what a loss is computed of is named for what it is, and labels are accepted where a head has
// some.
func TestWordsAboutLogits(t *testing.T) {
	for _, c := range []struct{ model, want string }{
		{smallLlama, "tensors of 2 × 128 tokens × vocabulary 1,000"},
		{`{"hf_config": {"model_type": "vit", "num_hidden_layers": 1}, "head": {"kind": "classification", "labels": 17}}`, "tensors of 2 × 17 labels"},
		{`{"hf_config": {"model_type": "bert", "num_hidden_layers": 1}, "head": {"kind": "classification", "labels": 5}}`, "tensors of 2 × 5 labels"},
		{`{"hf_config": {"model_type": "bert", "num_hidden_layers": 1, "architectures": ["BertForTokenClassification"], "num_labels": 9}}`, "tensors of 2 × 128 tokens × 9 labels"},
		{`{"hf_config": {"model_type": "bert", "num_hidden_layers": 1}, "head": {"kind": "none"}}`,
			"tensors of 2 × 128 tokens × 768, the output itself"},
	} {
		if how := component(mustEstimate(t, Input{Job: jobOf(t, c.model, "")}), "logits_and_loss").How; how != c.want {
			t.Errorf("%s: %q, want %q", c.model, how, c.want)
		}
	}
}
