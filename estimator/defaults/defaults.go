package defaults

import (
	"slices"
	"strconv"
	"strings"
)

// Default is what a tool takes for a setting that nobody gives, from a release on.
type Default struct {
	// Tool is the package's name on PyPI; From is the first of the releases that were looked at which has the value, ""
	// for all of them.
	Tool string `json:"tool"`
	From string `json:"from,omitempty"`
	Key  string `json:"key"`
	// Value is the expression in the package's source; "-" where the setting is not there, and the one of its base
	// class counts.
	Value string `json:"value"`
	// File and Class are where it stands; in functions Class is the function's name.
	File  string `json:"file"`
	Class string `json:"class"`
	// Means is what the value comes to, where the expression does not say it.
	Means string `json:"means,omitempty"`
}

// Defaults are the defaults that a reader's answer may rest on, of the packages that were opened.
// testdata/check_defaults.py holds every row against the packages themselves.
var defaults = []Default{
	{"transformers", "", "per_device_train_batch_size", "8", "transformers/training_args.py", "TrainingArguments", ""},
	{"transformers", "", "gradient_accumulation_steps", "1", "transformers/training_args.py", "TrainingArguments", ""},
	{"transformers", "", "bf16", "False", "transformers/training_args.py", "TrainingArguments", ""},
	{"transformers", "", "fp16", "False", "transformers/training_args.py", "TrainingArguments", ""},
	{"transformers", "", "gradient_checkpointing", "False", "transformers/training_args.py", "TrainingArguments", ""},
	{"transformers", "5.23.0", "gradient_checkpointing", "None", "transformers/training_args.py", "TrainingArguments",
		"off; activation_checkpointing is its other name"},
	{"transformers", "", "optim", "default_optim", "transformers/training_args.py", "TrainingArguments",
		"adamw_torch"},
	{"transformers", "4.54.1", "optim", "default_optim", "transformers/training_args.py", "TrainingArguments",
		"adamw_torch_fused with torch 2.8 and newer, else adamw_torch"},
	{"transformers", "", "per_device_eval_batch_size", "8", "transformers/training_args.py", "TrainingArguments", ""},
	{"trl", "", "max_seq_length", "None", "trl/trainer/sft_config.py", "SFTConfig",
		"the smaller of 1024 and what the tokenizer takes"},
	{"trl", "0.15.2", "max_seq_length", "1024", "trl/trainer/sft_config.py", "SFTConfig", ""},
	{"trl", "0.16.1", "max_seq_length", "None", "trl/trainer/sft_config.py", "SFTConfig", "the old name of max_length"},
	{"trl", "0.16.1", "max_length", "1024", "trl/trainer/sft_config.py", "SFTConfig", ""},
	{"trl", "", "gradient_checkpointing", "-", "trl/trainer/sft_config.py", "SFTConfig", "off, as in transformers"},
	{"trl", "0.22.2", "gradient_checkpointing", "True", "trl/trainer/sft_config.py", "SFTConfig", ""},
	{"trl", "1.9.0", "gradient_checkpointing", "True", "trl/trainer/base_config.py", "_BaseConfig", ""},
	{"trl", "", "bf16", "-", "trl/trainer/sft_config.py", "SFTConfig", "off, as in transformers"},
	{"trl", "0.19.0", "bf16", "None", "trl/trainer/sft_config.py", "SFTConfig", "on where fp16 is off"},
	{"trl", "1.9.0", "bf16", "None", "trl/trainer/base_config.py", "_BaseConfig", "on where fp16 is off"},
	{"trl", "0.23.0", "loss_type", "'nll'", "trl/trainer/sft_config.py", "SFTConfig", "from all logits"},
	{"trl", "1.9.0", "loss_type", "None", "trl/trainer/sft_config.py", "SFTConfig",
		"chunked_nll: never all logits at once"},
	{"trl", "1.16.0", "loss_type", "'nll'", "trl/trainer/sft_config.py", "SFTConfig", "never all logits at once"},
	{"trl", "", "lora_r", "16", "trl/trainer/model_config.py", "ModelConfig", ""},
	{"trl", "", "lora_dropout", "0.05", "trl/trainer/model_config.py", "ModelConfig", ""},
	{"axolotl", "", "sequence_len", "512", "axolotl/utils/schemas/config.py", "AxolotlInputConfig", ""},
	{"axolotl", "", "bf16", "'auto'", "axolotl/utils/schemas/config.py", "AxolotlInputConfig", "on where the card can"},
	{"axolotl", "", "gradient_checkpointing", "False", "axolotl/utils/schemas/config.py", "AxolotlInputConfig", ""},
	{"axolotl", "", "micro_batch_size", "1", "axolotl/utils/schemas/training.py", "HyperparametersConfig", ""},
	{"axolotl", "", "gradient_accumulation_steps", "1", "axolotl/utils/schemas/training.py", "HyperparametersConfig",
		""},
	{"axolotl", "", "optimizer", "'adamw_torch_fused'", "axolotl/utils/schemas/training.py", "HyperparametersConfig",
		""},
	{"axolotl", "", "lora_dropout", "0.0", "axolotl/utils/schemas/peft.py", "LoraConfig", ""},
	{"axolotl", "", "eval_batch_size", "None", "axolotl/utils/schemas/training.py", "HyperparametersConfig",
		"micro_batch_size"},
	{"axolotl", "", "torch_dtype", "torch.bfloat16", "axolotl/utils/config/__init__.py", "resolve_dtype",
		"the half type that is computed in"},
	{"axolotl", "", "bnb_4bit_use_double_quant", "True", "axolotl/loaders/model.py", "ModelLoader", ""},
	{"peft", "", "r", "8", "peft/tuners/lora/config.py", "LoraConfig", ""},
	{"peft", "", "lora_dropout", "0.0", "peft/tuners/lora/config.py", "LoraConfig", ""},
	{"llamafactory", "", "cutoff_len", "2048", "llamafactory/hparams/data_args.py", "DataArguments", ""},
	{"llamafactory", "", "finetuning_type", "'lora'", "llamafactory/hparams/finetuning_args.py", "FinetuningArguments",
		""},
	{"llamafactory", "", "lora_rank", "8", "llamafactory/hparams/finetuning_args.py", "LoraArguments", ""},
	{"llamafactory", "", "lora_dropout", "0.0", "llamafactory/hparams/finetuning_args.py", "LoraArguments", ""},
	{"llamafactory", "", "lora_target", "'all'", "llamafactory/hparams/finetuning_args.py", "LoraArguments", ""},
	{"llamafactory", "", "pure_bf16", "False", "llamafactory/hparams/finetuning_args.py", "FinetuningArguments", ""},
	{"llamafactory", "", "disable_gradient_checkpointing", "False", "llamafactory/hparams/model_args.py",
		"BaseModelArguments", ""},
	{"llamafactory", "", "double_quantization", "True", "llamafactory/hparams/model_args.py", "QuantizationArguments",
		""},
	{"llamafactory", "", "upcast_layernorm", "False", "llamafactory/hparams/model_args.py", "BaseModelArguments", ""},
	{"llamafactory", "", "compute_dtype", "None", "llamafactory/hparams/model_args.py", "ModelArguments",
		"the half type that is computed in, or the checkpoint's"},
	{"ms-swift", "", "lora_rank", "8", "swift/llm/argument/tuner_args.py", "TunerArguments", ""},
	{"ms-swift", "4.0.0", "lora_rank", "8", "swift/arguments/tuner_args.py", "TunerArguments", ""},
	{"ms-swift", "4.0.0", "lora_dropout", "0.05", "swift/arguments/tuner_args.py", "TunerArguments", ""},
	{"ms-swift", "4.0.0", "bnb_4bit_use_double_quant", "True", "swift/arguments/base_args/quant_args.py",
		"QuantizeArguments", ""},
	{"ms-swift", "4.0.0", "gradient_checkpointing", "True", "swift/trainers/arguments.py", "TrainArgumentsMixin", ""},
	{"ms-swift", "4.0.0", "per_device_train_batch_size", "1", "swift/trainers/arguments.py", "TrainArgumentsMixin", ""},
	{"ms-swift", "4.0.0", "gradient_accumulation_steps", "16", "swift/trainers/arguments.py", "TrainArgumentsMixin",
		globalBatch},
	{"ms-swift", "4.0.0", "target_modules", "['all-linear']", "swift/arguments/tuner_args.py", "TunerArguments", ""},
	{"ms-swift", "4.0.0", "torch_dtype", "None", "swift/arguments/base_args/model_args.py", "ModelArguments",
		"the checkpoint's, bfloat16 where it says none"},
	{"litgpt", "", "lora_r", "8", "litgpt/finetune/lora.py", "setup", ""},
	{"litgpt", "", "lora_dropout", "0.05", "litgpt/finetune/lora.py", "setup", ""},
	{"litgpt", "", "optimizer", "'AdamW'", "litgpt/finetune/lora.py", "setup", ""},
}

