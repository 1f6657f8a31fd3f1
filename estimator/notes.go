package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/step"
)

// notes explain an answer: what holds the peak, what comes close, what was assumed.
func (r *resolved) notes(run *run, res *Result) []Note {
	l, f := run.ledger, run.figures
	m := &l.Peak
	notes := []Note{}
	add := func(code, format string, args ...any) {
		notes = append(notes, Note{Code: code, Text: fmt.Sprintf(format, args...)})
	}
	percent := func(bytes int64) int64 { return (bytes*100 + f.Device/2) / max(f.Device, 1) }

	logits, activations := m.Components[step.LogitsAndLoss], m.Components[step.Activations]
	switch {
	case logits*2 > f.Device:
		add("logits-dominate", "the logits and their copies hold %d %%: %d × %d tokens × vocabulary %s; a smaller micro-batch or a loss that does not keep them frees most",
			percent(logits), r.shape.Batch, r.shape.Tokens, grouped(r.arch.Vocabulary))
	case activations*2 > f.Device:
		add("activations-dominate", "activations hold %d %%: a smaller micro-batch, a shorter sequence or gradient checkpointing frees most", percent(activations))
	case (m.Components[step.Weights]+m.Components[step.Gradients]+m.Components[step.OptimizerState])*2 > f.Device:
		add("model-states-dominate", "weights, gradients and optimizer state hold %d %%: a smaller micro-batch frees little",
			percent(m.Components[step.Weights]+m.Components[step.Gradients]+m.Components[step.OptimizerState]))
	}
	add("peak", "the peak of %s allocated falls into: %s (%s)", Bytes(f.Allocated), res.Peak.Where, m.Label)
	if code, second := runnerUp(l, m.Stage); second > 0 && second*20 > m.Bytes*19 {
		add("runs-close", "the %s comes within %d %% of it: a change that helps only at the peak saves no more than that", code, (m.Bytes-second)*100/max(m.Bytes, 1)+1)
	}
	if f.Reserved-f.Allocated > f.Allocated/10 {
		add("fragmentation", "PyTorch's allocator reserves %s for %s allocated; on a full card it gets through with %s, and expandable_segments usually reserves less",
			Bytes(f.Reserved), Bytes(f.Allocated), Bytes(f.Limit))
	}
	if run.recipe.HoldLogits && logits > 0 {
		add("held-logits", "the training loop (%s) keeps the model's output in a variable: the logits stay alive through backward and into the next forward", r.framework)
	}
	if run.recipe.UseCache {
		add("kv-cache", "the model fills a key/value cache in training, the library's default; use_cache=False saves it")
	}
	if r.arch.Generic {
		add("generic-family", "the family %q is not described: the nearest block was replayed, and the bounds are wider", r.arch.Family)
	}
	return notes
}

// runnerUp is the largest stage besides the one that holds the peak.
func runnerUp(l *step.Ledger, peak step.Stage) (name string, bytes int64) {
	names := [step.StageCount]string{"loading of the model", "forward", "loss", "backward of the layers", "optimizer step"}
	for s, b := range l.Largest {
		if step.Stage(s) != peak && b > bytes {
			name, bytes = names[s], b
		}
	}
	return name, bytes
}
