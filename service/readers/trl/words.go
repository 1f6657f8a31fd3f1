package trl

import (
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Words are those of trl's own programs, for patches: the Trainer's, and ModelConfig's for adapters (trl 1.9
// trainer/model_config.py).
var Words = huggingface.Words.With(tool.Words{
	"/training/sequence_length": tool.CountWord("max_length", "max_seq_length"),
	"/training/lora": tool.ValueWords(map[string][]tool.Set{"true": {{Key: "use_peft", Text: "true"},
		{Key: "lora_dropout", Text: "0"}}}),
	"/training/lora/rank":                tool.CountWord("lora_r"),
	"/training/lora/target_modules":      tool.TargetWords("lora_target_modules", "all-linear"),
	"/training/lora/base_precision":      tool.ValueWords(map[string][]tool.Set{"nf4": {{Key: "load_in_4bit", Text: "true"}}}),
	"/training/lora/double_quantization": tool.SwitchWord("use_bnb_nested_quant"),
})
