package litgpt

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/tool"
)

// stillText are litgpt's own (litgpt 0.5.13 args.py, finetune/*.py, pretrain.py). Not among them: train.epochs,
// train.max_steps, train.max_tokens and train.max_time (nothing is trained), train.tie_embeddings, eval.*, resume,
// devices, num_nodes, optimizer, model_config, precision.
const stillText = ` out_dir logger_name seed access_token tokenizer_dir data data.* train.save_interval
	train.log_interval train.lr_warmup_steps train.lr_warmup_fraction train.max_norm train.min_lr log.* lora_alpha `

var still = strings.Fields(tool.Bare(stillText))
