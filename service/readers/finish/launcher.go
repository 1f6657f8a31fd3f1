package finish

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/launch"
)

// launcherCounts are the options of launchers that say how many processes of what there are; they are read where the
// GPUs are counted.
var launcherCounts = strings.Fields("nproc_per_node nproc_per_gpu nnodes num_processes num_machines num_gpus num_nodes " +
	"include exclude i e n nproc world_size multi_gpu standalone m module module_mode no_python run_path use_env " +
	"command_mode c config_file compute_environment downcast_bf16 tpu_* commands command_file no_local_rank force_multi")

// launcherWords lists the launcher's options that nobody read, and asks about those that may change the memory.
func (r *closing) launcherWords() {
	s := r.Own
	if r.Accelerate != nil {
		s = r.Accelerate
	}
	if s == nil {
		return
	}
	s.Read(launcherCounts...)
	for word := range launch.Still[r.Launcher] {
		s.Read(strings.TrimSuffix(word, "="))
	}
	r.unread(s)
}
