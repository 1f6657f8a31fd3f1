package readers

import "strings"

// Words that move no memory, whatever their values are: where a job runs, what it is called, what it logs, when it
// saves, how fast it learns, which data it reads. A word stands here only where its source shows that no tensor of a
// training step has another size or type by it. What is read and may move memory at some value stands in the reader;
// what stands in neither is a doubt. A word that ends in "*" stands for all that begin with it: those are families of
// logging and hubs, whose values go to no tensor. Words that end in "=" are switches, which need no value behind them.
//
// testdata/check_words.py holds the tables against the packages' own declarations.

// launcherStill are options of launchers, by launcher. Those that say how many processes there are, that choose a
// precision, a compiler or a way to share the model are not among them: nproc_per_node, nnodes, num_processes,
// num_machines, mixed_precision, dynamo_*, use_*, deepspeed_*, fsdp_*, zero_*, offload_*, megatron_lm_*,
// parallelism_config_*, config_file (torch 2.15.0 distributed/run.py get_args_parser; accelerate 1.15.0
// commands/launch.py launch_command_parser; DeepSpeed 0.18 launcher/runner.py parse_args; composer 0.32
// cli/launcher.py).
var launcherStill = stillWords(map[string]string{
	"torchrun": torchrunStill, "tune": torchrunStill,
	"accelerate": accelerateStill,
	"deepspeed": `master_addr master_port hostfile H launcher launcher_args node_rank ssh_port no_ssh= no_ssh_check=
		save_pid= enable_each_rank_log bind_cores_to_rank= bind_core_list venv_script log_dir`,
	"composer": `master_addr master_port node_rank base_rank stdout stderr verbose= v=`,
})

const torchrunStill = `node_rank master_addr master_port rdzv_backend rdzv_endpoint rdzv_id rdzv_conf standalone=
	max_restarts monitor_interval start_method event_log_handler role log_dir r redirects t tee log_line_prefix_template
	local_ranks_filter duplicate_stdout_filters duplicate_stderr_filters local_addr logs_specs numa_binding
	signals_to_handle shutdown_timeout virtual_local_rank= print_completion=`

const accelerateStill = `main_process_ip main_process_port machine_rank same_network= rdzv_backend rdzv_conf max_restarts
	monitor_interval role log_dir tee t gpu_ids num_cpu_threads_per_process enable_cpu_affinity= debug= quiet= q=
	main_training_function deepspeed_hostfile deepspeed_multinode_launcher mpirun_hostfile`

// loggers are the words of services that runs are shown in, of the Hub and of progress bars.
const loggers = ` report_to run_name project trackio_* wandb_* mlflow_* comet_* swanlab_* logging_dir logging_strategy
	logging_steps logging_first_step= logging_nan_inf_filter= log_level log_level_replica log_on_each_node= disable_tqdm=
	push_to_hub= push_to_hub_token push_to_hub_model_id push_to_hub_organization hub_token hub_model_id hub_strategy
	hub_private_repo= hub_always_push= hub_revision skip_memory_metrics= ray_scope use_auth_token= token `

// trainerStillText are arguments of transformers' TrainingArguments, in 4.57.6 and 5.23.0 (training_args.py). Not among
// them, since they may move memory: do_train, num_train_epochs and max_steps (nothing is trained), do_eval,
// eval_strategy, eval_on_start, prediction_loss_only, eval_accumulation_steps, include_for_metrics, batch_eval_metrics,
// eval_do_concat_batches, *_full_eval (what evaluation holds), load_best_model_at_end, resume_from_checkpoint,
// neftune_noise_alpha, label_smoothing_factor, past_index, use_cache, torch_empty_cache_steps, auto_find_batch_size,
// full_determinism (cuBLAS's workspaces), optim_args, accelerator_config, parallelism_config, ddp_backend,
// ddp_bucket_cap_mb, ddp_static_graph, ddp_broadcast_buffers, ddp_find_unused_parameters, debug.
const trainerStillText = loggers + ` output_dir overwrite_output_dir= learning_rate weight_decay max_grad_norm
	lr_scheduler_type lr_scheduler_kwargs* warmup_ratio warmup_steps adam_beta1 adam_beta2 adam_epsilon
	average_tokens_across_devices= save_strategy save_steps save_total_limit save_safetensors= save_on_each_node=
	save_only_model= enable_jit_checkpoint= restore_callback_states_from_checkpoint= seed data_seed eval_steps eval_delay
	metric_for_best_model greater_is_better= ignore_data_skip= dataloader_drop_last= dataloader_num_workers
	dataloader_pin_memory= dataloader_persistent_workers= dataloader_prefetch_factor dataloader_multiprocessing_context
	dataloader_in_order= remove_unused_columns= label_names length_column_name group_by_length= train_sampling_strategy
	include_num_input_tokens_seen include_tokens_per_second= ddp_timeout local_rank `