// Of lists the defaults of a tool, or of all of them for "".
func Of(tool string) []Default {
	var list []Default
	for _, d := range slices.Concat(defaults, loads, TRLLimits) {
		if tool == "" || d.Tool == tool || strings.ReplaceAll(d.Tool, "-", "") == strings.ReplaceAll(tool, "-", "") {
			list = append(list, d)
		}
	}
	return list
}

// Row is the row of a key that holds in a release; the newest for "".
func Row(tool, key, release string) (row Default, ok bool) {
	for _, d := range defaults {
		if d.Tool == tool && d.Key == key && (release == "" || !Older(release, d.From)) {
			row, ok = d, true // rows are in the order of releases
		}
	}
	return row, ok
}

// Older compares releases by their numbers, of which the first comparing row has three.
func Older(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		n, errN := strconv.Atoi(x[i])
		m, errM := strconv.Atoi(y[i])
		switch {
		case errN != nil || errM != nil:
			return false
		case n != m:
			return n < m
		}
	}
	return false
}

// String is a row's release, file and class, for people.
func (d Default) String() string {
	s := d.Tool
	if d.From != "" {
		s += " since " + d.From
	}
	at := strings.Split(d.File, "/")
	return s + " " + strings.Join(at[max(len(at)-2, 0):], "/") + " " + d.Class + "." + d.Key
}
