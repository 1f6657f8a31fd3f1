package submission

import "strings"

// understood are the arguments that the reader of the Trainer's arguments follows.
const understood = " per_device_train_batch_size gradient_accumulation_steps gradient_checkpointing optim bf16 fp16 " +
	"tf32 torch_compile attn_implementation use_liger_kernel use_liger " +
	"block_size max_seq_length max_length model_max_length max_seq_len cutoff_len max_source_length torch_dtype " +
	"dtype config_name model_name_or_path model_name model_id " +
	"use_peft use_lora lora_r lora_rank lora_target_modules load_in_4bit load_in_8bit do_train do_eval do_predict " +
	"no_cuda use_cpu per_device_eval_batch_size " +
	"deepspeed fsdp fsdp_config auto_find_batch_size max_train_samples num_train_epochs max_steps "

// harmlessFlags and harmlessValues are arguments of transformers' TrainingArguments (4.20 to 5.0) and of run_clm.py
// that do not change what a training step holds, apart and with a value of their own: saving, logging, data, seeds,
// rates. Left out on purpose are those that may: accelerator_config (split_batches), adafactor, debug, *_kwargs,
// half_precision_backend, jit_mode_eval, label_smoothing_factor, mp_parameters, neftune_noise_alpha, optim_args,
// optim_target_modules, parallelism_config, past_index, per_gpu_train_batch_size, sharded_ddp, torch_compile_*,
// torch_empty_cache_steps, torchdynamo, tpu_*, use_ipex, use_mps_device, xpu_backend.
const (
	harmlessFlags = " overwrite_output_dir overwrite_cache streaming keep_linebreaks use_fast_tokenizer " +
		"use_auth_token disable_tqdm push_to_hub load_best_model_at_end greater_is_better " +
		"prediction_loss_only logging_first_step logging_nan_inf_filter log_on_each_node ignore_data_skip " +
		"dataloader_drop_last dataloader_pin_memory dataloader_persistent_workers remove_unused_columns " +
		"skip_memory_metrics hub_private_repo hub_always_push save_on_each_node save_only_model save_safetensors " +
		"full_determinism include_inputs_for_metrics include_tokens_per_second " +
		"include_num_input_tokens_seen eval_on_start eval_do_concat_batches batch_eval_metrics " +
		"restore_callback_states_from_checkpoint ddp_find_unused_parameters ddp_broadcast_buffers " +
		"average_tokens_across_devices eval_use_gather_object fp16_full_eval bf16_full_eval enable_jit_checkpoint " +
		"use_legacy_prediction_loop "
	harmlessValues = " output_dir tokenizer_name cache_dir model_revision token dataset_name dataset_config_name " +
		"train_file validation_file max_eval_samples validation_split_percentage " +
		"preprocessing_num_workers eval_strategy evaluation_strategy eval_steps eval_delay eval_accumulation_steps " +
		"learning_rate weight_decay adam_beta1 adam_beta2 adam_epsilon max_grad_norm " +
		"lr_scheduler_type warmup_ratio warmup_steps log_level log_level_replica logging_dir logging_steps " +
		"logging_strategy save_steps save_strategy save_total_limit seed data_seed " +
		"dataloader_num_workers dataloader_prefetch_factor run_name report_to label_names metric_for_best_model " +
		"hub_model_id hub_strategy hub_token hub_revision push_to_hub_token push_to_hub_model_id " +
		"push_to_hub_organization ddp_backend ddp_timeout ddp_bucket_cap_mb include_for_metrics local_rank " +
		"resume_from_checkpoint project trackio_space_id ray_scope length_column_name "
)

// programWords are arguments of programs with the Trainer that are not those of transformers, and do not change memory
// wherever they are known: names of data, templates, saving.
const programWords = " dataset data_path eval_data_path dataset_train_split dataset_test_split dataset_text_field " +
	"splits chat_template_format add_special_tokens append_concat_token template "

func listed(list, word string) bool { return strings.Contains(list, " "+word+" ") }

// takesValue says whether the word behind an argument is surely its value.
func takesValue(key string) bool {
	if listed(harmlessValues, key) || listed(programWords, key) {
		return true
	}
	switch key {
	case "per_device_train_batch_size", "per_device_eval_batch_size", "gradient_accumulation_steps", "block_size",
		"max_seq_length", "max_length", "model_max_length", "max_seq_len", "cutoff_len",
		"max_source_length", "torch_dtype", "dtype", "config_name", "model_name_or_path", "model_name", "model_id",
		"optim", "attn_implementation", "max_train_samples", "num_train_epochs", "max_steps",
		"lora_r", "lora_rank":
		return true
	}
	return false
}
