package lever

// libraries say whose code a lever turns on, in the words with which one looks for it. A lever that needs none but
// PyTorch says the part of PyTorch. Sources: transformers/trainer.py and training_args.py 4.57 (optim,
// use_liger_kernel), liger_kernel/transformers.
var libraries = map[string]string{
	"attention-sdpa":          "PyTorch's fused attention",
	"checkpointing-full":      "PyTorch's torch.utils.checkpoint",
	"checkpointing-selective": "PyTorch's torch.utils.checkpoint",
	"loss-fused-linear":       "Liger's fused linear cross-entropy",
	"loss-chunked":            "PyTorch's cross-entropy in chunks",
	"loss-fused":              "Liger's cross-entropy",
	"optimizer-fused":         "PyTorch's fused kernel",
	"optimizer-for-loop":      "PyTorch's loop over tensors",
	"optimizer-8bit":          "bitsandbytes' 8-bit AdamW",
	"optimizer-adafactor":     "PyTorch's Adafactor",
	"optimizer-lion":          "bitsandbytes' Lion",
	"optimizer-sgd":           "PyTorch's SGD",
	"precision-amp-bf16":      "PyTorch's autocast",
	"precision-amp-fp16":      "PyTorch's autocast and GradScaler",
	"precision-bf16":          "PyTorch's bfloat16",
	"compile-on":              "PyTorch's torch.compile",
	"allocator-expandable":    "PyTorch's caching allocator",
	"adapters-lora":           "peft's LoRA",
	"adapters-qlora":          "peft's LoRA on bitsandbytes' 4-bit weights",
	"adapters-nf4":            "bitsandbytes' 4-bit weights",
}

// librariesOf are those of a tool that takes another.
var librariesOf = map[string]map[string]string{
	"hf-trainer":    {"optimizer-adafactor": "transformers' Adafactor"},
	"llama-factory": {"optimizer-adafactor": "transformers' Adafactor"},
	"ms-swift":      {"optimizer-adafactor": "transformers' Adafactor"},
	"torchtune":     {"loss-chunked": "torchtune's chunked cross-entropy"},
	"megatron": {"checkpointing-full": "Megatron's recomputation",
		"checkpointing-selective": "Megatron's recomputation"},
}

func libraryOf(tool, code string) string {
	if likeHuggingFace[tool] {
		tool = "hf-trainer"
	}
	if name := librariesOf[tool][code]; name != "" {
		return name
	}
	return libraries[code]
}
