package launch

import (
	"fmt"
	"strings"
)

// accelerate is a configuration of accelerate for FSDP and what starts it. Sources: accelerate 1.15,
// commands/config/config_args.py (ClusterConfig) and utils/dataclasses.py (FullyShardedDataParallelPlugin,
// ParallelismConfig).
func (j *Job) accelerate() Words {
	d := j.distributed()
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	half := j.half()
	if half == "" {
		half = "no"
	}
	line("compute_environment: LOCAL_MACHINE")
	line("distributed_type: FSDP")
	line("mixed_precision: '%s'", half)
	line("num_machines: %d", j.Nodes)
	line("num_processes: %d", j.Nodes*j.PerNode)
	if j.Nodes > 1 {
		line("machine_rank: 0 # the number of the host, from 0")
		line("main_process_ip: MASTER_ADDR")
		line("main_process_port: 29500")
		line("rdzv_backend: static")
	}
	keeps := d.ReshardAfterForward != nil && !*d.ReshardAfterForward
	copies := d.ShardGroup > 0 && d.ShardGroup < j.Data
	line("fsdp_config:")
	line("  fsdp_version: %d", max(d.FSDPVersion, 1))
	line("  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP")
	line("  fsdp_state_dict_type: SHARDED_STATE_DICT")
	line("  fsdp_cpu_ram_efficient_loading: true")
	if d.FSDPVersion == 2 {
		line("  fsdp_reshard_after_forward: %t", !keeps)
		if copies {
			line("parallelism_config:")
			line("  parallelism_config_dp_replicate_size: %d", j.Data/d.ShardGroup)
			line("  parallelism_config_dp_shard_size: %d", d.ShardGroup)
		}
	} else {
		line("  fsdp_sync_module_states: true")
		line("  fsdp_use_orig_params: true")
		line("  fsdp_sharding_strategy: %s", map[bool]map[bool]string{
			false: {false: "FULL_SHARD", true: "SHARD_GRAD_OP"},
			true:  {false: "HYBRID_SHARD", true: "HYBRID_SHARD_ZERO2"}}[copies][keeps])
	}
	const name = "fsdp.yaml"
	w := Words{Command: "accelerate launch --config_file " + name + " train.py", Files: []File{{name, b.String()}}}
	if overTrainer[j.Framework] {
		w.Command += j.trainerArguments()
		return w
	}
	w.Code = fmt.Sprintf("micro-batches of %d sequences, %d of them in an optimizer step", j.Training.MicroBatch,
		max(j.Training.GradientAccumulation, 1))
	if j.checkpointing() == "full" {
		w.Code = "model.gradient_checkpointing_enable()\n" + w.Code
	}
	return w
}
