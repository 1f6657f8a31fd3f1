package launch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// deepSpeed is a DeepSpeed configuration, whole, and what starts it: the Trainer takes it with --deepspeed, DeepSpeed's
// own launcher hands it to the program. Source: deepspeed/runtime/config.py 0.19.8.
func (j *Job) deepSpeed() Words {
	d, t := j.distributed(), &j.Training
	section := map[string]json.RawMessage{}
	if len(d.DeepSpeed) > 0 {
		_ = json.Unmarshal(d.DeepSpeed, &section) // the estimator has read it
	}
	section["stage"] = json.RawMessage(strings.TrimPrefix(d.Data, "zero"))
	for field, device := range map[string]bool{"offload_optimizer": d.OffloadOptimizer,
		"offload_param": d.OffloadParameters} {
		if device && section[field] == nil {
			section[field] = json.RawMessage(`{"device": "cpu"}`)
		}
	}
	accumulation := max(t.GradientAccumulation, 1)
	config := []member{
		{"train_batch_size", t.MicroBatch * accumulation * j.Data},
		{"train_micro_batch_size_per_gpu", t.MicroBatch},
		{"gradient_accumulation_steps", accumulation},
	}
	if half := j.half(); half != "" {
		config = append(config, member{half, map[string]bool{"enabled": true}})
	}
	if t.ClipGradNorm == nil || *t.ClipGradNorm {
		config = append(config, member{"gradient_clipping", 1.0})
	}
	config = append(config, member{"zero_optimization", section})
	const name = "ds_config.json"
	w := Words{Files: []File{{name, written(config)}}}
	switch {
	case overTrainer[j.Framework]:
		w.Command = j.torchrunLine() + " train.py --deepspeed " + name + j.trainerArguments()
	case j.Framework == "llama-factory":
		w.Command = fmt.Sprintf("FORCE_TORCHRUN=1 NNODES=%d NPROC_PER_NODE=%d llamafactory-cli train train.yaml "+
			"deepspeed=%s", j.Nodes, j.PerNode, name)
	case j.Framework == "axolotl":
		w.Command = fmt.Sprintf("axolotl train config.yml --deepspeed %s", name)
	case j.Nodes > 1:
		w.Command = fmt.Sprintf("deepspeed --hostfile hostfile --num_nodes %d --num_gpus %d train.py --deepspeed "+
			"--deepspeed_config %s", j.Nodes, j.PerNode, name)
	default:
		w.Command = fmt.Sprintf("deepspeed --num_gpus %d train.py --deepspeed --deepspeed_config %s", j.PerNode, name)
	}
	if j.checkpointing() == "full" && !overTrainer[j.Framework] {
		w.Code = "model.gradient_checkpointing_enable()"
	}
	return w
}

// member is a field of an object whose fields have an order.
type member struct {
	name  string
	value any
}

// written is an object with its fields in their order.
func written(members []member) string {
	var b bytes.Buffer
	b.WriteString("{")
	for i, m := range members {
		if i > 0 {
			b.WriteString(",")
		}
		value, err := json.MarshalIndent(m.value, "  ", "  ")
		if err != nil {
			continue // a RawMessage that the estimator has read is JSON
		}
		fmt.Fprintf(&b, "\n  %q: %s", m.name, value)
	}
	b.WriteString("\n}\n")
	return b.String()
}
