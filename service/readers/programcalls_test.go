package readers_test

import (
	"strings"
	"testing"
)

// TestProgramCalls is what calls of a program do to its job's checkpoints.
func TestProgramCalls(t *testing.T) {
	const checkpointing = "/training/gradient_checkpointing"
	quantized := `from transformers import AutoModelForCausalLM, BitsAndBytesConfig
from peft import LoraConfig, prepare_model_for_kbit_training
from trl import SFTConfig, SFTTrainer
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-0.5B", quantization_config=BitsAndBytesConfig(load_in_4bit=True))
model = prepare_model_for_kbit_training(model)
SFTTrainer(model=model, peft_config=LoraConfig(r=8), args=SFTConfig(output_dir="o", per_device_train_batch_size=2,
    max_length=512, bf16=True, gradient_checkpointing=False)).train()
`
	for _, c := range []scriptCase{
		{name: "kbit preparation", program: quantized, want: map[string]string{checkpointing: `"full"`}},
		{name: "kbit preparation without checkpoints", program: strings.Replace(quantized, "training(model)",
			"training(model, use_gradient_checkpointing=False)", 1), want: map[string]string{checkpointing: `"none"`}},
		{name: "kbit preparation of what is not quantized", program: strings.Replace(quantized, "True)", "False)", 1),
			want: map[string]string{checkpointing: `"none"`}},
	} {
		t.Run(c.name, c.run)
	}
}
