package lever

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// leverWord is how one tool sets a lever, and whether that takes a change of code.
type leverWord struct {
	setting string
	code    bool
}

// leverWords by tool and lever; a lever without an entry for its tool is said in
// general words, as a change of code.
var leverWords = map[string]map[string]leverWord{
	"nanogpt": {
		"precision-amp-bf16": {setting: "dtype = 'bfloat16'"},
		"precision-amp-fp16": {setting: "dtype = 'float16'"},
		"compile-on":         {setting: "compile = True"},
		"compile-off":        {setting: "compile = False"},
	},
	"hf-trainer": {
		"attention-sdpa":          {setting: `attn_implementation="sdpa"`},
		"checkpointing-full":      {setting: "gradient_checkpointing=True"},
		"checkpointing-none":      {setting: "gradient_checkpointing=False"},
		"loss-fused-linear":       {setting: "use_liger_kernel=True"},
		"optimizer-sgd":           {setting: `optim="sgd", optim_args="momentum=0.9"`}, // of transformers since 5.3
		"precision-amp-bf16":      {setting: "bf16=True"},
		"precision-amp-fp16":      {setting: "fp16=True"},
		"precision-bf16":          {setting: "torch_dtype=torch.bfloat16, bf16=False"},
		"compile-on":              {setting: "torch_compile=True"},
		"compile-off":             {setting: "torch_compile=False"},
		"evaluation-loss-only":    {setting: "prediction_loss_only=True"},
		"checkpointing-selective": {setting: "checkpoint the attention modules", code: true},
	},
	// diffusers' training scripts, examples/, 0.39: their options.
	"diffusers": {
		"checkpointing-full": {setting: "--gradient_checkpointing"},
		"checkpointing-none": {setting: "no --gradient_checkpointing"},
		"optimizer-8bit":     {setting: "--use_8bit_adam"},
		"optimizer-fused":    {setting: "optimizer_class(..., fused=True) in the script", code: true},
		"precision-amp-bf16": {setting: "--mixed_precision=bf16"},
		"precision-amp-fp16": {setting: "--mixed_precision=fp16"},
	},
	// LLaMA-Factory, src/llamafactory/hparams/model_args.py at ff6d4d12: a setting that it does not know ends the run.
	"llama-factory": {
		"attention-sdpa":       {setting: "flash_attn: sdpa"},
		"checkpointing-full":   {setting: "disable_gradient_checkpointing: false"},
		"checkpointing-none":   {setting: "disable_gradient_checkpointing: true"},
		"loss-fused-linear":    {setting: "enable_liger_kernel: true"},
		"precision-amp-bf16":   {setting: "bf16: true"},
		"precision-amp-fp16":   {setting: "fp16: true"},
		"precision-bf16":       {setting: "pure_bf16: true"},
		"compile-on":           {setting: "torch_compile: true"},
		"compile-off":          {setting: "torch_compile: false"},
		"evaluation-loss-only": {setting: "prediction_loss_only: true"},
		"adapters-lora":        {setting: "finetuning_type: lora, lora_rank: 16, lora_target: all"},
		"adapters-qlora":       {setting: "finetuning_type: lora, lora_rank: 16, lora_target: all, quantization_bit: 4"},
		"adapters-nf4":         {setting: "quantization_bit: 4"},
	},
	// ms-swift 4, swift/arguments.
	"ms-swift": {
		"attention-sdpa":     {setting: "--attn_impl sdpa"},
		"checkpointing-full": {setting: "--gradient_checkpointing true"},
		"checkpointing-none": {setting: "--gradient_checkpointing false"},
		"loss-fused-linear":  {setting: "--use_liger_kernel true"},
		"precision-amp-bf16": {setting: "--bf16 true"},
		"precision-amp-fp16": {setting: "--fp16 true"},
		"adapters-lora":      {setting: "--tuner_type lora --lora_rank 16 --target_modules all-linear"},
		"adapters-qlora": {setting: "--tuner_type lora --lora_rank 16 --target_modules all-linear --quant_method " +
			"bnb --quant_bits 4"},
		"adapters-nf4": {setting: "--quant_method bnb --quant_bits 4"},
	},
	"torchtune": {
		"checkpointing-full": {setting: "enable_activation_checkpointing=True"},
		"checkpointing-none": {setting: "enable_activation_checkpointing=False"},
		"loss-chunked":       {setting: "loss=torchtune.modules.loss.LinearCrossEntropyLoss"},
		"optimizer-fused":    {setting: "optimizer.fused=True"},
		"compile-on":         {setting: "compile=True"},
		"compile-off":        {setting: "compile=False"},
		"precision-bf16":     {setting: "dtype=bf16"},
	},
	"megatron": {
		"checkpointing-full": {setting: "--recompute-granularity full --recompute-method uniform " +
			"--recompute-num-layers 1"},
		"checkpointing-selective": {setting: "--recompute-granularity selective"},
		"precision-amp-bf16":      {setting: "--bf16"},
	},
	"axolotl": {
		"attention-sdpa":     {setting: "sdp_attention: true"},
		"checkpointing-full": {setting: "gradient_checkpointing: true"},
		"checkpointing-none": {setting: "gradient_checkpointing: false"},
		"loss-fused-linear":  {setting: "liger_fused_linear_cross_entropy: true"},
		"precision-amp-bf16": {setting: "bf16: true"},
		"precision-amp-fp16": {setting: "fp16: true"},
		"compile-on":         {setting: "torch_compile: true"},
		"compile-off":        {setting: "torch_compile: false"},
		"adapters-lora":      {setting: "adapter: lora, lora_r: 16, lora_target_linear: true"},
		"adapters-qlora":     {setting: "adapter: qlora, load_in_4bit: true, lora_r: 16, lora_target_linear: true"},
		"adapters-nf4":       {setting: "adapter: qlora, load_in_4bit: true"},
	},
}

