// Package launch says how a job on several GPUs is started, in the words of what starts it: a command line and the
// files that it reads, whole, so that they can be pasted.
package launch

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// Words are a command and its files.
type Words struct {
	// Command starts the job on every host.
	Command string `json:"command"`
	// Files are what the command reads besides the user's own program.
	Files []File `json:"files"`
	// Code says what the user's program has to do besides; empty where the files say all.
	Code string `json:"code,omitempty"`
}

// File is a file by its name, as the command names it.
type File struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Job is what is to be started.
type Job struct {
	// Framework is the one that runs it, Model what its catalog calls the model, and Family transformers' model type.
	Framework, Model, Family string
	// Training is the job with its layout.
	Training estimator.Training
	// Nodes hosts have PerNode GPUs each, and Data of all GPUs train on different sequences.
	Nodes, PerNode, Data int64
	// SequenceLength is in tokens; 0 where nobody says.
	SequenceLength int64
	// Architecture is the model's sizes, for frameworks that take them as flags; nil where they are not known.
	Architecture *model.Architecture
}

// Of says how a job is started.
func Of(j Job) Words {
	d := j.distributed()
	switch {
	case j.Framework == "torchtitan" && j.titanInPython():
		return j.titanRegistry()
	case j.Framework == "torchtitan":
		return j.torchtitan()
	case j.Framework == "megatron":
		return j.megatron()
	case strings.HasPrefix(d.Data, "zero"):
		return j.deepSpeed()
	case d.Data == "fsdp" && underAccelerate[j.Framework]:
		return j.accelerate()
	}
	return j.torchrun()
}

// underAccelerate are the frameworks whose FSDP accelerate sets up.
var underAccelerate = map[string]bool{"hf-trainer": true, "trl": true, "accelerate": true, "llama-factory": true,
	"axolotl": true}

// overTrainer are the frameworks that take the arguments of transformers' Trainer.
var overTrainer = map[string]bool{"hf-trainer": true, "trl": true}

func (j *Job) distributed() estimator.Distributed {
	if j.Training.Distributed == nil {
		return estimator.Distributed{WorldSize: 1}
	}
	return *j.Training.Distributed
}

// torchrunLine starts a program on all hosts. Source: torch/distributed/run.py 2.9.
func (j *Job) torchrunLine() string {
	if j.Nodes < 2 {
		return fmt.Sprintf("torchrun --standalone --nproc_per_node=%d", j.PerNode)
	}
	return fmt.Sprintf("torchrun --nnodes=%d --nproc_per_node=%d --rdzv_backend=c10d --rdzv_endpoint=$MASTER_ADDR:29500",
		j.Nodes, j.PerNode)
}

// trainerArguments are those of transformers' Trainer that a layout decides.
func (j *Job) trainerArguments() string {
	t := &j.Training
	out := fmt.Sprintf(" --per_device_train_batch_size %d --gradient_accumulation_steps %d", t.MicroBatch,
		max(t.GradientAccumulation, 1))
	if j.checkpointing() == "full" {
		out += " --gradient_checkpointing true"
		if c := t.GradientCheckpointing; c.Reentrant != nil {
			out += fmt.Sprintf(` --gradient_checkpointing_kwargs '{"use_reentrant": %t}'`, *c.Reentrant)
		}
	}
	if half := j.half(); half != "" {
		out += " --" + half + " true"
	}
	if o := t.Optimizer; o != nil {
		if row, known := optim.OptimizerOf(o.Name, o.Implementation); known && row.Name == o.Name && row.Trainer != "" {
			out += " --optim " + row.Trainer
		}
	}
	return out
}

// half is the half-precision type that is computed in; empty for none.
func (j *Job) half() string {
	switch j.Training.Precision {
	case "", estimator.PrecisionAMPBF16, estimator.PrecisionBF16:
		return "bf16"
	case estimator.PrecisionAMPFP16, estimator.PrecisionFP16:
		return "fp16"
	}
	return ""
}

// checkpointing is the mode of what is run again in backward.
func (j *Job) checkpointing() string {
	c := j.Training.GradientCheckpointing
	if c == nil || c.Mode == "" {
		return "none"
	}
	return c.Mode
}

// torchrun starts a program that wraps the model by itself.
func (j *Job) torchrun() Words {
	d := j.distributed()
	w := Words{Command: j.torchrunLine() + " train.py", Files: []File{}}
	if overTrainer[j.Framework] {
		w.Command += j.trainerArguments()
		return w // which wraps the model in DistributedDataParallel itself
	}
	switch d.Data {
	case "ddp", "":
		w.Code = "torch.nn.parallel.DistributedDataParallel(model)"
	case "fsdp":
		reshard := "True"
		if k := d.ReshardAfterForward; k != nil && !*k {
			reshard = "False"
		}
		mesh := fmt.Sprintf("(%d,)", j.Data)
		names := `("shard",)`
		if d.ShardGroup > 0 && d.ShardGroup < j.Data {
			mesh = fmt.Sprintf("(%d, %d)", j.Data/d.ShardGroup, d.ShardGroup)
			names = `("replicate", "shard")`
		}
		w.Code = fmt.Sprintf("mesh = init_device_mesh(\"cuda\", %s,\n    mesh_dim_names=%s)\nfor layer "+
			"in model.layers:\n"+
			"    fully_shard(layer, mesh=mesh, reshard_after_forward=%s)\n"+
			"fully_shard(model, mesh=mesh, reshard_after_forward=%s)", mesh, names, reshard, reshard)
	}
	if j.checkpointing() == "full" {
		w.Code += "\ncheckpoint(layer, …, use_reentrant=False) of torch.utils, every layer"
	}
	w.Code += fmt.Sprintf("\nmicro-batches of %d sequences, %d of them in an optimizer step", j.Training.MicroBatch,
		max(j.Training.GradientAccumulation, 1))
	w.Code = strings.TrimPrefix(w.Code, "\n")
	return w
}
