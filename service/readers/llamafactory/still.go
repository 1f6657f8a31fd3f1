package llamafactory

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// stillText are LLaMA-Factory's own (llamafactory 0.9.5 hparams). Not among them: template of a model that
// sees pictures, packing, neat_packing, image_* and video_* (lengths), rope_scaling, upcast_*, resize_vocab,
// add_tokens, freeze_*, galore_*, apollo_*, badam_*, fp8_*, low_cpu_mem_usage, use_kv_cache, create_new_adapter,
// val_size and eval_dataset (an evaluation).
const stillText = huggingface.StillText + ` dataset dataset_dir media_dir buffer_size mix_strategy interleave_probs
	overwrite_cache= preprocessing_batch_size preprocessing_num_workers max_samples train_on_prompt= mask_history=
	ignore_pad_token_for_loss= eval_on_each_dataset= tool_format default_system enable_thinking= preserve_thinking=
	tokenized_path data_shared_file_system= streaming= plot_loss= disable_shuffling= early_stopping_steps
	include_effective_tokens_per_second= use_swanlab= cache_dir use_fast_tokenizer= print_param_status= hf_hub_token
	ms_hub_token om_hub_token export_dir export_size export_device export_hub_model_id export_legacy_format= lora_alpha
	loraplus_lr_ratio loraplus_lr_embedding use_rslora= profiler_output_dir template `

var still = strings.Fields(tool.Bare(stillText))
