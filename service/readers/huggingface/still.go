package huggingface

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/tool"
)

// Loggers are the words of services that runs are shown in, of the Hub and of progress bars.
const Loggers = ` report_to run_name project trackio_* wandb_* mlflow_* comet_* swanlab_* logging_dir logging_strategy
	logging_steps logging_first_step= logging_nan_inf_filter= log_level log_level_replica log_on_each_node= disable_tqdm=
	push_to_hub= push_to_hub_token push_to_hub_model_id push_to_hub_organization hub_token hub_model_id hub_strategy
	hub_private_repo= hub_always_push= hub_revision skip_memory_metrics= ray_scope use_auth_token= token `

// StillText are arguments of transformers' TrainingArguments, in 4.57.6 and 5.23.0 (training_args.py). Not among
// them, since they may move memory: do_train, num_train_epochs and max_steps (nothing is trained), do_eval,
// eval_strategy, eval_on_start, prediction_loss_only, eval_accumulation_steps, include_for_metrics, batch_eval_metrics,
// eval_do_concat_batches, *_full_eval (what evaluation holds), load_best_model_at_end, resume_from_checkpoint,
// neftune_noise_alpha, label_smoothing_factor, past_index, use_cache, torch_empty_cache_steps, auto_find_batch_size,
// full_determinism (cuBLAS's workspaces), optim_args, accelerator_config, parallelism_config, ddp_backend,
// ddp_bucket_cap_mb, ddp_static_graph, ddp_broadcast_buffers, ddp_find_unused_parameters, debug.
const StillText = Loggers + ` output_dir overwrite_output_dir= learning_rate weight_decay max_grad_norm
	lr_scheduler_type lr_scheduler_kwargs* warmup_ratio warmup_steps adam_beta1 adam_beta2 adam_epsilon
	average_tokens_across_devices= save_strategy save_steps save_total_limit save_safetensors= save_on_each_node=
	save_only_model= enable_jit_checkpoint= restore_callback_states_from_checkpoint= seed data_seed eval_steps eval_delay
	metric_for_best_model greater_is_better= ignore_data_skip= dataloader_drop_last= dataloader_num_workers
	dataloader_pin_memory= dataloader_persistent_workers= dataloader_prefetch_factor dataloader_multiprocessing_context
	dataloader_in_order= remove_unused_columns= label_names length_column_name group_by_length= train_sampling_strategy
	include_num_input_tokens_seen include_tokens_per_second= ddp_timeout local_rank `

// ProgramStill are arguments of transformers' example scripts (4.57.6 examples/pytorch: ModelArguments and
// DataTrainingArguments) and of trl's (1.16.0 scripts/utils.py, SFTConfig) that name data and how they are prepared.
// Not among them: tokenizer_name, which may resize the embeddings, config_name, config_overrides, torch_dtype,
// low_cpu_mem_usage, trust_remote_code, model_revision, packing, padding_free, pad_to_multiple_of, chat_template_path
// and eos_token, which may add rows.
const ProgramStill = ` dataset_name dataset_config dataset_config_name dataset_train_split dataset_test_split
	dataset_streaming= dataset_text_field dataset_num_proc dataset_batch_size dataset_kwargs* train_file validation_file
	test_file validation_split_percentage preprocessing_num_workers overwrite_cache= keep_linebreaks= streaming= cache_dir
	use_fast_tokenizer= max_train_samples max_eval_samples max_predict_samples shuffle_dataset= truncation_mode
	eval_data_path splits chat_template_format conv_template lazy_preprocess= use_rslora=
	append_concat_token= add_special_tokens= `

// Still are the words of both.
var Still = strings.Fields(tool.Bare(StillText + ProgramStill))

// Words are the Trainer's, for patches.
var Words = tool.Words{
	"/training/micro_batch":            tool.CountWord("per_device_train_batch_size"),
	"/training/gradient_accumulation":  tool.CountWord("gradient_accumulation_steps"),
	"/training/evaluation/micro_batch": tool.CountWord("per_device_eval_batch_size"),
	"/training/gradient_checkpointing": tool.ChoiceWord("gradient_checkpointing", tool.OnOff),
	"/training/attention": tool.ChoiceWord("attn_implementation",
		map[string]string{"sdpa": "sdpa", "flash": "flash_attention_2"}),
	"/training/loss": tool.ChoiceWord("use_liger_kernel", map[string]string{"fused-linear": "true"}),
	"/training/gradient_checkpointing/reentrant": Reentrant,
	"/training/optimizer":                        tool.OptimizerWord("optim"),
	"/training/precision":                        tool.HalfWords,
	"/training/compile":                          tool.SwitchWord("torch_compile"),
}

// Reentrant is the Trainer's word for checkpoints that are not reentrant.
var Reentrant = tool.ValueWords(map[string][]tool.Set{
	"false": {{Key: "gradient_checkpointing_kwargs", Text: `{"use_reentrant": false}`}},
})

// Accepted are arguments of the Trainer and of common programs that the answer holds for whatever they say,
// though some of them move memory: what evaluation holds beside its batch is less with them, or some ids; whether
// anything is trained is looked at elsewhere; rows that are packed or padded are as long as the document's
// (transformers 4.57.6 training_args.py; trl 1.9 trainer/sft_config.py). Words that move none are Still.
var Accepted = strings.Fields(`do_train do_eval do_predict prediction_loss_only num_train_epochs max_steps jit_mode_eval
	eval_accumulation_steps eval_on_start load_best_model_at_end debug resume_from_checkpoint include_for_metrics
	include_inputs_for_metrics batch_eval_metrics eval_do_concat_batches eval_use_gather_object dataset_* tokenizer_name
	trust_remote_code model_revision chat_template eos_token pad_token packing packing_strategy padding_free eval_packing
	completion_only_loss assistant_only_loss conv_template* image_folder config_name validation_split_percentage`)

// Loose are arguments that move memory in a way that is not replayed.
var Loose = strings.Fields(`neftune_noise_alpha full_determinism torch_empty_cache_steps past_index use_cache
	ddp_static_graph ddp_broadcast_buffers ddp_bucket_cap_mb ddp_backend accelerator_config* pad_to_multiple_of
	chat_template_path optim_args optim_target_modules`)
