package megatron

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/tool"
)

// stillText are Megatron-LM's (core_v0.12 megatron/training/arguments.py). Not among them: train_iters and
// train_samples (nothing is trained), tokenizer_*, vocab_* and merge_file (the vocabulary), clip_grad, eval_*,
// transformer_impl and what is in loose.
const stillText = ` data_path split data_cache_path train_data_path valid_data_path test_data_path save load
	save_interval log_interval tensorboard_dir tensorboard_log_interval tensorboard_queue_size wandb_* seed lr min_lr
	lr_decay_style lr_decay_iters lr_decay_samples lr_warmup_fraction lr_warmup_iters lr_warmup_samples weight_decay
	weight_decay_incr_style adam_beta1 adam_beta2 adam_eps init_method_std num_workers log_throughput=
	log_timers_to_tensorboard= log_params_norm= log_validation_ppl_to_tensorboard= distributed_timeout_minutes
	exit_duration_in_mins exit_interval exit_signal_handler= `

var still = strings.Fields(tool.Bare(stillText))
