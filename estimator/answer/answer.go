package answer

import (
	"fmt"
	"math"

	"github.com/vramplan/vramplan/estimator/bounds"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// Components are the ten names of an answer, in its order.
var Components = []string{"weights", "gradients", "optimizer_state", "precision_copies", "activations",
	"logits_and_loss",
	"temporaries", "communication", "allocator", "cuda_context"}

// ComponentNames are the words for what holds bytes.
var ComponentNames = [step.ComponentCount]string{
	step.Weights: "weights", step.Gradients: "gradients", step.OptimizerState: "optimizer_state",
	step.PrecisionCopies: "precision_copies",
	step.Activations:     "activations", step.LogitsAndLoss: "logits_and_loss", step.Temporaries: "temporaries",
	step.Communication: "communication"}

// PartNames are the words for the parts of a layer.
var PartNames = [step.PartCount]string{
	step.PartAttention: "attention", step.PartMLP: "mlp", step.PartNorm: "norms_and_residuals",
	step.PartEmbedding: "embeddings"}

// Answer reads a replay's ledger.
func (r Answerer) Answer(run *resolved.Replayed, in resolved.Input) *result.Result {
	l, f := run.Ledger, run.Figures
	run.Parameters, run.Trained = r.Arch.ParameterCount(), r.Arch.TrainedCount()
	res := &result.Result{
		Versions: result.Versions{
			Estimator:   resolved.Version,
			Reference:   resolved.Reference(r.Stack),
			Calibration: r.calibrated(),
			ProvenOn:    r.ProvenOn,
		},
		Model: result.ModelInfo{Name: r.Arch.Name, Family: r.Arch.Family, Parameters: run.Parameters,
			TrainableParameters: run.Trained},
		Peak: result.Peak{Phase: PhaseOf(&l.Peak), Where: r.where(&l.Peak), AllocatedBytes: f.Allocated,
			ReservedBytes: f.Reserved,
			DeviceBytes:   f.Device, LowBytes: f.Low, HighBytes: f.High, MinimumLimitBytes: f.Limit},
		GPUs: []result.GPUFit{}, Notes: []result.Note{}, AliveBytes: l.Peak.Bytes,
	}
	if l.Peak.MicroStep >= 0 && l.Peak.Stage != play.StageEvaluation && !l.Peak.Between() {
		m := r.MicroStep(l.Peak.MicroStep)
		res.Peak.MicroStep = &m
	}
	res.Assumed = r.assumed(&in.Job.Training, run)
	res.Components = r.components(run)
	res.Phases = r.phases(run)
	res.Notes = r.Notes(run, res, &in)
	res.Doubts = r.explainDoubts(run)
	if in.Timeline {
		res.Timeline = r.timeline(run)
	}
	if in.Tensors {
		res.Tensors = r.Tensors(&l.Peak)
	}
	return res
}

// PhaseOf is the phase that a moment lies in.
func PhaseOf(m *play.Moment) string {
	switch {
	case m.Stage == play.StageLoad:
		return "load"
	case m.Stage == play.StageOptimizer:
		return "optimizer"
	case m.Stage == play.StageEvaluation:
		return "evaluation"
	case m.Stage == play.StageReference:
		return "reference"
	case m.Stage == play.StageGeneration:
		return "generation"
	case m.Backward:
		return "backward"
	}
	return "forward"
}

// where says in words at which point of the step a moment lies.
func (r Answerer) where(m *play.Moment) string {
	switch {
	case m.Stage == play.StageLoad:
		return "loading the model"
	case m.Stage == play.StageOptimizer && m.Label == step.LabelClip:
		return "gradient clipping"
	case m.Stage == play.StageOptimizer:
		return "optimizer step"
	case m.Stage == play.StageEvaluation && m.Layer >= 0:
		return "evaluation, forward of " + r.LayerName(m.Layer)
	case m.Stage == play.StageEvaluation:
		return "evaluation, outside the layers"
	case m.Stage == play.StageReference && m.Layer >= 0:
		return "reference, forward of " + r.LayerName(m.Layer)
	case m.Stage == play.StageReference:
		return "reference, outside the layers"
	case m.Stage == play.StageGeneration:
		return "generation of completions"
	case m.Label == step.LabelMergedLogits:
		return "end of the pipeline's schedule"
	case m.Stage == play.StageLoss && m.Backward:
		return "loss backward"
	case m.Stage == play.StageLoss:
		return "loss forward"
	case m.Layer >= 0 && m.Backward:
		return "backward of " + r.LayerName(m.Layer)
	case m.Layer >= 0:
		return "forward of " + r.LayerName(m.Layer)
	case m.Backward:
		return "backward of the embeddings"
	}
	return "forward of the embeddings"
}

// LayerName is a unit of layers in words.
func (r Answerer) LayerName(unit int64) string {
	per := r.Arch.UnitLayers()
	if per == 1 {
		return fmt.Sprintf("layer %d", unit)
	}
	return fmt.Sprintf("layers %d to %d", unit*per, min((unit+1)*per, r.Arch.Layers)-1)
}

// components lists the ten components; they add up to the device figure.
func (r Answerer) components(run *resolved.Replayed) []result.Component {
	m, f := &run.Ledger.Peak, run.Figures
	nccl := min(r.Nccl.Bytes, f.Context)
	bytes := map[string]int64{"cuda_context": f.Context - nccl}
	rest := f.Device - f.Context
	for c, n := range ComponentNames {
		bytes[n] = m.Components[c]
		rest -= m.Components[c]
	}
	bytes["allocator"] = rest
	bytes["communication"] += nccl
	list := make([]result.Component, 0, len(Components))
	for _, name := range Components {
		c := result.Component{Name: name, Bytes: bytes[name], How: r.How(name, run)}
		if f.Device > 0 {
			c.Share = math.Round(float64(c.Bytes)/float64(f.Device)*1e4) / 1e4
		}
		if name == "activations" {
			for p, n := range PartNames {
				c.Parts = append(c.Parts, result.Part{Name: n, Bytes: m.Parts[p]})
			}
		}
		list = append(list, c)
	}
	return list
}

// How says where a component's bytes come from.
func (r Answerer) How(name string, run *resolved.Replayed) string {
	rc := &run.Recipe
	p := result.Grouped(run.Trained)
	if c := r.Together; c != nil {
		p = "the policy's " + p + " and the value model's " + result.Grouped(c.Arch.ParameterCount())
	}
	d := rc.Stored
	if l := r.Arch.LoRA; l != nil {
		d = l.Dtype
	}
	stored := result.InBytes(d)
	if r.Parallel != nil {
		if s, ok := r.Parallel.How(name, p, run); ok {
			return s
		}
	}
	if r.Fsdp != nil {
		d = r.Fsdp.Stored
	}
	switch name {
	case "weights":
		s := p + " parameters × " + stored
		if r.Arch.LoRA != nil {
			frozen := result.Grouped(run.Parameters-run.Trained) + " frozen parameters"
			if l := r.Arch.LoRA; l.Base != step.NotQuantised {
				frozen += ", in the linear layers quantised, "
				if l.Returns && l.Half != rc.Stored {
					frozen += "embeddings and head × " + result.InBytes(l.Half) + ", "
				}
				frozen += "else"
			}
			s = frozen + " × " + result.InBytes(rc.Stored) + ", and adapters of " + s
		}
		if r.Arch.BufferSide > 0 {
			s += ", and the causal masks that the layers carry as buffers"
		}
		if beside := r.companions(); beside != "" {
			s += ", and " + beside
		}
		if run.Ledger.Peak.Stage == play.StageLoad {
			s += r.leavingWords()
		}
		return s
	case "gradients":
		if rc.UpdatesInBackward {
			return "each lives until the optimizer has updated its parameter, in backward"
		}
		if run.Ledger.Peak.Components[step.Gradients] == 0 {
			return "none yet at this moment: they are born in backward and set to None after each optimizer step"
		}
		if st := &rc.States; st.GradientBuffers {
			return p + " parameters × buffers of " + result.InBytes(st.Gradients) +
				", which stay, and those that are on the way into them"
		}
		return "those that exist at this moment, × " + stored
	case "optimizer_state":
		return r.HowStates(p+" parameters", d)
	case "precision_copies":
		if rc.Autocast {
			return "autocast's half-precision copies of weights, kept until the layer's backward"
		}
		return "no autocast, no copies"
	case "activations":
		if run.Ledger.Peak.Stage == play.StageEvaluation {
			return fmt.Sprintf("what the evaluation of %d × %d tokens holds in the layers at this moment",
				r.BatchAt(&run.Ledger.Peak), r.Shape.Tokens)
		}
		return fmt.Sprintf("what %d × %d tokens leave in %d layers for backward", r.BatchAt(&run.Ledger.Peak),
			r.Shape.Tokens, r.Arch.Layers)
	case "logits_and_loss":
		return "tensors of " + r.logitSize(&run.Ledger.Peak)
	case "temporaries":
		return "cuBLAS workspaces and what the running operation needs besides its result"
	case "communication":
		if r.Copies == 0 {
			return "one GPU"
		}
		return fmt.Sprintf("DistributedDataParallel's buckets for the gradients of %s parameters × %s, and %s for "+
			"NCCL outside PyTorch's allocator", p, stored, result.Bytes(r.Nccl.Bytes))
	case "allocator":
		s := "reserved by PyTorch's caching allocator beyond what is alive at this moment"
		if inside := run.Figures.Allocated - run.Ledger.Peak.Bytes; inside > 0 {
			s += fmt.Sprintf(", %s of it the unused ends of blocks", result.Bytes(inside))
		}
		return s + correctedBy(run, run.Figures.Reserved-run.Base.Reserved)
	case "cuda_context":
		c := bounds.On(r.Job).CUDAContext(*rc)
		return fmt.Sprintf("CUDA context and loaded kernels, outside PyTorch's allocator (%d to %d MiB seen)",
			c.Low>>20, c.High>>20) + correctedBy(run, run.Figures.Context-run.Base.Context)
	}
	return ""
}

// logitSize is the size of the logits at moment m, in words.
func (r Answerer) logitSize(m *play.Moment) string {
	batch, tokens := r.BatchAt(m), r.Shape.LogitTokens()
	if s := r.Arch.Logits(batch, tokens); s != "" {
		return s
	}
	if recordings.Recording(&r.Arch) != nil {
		return fmt.Sprintf("what the model makes behind its layers, of %d × %d tokens", batch, tokens)
	}
	return fmt.Sprintf("%d × %d tokens × vocabulary %s", batch, tokens, result.Grouped(r.Arch.Vocabulary))
}
