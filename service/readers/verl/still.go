package verl

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/tool"
)

// stillText are those of verl's trainer for supervised fine-tuning (verl 0.5 trainer/config/sft_trainer.yaml). Not
// among them: trainer.total_epochs, trainer.total_training_steps, trainer.test_freq, data.custom_cls, model.*.
const stillText = ` data.train_files data.val_files data.prompt_key data.response_key data.prompt_dict_keys*
	data.response_dict_keys* data.multiturn.* data.truncation data.chat_template data.use_shm
	data.apply_chat_template_kwargs* model.use_shm model.lora_alpha optim.lr optim.betas* optim.weight_decay
	optim.warmup_steps_ratio optim.lr_warmup_steps_ratio optim.clip_grad optim.lr_scheduler trainer.default_local_dir
	trainer.default_hdfs_dir trainer.project_name trainer.experiment_name trainer.logger* trainer.seed trainer.save_freq
	trainer.max_ckpt_to_keep `

var still = strings.Fields(tool.Bare(stillText))
