package tool

import (
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// memoryWord finds words about adapters, quantization, sharding, offloading and parts of a model in a key.
var memoryWord = regexp.MustCompile(`(?i)(^|[_.-])(q?lora|dora|peft|adapters?|adapter_name|bits|quant\w*|[48]bit|\w*_?in_[48]bit|offload\w*|zero\d?|fsdp\w*|shard\w*|parallel\w*|tp|pp|cp|sp|ep|freeze\w*|frozen|unfrozen\w*|ref_model|reward\w*|critic|vision|experts?|galore\w*|apollo\w*|badam\w*|lomo|layerwise|spectrum|teacher|distill\w*|moe|medusa|prefix_tuning|prompt_tuning|p_tuning|ptuning|longlora|llama_pro|gptq|awq|hqq|fp8|float8|nvfp4|mxfp4|qat|relora|reft|lisa|ulysses|ring_attn\w*|use_low_rank\w*|low_rank\w*|trainable\w*|unfreeze\w*|autotp\w*|upcast\w*|tiled_mlp|unsloth|megatron|mca|loftq\w*|onebit\w*|checkpointing)($|[_.-])`)

// harmlessWords look like them and are none.
var harmlessWords = regexp.MustCompile(`(?i)tokenizers_parallelism|lora_alpha|_alpha$|save_|saving|ddp_timeout|dataset|dataloader|data_|preprocessing|^ref$|zero3_save|zero3_init|hub_|wandb|reward_model_path|loraplus|lora_bias|init_lora|lora_weights|loss_scale|log_|logging|async_?save|checkpointing_steps|merge_lora|vllm_|sglang_`)

// concerns are settings of the tools that are read which change the memory, or the model, without a word of memoryWord
// in their names; of nested ones the last part. From the fields that the packages declare: transformers 4.57.6 and
// 5.23.0 training_args.py, trl 1.16.0 SFTConfig and ModelConfig, axolotl 0.19.0 utils/schemas, llamafactory 0.9.5
// hparams, ms-swift 4.0.0 arguments. A reader that follows one reads it before.
var concerns = setting.SetOf(
	// the loss and what it keeps
	"label_smoothing_factor", "label_smoothing", "loss_type", "chunked_cross_entropy", "flash_attn_cross_entropy",
	"use_dft_loss", "use_eaft", "enable_channel_loss", "enable_dft_loss",
	// what is recomputed, kept or put elsewhere
	"selective_checkpointing", "vit_gradient_checkpointing", "gpu_memory_limit", "max_memory", "max_memory_mb",
	"use_cpu_offload", "enable_activation_offload",
	// another model than the one that is named
	"base_model_config", "cls_model_config", "overrides_of_model_config", "overrides_of_model_kwargs", "model_kwargs",
	"num_labels", "task_type", "resize_vocab", "resize_token_embeddings_to_32x",
	"shrink_embeddings", "add_tokens", "random_init_weights", "reinit_weights", "use_mtp", "num_nextn_predict_layers", "from_scratch_config", "config_overrides",
	// what is trained, and its type
	"target_regex", "target_parameters", "layers_to_transform", "layers_pattern", "rank_pattern",
	"finetuning_type", "tuner_type", "train_type", "sft_type", "pre_seq_len", "prefix_projection",
	"embeddings_skip_upcast", "float32", "fp32_norms", "tuner_backend", "use_v1_kernels", "train_embeddings",
	// kernels that keep other tensors than those that are modelled
	"flash_attn_fuse_mlp", "flash_attn_rms_norm", "sage_attention", "scaling_softmax", "fused_attn_kernel",
	"large_head_attention", "deepcompile", "use_kernels", "block_diag_attn",
	// what runs beside the training
	"do_causal_lm_eval", "do_bench_eval", "generate_samples", "ebft", "dynamic_checkpoint", "trainer_cls", "use_ema",
	"ema", "ema_decay", "packing_length", "max_packed_sequence_len",
	"use_ray", "ray_num_workers", "custom_register_path", "external_plugins",
)

// MayChangeMemory reports whether an unread setting forbids an answer.
func MayChangeMemory(key string, v setting.Value) bool {
	if harmlessWords.MatchString(key) {
		return false
	}
	last := strings.ToLower(key[strings.LastIndexByte(key, '.')+1:])
	// of every other task the model has another head
	if last == "task_type" && strings.EqualFold(v.String(), "causal_lm") {
		return false
	}
	return memoryWord.MatchString(key) || slices.ContainsFunc(strings.Split(strings.ToLower(key), "."),
		func(part string) bool {
			return concerns[part]
		})
}