// programStill are arguments of transformers' example scripts (4.57.6 examples/pytorch: ModelArguments and
// DataTrainingArguments) and of trl's (1.16.0 scripts/utils.py, SFTConfig) that name data and how they are prepared.
// Not among them: tokenizer_name, which may resize the embeddings, config_name, config_overrides, torch_dtype,
// low_cpu_mem_usage, trust_remote_code, model_revision, packing, padding_free, pad_to_multiple_of, chat_template_path
// and eos_token, which may add rows.
const programStill = ` dataset_name dataset_config dataset_config_name dataset_train_split dataset_test_split
	dataset_streaming= dataset_text_field dataset_num_proc dataset_batch_size dataset_kwargs* train_file validation_file
	test_file validation_split_percentage preprocessing_num_workers overwrite_cache= keep_linebreaks= streaming= cache_dir
	use_fast_tokenizer= max_train_samples max_eval_samples max_predict_samples shuffle_dataset= truncation_mode
	eval_data_path splits chat_template_format conv_template lazy_preprocess= use_rslora=
	append_concat_token= add_special_tokens= `

// llamaFactoryStillText are LLaMA-Factory's own (llamafactory 0.9.5 hparams). Not among them: template of a model that
// sees pictures, packing, neat_packing, image_* and video_* (lengths), rope_scaling, upcast_*, resize_vocab,
// add_tokens, freeze_*, galore_*, apollo_*, badam_*, fp8_*, low_cpu_mem_usage, use_kv_cache, create_new_adapter,
// val_size and eval_dataset (an evaluation).
const llamaFactoryStillText = trainerStillText + ` dataset dataset_dir media_dir buffer_size mix_strategy interleave_probs
	overwrite_cache= preprocessing_batch_size preprocessing_num_workers max_samples train_on_prompt= mask_history=
	ignore_pad_token_for_loss= eval_on_each_dataset= tool_format default_system enable_thinking= preserve_thinking=
	tokenized_path data_shared_file_system= streaming= plot_loss= disable_shuffling= early_stopping_steps
	include_effective_tokens_per_second= use_swanlab= cache_dir use_fast_tokenizer= print_param_status= hf_hub_token
	ms_hub_token om_hub_token export_dir export_size export_device export_hub_model_id export_legacy_format= lora_alpha
	loraplus_lr_ratio loraplus_lr_embedding use_rslora= profiler_output_dir template `