// anyTool says each lever in PyTorch's own words.
var anyTool = map[string]leverWord{
	"attention-sdpa":          {setting: "torch.nn.functional.scaled_dot_product_attention", code: true},
	"checkpointing-full":      {setting: "wrap each block in torch.utils.checkpoint.checkpoint", code: true},
	"checkpointing-selective": {setting: "wrap attention in torch.utils.checkpoint.checkpoint", code: true},
	"checkpointing-none":      {setting: "call the blocks without torch.utils.checkpoint"},
	"loss-fused-linear": {setting: "LigerFusedLinearCrossEntropyLoss in place of the output layer and the loss",
		code: true},
	"loss-chunked": {setting: "torch.nn.functional.cross_entropy over chunks of the tokens, or torchtune's " +
		"LinearCrossEntropyLoss", code: true},
	"loss-fused":           {setting: "LigerCrossEntropyLoss in place of torch.nn.CrossEntropyLoss", code: true},
	"optimizer-fused":      {setting: "fused=True"},
	"optimizer-for-loop":   {setting: "foreach=False"},
	"optimizer-sgd":        {setting: "torch.optim.SGD(momentum=0.9)", code: true},
	"precision-amp-bf16":   {setting: "torch.autocast(dtype=torch.bfloat16)"},
	"precision-amp-fp16":   {setting: "torch.autocast(dtype=torch.float16) and torch.amp.GradScaler"},
	"precision-bf16":       {setting: "model.to(torch.bfloat16) without autocast"},
	"compile-on":           {setting: "torch.compile(model)"},
	"compile-off":          {setting: "the model without torch.compile"},
	"allocator-expandable": {setting: "expandable_segments:True in PYTORCH_CUDA_ALLOC_CONF"},
	"evaluation-loss-only": {setting: "do not collect the evaluation's logits"},
	"adapters-lora":        {setting: `peft.LoraConfig(r=16, target_modules="all-linear")`, code: true},
	"adapters-qlora":       {setting: `peft.LoraConfig(r=16, target_modules="all-linear") on BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)`, code: true},
	"adapters-nf4":         {setting: `BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4", bnb_4bit_use_double_quant=True)`, code: true},
}

