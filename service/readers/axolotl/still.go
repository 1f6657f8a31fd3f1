package axolotl

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// stillText are axolotl's own (axolotl 0.19.0 utils/schemas). Not among them: num_epochs, val_set_size,
// eval_strategy, evals_per_epoch, test_datasets (an evaluation), sample_packing, pad_to_sequence_len, multipack_*,
// sample_packing_bin_size, special_tokens, tokens, added_tokens_overrides, mean_resizing_embeddings (rows of the
// embeddings), embedding_lr, loraplus_*, rope_scaling, accelerator_config, ddp*, device_map, model_quantization_config,
// gradient_checkpointing_kwargs, fsdp_*, torch_empty_cache_steps, gc_steps, profiler_steps.
const stillText = huggingface.Loggers + ` output_dir learning_rate weight_decay lr_scheduler lr_scheduler_kwargs* lr_quadratic_warmup=
	cosine_min_lr_ratio cosine_constant_lr_ratio lr_div_factor jagged_restart_* warmup_steps warmup_ratio adam_beta1
	adam_beta2 adam_epsilon max_grad_norm seed datasets* shuffle_merged_datasets= shuffle_before_merging_datasets=
	dataset_prepared_path dataset_shard_num dataset_shard_idx dataset_processes dataset_num_proc
	dataset_exact_deduplication= dataset_keep_in_memory= num_dataset_shards_to_save push_dataset_to_hub
	hf_use_auth_token= dataloader_pin_memory= dataloader_num_workers dataloader_prefetch_factor dataloader_drop_last=
	remove_unused_columns= metric_for_best_model greater_is_better= loss_watchdog_threshold loss_watchdog_patience
	min_sample_len excess_length_strategy train_on_inputs= group_by_length= eval_steps save_steps saves_per_epoch
	save_strategy save_total_limit save_first_step= save_only_model= save_safetensors= early_stopping_patience
	use_tensorboard= use_wandb= use_mlflow= use_comet= use_trackio= use_otel_metrics= otel_metrics_host otel_metrics_port
	gradio_* hf_mlflow_log_artifacts= chat_template chat_template_jinja chat_template_kwargs* default_system_message
	axolotl_config_path is_falcon_derived_model= is_llama_derived_model= is_mistral_derived_model= is_qwen_derived_model=
	tokenizer_use_fast= tokenizer_legacy= lora_alpha peft_use_rslora= local_rank ddp_timeout `

var still = strings.Fields(tool.Bare(stillText))
