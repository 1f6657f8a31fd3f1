package catalog_test

import (
	"testing"

	"github.com/vramplan/vramplan/service"
)

func TestNamesOfTheSameModel(t *testing.T) {
	catalog := service.EmbeddedCatalog()
	for name, want := range map[string]string{
		"unsloth/Meta-Llama-3.1-8B-bnb-4bit":           "meta-llama/Llama-3.1-8B",
		"unsloth/llama-3-8b-bnb-4bit":                  "meta-llama/Meta-Llama-3-8B",
		"unsloth/Qwen2.5-7B-Instruct-unsloth-bnb-4bit": "Qwen/Qwen2.5-7B",
		"unsloth/gemma-3-4b-it-unsloth-bnb-4bit":       "google/gemma-3-4b-it",
		"unsloth/gemma-3-27b-pt":                       "google/gemma-3-27b-it",
		"all-MiniLM-L6-v2":                             "sentence-transformers/all-MiniLM-L6-v2",
		"NousResearch/Llama-2-7b-hf":                   "meta-llama/Llama-2-7b-hf",
		"NousResearch/Meta-Llama-3.1-8B-Instruct":      "meta-llama/Llama-3.1-8B",
		"meta-llama/Llama-2-7b":                        "meta-llama/Llama-2-7b-hf",
		"Qwen/Qwen2.5-Coder-7B-Instruct":               "Qwen/Qwen2.5-7B",
		"Qwen/Qwen3-4B-Instruct-2507":                  "Qwen/Qwen3-4B",
		"Qwen/Qwen3-30B-A3B-Thinking-2507":             "Qwen/Qwen3-30B-A3B",
		"lmsys/vicuna-7b-v1.5":                         "meta-llama/Llama-2-7b-hf",
		"EleutherAI/pythia-12b-deduped":                "EleutherAI/pythia-12b",
		"deepseek-ai/DeepSeek-R1-Distill-Llama-8B":     "meta-llama/Llama-3.1-8B",
		"deepseek-ai/DeepSeek-R1-Distill-Qwen-32B":     "Qwen/Qwen2.5-32B",
		"openlm-research/open_llama_7b":                "huggyllama/llama-7b",
		"01-ai/Yi-34B-Chat":                            "01-ai/Yi-34B",
		"allenai/OLMo-2-1124-7B-Instruct":              "allenai/OLMo-2-1124-7B",
		"bigscience/bloomz-7b1":                        "bigscience/bloom-7b1",
		"HuggingFaceTB/SmolLM3-3B-Base":                "HuggingFaceTB/SmolLM3-3B",
		"alignment-handbook/zephyr-7b-sft-full":        "mistralai/Mistral-7B-v0.1",
		"unsloth/mistral-7b-instruct-v0.2-bnb-4bit":    "mistralai/Mistral-7B-Instruct-v0.2",
		"codellama/CodeLlama-7b-Python-hf":             "meta-llama/Llama-2-7b-hf",
		"codellama/CodeLlama-34b-Instruct-hf":          "codellama/CodeLlama-34b-hf",
		"decapoda-research/llama-7b-hf":                "huggyllama/llama-7b",
		"agentica-org/DeepCoder-14B-Preview":           "Qwen/Qwen2.5-14B",
		"deepcogito/cogito-v1-preview-llama-3B":        "meta-llama/Llama-3.2-3B",
		"mistralai/Devstral-Small-2507":                "mistralai/Mistral-Small-24B-Instruct-2501",
		"TinyLlama/TinyLlama_v1.1":                     "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
		"unsloth/Qwen3.5-4B-Base":                      "Qwen/Qwen3.5-4B",
		"unsloth/Qwen3.6-27B":                          "Qwen/Qwen3.5-27B",
		"unsloth/Qwen3-Coder-Next":                     "Qwen/Qwen3-Next-80B-A3B-Instruct",
		"unsloth/gemma-4-31B-it-unsloth-bnb-4bit":      "google/gemma-4-31B-it",
		"unsloth/gemma-4-E2B":                          "google/gemma-4-E2B-it",
		"unsloth/Ministral-3-3B-Reasoning-2512":        "mistralai/Ministral-3-3B-Base-2512",
		"unsloth/Mistral-Small-3.2-24B-Instruct-2506":  "mistralai/Mistral-Small-3.1-24B-Instruct-2503",
		"unsloth/GLM-4.7-Flash":                        "zai-org/GLM-4.7-Flash",
		"unsloth/MiniMax-M2.5":                         "MiniMaxAI/MiniMax-M2",
		"unsloth/granite-4.0-micro":                    "ibm-granite/granite-4.0-micro-base",
		"Qwen/Qwen3.6-35B-A3B":                         "Qwen/Qwen3.5-35B-A3B",
		"Olmo-3-7B-Think":                              "allenai/Olmo-3-1025-7B",
		"openlm-research/open_llama_3b":                "openlm-research/open_llama_3b_v2",
		"allenai/Llama-3.1-Tulu-3-8B-DPO":              "allenai/Llama-3.1-Tulu-3-8B",
		"deepseek-ai/DeepSeek-V3.1":                    "deepseek-ai/DeepSeek-V3",
		"zai-org/GLM-4.6":                              "zai-org/GLM-4.5",
		"unsloth/Qwen2.5-VL-7B-Instruct-bnb-4bit":      "Qwen/Qwen2.5-VL-7B-Instruct",
		"unsloth/Qwen2-VL-2B-Instruct":                 "Qwen/Qwen2-VL-2B-Instruct",
		"unsloth/gemma-3-270m-it":                      "google/gemma-3-270m",
		"unsloth/LFM2-1.2B":                            "LiquidAI/LFM2-1.2B",
	} {
		m, err := catalog.Model(name)
		if err != nil || m.ID != want {
			t.Errorf("%s: %v, %v; it is %s", name, m, err, want)
		}
	}
	for _, name := range []string{
		"somebody/Llama-3.1-8B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B",
		"unsloth/Qwen2.5-VL-8B-Instruct", "TheBloke/Llama-2-7B-GPTQ", "Qwen/Qwen2.5-9B",
		"codellama/CodeLlama-70b-Python-hf", "somebody/CodeLlama-7b-Python-hf",
	} {
		if m, err := catalog.Model(name); err == nil {
			t.Errorf("%s was taken for %s", name, m.ID)
		}
	}
}
