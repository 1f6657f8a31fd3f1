package olmo

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/tool"
)

// stillText are OLMo's (ai2-olmo 0.6.0 olmo/config.py TrainConfig). Not among them: max_duration, evaluators,
// load_path, model.*, fsdp.*, optimizer.name, save_num_checkpoints_to_keep 0.
const stillText = ` run_name seed wandb* save_folder remote_save_folder save_overwrite save_interval
	save_interval_unsharded save_interval_ephemeral console_log_interval speed_monitor* scheduler* data.* epoch dry_run
	optimizer.learning_rate optimizer.weight_decay optimizer.betas* optimizer.eps `

var still = strings.Fields(tool.Bare(stillText))
