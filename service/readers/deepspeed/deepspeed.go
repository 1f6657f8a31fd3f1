// Package deepspeed reads a DeepSpeed configuration that was handed over alone.
package deepspeed

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/shards"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads a DeepSpeed configuration that was handed over alone: it is a part of a job.
var Tool = tool.Tool{
	Name: "deepspeed",
	Marks: map[string]int{"zero_optimization": 5, "train_micro_batch_size_per_gpu": 2, "train_batch_size": 1,
		"bf16.enabled": 1, "fp16.enabled": 1},
	New:   func(j *tool.Job) tool.Reader { return &job{Job: shards.Of(j)} },
	Words: words,
}

// job is one job on its way through this tool.
type job struct {
	shards.Job
}

// Read maps the settings to fields.
func (r *job) Read() {
	r.Sharded = true
	r.DeepSpeedConfig(r.In)
	if v, ok := r.In.Get("train_micro_batch_size_per_gpu"); ok {
		if _, isInt := v.Int(); isInt {
			r.NumberOf("/training/micro_batch", tool.AskMicroBatch, v)
		} else {
			r.Out.Ask("/training/micro_batch", tool.AskMicroBatch, v.Origin.At.Where()+
				" leaves it to the tool that uses the file")
		}
	}
	if v, ok := r.In.Get("gradient_accumulation_steps"); ok {
		if n, isInt := v.Int(); isInt {
			r.Out.Put("/training/gradient_accumulation", n, v)
		}
	}
	r.share()
	for _, name := range []string{"bf16", "fp16"} {
		if v, ok := r.In.Get(name + ".enabled"); ok && v.On() {
			r.Out.Put("/training/precision", name, v)
		}
	}
	if v, ok := r.In.Get("optimizer.type"); ok {
		if o, known := huggingface.Optimizers[strings.ToLower(v.String())]; known {
			r.Out.Put("/training/optimizer", o, v)
		} else if strings.EqualFold(v.String(), "adam") {
			r.Out.Put("/training/optimizer", draft.Optimizer{Name: "adamw", Implementation: "fused"}, v)
		}
	}
	r.In.Read("*")
}

// share divides the batch of all GPUs, where nothing says what one takes at a time: what no file gives is worked out of
// the rest (DeepSpeed 0.18 runtime/config.py _set_batch_related_parameters).
func (r *job) share() {
	const micro = "/training/micro_batch"
	all, _ := r.In.Get("train_batch_size")
	n, isInt := all.Int()
	if r.In.Has("train_micro_batch_size_per_gpu") || !isInt || all.Unknown != "" || n < 1 || n > 1<<40 {
		return
	}
	steps := int64(1)
	if v, ok := r.In.Get("gradient_accumulation_steps"); ok {
		if steps, isInt = v.Int(); !isInt || v.Unknown != "" || steps < 1 || steps > n {
			return
		}
	}
	w := r.GPUs()
	switch {
	case !w.Known:
		r.Out.Ask(micro, tool.AskMicroBatch, all.Origin.Key+" is of all GPUs together, and their number is not known")
	case n%(steps*w.N) != 0:
		r.Out.Ask(micro, tool.AskMicroBatch, fmt.Sprintf("%s %d is of all GPUs together, and is not divisible by %d "+
			"micro-batches × %d GPUs", all.Origin.Key, n, steps, w.N))
	default:
		r.Out.Derive(micro, n/(steps*w.N), "%s %d / (%d micro-batches × %d GPUs)", all.Origin.Key, n, steps, w.N)
	}
}

var words = tool.Words{"/training/micro_batch": tool.CountWord("train_micro_batch_size_per_gpu"),
	"/training/gradient_accumulation": tool.CountWord("gradient_accumulation_steps")}
