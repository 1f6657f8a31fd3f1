package readers_test

import (
	"strings"
	"testing"

	"github.com/vramplan/vramplan/service/readers"
)

// TestUnsaidType is the type of a model that a program loads without naming one, by the releases that the job states or
// shows. What really happens was looked at with transformers 4.57.6 and 5.23.0, trl 0.26.2 and 1.16.0, a model that was
// saved in bfloat16 and loaded again.
func TestUnsaidType(t *testing.T) {
	const precision, base = "/training/precision", "/training/lora/base_precision"
	plain := func(class, trainer, model, arguments string) string {
		return `from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
from trl import SFTConfig, SFTTrainer, DPOConfig, DPOTrainer
args = ` + class + `(output_dir="out", per_device_train_batch_size=2, max_length=512` + arguments + `)
` + trainer + `(model=` + model + `, args=args).train()
`
	}
	const name, loaded = `"Qwen/Qwen2.5-0.5B"`, `AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B")`
	trainer := func(model, arguments string) string {
		// the Trainer's length is the tokenizer's
		return "x = tokenizer(text, max_length=512)\n" + strings.Replace(plain("TrainingArguments", "Trainer", model,
			arguments), ", max_length=512", "", 1)
	}
	adapted := func(program string) string {
		return "from peft import LoraConfig\n" + strings.Replace(program, "args=args", "args=args, peft_config=LoraConfig(r=8)", 1)
	}
	set := func(versions ...string) (said []readers.Said) {
		for _, v := range versions {
			tool, release, _ := strings.Cut(v, "=")
			said = append(said, readers.Said{Path: "versions." + tool, Value: release})
		}
		return said
	}
	const weights = "/training/states/weights"
	stored := func(value, of string) map[string]string {
		return map[string]string{precision: `"` + value + `"`, weights: `"` + of + `"`}
	}
	is := func(value string) map[string]string { return map[string]string{precision: `"` + value + `"`} }
	for _, c := range []scriptCase{
		{name: "today", program: trainer(loaded, ""), want: is("bf16"), says: "in its own since 5.0"},
		{name: "today, autocast over it", program: trainer(loaded, ", bf16=True"), want: stored("amp-bf16", "bf16")},
		{name: "today, autocast in the other half type", program: trainer(loaded, ", fp16=True"),
			want: stored("amp-fp16", "bf16")},
		{name: "float16 under float16", program: trainer(strings.Replace(loaded, `")`, `", dtype="float16")`, 1),
			", fp16=True"), refused: "Attempting to unscale FP16 gradients"},
		{name: "said", program: trainer(loaded, ", bf16=True"), set: set("transformers=4.57.6"), want: is("amp-bf16")},
		{name: "the first that has it", program: trainer(loaded, ""), set: set("transformers=5.0.0"), want: is("bf16"),
			says: "transformers 5.0.0 loads a checkpoint in its own"},
		{name: "pinned", program: trainer(loaded, ", bf16=True"), requirements: "torch\ntransformers==4.46.3\n",
			want: is("amp-bf16")},
		{name: "an old torch alone", program: trainer(loaded, ", bf16=True"), requirements: "torch==2.5.1\n",
			want: is("amp-bf16")},
		{name: "an argument that 5.0 lost", program: trainer(loaded, `, bf16=True, evaluation_strategy="no"`),
			want: is("amp-bf16")},
		{name: "an argument of the Trainer that 5.0 lost", program: strings.Replace(trainer(loaded, ", bf16=True"),
			"args=args", "args=args, tokenizer=tok", 1), want: is("amp-bf16")},
		{name: "an argument of SFTTrainer that 0.14 lost", program: strings.Replace(plain("SFTConfig", "SFTTrainer",
			loaded, ", bf16=True"), "args=args", `args=args, dataset_text_field="text"`, 1), want: is("amp-bf16")},
		{name: "published in float32", program: trainer(strings.Replace(loaded, "Qwen/Qwen2.5-0.5B", "gpt2", 1), ""),
			want: is("fp32")},
		{name: "the type said to be none", program: trainer(strings.Replace(loaded, `")`, `", dtype=None)`, 1), ""),
			want: is("bf16")},
		{name: "nobody knows the checkpoint's", program: trainer(strings.Replace(loaded, "Qwen/Qwen2.5-0.5B",
			"facebook/opt-125m", 1), ""), want: is("fp32"), says: "is loaded in float32"},
		{name: "nobody knows the checkpoint's, and a release is said", program: trainer(strings.Replace(loaded,
			"Qwen/Qwen2.5-0.5B", "facebook/opt-125m", 1), ""), set: set("transformers=5.23.0"),
			asks: []string{precision}},
		{name: "its config.json says it", program: trainer(strings.Replace(loaded, "Qwen/Qwen2.5-0.5B",
			"facebook/opt-125m", 1), ""), set: append(set("transformers=5.23.0"), readers.Said{Path: "model.hf_config",
			Value: `{"model_type":"opt","torch_dtype":"float16"}`}), want: is("fp16")},
		{name: "trl is given the name", program: plain("SFTConfig", "SFTTrainer", name, ", bf16=True"),
			want: is("amp-bf16")},
		{name: "trl is given the model", program: plain("SFTConfig", "SFTTrainer", loaded, ", bf16=True"),
			want: stored("amp-bf16", "bf16")},
		{name: "trl up to 0.26 with its transformers", program: plain("SFTConfig", "SFTTrainer", name, ", bf16=True"),
			set: set("trl=0.26.2"), want: is("amp-bf16")},
		{name: "trl up to 0.26 with transformers 5", program: plain("SFTConfig", "SFTTrainer", name, ", bf16=True"),
			set: set("trl=0.26.2", "transformers=5.0.0"), want: stored("amp-bf16", "bf16")},
		{name: "trl from 0.27 on with transformers 4", program: plain("SFTConfig", "SFTTrainer", name, ", bf16=True"),
			set: set("trl=0.27.0", "transformers=4.57.6"), want: is("amp-bf16")},
		{name: "adapters on what is loaded", program: adapted(plain("SFTConfig", "SFTTrainer", loaded, ", bf16=True")), want: map[string]string{precision: `"amp-bf16"`,
			base: `"bf16"`}, says: "in its own since 5.0"},
		{name: "adapters on a name", program: adapted(plain("SFTConfig", "SFTTrainer", name, "")),
			want: map[string]string{base: `"fp32"`}},
	} {
		t.Run(c.name, c.run)
	}
	dpo := scriptCase{program: plain("DPOConfig", "DPOTrainer", name, ", max_prompt_length=256"),
		set: set("trl=0.26.2"), want: is("amp-bf16")}
	t.Run("preferences", dpo.run)
}
