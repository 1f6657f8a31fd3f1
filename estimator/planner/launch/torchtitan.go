package launch

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// titanFlavors are model.name and model.flavor of torchtitan 0.2.0 by the model that they are. Source:
// torchtitan/models/llama3/__init__.py and its neighbours.
var titanFlavors = map[string][2]string{
	"meta-llama/Llama-3.1-8B": {"llama3", "8B"}, "meta-llama/Meta-Llama-3-8B": {"llama3", "8B"},
	"meta-llama/Llama-3.1-70B": {"llama3", "70B"}, "meta-llama/Meta-Llama-3-70B": {"llama3", "70B"},
	"meta-llama/Llama-3.3-70B-Instruct": {"llama3", "70B"}, "meta-llama/Llama-3.1-405B": {"llama3", "405B"},
	"Qwen/Qwen3-8B": {"qwen3", "8B"}, "Qwen/Qwen3-14B": {"qwen3", "14B"}, "Qwen/Qwen3-32B": {"qwen3", "32B"},
	"Qwen/Qwen3-30B-A3B": {"qwen3", "30B-A3B"}, "Qwen/Qwen3-235B-A22B": {"qwen3", "235B-A22B"},
	"deepseek-ai/DeepSeek-V2-Lite": {"deepseek_v3", "16B"}, "deepseek-ai/DeepSeek-V3": {"deepseek_v3", "671B"},
	"deepseek-ai/DeepSeek-R1": {"deepseek_v3", "671B"},
}

// titanModules are model.name of torchtitan 0.2.0 by the family of transformers that it writes.
var titanModules = map[string]string{"llama": "llama3", "qwen3": "qwen3", "qwen3_moe": "qwen3",
	"deepseek_v2": "deepseek_v3", "deepseek_v3": "deepseek_v3"}

// titanSchedules are pipeline schedules in torch's words. Source: torch/distributed/pipelining/schedules.py 2.9
// (get_schedule_class).
var titanSchedules = map[string]string{"": "1F1B", "1f1b": "1F1B", "gpipe": "GPipe",
	"interleaved-1f1b": "Interleaved1F1B", "interleaved-zero-bubble": "InterleavedZeroBubble", "zb-v": "ZBVZeroBubble",
	"dualpipe-v": "DualPipeV"}

// torchtitan is a TOML of torchtitan 0.2.0 and what starts it; titanRegistry is for later ones. Source:
// torchtitan/config/job_config.py.
func (j *Job) torchtitan() Words {
	d, t := j.distributed(), &j.Training
	var b strings.Builder
	section := func(name string) { fmt.Fprintf(&b, "[%s]\n", name) }
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	stages, tensor := max(d.PipelineParallel, 1), max(d.TensorParallel, 1)
	accumulation := max(t.GradientAccumulation, 1)
	line("# torchtitan 0.2.0 to 0.2.2 read this file")
	section("model")
	j.titanModel(line)
	j.optimizerSection(line)
	section("training")
	if stages > 1 { // which divides the batch of each GPU into micro-batches
		line("local_batch_size = %d", t.MicroBatch*accumulation)
	} else {
		line("local_batch_size = %d", t.MicroBatch)
	}
	line("global_batch_size = %d", t.MicroBatch*accumulation*j.Data)
	if j.SequenceLength > 0 {
		line("seq_len = %d", j.SequenceLength)
	}
	switch t.Precision {
	case estimator.PrecisionFP32, estimator.PrecisionTF32:
		line("mixed_precision_param = \"float32\"")
	default:
		if t.Precision == estimator.PrecisionBF16 && (t.States == nil || t.States.Weights == "bf16") {
			line("dtype = \"bfloat16\"")
		}
		line("mixed_precision_param = \"bfloat16\"\nmixed_precision_reduce = \"float32\"")
	}
	section("parallelism")
	shard := j.Data
	if d.ShardGroup > 0 {
		shard = min(d.ShardGroup, j.Data)
	}
	replicate := j.Data / shard
	line("data_parallel_replicate_degree = %d\ndata_parallel_shard_degree = %d", replicate, shard)
	if k := d.ReshardAfterForward; k != nil {
		line("fsdp_reshard_after_forward = %q", map[bool]string{true: "always", false: "never"}[*k])
	}
	line("tensor_parallel_degree = %d", tensor)
	if l := t.Loss; tensor > 1 && l != nil && l.VocabParallel != nil && !*l.VocabParallel {
		line("disable_loss_parallel = true")
	}
	line("pipeline_parallel_degree = %d", stages)
	if stages > 1 {
		schedule, known := titanSchedules[strings.ToLower(d.PipelineSchedule)]
		if !known {
			schedule = d.PipelineSchedule
		}
		line("pipeline_parallel_schedule = %q\npipeline_parallel_microbatch_size = %d", schedule, t.MicroBatch)
	}
	line("context_parallel_degree = %d", max(d.ContextParallel, 1))
	if d.ExpertParallel > 1 {
		line("expert_parallel_degree = %d", d.ExpertParallel)
	}
	section("activation_checkpoint")
	switch mode := j.checkpointing(); {
	case mode == "selective-op":
		line("mode = \"selective\"\nselective_ac_option = \"op\"")
	case mode == "full" && t.GradientCheckpointing.Every > 1:
		line("mode = \"selective\"\nselective_ac_option = \"%d\"", t.GradientCheckpointing.Every)
	default:
		line("mode = %q", mode)
	}
	const name = "layout.toml"
	return Words{Command: j.torchrunLine() + " -m torchtitan.train --job.config_file " + name,
		Files: []File{{name, b.String()}}}
}

