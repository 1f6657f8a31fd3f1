package launch

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/release"
)

// titanInPython says that the job names a torchtitan whose configurations are functions of Python; those before read a
// TOML.
func (j *Job) titanInPython() bool {
	v, named := release.Parse(j.Training.Versions["torchtitan"])
	return named && !v.Before(release.Version{Minor: 3})
}

// titanRegistry is a module of Python with the function that torchtitan 0.3.0 asks for its configuration, and what
// starts it. What is replayed is a loss over whole logits, without a captured step, so both are asked for. Sources:
// torchtitan/config/manager.py, torchtitan/config/configs.py, torchtitan/trainer.py (Trainer.Config), 0.3.0.
func (j *Job) titanRegistry() Words {
	d, t := j.distributed(), &j.Training
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	module, flavor, hint := j.titanFlavor()
	policy := map[string]string{"full": "FullAC", "selective-op": "SelectiveAC"}[j.checkpointing()]
	line("# torchtitan 0.3.0 reads this file")
	line("from torchtitan.components.loss import CrossEntropyLoss")
	line("from torchtitan.components.optimizer import default_adamw")
	line("from torchtitan.config import ParallelismConfig, TrainingConfig")
	if policy != "" {
		line("from torchtitan.distributed.activation_checkpoint import %s", policy)
	}
	line("from torchtitan.models.common.config_utils import decoder_vocab_size")
	line("from torchtitan.models.%s import model_registry", cmp.Or(module, "MODULE"))
	line("from torchtitan.trainer import Trainer\n\n")
	line("def layout() -> Trainer.Config:")
	if hint != "" {
		line("    # %s", hint)
	}
	line("    model_spec = model_registry(%q)", flavor)
	line("    return Trainer.Config(")
	line("        model_spec=model_spec,")
	line("        loss=CrossEntropyLoss.Config(global_vocab_size=decoder_vocab_size(model_spec)),")
	if class, how, runs := titanOptimizer(j.titanOptimizerAsked()); !runs || class != "AdamW" || how != "fused" {
		line("        # the job's optimizer is another: the groups of OptimizersContainer.Config say which")
	}
	line("        optimizer=default_adamw(),")
	j.registryTraining(line)
	j.registryParallelism(line, d)
	switch {
	case policy != "":
		line("        activation_checkpoint=%s.Config(),", policy)
	case j.checkpointing() == "none":
		line("        activation_checkpoint=None,")
	default:
		line("        # this release has no checkpointing of the kind %s", t.GradientCheckpointing.Mode)
	}
	line("    )")
	const name = "layout"
	return Words{Command: j.torchrunLine() + " -m torchtitan.train --module " + name + " --config layout",
		Files: []File{{name + ".py", b.String()}}}
}

// titanOptimizerAsked is the job's optimizer, or torchtitan's own.
func (j *Job) titanOptimizerAsked() *estimator.Optimizer {
	if o := j.Training.Optimizer; o != nil {
		return o
	}
	return &estimator.Optimizer{Implementation: "fused"}
}

func (j *Job) registryTraining(line func(string, ...any)) {
	t := &j.Training
	accumulation, stages := max(t.GradientAccumulation, 1), max(j.distributed().PipelineParallel, 1)
	local := t.MicroBatch
	if stages > 1 { // which divides the batch of each GPU into micro-batches
		local *= accumulation
	}
	line("        training=TrainingConfig(")
	line("            local_batch_size=%d,\n            global_batch_size=%d,", local, t.MicroBatch*accumulation*j.Data)
	if j.SequenceLength > 0 {
		line("            seq_len=%d,", j.SequenceLength)
	}
	computes := "bfloat16"
	switch {
	case t.Precision == estimator.PrecisionFP32 || t.Precision == estimator.PrecisionTF32:
		computes = "float32"
	case t.Precision == estimator.PrecisionBF16 && (t.States == nil || t.States.Weights == "bf16"):
		line("            dtype=\"bfloat16\",")
	}
	line("            mixed_precision_param=%q,\n            mixed_precision_reduce=\"float32\",", computes)
	line("            disable_cuda_graphs=True,\n        ),")
}

func (j *Job) registryParallelism(line func(string, ...any), d estimator.Distributed) {
	t, shard := &j.Training, j.Data
	if d.ShardGroup > 0 {
		shard = min(d.ShardGroup, j.Data)
	}
	line("        parallelism=ParallelismConfig(")
	line("            data_parallel_replicate_degree=%d,\n            data_parallel_shard_degree=%d,", j.Data/shard, shard)
	if k := d.ReshardAfterForward; k != nil {
		line("            fsdp_reshard_after_forward=%q,", map[bool]string{true: "always", false: "never"}[*k])
	}
	line("            tensor_parallel_degree=%d,", max(d.TensorParallel, 1))
	if l := t.Loss; d.TensorParallel > 1 && l != nil && l.VocabParallel != nil && !*l.VocabParallel {
		line("            # this release has no switch for the loss over whole logits (disable_loss_parallel)")
	}
	stages := max(d.PipelineParallel, 1)
	line("            pipeline_parallel_degree=%d,", stages)
	if stages > 1 {
		schedule, known := titanSchedules[strings.ToLower(d.PipelineSchedule)]
		if !known {
			schedule = d.PipelineSchedule
		}
		line("            pipeline_parallel_schedule=%q,\n            pipeline_parallel_microbatch_size=%d,", schedule,
			t.MicroBatch)
	}
	line("            context_parallel_degree=%d,\n            expert_parallel_degree=%d,\n        ),",
		max(d.ContextParallel, 1), max(d.ExpertParallel, 1))
}
