package pipelines

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// Reader is a pipeline's text encoders by themselves.
type Reader interface {
	// ReadPrompt reads one prompt by all of them, and keeps the embeddings.
	ReadPrompt(t *step.Tape)
}

// BuildReaders is the pipeline with its text encoders alone, stored in d.
func BuildReaders(a arch.Architecture, d step.DType) (step.Network, step.Parameters) {
	how := a.Own.(pipeline).arrangement
	Arrange(&a, Arrangement{Frozen: d, KeepsTexts: true, Order: []Part{PartTexts}, TextTokens: how.TextTokens})
	a.LoRA = nil
	return a.Build(a.Layers, d, nil)
}

// ReadPrompt is encode_prompt of Stable Diffusion 3: the last but one states of the CLIPs side by side, as wide as T5's
// with zeros, and T5's behind them.
// Source: diffusers examples/dreambooth/train_dreambooth_lora_sd3.py (encode_prompt), 0.39.
func (m *diffusion) ReadPrompt(t *step.Tape) {
	old := t.Shape
	t.Shape.Batch = 1
	var states, ends []step.T
	last := step.NoTensor
	for i, e := range m.texts {
		if _, is := e.(*clipText); is {
			state, end := m.lastButOne(t, i)
			states, ends = append(states, state), append(ends, end)
			continue
		}
		m.frozen(t, step.Shape{Batch: 1, Tokens: m.own.arrangement.TextTokens[i]}, m.own.arrangement.Frozen, func() {
			var end step.T
			last, end = e.encode(t)
			t.Drop(end)
		})
	}
	t.Drop(append(append(states, ends...), last)...)
	t.Shape = old
}

// lastButOne are the last but one states of text encoder i, and what it pools.
func (m *diffusion) lastButOne(t *step.Tape, i int) (state, end step.T) {
	m.prompt(t, i, func(c *clipText) {
		c.Text.Holds = true
		ids := t.Input(t.Shape.N(), step.I64)
		hidden, pooled := c.read(t, ids)
		states := c.Text.States
		state, end = t.Hold(states[len(states)-2]), pooled
		t.Drop(append([]step.T{hidden, ids}, states...)...)
	})
	return state, end
}
