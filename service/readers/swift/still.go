package swift

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// stillText are ms-swift's own (ms-swift 4.6.0 swift/arguments). Not among them: freeze_*, trainable_parameters,
// packing, padding_free, loss_scale, use_logits_to_keep, max_pixels, galore_*, lisa_*, val_dataset and
// split_dataset_ratio (an evaluation), new_special_tokens, torch_dtype, device_map.
const stillText = huggingface.StillText + ` dataset dataset_num_proc load_from_cache_file= dataset_shuffle= val_dataset_shuffle=
	streaming= interleave_prob stopping_strategy shuffle_buffer_size download_mode columns strict= model_name model_author
	custom_dataset_info use_hf= hub_token system truncation_strategy agent_template norm_bbox use_chat_template=
	padding_side template_backend response_prefix enable_thinking= preserve_thinking= lazy_tokenize= ignore_args_error=
	lora_alpha lorap_lr_ratio use_rslora= add_version= create_checkpoint_symlink= max_shard_size safe_serialization=
	train_dataloader_shuffle= check_model= template `

var still = strings.Fields(tool.Bare(stillText))
