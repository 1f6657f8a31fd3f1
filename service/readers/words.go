package readers

import "fmt"

// words are a tool's own names for what a plan may change: how a field of a job document is written in the tool's
// settings, for patches. A field, or a value, that is not there cannot be set in this tool.
type words map[string]func(value any) (key, text string, ok bool)

// countWord is a word that takes a whole number.
func countWord(key string) func(any) (string, string, bool) {
	return func(value any) (string, string, bool) {
		n, ok := value.(int64)
		return key, fmt.Sprint(n), ok
	}
}

// choiceWord is a word whose values have names of the tool's own.
func choiceWord(key string, names map[string]string) func(any) (string, string, bool) {
	return func(value any) (string, string, bool) {
		name, isName := value.(string)
		text, ok := names[name]
		return key, text, isName && ok
	}
}

var onOff = map[string]string{"full": "true", "none": "false"}

var trainerWords = words{
	"/training/micro_batch":            countWord("per_device_train_batch_size"),
	"/training/gradient_accumulation":  countWord("gradient_accumulation_steps"),
	"/training/evaluation/micro_batch": countWord("per_device_eval_batch_size"),
	"/training/gradient_checkpointing": choiceWord("gradient_checkpointing", onOff),
	"/training/attention": choiceWord("attn_implementation",
		map[string]string{"sdpa": "sdpa", "flash": "flash_attention_2"}),
	"/training/loss": choiceWord("use_liger_kernel", map[string]string{"fused-linear": "true"}),
}

var llamaFactoryWords = words{
	"/training/micro_batch":           countWord("per_device_train_batch_size"),
	"/training/gradient_accumulation": countWord("gradient_accumulation_steps"),
	"/training/sequence_length":       countWord("cutoff_len"),
	"/training/gradient_checkpointing": choiceWord("disable_gradient_checkpointing",
		map[string]string{"full": "false", "none": "true"}),
	"/training/attention": choiceWord("flash_attn", map[string]string{"sdpa": "sdpa", "flash": "fa2",
		"eager": "disabled"}), "/training/loss": choiceWord("enable_liger_kernel",
		map[string]string{"fused-linear": "true"}),
}

var swiftWords = words{
	"/training/micro_batch":            countWord("per_device_train_batch_size"),
	"/training/gradient_accumulation":  countWord("gradient_accumulation_steps"),
	"/training/sequence_length":        countWord("max_length"),
	"/training/gradient_checkpointing": choiceWord("gradient_checkpointing", onOff),
	"/training/attention": choiceWord("attn_impl",
		map[string]string{"sdpa": "sdpa", "flash": "flash_attn"}),
	"/training/loss": choiceWord("use_liger_kernel", map[string]string{"fused-linear": "true"}),
}

var axolotlWords = words{
	"/training/micro_batch":            countWord("micro_batch_size"),
	"/training/gradient_accumulation":  countWord("gradient_accumulation_steps"),
	"/training/sequence_length":        countWord("sequence_len"),
	"/training/gradient_checkpointing": choiceWord("gradient_checkpointing", onOff),
	"/training/evaluation/micro_batch": countWord("eval_batch_size"),
}

// nanoGPT divides its accumulation by the processes: the patch multiplies.
var nanoGPTWords = words{"/training/micro_batch": countWord("batch_size"),
	"/training/gradient_accumulation": countWord("gradient_accumulation_steps"),
	"/training/sequence_length":       countWord("block_size")}

var deepspeedWords = words{"/training/micro_batch": countWord("train_micro_batch_size_per_gpu"),
	"/training/gradient_accumulation": countWord("gradient_accumulation_steps")}

var torchtuneWords = words{"/training/micro_batch": countWord("batch_size"),
	"/training/gradient_accumulation":  countWord("gradient_accumulation_steps"),
	"/training/sequence_length":        countWord("tokenizer.max_seq_len"),
	"/training/gradient_checkpointing": choiceWord("enable_activation_checkpointing", onOff)}

var torchtitanWords = words{"/training/micro_batch": countWord("training.local_batch_size"),
	"/training/sequence_length": countWord("training.seq_len")}

var megatronWords = words{"/training/micro_batch": countWord("micro_batch_size"),
	"/training/sequence_length": countWord("seq_length")}

var litgptWords = words{"/training/micro_batch": countWord("train.micro_batch_size"),
	"/training/sequence_length": countWord("train.max_seq_length")}
