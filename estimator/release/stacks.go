package release

// stacks are made once: every estimate looks into them.
var stacks = stackTable()

// Stacks are the sets of releases that are traced, the newest first, which is the reference. They are shared, and for
// reading only.
func Stacks() []Stack { return stacks }

func stackTable() []Stack {
	return []Stack{
		{
			Name: "torch-2.15",
			Releases: map[string]string{"torch": "2.15.0", "transformers": "5.23.0", "accelerate": "1.15.0",
				"peft": "0.21.2", "trl": "1.16.0",
				"bitsandbytes": "0.50.2", "cuda": "13.2"},
			Proven: "the reference: eager steps on one GPU of the families listed, in amp, half precision and fp32, " +
				"with LoRA and checkpointing, " +
				"were equal event by event",
			Families: []string{"albert", "apertus", "arcee", "bart", "bert", "bloom", "camembert", "clip",
				"cohere", "cohere2", "deberta-v2", "deepseek_v2", "deepseek_v3", "distilbert", "dots1",
				"electra", "ernie4_5", "ernie4_5_moe", "exaone4", "falcon", "gemma", "gemma2", "gemma3", "gemma3_text",
				"gemma4_text", "glm", "glm4", "glm4_moe", "glm4_moe_lite", "gpt2", "gpt_bigcode", "gpt_neo",
				"gpt_neox", "gpt_oss", "gptj", "granite", "granitemoe", "granitemoehybrid", "granitemoeshared",
				"hunyuan_v1_dense", "hunyuan_v1_moe", "lfm2", "lfm2_moe", "llama", "mbart", "minimax_m2",
				"ministral", "ministral3", "mistral", "mixtral", "modernbert", "mt5", "nanogpt", "nemotron",
				"olmo", "olmo2", "olmo3", "olmoe", "opt", "phi", "phi3", "qwen2", "qwen2_moe", "qwen3",
				"qwen3_5_moe_text", "qwen3_5_text", "qwen3_moe", "qwen3_next", "roberta", "seed_oss", "smollm3",
				"stablelm", "starcoder2", "t5", "vit", "whisper", "xlm-roberta"},
			EagerOnly: true,
		},
		{
			Name: "torch-2.9",
			Releases: map[string]string{"torch": "2.9.1", "transformers": "4.57.6", "accelerate": "1.15.0",
				"peft": "0.21.2", "trl": "0.26.2", "cuda": "12.8"},
			Proven: "every family and recipe of docs/lab/accuracy.md, but for the families that came later",
			Unproven: []string{"gemma4_text", "glm4_moe_lite", "lfm2_moe", "minimax_m2", "ministral3",
				"qwen3_5_moe_text", "qwen3_5_text", "qwen3_next"},
		},
	}
}
