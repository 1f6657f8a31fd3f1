package launch

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// Words that move no memory, whatever their values are: where a job runs, what it is called, what it logs, when it
// saves, how fast it learns, which data it reads. A word stands here only where its source shows that no tensor of a
// training step has another size or type by it. What is read and may move memory at some value stands in the reader;
// what stands in neither is a doubt. A word that ends in "*" stands for all that begin with it: those are families of
// logging and hubs, whose values go to no tensor. Words that end in "=" are switches, which need no value behind them.
//
// testdata/check_words.py holds the tables against the packages' own declarations.

// Still are options of launchers, by launcher. Those that say how many processes there are, that choose a
// precision, a compiler or a way to share the model are not among them: nproc_per_node, nnodes, num_processes,
// num_machines, mixed_precision, dynamo_*, use_*, deepspeed_*, fsdp_*, zero_*, offload_*, megatron_lm_*,
// parallelism_config_*, config_file (torch 2.15.0 distributed/run.py get_args_parser; accelerate 1.15.0
// commands/launch.py launch_command_parser; DeepSpeed 0.18 launcher/runner.py parse_args; composer 0.32
// cli/launcher.py).
var Still = stillWords(map[string]string{
	"torchrun": torchrunStill, "tune": torchrunStill,
	"accelerate": accelerateStill,
	"deepspeed": `master_addr master_port hostfile H launcher launcher_args node_rank ssh_port no_ssh= no_ssh_check=
		save_pid= enable_each_rank_log bind_cores_to_rank= bind_core_list venv_script log_dir`,
	"composer": `master_addr master_port node_rank base_rank stdout stderr verbose= v=`,
})

const torchrunStill = `node_rank master_addr master_port rdzv_backend rdzv_endpoint rdzv_id rdzv_conf standalone=
	max_restarts monitor_interval start_method event_log_handler role log_dir r redirects t tee log_line_prefix_template
	local_ranks_filter duplicate_stdout_filters duplicate_stderr_filters local_addr logs_specs numa_binding
	signals_to_handle shutdown_timeout virtual_local_rank= print_completion=`

const accelerateStill = `main_process_ip main_process_port machine_rank same_network= rdzv_backend rdzv_conf max_restarts
	monitor_interval role log_dir tee t gpu_ids num_cpu_threads_per_process enable_cpu_affinity= debug= quiet= q=
	main_training_function deepspeed_hostfile deepspeed_multinode_launcher mpirun_hostfile`

// stillWords makes sets of tables.
func stillWords(tables map[string]string) map[string]map[string]bool {
	all := map[string]map[string]bool{}
	for name, table := range tables {
		all[name] = setting.SetOf(strings.Fields(table)...)
	}
	return all
}
