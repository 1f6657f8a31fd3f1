package launch

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/model/rewritten"
)

// megatron are the flags of Megatron-LM that the model and a layout decide; the tokenizer, the data and what sizes do
// not depend on, such as the base of rotary positions, are the reader's. Source: Megatron-LM
// megatron/training/arguments.py, core 0.14.
func (j *Job) megatron() Words {
	d, t := j.distributed(), &j.Training
	flags := append(j.megatronModel(),
		fmt.Sprintf("--tensor-model-parallel-size %d", max(d.TensorParallel, 1)),
		fmt.Sprintf("--pipeline-model-parallel-size %d", max(d.PipelineParallel, 1)))
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

// megatronModel are the flags that say which model it is; none where Megatron-LM has none like it. Its own defaults are
// GPT-2's, with a dropout of 0.1.
func (j *Job) megatronModel() []string {
	a := j.Architecture
	if a == nil {
		return nil
	}
	layerNorm, rotary, ok := rewritten.MegatronLM(a)
	// Biases are those of all matrices, of queries, keys and values, or none.
	if !ok || a.OutBias != a.MLPBias || a.MLPBias && !a.QKVBias {
		return nil
	}
	flags := []string{fmt.Sprintf("--num-layers %d --hidden-size %d --ffn-hidden-size %d --num-attention-heads %d",
		a.Layers, a.Hidden, a.FFN, a.Heads)}
	add := func(applies bool, format string, args ...any) {
		if applies {
			flags = append(flags, fmt.Sprintf(format, args...))
		}
	}
	add(a.KVHeads != a.Heads, "--group-query-attention --num-query-groups %d", a.KVHeads)
	add(a.HeadDim*a.Heads != a.Hidden, "--kv-channels %d", a.HeadDim)
	add(true, "--max-position-embeddings %d --vocab-size %d", a.MaxPositions, a.Vocabulary)
	switch {
	case a.Gated && a.Activation == "silu":
		add(true, "--swiglu")
	case a.Gated: // a gate of another activation has no flag of its own
		return nil
	case a.Activation == "relu2":
		add(true, "--squared-relu")
	case a.Activation == "relu", a.Activation == "silu":
		return nil
	}
	add(!layerNorm, "--normalization RMSNorm")
	add(rotary, "--position-embedding-type rope")
	add(!rotary && !a.LearnedPositions, "--position-embedding-type none")
	add(!a.MLPBias, "--disable-bias-linear")
	add(!a.MLPBias && a.QKVBias, "--add-qkv-bias")
	add(a.QKNorm, "--qk-layernorm")
	add(!a.Tied, "--untie-embeddings-and-output-weights")
	attention, hidden := &a.AttentionDropout, &a.ResidualDropout
	if d := j.Training.Dropout; d != nil {
		attention, hidden = cmp.Or(d.Attention, attention), cmp.Or(d.Hidden, hidden)
	}
	add(true, "--attention-dropout %g --hidden-dropout %g", *attention, *hidden)
	return flags
}
