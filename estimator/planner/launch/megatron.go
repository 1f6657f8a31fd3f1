package launch

import (
	"fmt"
	"strings"
)

// megatron are the flags of Megatron-LM that a layout decides. Source: Megatron-LM megatron/training/arguments.py,
// core 0.14.
func (j *Job) megatron() Words {
	d, t := j.distributed(), &j.Training
	flags := []string{
		fmt.Sprintf("--tensor-model-parallel-size %d", max(d.TensorParallel, 1)),
		fmt.Sprintf("--pipeline-model-parallel-size %d", max(d.PipelineParallel, 1)),
	}
	add := func(applies bool, format string, args ...any) {
		if applies {
			flags = append(flags, fmt.Sprintf(format, args...))
		}
	}
	add(d.VirtualPipeline > 1, "--num-virtual-stages-per-pipeline-rank %d", d.VirtualPipeline)
	add(d.ContextParallel > 1, "--context-parallel-size %d", d.ContextParallel)
	add(d.ExpertParallel > 1, "--expert-model-parallel-size %d", d.ExpertParallel)
	add(d.SequenceParallel, "--sequence-parallel")
	add(d.Data == "zero1", "--use-distributed-optimizer")
	flags = append(flags, fmt.Sprintf("--micro-batch-size %d", t.MicroBatch),
		fmt.Sprintf("--global-batch-size %d", t.MicroBatch*max(t.GradientAccumulation, 1)*j.Data))
	add(j.SequenceLength > 0, "--seq-length %d", j.SequenceLength)
	add(j.half() != "", "--%s", j.half())
	switch j.checkpointing() {
	case "full":
		add(true, "--recompute-granularity full --recompute-method uniform --recompute-num-layers 1")
	case "selective":
		add(true, "--recompute-granularity selective")
	}
	return Words{Command: j.torchrunLine() + " pretrain_gpt.py " + strings.Join(flags, " "), Files: []File{}}
}
