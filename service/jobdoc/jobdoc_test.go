package jobdoc_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/reliability/process"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// problems decodes data and writes what is wrong with it as "code pointer: detail" lines.
func problems(t *testing.T, data string) []string {
	t.Helper()
	_, err := jobdoc.Decode([]byte(data))
	return lines(t, err)
}

func lines(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var found *invalid.Error
	if !errors.As(err, &found) {
		t.Fatalf("error is a %T, want an *invalid.Error", err)
	}
	var out []string
	for _, f := range found.Fields {
		out = append(out, f.Code+" "+f.Pointer+": "+f.Detail)
	}
	return out
}

func TestDecodeReadsEveryForm(t *testing.T) {
	data := "\uFEFF" + `{
	  "model": {"dimensions": {"layers": 2, "hidden": 8, "heads": 2, "vocab": 16.0, "tied_embeddings": false, "attention_bias": true, "rotary_fraction": 0.25, "mlp": "gelu-new"},
	            "head": {"kind": "classification", "labels": 3}},
	  "training": {
	    "micro_batch": 1e1, "sequence_length": null, "precision": "BF16-Mixed",
	    "optimizer": "adamw_torch_fused", "gradient_checkpointing": {"every": 2}, "attention": "flash_attention_2",
	    "loss": {"kind": "liger", "chunks": 4}, "kernels": ["bias_gelu", "rope"], "compile": true, "dropout": 0.1,
	    "lora": {"rank": 8, "target_modules": "all-linear", "base_precision": "8bit"},
	    "distributed": {"world_size": 8, "data": "zero_3", "pipeline_stage": 0, "deepspeed": { "stage" : 3, "any": [1, {"x": null}] }},
	    "versions": {"torch": "2.9.1"}
	  },
	  "gpus": ["rtx-4070", {"name": "mine", "memory_bytes": 8589934592}],
	  "reserve_bytes": 0, "confidence": 0.9
	}`
	job, err := jobdoc.Decode([]byte(data))
	if err != nil {
		t.Fatal(err)
	}
	p, zero := 0.1, estimator.Stage(0)
	want := estimator.Training{
		MicroBatch: 10, Precision: "amp-bf16",
		Optimizer:             &estimator.Optimizer{Name: "adamw", Implementation: "fused"},
		GradientCheckpointing: &estimator.Checkpointing{Every: 2},
		Attention:             "flash",
		Loss:                  &estimator.Loss{Kind: "fused-linear", Chunks: 4},
		Kernels:               []string{"bias-gelu", "rope"},
		Compile:               &estimator.Compile{Model: true, Loss: true},
		Dropout:               &estimator.Dropout{Hidden: &p, Attention: &p},
		LoRA: &estimator.LoRA{Rank: 8, TargetModules: estimator.Targets{"all-linear"},
			BasePrecision: "int8"},
		Distributed: &estimator.Distributed{WorldSize: 8, Data: "zero3", PipelineStage: &zero,
			DeepSpeed: json.RawMessage(`{ "stage" : 3, "any": [1, {"x": null}] }`)},
		Versions: map[string]string{"torch": "2.9.1"},
	}
	if diff := cmp.Diff(want, job.Training); diff != "" {
		t.Errorf("training (-want +got):\n%s", diff)
	}
	d := job.Model.Dimensions
	if d.Vocabulary != 16 || d.MLP != "gelu_new" || d.AttentionBias != "all" || d.TiedEmbeddings == nil ||
		*d.TiedEmbeddings {
		t.Errorf("dimensions = %+v", d)
	}
	if diff := cmp.Diff([]estimator.GPURef{{Name: "rtx-4070"}, {Name: "mine", MemoryBytes: 8 << 30}}, job.GPUs); diff != "" {
		t.Errorf("gpus (-want +got):\n%s", diff)
	}
}

// The reader and encoding/json agree about every document that both accept.
func TestDecodeAgreesWithEncodingJSON(t *testing.T) {
	var want estimator.Job
	if err := json.Unmarshal([]byte(story), &want); err != nil {
		t.Fatal(err)
	}
	got, err := jobdoc.Decode([]byte(story))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-encoding/json +jobdoc):\n%s", diff)
	}
}

