package verl

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/tool"
)

// stillText are those of verl's trainer for supervised fine-tuning (verl 0.5 trainer/config/sft_trainer.yaml, 0.9.1
// trainer/config/sft_trainer_engine.yaml). Not
// among them: trainer.total_epochs, trainer.total_training_steps, trainer.test_freq, data.custom_cls, model.*.
const stillText = ` data.train_files data.val_files data.prompt_key data.response_key data.prompt_dict_keys*
	data.response_dict_keys* data.multiturn.* data.truncation data.chat_template data.use_shm
	data.apply_chat_template_kwargs* model.use_shm model.lora_alpha optim.lr optim.betas* optim.weight_decay
	optim.warmup_steps_ratio optim.lr_warmup_steps_ratio optim.clip_grad optim.lr_scheduler trainer.default_local_dir
	trainer.default_hdfs_dir trainer.project_name trainer.experiment_name trainer.logger* trainer.seed trainer.save_freq
	trainer.max_ckpt_to_keep data.train_max_samples data.val_max_samples data.messages_key
	data.tools_key data.enable_thinking_key data.enable_thinking_default data.num_workers
	data.ignore_input_ids_mismatch optim.lr_warmup_steps optim.min_lr_ratio optim.warmup_style
	optim.lr_scheduler_type optim.num_cycles optim.total_training_steps checkpoint.save_contents*
	checkpoint.load_contents* engine.seed trainer.balance_batch model.tokenizer_path model.custom_chat_template `

// loose are words that move memory in a way that is not followed.
var loose = strings.Fields("model.fsdp_config.* engine.* engine model.lora_adapter_path model.exclude_modules " +
	"model.enable_activation_offload model.use_fused_kernels model.fused_kernel_options.* model.tiled_mlp.* model.lora.* " +
	"model.override_config* model.mtp.* optim optim.* data.custom_cls.* data.pad_mode")

var still = strings.Fields(tool.Bare(stillText))
