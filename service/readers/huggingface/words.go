package huggingface

import "strings"

// Accepted are arguments of the Trainer and of common programs that the answer holds for whatever they say,
// though some of them move memory: what evaluation holds beside its batch is less with them, or some ids; whether
// anything is trained is looked at elsewhere; rows that are packed or padded are as long as the document's
// (transformers 4.57.6 training_args.py; trl 1.9 trainer/sft_config.py). Words that move none are trainerStill.
var Accepted = strings.Fields(`do_train do_eval do_predict prediction_loss_only num_train_epochs max_steps jit_mode_eval
	eval_accumulation_steps eval_on_start load_best_model_at_end debug resume_from_checkpoint include_for_metrics
	include_inputs_for_metrics batch_eval_metrics eval_do_concat_batches eval_use_gather_object dataset_* tokenizer_name
	trust_remote_code model_revision chat_template eos_token pad_token packing packing_strategy padding_free eval_packing
	completion_only_loss assistant_only_loss conv_template* image_folder config_name validation_split_percentage`)

// Loose are arguments that move memory in a way that is not replayed.
var Loose = strings.Fields(`neftune_noise_alpha full_determinism torch_empty_cache_steps past_index use_cache
	ddp_static_graph ddp_broadcast_buffers ddp_bucket_cap_mb ddp_backend accelerator_config* pad_to_multiple_of
	chat_template_path optim_args optim_target_modules`)