// titanModel names the model. One that torchtitan has no flavor of is to be added to those of its module.
func (j *Job) titanModel(line func(string, ...any)) {
	module, flavor, hint := j.titanFlavor()
	if hint != "" {
		line("# %s", hint)
	}
	line("name = %q\nflavor = %q", module, flavor)
	if module == "deepseek_v3" && j.distributed().ContextParallel > 1 {
		line("# FlexAttention does not share sequences there: the flavor wants use_flex_attn=False")
	}
}

// titanFlavor is torchtitan's name of the model's module and of the model in it, and a hint where one of them is not
// there.
func (j *Job) titanFlavor() (module, flavor, hint string) {
	if known, ok := titanFlavors[j.Model]; ok {
		return known[0], known[1], ""
	}
	if module = titanModules[j.Family]; module != "" {
		return module, "", "the flavor is to be added to torchtitan/models/" + module + "/__init__.py"
	}
	return "", "", "torchtitan has no " + cmp.Or(j.Family, "such model") + ": to be written"
}

// TitanRuns says whether torchtitan can be asked for the optimizer; nil is its own. Source:
// torchtitan/components/optimizer.py (build_optimizers), 0.2.0.
func TitanRuns(o *estimator.Optimizer) bool {
	if o == nil {
		return true
	}
	_, _, runs := titanOptimizer(o)
	return runs
}

// titanOptimizer is what torchtitan calls the class and the implementation.
func titanOptimizer(o *estimator.Optimizer) (class, how string, runs bool) {
	name := cmp.Or(o.Name, estimator.DefaultOptimizer)
	how = cmp.Or(o.Implementation, "foreach")
	row, known := optim.OptimizerOf(name, "")
	if !known {
		return "", "", false
	}
	class, torch := strings.CutPrefix(row.ClassPath(name), "torch.optim.")
	return class, how, torch && titanClasses[class] && titanImplementations[how]
}

// What torchtitan makes an optimizer of. Source: torchtitan/components/optimizer.py (build_optimizers), 0.2.0.
var (
	titanClasses         = map[string]bool{"Adam": true, "AdamW": true}
	titanImplementations = map[string]bool{"foreach": true, "fused": true, "for-loop": true}
)

// optimizerSection is the optimizer's section, where torchtitan has the job's: fused is its default and not PyTorch's.
// Source: torchtitan/config/job_config.py (Optimizer), 0.2.0.
func (j *Job) optimizerSection(line func(string, ...any)) {
	o := j.Training.Optimizer
	if o == nil {
		o = &estimator.Optimizer{}
	}
	if class, how, runs := titanOptimizer(o); runs {
		line("[optimizer]\nname = %q\nimplementation = %q", class, how)
		return
	}
	line("# the job's optimizer is %s, which torchtitan has not: its training has to be changed", o.Name)
}
