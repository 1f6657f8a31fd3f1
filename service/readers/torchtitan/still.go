package torchtitan

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/tool"
)

// stillText are torchtitan's (torchtitan 0.2 config/job_config.py). Not among them: training.steps, model.*,
// parallelism.*, checkpoint.* but for where and when, validation.*, compile.*, quantize.*.
const stillText = ` job.dump_folder job.description job.print_config job.print_args profiling.* metrics.*
	lr_scheduler.* optimizer.lr optimizer.beta1 optimizer.beta2 optimizer.eps optimizer.weight_decay training.dataset
	training.dataset_path training.seed training.max_norm training.gc_freq checkpoint.folder checkpoint.interval
	checkpoint.keep_latest_k comm.* `

var still = strings.Fields(tool.Bare(stillText))
