package answer

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/model/hybrids"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// Notes explain an answer: what holds the peak, what comes close, what was assumed.
func (r Answerer) Notes(run *resolved.Replayed, res *result.Result, in *resolved.Input) []result.Note {
	t := &in.Job.Training
	l, f := run.Ledger, run.Figures
	m := &l.Peak
	notes := []result.Note{}
	add := func(code, format string, args ...any) {
		notes = append(notes, result.Note{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	percent := func(bytes int64) int64 { return (bytes*100 + f.Device/2) / max(f.Device, 1) }

	logits, activations := m.Components[step.LogitsAndLoss], m.Components[step.Activations]
	states := m.Components[step.Weights] + m.Components[step.Gradients] + m.Components[step.OptimizerState]
	switch largest := max(logits, activations, states); {
	case largest == logits:
		add("logits-dominate", "the logits and their copies hold %d %%: %s; a smaller micro-batch%s or a loss that "+
			"does not keep them frees most",
			percent(logits), r.logitSize(m), ofEvaluation(m))
	case largest == activations:
		add("activations-dominate", "activations hold %d %%: a smaller micro-batch%s, a shorter sequence or gradient "+
			"checkpointing frees most", percent(activations), ofEvaluation(m))
	default:
		add("model-states-dominate", "weights, gradients and optimizer state hold %d %%: a smaller "+
			"micro-batch frees little",
			percent(states))
	}
	add("peak", "the peak of %s allocated falls into: %s (%s)", result.Bytes(f.Allocated), res.Peak.Where, m.Label)
	if code, second := RunnerUp(l, m.Stage); second > 0 && second*20 > m.Bytes*19 {
		add("runs-close", "the %s takes %s, hardly less: a change that helps only at the peak saves no more "+
			"than the difference", code, result.Bytes(second))
	}
	if f.Reserved-f.Allocated > f.Allocated/10 {
		full := ""
		if f.Limit < f.Reserved*99/100 {
			full = fmt.Sprintf("; on a full card it gets through with %s", result.Bytes(f.Limit))
		}
		add("fragmentation", "PyTorch's allocator reserves %s for %s allocated%s; vramplan plan tells whether "+
			"expandable_segments would reserve less", result.Bytes(f.Reserved), result.Bytes(f.Allocated), full)
	}
	if r.Allocator.MaxSplit > 0 {
		add("undivided-blocks", "with max_split_size_mb a segment that was made for a tensor just smaller is never used "+
			"again: what is reserved may grow with every step until the card is full, where it is given back")
	}
	if t.HoldLogits != nil && run.Recipe.HoldLogits && logits > 0 {
		add("held-logits", "hold_logits: a variable keeps the model's output: the logits stay alive through backward "+
			"and into the next forward")
	} else if run.Recipe.HoldLogits && logits > 0 {
		add("held-logits", "the training loop (%s) keeps the model's output in a variable: the logits stay alive "+
			"through backward and into the next forward", r.Framework)
	}
	if run.Recipe.UseCache {
		add("kv-cache", "the model fills a key/value cache in training, the library's default; use_cache=False saves it")
	}
	if hybrids.DeltaChunks(&r.Arch, 1) > 0 && !run.Applied.Kernels.DeltaRule {
		add("delta-net", "gated delta nets were replayed as transformers runs them on PyTorch alone; with the packages "+
			"flash-linear-attention and causal-conv1d installed it calls their kernels, which hold less: the first one's are "+
			"replayed where kernels has gated-delta-rule")
	}
	if run.Applied.Kernels.DeltaRule {
		add("delta-kernels", "gated delta nets run in the kernels of flash-linear-attention 0.6, with PyTorch's own "+
			"convolution: with causal-conv1d installed it holds less. Triton tunes the kernels when they first run on a "+
			"machine, for which it takes 256 MiB at moments of the first step; they are in the upper bound alone")
	}
	if run.Applied.CuDNN {
		add("cudnn-attention", "attention is cuDNN's, which this release of torch prefers on this card; what its engine "+
			"asks for while it runs, besides what cuDNN's frontend lays out, is not known and in no figure")
	}
	if run.Recipe.Compile {
		add("compiled", "torch.compile: what Inductor fuses is not allocated and what it can make again is not kept; "+
			"its order of allocations is approximated, and the bounds are wider. Compiling and tuning themselves are "+
			"not in the figures")
	}
	if run.Recipe.CompileBlocks {
		add("compiled", "torch.compile of every layer by itself: what Inductor writes for this model, with flash attention, "+
			"was read off its programs (torch 2.9.1). Compiling and tuning themselves are not in the figures")
	}
	if r.uncompiledLayers(&in.Job.Training) {
		add("uncompiled-layers", "torch.compile of torchtune's layers was not traced with adapters or in float32: they "+
			"were replayed as they run uncompiled, which may take more")
	}
	if r.Parallel != nil {
		notes = append(notes, r.Parallel.Notes()...)
	}
	if r.ReadyTwice() {
		add("ready-twice", "the job does not get through its first backward: reentrant checkpoints fail under "+
			"DistributedDataParallel that looks for unused parameters, as the Trainer has it do with adapters (\"marked as "+
			"ready twice\"); gradient_checkpointing_kwargs={\"use_reentrant\": False} or ddp_find_unused_parameters=False "+
			"helps; the figures are of the job as it is")
	}
	if run.Continued {
		add("continued", "the job makes %s requests of the allocator in a micro-step: what is allocated is exact, "+
			"what is reserved was played for some of the layers and continued to all; for minimum_limit_bytes and "+
			"low_bytes what is alive at the peak was taken",
			result.Grouped(run.Played))
	}
	if r.Arch.Generic {
		add("generic-family", "the family %q is not described: the nearest block was replayed, and the bounds are wider", r.Arch.Family)
	}
	if keys := r.Arch.Unread; len(keys) > 0 {
		add("unread-keys", "the configuration says %s, which is not modelled: transformers' class for %s ignores it "+
			"or it changes activations alone; the bounds are wider",
			strings.Join(keys[:min(len(keys), 8)], ", "), r.Arch.Family)
	}
	return append(append(notes, r.assumptions(run, in)...), r.fromSources()...)
}

var leavesVolta = resolved.Of(func(*resolved.Job) bool { return false }, release.Declare("leaves-volta", release.Change{
	Library: "torch", From: "2.14",
	What:   "torch 2.14 is built with CUDA 13, which knows no card below compute capability 7.5",
	Source: "torch.cuda.get_arch_list() of torch 2.14.0 and 2.15.0; CUDA 13.0 release notes (Deprecated Architectures)",
	Shown:  "the builds themselves",
}))

// assumptions are the notes about what was asked for and does not change the bytes, or may not run at all.
func (r Answerer) assumptions(run *resolved.Replayed, in *resolved.Input) []result.Note {
	notes, gpus := []result.Note{}, in.GPUs
	on := func(code, text string, is func(*job.GPU) bool) {
		var ids []string
		for i := range gpus {
			if is(&gpus[i]) {
				ids = append(ids, gpus[i].ID)
			}
		}
		if len(ids) == 0 {
			return
		}
		named := strings.Join(ids[:min(len(ids), 4)], ", ")
		if more := len(ids) - 4; more > 0 {
			named += fmt.Sprintf(" and %d more", more)
		}
		notes = append(notes, result.Note{Code: code, Text: named + ": " + text})
	}
	below := func(capability int) func(*job.GPU) bool {
		return func(g *job.GPU) bool { return g.ComputeCapability > 0 && g.ComputeCapability < capability }
	}
	if r.Flash {
		on("no-flash-attention", "FlashAttention-2 needs compute capability 8.0; replayed with the memory-efficient "+
			"kernel that PyTorch has here", below(80))
	}
	if r.Sequence > 0 {
		on("no-flash-attention", "sequences that GPUs share are replayed with flash attention, which needs compute "+
			"capability 8.0; what torch does here instead is not modelled", below(80))
	}
	if run.Recipe.Compute == step.BF16 {
		on("bf16-emulated", "no bfloat16 in hardware below compute capability 8.0; PyTorch emulates it, slowly",
			below(80))
	}
	if r.Holds(leavesVolta) {
		on("no-kernels", "torch "+r.Torch()+" as it is published has no kernels for compute capability below "+
			"7.5, and will not run here; a former release (training.versions.torch) or a build of one's own does", below(75))
	}
	on("other-vendor", "the replay follows PyTorch on CUDA; the runtime's own memory and the kernels of this vendor "+
		"were not measured",
		func(g *job.GPU) bool { return g.Vendor != "" && !strings.EqualFold(g.Vendor, "nvidia") })
	if in.Job.Training.SequenceLength == 0 && r.Arch.FixedTokens == 0 && r.Shape.Tokens > longContext &&
		in.Job.Model.Diffusion == nil { // whose tokens are a picture's
		notes = append(notes, result.Note{Code: "whole-context", Text: "sequence_length is not given: sequences of the " +
			"model's whole context, " + result.Grouped(r.Shape.Tokens) + " tokens, were taken"})
	}
	for _, text := range append(r.Idle, r.unapplied(&in.Job.Training, run.Applied)...) {
		notes = append(notes, result.Note{Code: "no-effect", Text: text})
	}
	if r.OwnModules {
		written := "they were replayed as " + r.Transformers() + " writes them"
		if r.Arch.LitGPT {
			written = "models like Llama, Qwen2, Phi, GPT-NeoX and Gemma follow its code (0.5), others that of " +
				r.Transformers()
		}
		notes = append(notes, result.Note{Code: "framework-modules", Text: r.Framework + " writes its models itself: " +
			written + ", and the bounds are wider"})
	}
	if r.Unties {
		notes = append(notes, result.Note{Code: "untied-head", Text: "the model's configuration ties the head to the embedding; " +
			"torchtitan's Llama has a matrix of its own for it (torchtitan/models/llama3/model/model.py, 0.2.0)"})
	}
	notes = append(append(notes, r.PictureNotes...), r.baseNotes()...)
	notes = append(notes, r.expertAdapterNotes()...)
	notes = append(notes, r.objectiveNotes(&in.Job.Training)...)
	notes = append(notes, r.vllmNotes(in, run)...)
	if r.Versions || r.ProvenOn == "" {
		text := "the replay follows " + resolved.Reference(r.Stack) + " and " + r.Transformers()
		switch n := len(r.Changes); {
		case n > changesShown:
			text += fmt.Sprintf("; it follows %d things that the versions given do otherwise than former ones, which "+
				"vramplan releases (GET /v1/releases) lists", n)
		case n > 0:
			text += "; for the versions given, " + strings.Join(r.Changes, "; ")
		}
		switch {
		case r.ProvenOn != "":
		case r.Versions:
			text += "; what else the versions given do otherwise is not known, and the bounds are wider"
		default:
			text += ", with which no trace has shown this family or recipe, and the bounds are wider"
		}
		notes = append(notes, result.Note{Code: "versions", Text: text})
	}
	if t := &in.Job.Training; t.Objective == nil && t.Framework == "trl" && (r.Recipe.Objective != nil || r.LikeLiger) {
		notes = append(notes, result.Note{Code: "no-logits", Text: "framework trl without an objective is SFTTrainer, which " +
			"has no logits since trl 1.7 (chunked_nll): name a former release in training.versions.trl, or a loss, if " +
			"it is otherwise"})
	}
	if r.Arch.Dequantised {
		notes = append(notes, result.Note{Code: "mxfp4-dequantized",
			Text: "transformers trains no weights in MXFP4: they count as dequantized while they are loaded " +
				"(Mxfp4Config(dequantize=True)), and what that takes for a moment was left out"})
	}
	return notes
}

// changesShown is how many changes of releases a note spells out.
const changesShown = 3

// longContext is from where on a context is hardly ever filled in training, in tokens.
const longContext = 8192

// Spread is between which figures the cards of an answer lie.
type Spread struct{ Least, Most int64 }

// Add counts one more figure.
func (s *Spread) Add(device int64) {
	if s.Most == 0 || device < s.Least {
		s.Least = device
	}
	s.Most = max(s.Most, device)
}

// Note says whose figures an answer has, where its cards do not agree.
func (s *Spread) Note(first string) result.Note {
	return result.Note{Code: "first-card", Text: fmt.Sprintf("peak and components are those on %s, the first card; other "+
		"hardware runs other kernels, and over the cards here the job takes %s to %s: each verdict and headroom goes "+
		"by the figure of its card",
		first, result.Bytes(s.Least), result.Bytes(s.Most))}
}

// ofEvaluation says whose micro-batch a moment in an evaluation pass hangs on.
func ofEvaluation(m *play.Moment) string {
	if m.Stage == play.StageEvaluation {
		return " in evaluation"
	}
	return ""
}

// RunnerUp is the largest stage besides the one that holds the peak.
func RunnerUp(l *play.Ledger, peak play.Stage) (name string, bytes int64) {
	names := [play.StageCount]string{"loading of the model", "forward", "loss", "backward of the layers", "optimizer step",
		"evaluation", "reference's forward", "writing of completions"}
	for s, b := range l.Largest {
		if play.Stage(s) != peak && b > bytes {
			name, bytes = names[s], b
		}
	}
	return name, bytes
}

// fromSources are the notes about what was taken from sources and not from traces.
func (r Answerer) fromSources() []result.Note {
	var notes []result.Note
	add := func(code, text string) { notes = append(notes, result.Note{Code: code, Text: text}) }
	if n := r.Optimizer.Note; n.Code != "" {
		add(n.Code, n.Text)
	}
	if st := &r.Recipe.States; st.GradientBuffers || st.MasterWeights {
		add("states-from-source", "master weights and gradient buffers are placed as Megatron-LM and DeepSpeed place "+
			"them, one tensor for each parameter")
	}
	return notes
}
