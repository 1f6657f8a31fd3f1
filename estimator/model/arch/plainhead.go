package arch

import "github.com/vramplan/vramplan/estimator/step"

// PlainHead is a network that may say that its logits are what Tape.Head returns, so that a loss can run the head
// itself.
type plainHead interface{ PlainHead() bool }

// MatrixHead is a network that may say that its logits are what Tape.Head returns but for numbers that are applied to
// it.
type matrixHead interface{ MatrixHead() bool }

// PlainHead says whether the model's logits are the output of its head as it is.
func (a *Architecture) PlainHead() bool {
	net, _ := a.Build(1, step.F32, nil)
	m, ok := net.(plainHead)
	return ok && m.PlainHead()
}

// MatrixHead says whether the model's logits are a matrix's output that nothing but numbers are applied to: a factor, a
// bound.
func (a *Architecture) MatrixHead() bool {
	net, _ := a.Build(1, step.F32, nil)
	if m, ok := net.(matrixHead); ok {
		return m.MatrixHead()
	}
	m, ok := net.(plainHead)
	return ok && m.PlainHead()
}

// LanguageModel says whether the model is a decoder whose logits and loss are those that trainers of language models
// know.
func (a *Architecture) LanguageModel() bool {
	if a.Written == nil && a.Beside == nil && a.Described == nil { // refused
		return false
	}
	net, _ := a.Build(1, step.F32, nil)
	_, ok := net.(plainHead)
	return ok && !a.NanoGPT() && a.Decoder == 0 && (a.Class == ClassCausalLM || a.Class == ClassLMHead || a.Class == "")
}

// AdaptedHead says whether the head has an adapter.
func (a *Architecture) AdaptedHead() bool { return a.headAdapted }

// QuantisedHead says whether the head's matrix is quantised with the base of the adapters: Lightning's
// BitsandbytesPrecision replaces every linear layer, and a tied head is none.
func (a *Architecture) QuantisedHead() bool {
	return a.LitGPT && !a.Tied && a.LoRA != nil && a.LoRA.Base != step.NotQuantised
}

// HeadWidth is how many features the head takes of a token: those of the layers where a family projects to no others.
func (a *Architecture) HeadWidth() int64 {
	if own, ok := a.Own.(interface{ HeadWidth() int64 }); ok {
		return own.HeadWidth()
	}
	return a.Hidden
}