// likeHuggingFace are the tools whose users write transformers' own settings.
var likeHuggingFace = map[string]bool{"trl": true, "unsloth": true}

// trainerEvaluation are the tools that take the Trainer's word for the batch of an evaluation.
var trainerEvaluation = map[string]bool{"hf-trainer": true, "trl": true, "unsloth": true, "llama-factory": true,
	"ms-swift": true}

// optimizerSettings are how tools are asked for an optimizer, with the Trainer's word for it in place of %s.
var optimizerSettings = map[string]string{
	"hf-trainer": `optim="%s"`, "trl": `optim="%s"`, "unsloth": `optim="%s"`,
	"llama-factory": "optim: %s", "ms-swift": "--optim %s", "axolotl": "optimizer: %s",
}

// optimizerWord is how a tool sets an optimizer, from the row that is known of it: by the Trainer's word, by the class
// where that is a setting (torchtune) or where it takes a change of code, and fused as an argument of the class.
func optimizerWord(tool string, o estimator.Optimizer) (w leverWord, ok bool) {
	row, known := optim.OptimizerOf(o.Name, o.Implementation)
	if !known {
		return w, false
	}
	if setting, over := optimizerSettings[tool]; over && row.Trainer != "" && row.Name == o.Name {
		return leverWord{setting: fmt.Sprintf(setting, row.Trainer)}, true
	}
	class := row.ClassPath(o.Name)
	switch {
	case row.Fused:
		row, _ = optim.OptimizerOf(o.Name, "")
		class = row.ClassPath(o.Name)
		return leverWord{setting: class + "(..., fused=True)"}, tool == "pytorch" && class != ""
	case tool == "torchtune":
		return leverWord{setting: "optimizer=" + class}, class != ""
	}
	return leverWord{setting: class, code: true}, class != ""
}

// Worded gives levers the words of the tool and the effort that those imply.
func Worded(ls []Lever, tool string) []Lever {
	own := leverWords[tool]
	if likeHuggingFace[tool] {
		own = leverWords["hf-trainer"]
	}
	for i := range ls {
		l := &ls[i]
		w, ok := own[l.Code]
		if o, is := l.Changes["optimizer"].(estimator.Optimizer); is && !ok {
			w, ok = optimizerWord(tool, o)
		}
		if !ok {
			w, ok = anyTool[l.Code]
		}
		switch {
		case ok:
			l.Settings, l.Library = []string{w.setting}, libraryOf(tool, l.Code)
			if _, kind := l.Changes["gradient_checkpointing"].(estimator.Checkpointing); kind {
				l.Settings = append(l.Settings, reentrantOff(tool))
			}
			if w.code {
				l.Effort = max(l.Effort, codeEffort)
			}
		case l.Group == "sequence":
			l.Settings = []string{fmt.Sprintf("%s = %d", sequenceWord(tool), l.Changes["sequence_length"])}
		case l.Group == "evaluation":
			word := "evaluation batch size = "
			if trainerEvaluation[tool] {
				word = "per_device_eval_batch_size="
			}
			l.Settings = []string{fmt.Sprint(word, l.Changes["evaluation"].(estimator.Evaluation).MicroBatch)}
		}
	}
	return ls
}

func sequenceWord(tool string) string {
	switch tool {
	case "nanogpt":
		return "block_size"
	case "trl", "unsloth", "ms-swift":
		return "max_length"
	case "axolotl":
		return "sequence_len"
	case "llama-factory":
		return "cutoff_len"
	case "torchtitan":
		return "training.seq_len"
	case "megatron":
		return "--seq-length"
	case "torchtune":
		return "tokenizer.max_seq_len"
	case "hf-trainer":
		return "tokenizer max_length"
	}
	return "sequence_length"
}
