package resolve

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/evidence"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolve/strategies"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
)

// Evidence is what of a job the matrix of evidence goes by. The error is an *InvalidJobError.
func Evidence(in resolved.Input) (family string, recipe evidence.Recipe, err error) {
	r, err := Resolve(&in)
	if err != nil {
		return "", nil, err
	}
	return r.Arch.Family, On(r).evidence(&in.Job.Training), nil
}

// evidence is the value of every axis of the job.
func (r resolver) evidence(t *job.Training) evidence.Recipe {
	rc := &r.Recipe
	e := evidence.Recipe{evidence.Precision: string(job.PrecisionAMPBF16), evidence.Optimizer: fields.DefaultOptimizer,
		evidence.Loop: r.Framework,
		evidence.Attention: map[step.Attention]string{step.AttentionFlash: "flash",
			step.AttentionEager: "eager"}[rc.Attention]}
	if t.Precision != "" {
		e[evidence.Precision] = strings.Replace(
			string(t.Precision),
			string(job.PrecisionTF32),
			string(job.PrecisionFP32),
			1,
		)
	}
	if o := t.Optimizer; o != nil && o.Name != "" {
		e[evidence.Optimizer] = o.Name
	}
	if e[evidence.Attention] == "" {
		e[evidence.Attention] = "sdpa"
	}
	checkpointed := false
	if c := t.GradientCheckpointing; c != nil && c.Mode != "none" {
		e[evidence.Checkpointing], checkpointed = c.Mode, true
		if c.Mode == "" {
			delete(e, evidence.Checkpointing)
			checkpointed = false
		}
	}
	if rc.ExplicitMask {
		e[evidence.Mask] = "explicit"
	}
	if l := t.LoRA; l != nil {
		kind := "adapters"
		switch l.BasePrecision {
		case "", "fp32", "bf16", "fp16":
		default:
			kind = "quantised"
		}
		if checkpointed {
			kind += ", checkpointed"
		}
		e[evidence.LoRA] = kind
	}
	if rc.Compile {
		e[evidence.Compile] = "model"
	}
	if d := t.Distributed; d != nil && d.WorldSize > 1 {
		switch {
		case d.Data == "":
			e[evidence.Parallel] = "ddp"
		case d.Data != "fsdp":
			e[evidence.Parallel] = d.Data
		case strategies.On(r.Job).FlatShards(t):
			e[evidence.Parallel] = "fsdp1"
		default:
			e[evidence.Parallel] = "fsdp2"
		}
	}
	if words := t.Mesh().Shared(); words != "" {
		e[evidence.Mesh] = words
	}
	if r.Evaluation != nil {
		e[evidence.Evaluation] = "between steps"
	}
	return e
}

// unshownWords are words that no trace of any family has, as cells of the axis that they belong to. What is done for
// them is what is done for others of their kind, which traces have shown.
func unshownWords(family string, t *job.Training) []evidence.Cell {
	var cells []evidence.Cell
	if l := t.LoRA; l != nil && l.AdapterDtype == "fp16" {
		cells = append(cells, evidence.Cell{Family: family, Axis: evidence.LoRA, Value: "adapters in fp16"})
	}
	if s := t.States; s != nil && s.MasterWeights == "fp16" {
		cells = append(cells, evidence.Cell{Family: family, Axis: evidence.Precision, Value: "master weights in fp16"})
	}
	return cells
}
