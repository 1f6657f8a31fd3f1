package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// DeclareLlama lists the modules of LlamaDecoderLayer.
func DeclareLlama(b *arch.Builder, l *DecoderLayer) {
	DeclareProjections(b, l)
	if a := b.A; a.QKNorm {
		l.QNorm, l.KNorm = b.Norm("self_attn.q_norm", a.HeadDim, false), b.Norm("self_attn.k_norm", a.HeadDim, false)
	}
	DeclareMLP(b, l)
	l.InputNorm = b.Norm("input_layernorm", b.A.Hidden, false)
	l.PostAttentionNorm = b.Norm("post_attention_layernorm", b.A.Hidden, false)
}

// preNorm is x + self_attn(input_layernorm(x)), then x + mlp(post_attention_layernorm(x)).
func (m *Decoder) preNorm(t *step.Tape, l *DecoderLayer, w *Around, x step.T) step.T {
	t.In(step.PartNorm)
	h := m.Normalize(l.InputNorm, t, x)
	t.In(step.PartAttention)
	attend := (*Decoder).Attention
	if m.Attend != nil {
		attend = m.Attend
	}
	attn, probabilities := attend(m, t, l, w, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := m.addBranch(t, x, attn)

	h = m.Normalize(l.PostAttentionNorm, t, middle)
	t.In(step.PartMLP)
	var mlp step.T
	second := probabilities // what the variable for a module's second result refers to
	if l.Experts == nil {
		mlp = m.MLP(t, l, h)
	} else {
		var router step.T
		mlp, router = l.Experts.Forward(t, h)
		if m, ok := l.Experts.(interface{ Leaves() []step.T }); ok {
			defer func() { t.Drop(m.Leaves()...) }()
		}
		if router != step.NoTensor {
			switch {
			case probabilities == nil:
			case keepsProbabilities(l.Experts):
				defer t.Drop(*probabilities)
			default:
				t.Drop(*probabilities)
			}
			second = &router
		}
	}
	t.Drop(h)
	t.In(step.PartNorm)
	y := m.addBranch(t, middle, mlp)
	t.Drop(middle)
	if second != nil {
		t.Drop(*second)
	}
	return y
}

// addBranch adds what attention or MLP made to the residual stream. It takes over the branch.
func (m *Decoder) addBranch(t *step.Tape, residual, branch step.T) step.T {
	scaled := t.Hold(branch)
	if m.ScaleBranches {
		t.Drop(scaled)
		scaled = t.MulScalar(branch, step.LabelResidual)
	}
	y := t.Add(residual, scaled, step.LabelResidual)
	t.Drop(scaled, branch)
	return y
}

// LikeLlama are Llama's own traits.
func LikeLlama() Traits {
	return Traits{Declare: DeclareLlama, Block: (*Decoder).preNorm, Project: (*Decoder).ProjectEach, Rotate: Rotate,
		Normalize: arch.Norm.RMS, MakeMask: CausalMask, MakeTable: RotaryTables}
}

// keepsProbabilities says whether a variable of the layer holds them to its end, beside what the mixture leaves.
func keepsProbabilities(mixture any) bool {
	m, ok := mixture.(interface{ KeepsProbabilities() bool })
	return ok && m.KeepsProbabilities()
}
