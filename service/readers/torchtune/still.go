package torchtune

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/tool"
)

// stillText are those of torchtune's recipes (torchtune 0.6.1 recipes/configs). Not among them: epochs,
// max_steps_per_epoch, dataset.packed, checkpointer.*, profiler.*, compile, dtype, anything of the model.
const stillText = ` output_dir seed shuffle log_every_n_steps log_peak_memory_stats log_level metric_logger*
	lr_scheduler* save_adapter_weights_only optimizer.lr optimizer.weight_decay loss.ignore_index
	checkpointer.output_dir checkpointer.checkpoint_dir checkpointer.checkpoint_files tokenizer.path
	profiler.output_dir `

var still = strings.Fields(tool.Bare(stillText))