func TestDecodeReportsEverythingAtOnce(t *testing.T) {
	got := problems(t, `{
	  "modle": {}, "batch_size": 4,
	  "model": {"nanogpt": {"n_layer": "12", "n_head": 0, "n_embd": 768, "n_embd": 768}},
	  "training": {"micro_batch_siz": 1, "Precision": "fp32", "precision": "amp-bf61", "sequence_length": -3,
	    "optimizer": "adamww", "compile": "yes", "dropout": 1.5, "kernels": ["rope", "ropes"], "lora": {}, "zork": 1, "lroa": 1, "versions": {"a/b~c": 2}},
	  "gpus": [null, {"nam": "x"}, 7], "confidence": 0
	}`)
	want := []string{
		"unknown_field /batch_size: is not a field here; did you mean /training/micro_batch?",
		"out_of_range /confidence: 0 was given; accepted: a number from 0.5 to 0.999",
		"wrong_type /gpus/0: null was given; accepted: a string, or an object with name, memory_bytes, " +
			"free_bytes, price_per_hour",
		"required /gpus/1: a name, or a name and memory_bytes, is required",
		"unknown_field /gpus/1/nam: is not a field here; did you mean name?",
		"wrong_type /gpus/2: 7 was given; accepted: a string, or an object with name, memory_bytes, " +
			"free_bytes, price_per_hour",
		"duplicate_field /model/nanogpt/n_embd: is given more than once",
		"out_of_range /model/nanogpt/n_head: 0 was given; accepted: a whole number from 1 to 1000000",
		`wrong_type /model/nanogpt/n_layer: "12" (a string) was given; accepted: a whole number from 1 to 1024`,
		"unknown_field /modle: is not a field here; did you mean model?",
		"unknown_field /training/Precision: is not a field here; did you mean precision?",
		`wrong_type /training/compile: "yes" (a string) was given; accepted: true or false, or an object with model, loss`,
		"out_of_range /training/dropout: 1.5 was given; accepted: a number from 0 to below 1",
		`unknown_value /training/kernels/1: "ropes" was given; accepted: rmsnorm, layernorm, rope, swiglu, bias-gelu, bias-dropout-add, softmax, lora, gated-delta-rule. Did you mean rope?`,
		"required /training/lora/rank: is required; accepted: a whole number from 1 to 1048576",
		"unknown_field /training/lroa: is not a field here; did you mean lora?",
		"required /training/micro_batch: is required: the sequences in one forward pass on one GPU, a " +
			"whole number from 1",
		"unknown_field /training/micro_batch_siz: is not a field here; did you mean micro_batch?",
		`unknown_value /training/optimizer: "adamww" was given; accepted: adamw, adam, sgd, sgd-momentum, adafactor, lion, adamw-8bit, paged-adamw, paged-adamw-8bit, adamw-4bit, lion-8bit, muon, galore-adamw, amsgrad, nadam, radam, adamax, adadelta, schedule-free-adamw, rmsprop, adagrad. Did you mean adamw?`,
		`unknown_value /training/precision: "amp-bf61" was given; accepted: amp-bf16, amp-fp16, fp32, tf32, bf16, fp16. Did you mean amp-bf16?`,
		"out_of_range /training/sequence_length: -3 was given; accepted: a whole number from 1 to 1073741824",
		"wrong_type /training/versions/a~1b~0c: 2 was given; accepted: a string",
		"unknown_field /training/zork: is not a field here; accepted: micro_batch, sequence_length, " +
			"target_sequence_length, resolution, script, gradient_accumulation, objective, precision, fp8, states, " +
			"optimizer, gradient_checkpointing, attention, attention_mask, loss, label_smoothing, neftune_noise_alpha, " +
			"logits_dtype, hold_logits, kernels, compile, dropout, lora, freeze, distributed, clip_grad_norm, save, resume, " +
			"allocator, evaluation, framework, versions",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDecodeRefuses(t *testing.T) {
	model := `"model": {"preset": "gpt2"}`
	for name, c := range map[string]struct{ data, want string }{
		"empty body": {" \n", "malformed_json : the document is empty; it should be an object with model, " +
			"training, gpus, reserve_bytes, display, confidence"},
		"not an object": {"[]", "wrong_type : a list was given; accepted: an object with model, training, gpus, " +
			"reserve_bytes, display, confidence"},
		"null": {"null", "wrong_type : null was given; accepted: an object with model, training, gpus, " +
			"reserve_bytes, display, confidence"},
		"cut off": {"{\n  \"model\": {\"preset\": \"gp",
			"malformed_json /model/preset: malformed JSON at line 2, column 26: the document ends too early"},
		"NaN": {"{" + model + ",\n\"training\": {\"micro_batch\": NaN}}",
			"malformed_json /training/micro_batch: malformed JSON at line 2, column 29: NaN is not JSON"},
		"negative infinity": {`{"confidence": -Infinity}`, "malformed_json /confidence: malformed JSON at line 1, " +
			"column 17: -Infinity is not JSON"},
		"Python's True": {`{"training": {"clip_grad_norm": True}}`,
			"malformed_json /training/clip_grad_norm: malformed JSON at line 1, column 33: True is not JSON"},
		"trailing comma": {`{"model": {},}`, "malformed_json : malformed JSON at line 1, column 13: invalid " +
			"character ',' at start of value"},
		"second document": {`{` + model + `, "training": {"micro_batch": 1}} {}`,
			"malformed_json : more data follows the document at line 1, column 63"},
		"fraction": {`{` + model + `, "training": {"micro_batch": 1.5}}`,
			"wrong_type /training/micro_batch: 1.5 was given; accepted: a whole number from 1 to 1073741824"},
		"beyond int64": {`{` + model + `, "training": {"micro_batch": 99999999999999999999}}`,
			"out_of_range /training/micro_batch: 99999999999999999999 was given; accepted: a whole number " +
				"from 1 to 1073741824"},
		"beyond float64": {`{` + model + `, "training": {"micro_batch": 1, "dropout": 1e999}}`,
			"out_of_range /training/dropout: 1e999 was given; accepted: a number, or an object with hidden, attention"},
		"zero": {`{` + model + `, "training": {"micro_batch": 0}}`,
			"out_of_range /training/micro_batch: 0 was given; accepted: a whole number from 1 to 1073741824"},
		"negative zero": {`{` + model + `, "training": {"micro_batch": -0}}`,
			"out_of_range /training/micro_batch: 0 was given; accepted: a whole number from 1 to 1073741824"},
		"10^18 layers": {`{"model": {"nanogpt": {"n_layer": 1000000000000000000, "n_head": 1, "n_embd": 1}}, "training": {"micro_batch": 1}}`, "out_of_range /model/nanogpt/n_layer: 1000000000000000000 was given; accepted: a whole number from 1 to 1024"},
		"no model": {`{"training": {"micro_batch": 1}}`,
			"required /model: exactly one of preset, hf_config, nanogpt, dimensions, recorded and diffusion is required"},
		"two models": {`{"model": {"preset": "gpt2", "hf_config": {}}, "training": {"micro_batch": 1}}`,
			"conflict /model: preset and hf_config are given; accepted: exactly one of preset, hf_config, nanogpt, " +
				"dimensions, recorded and diffusion"},
		"config is a string": {`{"model": {"hf_config": "{}"}, "training": {"micro_batch": 1}}`,
			`wrong_type /model/hf_config: "{}" (a string) was given; accepted: an object`},
		"config repeats": {`{"model": {"hf_config": {"vocab_size": 1, "a": {"b": 1, "b": 2}, "vocab_size": 2}}, "training": {"micro_batch": 1}}`, "duplicate_field /model/hf_config/a/b: is given more than once\nduplicate_field /model/hf_config/vocab_size: is given more than once"},
		"ambiguous dtype": {`{` + model + `, "training": {"micro_batch": 1, "precision": "bfloat16"}}`,
			`unknown_value /training/precision: "bfloat16" was given; accepted: amp-bf16, amp-fp16, fp32, tf32, bf16, fp16. "bfloat16" means different things in different tools: write amp-bf16 for autocast over float32 weights (nanoGPT's dtype), bf16 where the weights are bfloat16 too`},
		"bias": {`{"model": {"dimensions": {"layers": 1, "hidden": 1, "heads": 1, "vocab": 1, "attention_bias": "q"}}, "training": {"micro_batch": 1}}`, `unknown_value /model/dimensions/attention_bias: "q" (a string) was given; accepted: false, true or "qkv"`},
		"number for version": {`{` + model +
			`, "training": {"micro_batch": 1, "fsdp_version": 1, "distributed": {"fsdp_version": 3}}}`,
			"unknown_value /training/distributed/fsdp_version: 3 was given; accepted: 1, 2\nunknown_field " +
				"/training/fsdp_version: is not a field here; did you mean /training/distributed/fsdp_version?"},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, strings.Join(problems(t, c.data), "\n")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestHostileDocumentsStayCheap(t *testing.T) {
	megabyte := 1 << 20
	fields := make([]string, 50_000)
	for i := range fields {
		fields[i] = fmt.Sprintf(`"micro_batch%d":1`, i)
	}
	for name, data := range map[string]string{
		"deep lists":   strings.Repeat("[", megabyte),
		"deep objects": strings.Repeat(`{"a":`, megabyte/5),
		"deep in config": `{"model": {"hf_config": ` + strings.Repeat(`{"a":`, megabyte/6) + `1` +
			strings.Repeat("}", megabyte/6) + `}}`,
		"long name":       `{"` + strings.Repeat("x", megabyte) + `": 1}`,
		"long value":      `{"training": {"precision": "` + strings.Repeat("x", megabyte) + `"}}`,
		"many unknown":    `{` + strings.Join(fields, ",") + `}`,
		"many GPUs":       `{"gpus": [` + strings.Repeat(`"a",`, megabyte/4) + `"a"]}`,
		"many wrong GPUs": `{"gpus": [` + strings.Repeat(`1,`, megabyte/2) + `1]}`,
		"many versions": `{"training": {"versions": {` + strings.ReplaceAll(strings.Join(fields, ","), ":1", `:"1"`) +
			`}}}`,
		"equal versions": `{"training": {"versions": {` + strings.Repeat(`"a":"b",`, megabyte/8) + `"a":"b"}}}`,
		"lists for GPUs": `{"gpus": [` + strings.Repeat(`[],`, megabyte/3) + `[]]}`,
		"equal fields":   `{"training": {` + strings.Repeat(`"loss":"standard",`, megabyte/18) + `"loss":"standard"}}`,
		"long digits":    `{"training": {"micro_batch": ` + strings.Repeat("9", megabyte) + `}}`,
		"repeats": `{"model": {"hf_config": {"` + strings.Repeat("x", megabyte/2) + `": {` +
			strings.Repeat(`"a":1,`, 50_000) + `"a":1}}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			got := problems(t, data)
			if len(got) == 0 || len(got) > 101 {
				t.Fatalf("%d problems, want 1 to 101", len(got))
			}
			if size := len(strings.Join(got, "")); size > 64<<10 {
				t.Errorf("the answer to a hostile document has %d bytes", size)
			}
		})
	}
}

func TestMalformed(t *testing.T) {
	for data, want := range map[string]bool{
		`{`:                               true,
		`{"modle": 1}`:                    true,
		`{"model": {}, "model": {}}`:      true,
		`{"training": {"micro_batch":0}}`: false,
		`[]`:                              false,
		`{"gpus": [` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `]}`: true,
	} {
		_, err := jobdoc.Decode([]byte(data))
		var found *invalid.Error
		if !errors.As(err, &found) {
			t.Fatalf("%s: no error", data)
		}
		if got := jobdoc.Malformed(found); got != want {
			t.Errorf("Malformed(%s) = %v, want %v", data, got, want)
		}
	}
}

func TestDecodePlan(t *testing.T) {
	plan, err := jobdoc.DecodePlan([]byte(`{"model": {"preset": "gpt2"}, "effective_batch": 512, "training": {}}`))
	if err != nil {
		t.Fatal(err)
	}
	if plan.EffectiveBatch != 512 || plan.Model.Preset != "gpt2" {
		t.Errorf("plan = %+v", plan)
	}
	plan, err = jobdoc.DecodePlan([]byte(`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 8}, "measured_steps": [{"step_time_seconds": 17.5}, {"micro_batch": 4, "gradient_accumulation": 2, "step_time_seconds": 1e1}]}`))
	if diff := cmp.Diff([]jobdoc.MeasuredStep{{StepTimeSeconds: 17.5},
		{MicroBatch: 4, GradientAccumulation: 2, StepTimeSeconds: 10}}, plan.MeasuredSteps); diff != "" || err != nil {
		t.Errorf("error %v, measured steps (-want +got):\n%s", err, diff)
	}
	_, err = jobdoc.DecodePlan([]byte(`{"model": {"preset": "gpt2"}, "effective_batch": -1, "training": {"micro_batch": -1},
		"measured_steps": [{"micro_batch": 0, "step_time_seconds": -1}, {"gradient_accumulation": 2}, {"step_time_seconds": "9 s"}, {"step_time": 9}]}`))
	want := []string{
		"out_of_range /effective_batch: -1 was given; accepted: a whole number from 1 to 2147483648",
		"out_of_range /measured_steps/0/micro_batch: 0 was given; accepted: a whole number from 1 to 1073741824",
		"out_of_range /measured_steps/0/step_time_seconds: -1 was given; accepted: a number from 0.000001 to 86400",
		"required /measured_steps/1/step_time_seconds: is required; accepted: a number from 0.000001 to 86400",
		`wrong_type /measured_steps/2/step_time_seconds: "9 s" (a string) was given; accepted: a number from 0.000001 to 86400`,
		"unknown_field /measured_steps/3/step_time: is not a field here; did you mean step_time_seconds?",
		"required /measured_steps/3/step_time_seconds: is required; accepted: a number from 0.000001 to 86400",
		"out_of_range /training/micro_batch: -1 was given; accepted: a whole number from 1 to 1073741824",
	}
	if diff := cmp.Diff(want, lines(t, err)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestCheckAJobFromFlags(t *testing.T) {
	job := estimator.Job{Model: estimator.Model{Preset: "gpt2"},
		Training: estimator.Training{MicroBatch: 1, Precision: "16_mixed",
			Optimizer: &estimator.Optimizer{Name: "AdamW8bit"}}}
	if err := jobdoc.Check(&job); err != nil {
		t.Fatal(err)
	}
	if job.Training.Precision != "amp-fp16" ||
		*job.Training.Optimizer != (estimator.Optimizer{Name: "adamw-8bit", Implementation: "bitsandbytes"}) {
		t.Errorf("training = %+v, optimizer %+v", job.Training, job.Training.Optimizer)
	}
	job.Training.MicroBatch, job.Training.Optimizer.Name = -1, "adamww"
	if got := lines(t, jobdoc.Check(&job)); len(got) != 2 ||
		!strings.HasPrefix(got[1], "unknown_value /training/optimizer/name") {
		t.Errorf("problems = %q", got)
	}
}

// Every alias must lead to a value that the contract has.
func TestAliasesLeadToValues(t *testing.T) {
	for _, c := range []struct{ field, spelling, want string }{
		{"precision", "bf16-mixed", "amp-bf16"}, {"precision", "amp_bf16", "amp-bf16"},
		{"precision", "16-true", "fp16"},
		{"precision", "32-true", "fp32"}, {"precision", "bf16-true", "bf16"}, {"precision", "16-mixed", "amp-fp16"},
		{"attention", "flash_attention_2", "flash"}, {"attention", "flash_attention", "flash"},
		{"attention", "SDPA", "sdpa"},
		{"framework", "huggingface", "hf-trainer"}, {"framework", "nanoGPT", "nanogpt"},
		{"framework", "llm_foundry", "llm-foundry"},
		{"loss", "cut_cross_entropy", "fused-linear"}, {"loss", "fused_linear", "fused-linear"},
		{"optimizer", "adamw_torch", "adamw"}, {"optimizer", "adamw_bnb_8bit", "adamw-8bit"},
		{"optimizer", "paged_adamw_32bit", "paged-adamw"},
		{"optimizer", "torch.optim.AdamW", "adamw"}, {"optimizer", "torch.optim.SGD", "sgd"},
		{"optimizer", "torch.optim.Adafactor", "adafactor"}, {"optimizer", "bitsandbytes.optim.Lion8bit", "lion-8bit"},
		{"optimizer", "AdamW", "adamw"}, {"optimizer", "sgd_momentum", "sgd-momentum"},
		{"gradient_checkpointing", "selective_op", "selective-op"},
	} {
		job, err := jobdoc.Decode(fmt.Appendf(nil,
			`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, %q: %q}}`, c.field, c.spelling))
		if err != nil {
			t.Errorf("%s %s: %v", c.field, c.spelling, err)
			continue
		}
		training := job.Training
		got := map[string]string{"precision": string(training.Precision), "attention": training.Attention,
			"framework": training.Framework}[c.field]
		switch {
		case training.Optimizer != nil:
			got = training.Optimizer.Name
		case training.Loss != nil:
			got = training.Loss.Kind
		case training.GradientCheckpointing != nil:
			got = training.GradientCheckpointing.Mode
		}
		if got != c.want {
			t.Errorf("%s %q = %q, want %q", c.field, c.spelling, got, c.want)
		}
	}
}

// An optimizer that nobody models is answered with the one whose name is nearest.
func TestNearestOptimizer(t *testing.T) {
	for given, near := range map[string]string{
		"paged_lion_8bit": "lion-8bit", "rmsprop_bnb": "rmsprop", "adamw2": "adamw",
		"apex.optimizers.FusedAdam": "adam",
	} {
		_, err := jobdoc.Decode(fmt.Appendf(nil,
			`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1, "optimizer": %q}}`, given))
		if err == nil || !strings.Contains(fmt.Sprint(err), "Did you mean "+near+"?") {
			t.Errorf("%s: %v; want %s as the nearest", given, err, near)
		}
	}
}

// FuzzDecode: no document crashes the reader, what it accepts is JSON that
// encoding/json accepts too, and what it accepts it reads the same way twice.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		story, `{`, `[]`, `{"model": {"hf_config": {"a": [1, {"b": null}]}}}`,
		`{"training": {"versions": {"a[0].b": "1"}}}`,
		`{"gpus": [{"name": "x", "memory_bytes": 1}], "training": {"optimizer": 1}}`,
		`{"model": {"preset": "\ud83d\ude00\u0000"}}`,
		`{"training": {"dropout": {"hidden": 1}, "lora": {"target_modules": ["", "x"]}}}`, "\uFEFF{}",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := string(data)
		var job estimator.Job
		var err error
		if dear := process.Reading(len(data), func() { job, err = jobdoc.Decode(data) }); dear != nil {
			t.Error(dear)
		}
		if string(data) != before {
			t.Fatal("the document was changed")
		}
		if _, perr := jobdoc.DecodePlan(data); err == nil && perr != nil {
			t.Fatalf("a good job is no good plan: %v", perr)
		}
		if err != nil {
			if got := lines(t, err); len(got) == 0 || len(got) > 101 {
				t.Fatalf("%d problems", len(got))
			}
			return
		}
		if !json.Valid([]byte(strings.TrimPrefix(before, "\uFEFF"))) {
			t.Fatalf("accepted what is not JSON: %q", data)
		}
		again, err := jobdoc.Decode(data)
		if err != nil || !cmp.Equal(job, again) {
			t.Fatalf("read differently the second time: %v", err)
		}
		if err := jobdoc.Check(&again); err != nil {
			t.Fatalf("accepted by Decode, refused by Check: %v", err)
		}
	})
}