// axolotlStillText are axolotl's own (axolotl 0.19.0 utils/schemas). Not among them: num_epochs, val_set_size,
// eval_strategy, evals_per_epoch, test_datasets (an evaluation), sample_packing, pad_to_sequence_len, multipack_*,
// sample_packing_bin_size, special_tokens, tokens, added_tokens_overrides, mean_resizing_embeddings (rows of the
// embeddings), embedding_lr, loraplus_*, rope_scaling, accelerator_config, ddp*, device_map, model_quantization_config,
// gradient_checkpointing_kwargs, fsdp_*, torch_empty_cache_steps, gc_steps, profiler_steps.
const axolotlStillText = loggers + ` output_dir learning_rate weight_decay lr_scheduler lr_scheduler_kwargs* lr_quadratic_warmup=
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

// swiftStillText are ms-swift's own (ms-swift 4.6.0 swift/arguments). Not among them: freeze_*, trainable_parameters,
// packing, padding_free, loss_scale, use_logits_to_keep, max_pixels, galore_*, lisa_*, val_dataset and
// split_dataset_ratio (an evaluation), new_special_tokens, torch_dtype, device_map.
const swiftStillText = trainerStillText + ` dataset dataset_num_proc load_from_cache_file= dataset_shuffle= val_dataset_shuffle=
	streaming= interleave_prob stopping_strategy shuffle_buffer_size download_mode columns strict= model_name model_author
	custom_dataset_info use_hf= hub_token system truncation_strategy agent_template norm_bbox use_chat_template=
	padding_side template_backend response_prefix enable_thinking= preserve_thinking= lazy_tokenize= ignore_args_error=
	lora_alpha lorap_lr_ratio use_rslora= add_version= create_checkpoint_symlink= max_shard_size safe_serialization=
	train_dataloader_shuffle= check_model= template `

// litgptStillText are litgpt's own (litgpt 0.5.13 args.py, finetune/*.py, pretrain.py). Not among them: train.epochs,
// train.max_steps, train.max_tokens and train.max_time (nothing is trained), train.tie_embeddings, eval.*, resume,
// devices, num_nodes, optimizer, model_config, precision.
const litgptStillText = ` out_dir logger_name seed access_token tokenizer_dir data data.* train.save_interval
	train.log_interval train.lr_warmup_steps train.lr_warmup_fraction train.max_norm train.min_lr log.* lora_alpha `

// torchtuneStillText are those of torchtune's recipes (torchtune 0.6.1 recipes/configs). Not among them: epochs,
// max_steps_per_epoch, dataset.packed, checkpointer.*, profiler.*, compile, dtype, anything of the model.
const torchtuneStillText = ` output_dir seed shuffle log_every_n_steps log_peak_memory_stats log_level metric_logger*
	lr_scheduler* save_adapter_weights_only optimizer.lr optimizer.weight_decay loss.ignore_index
	checkpointer.output_dir checkpointer.checkpoint_dir checkpointer.checkpoint_files tokenizer.path
	profiler.output_dir `

// torchtitanStillText are torchtitan's (torchtitan 0.2 config/job_config.py). Not among them: training.steps, model.*,
// parallelism.*, checkpoint.* but for where and when, validation.*, compile.*, quantize.*.
const torchtitanStillText = ` job.dump_folder job.description job.print_config job.print_args profiling.* metrics.*
	lr_scheduler.* optimizer.lr optimizer.beta1 optimizer.beta2 optimizer.eps optimizer.weight_decay training.dataset
	training.dataset_path training.seed training.max_norm training.gc_freq checkpoint.folder checkpoint.interval
	checkpoint.keep_latest_k comm.* `

// megatronStillText are Megatron-LM's (core_v0.12 megatron/training/arguments.py). Not among them: train_iters and
// train_samples (nothing is trained), tokenizer_*, vocab_* and merge_file (the vocabulary), clip_grad, eval_*,
// transformer_impl and what is in megatronLoose.
const megatronStillText = ` data_path split data_cache_path train_data_path valid_data_path test_data_path save load
	save_interval log_interval tensorboard_dir tensorboard_log_interval tensorboard_queue_size wandb_* seed lr min_lr
	lr_decay_style lr_decay_iters lr_decay_samples lr_warmup_fraction lr_warmup_iters lr_warmup_samples weight_decay
	weight_decay_incr_style adam_beta1 adam_beta2 adam_eps init_method_std num_workers log_throughput=
	log_timers_to_tensorboard= log_params_norm= log_validation_ppl_to_tensorboard= distributed_timeout_minutes
	exit_duration_in_mins exit_interval exit_signal_handler= `

// verlStillText are those of verl's trainer for supervised fine-tuning (verl 0.5 trainer/config/sft_trainer.yaml). Not
// among them: trainer.total_epochs, trainer.total_training_steps, trainer.test_freq, data.custom_cls, model.*.
const verlStillText = ` data.train_files data.val_files data.prompt_key data.response_key data.prompt_dict_keys*
	data.response_dict_keys* data.multiturn.* data.truncation data.chat_template data.use_shm
	data.apply_chat_template_kwargs* model.use_shm model.lora_alpha optim.lr optim.betas* optim.weight_decay
	optim.warmup_steps_ratio optim.lr_warmup_steps_ratio optim.clip_grad optim.lr_scheduler trainer.default_local_dir
	trainer.default_hdfs_dir trainer.project_name trainer.experiment_name trainer.logger* trainer.seed trainer.save_freq
	trainer.max_ckpt_to_keep `

// olmoStillText are OLMo's (ai2-olmo 0.6.0 olmo/config.py TrainConfig). Not among them: max_duration, evaluators,
// load_path, model.*, fsdp.*, optimizer.name, save_num_checkpoints_to_keep 0.
const olmoStillText = ` run_name seed wandb* save_folder remote_save_folder save_overwrite save_interval
	save_interval_unsharded save_interval_ephemeral console_log_interval speed_monitor* scheduler* data.* epoch dry_run
	optimizer.learning_rate optimizer.weight_decay optimizer.betas* optimizer.eps `

var trainerStill = strings.Fields(bare(trainerStillText + programStill))

var llamaFactoryStill = strings.Fields(bare(llamaFactoryStillText))

var axolotlStill = strings.Fields(bare(axolotlStillText))

var swiftStill = strings.Fields(bare(swiftStillText))

var litgptStill = strings.Fields(bare(litgptStillText))

var torchtuneStill = strings.Fields(bare(torchtuneStillText))

var torchtitanStill = strings.Fields(bare(torchtitanStillText))

var megatronStill = strings.Fields(bare(megatronStillText))

var verlStill = strings.Fields(bare(verlStillText))

var olmoStill = strings.Fields(bare(olmoStillText))

// flags are the switches of all tables: what stands behind one need not be its value.
var flags = switchesOf(launcherStill, trainerStillText, programStill, llamaFactoryStillText, axolotlStillText,
	swiftStillText, megatronStillText)

// lasting are the words that say how long a training is, of which 0 trains nothing.
var lasting = set("num_train_epochs", "num_epochs", "max_epochs", "epochs", "train.epochs", "max_steps",
	"train.max_steps", "train.max_tokens", "max_steps_per_epoch", "training.steps", "train_iters", "train_samples",
	"trainer.total_epochs", "trainer.total_training_steps")

// bare is a table without the marks of its switches.
func bare(table string) string { return strings.ReplaceAll(table, "=", "") }

// stillWords makes sets of tables.
func stillWords(tables map[string]string) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for name, table := range tables {
		all[name] = set(strings.Fields(table)...)
	}
	return all
}

func switchesOf(launchers map[string]map[string]bool, tables ...string) map[string]bool {
	all := map[string]bool{}
	add := func(word string) {
		if name, isSwitch := strings.CutSuffix(word, "="); isSwitch {
			all[name] = true
		}
	}
	for _, words := range launchers {
		for word := range words {
			add(word)
		}
	}
	for _, table := range tables {
		for word := range strings.FieldsSeq(table) {
			add(word)
		}
	}
	return all
}
