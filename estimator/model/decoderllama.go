package model

import "github.com/vramplan/vramplan/estimator/step"

// declareLlama lists the modules of LlamaDecoderLayer.
func declareLlama(b *builder, l *decoderLayer) {
	b.projections(l)
	if a := b.a; a.QKNorm {
		l.qNorm, l.kNorm = b.norm("self_attn.q_norm", a.HeadDim, false), b.norm("self_attn.k_norm", a.HeadDim, false)
	}
	b.mlp(l)
	l.inputNorm = b.norm("input_layernorm", b.a.Hidden, false)
	l.postAttentionNorm = b.norm("post_attention_layernorm", b.a.Hidden, false)
}

// preNorm is x + self_attn(input_layernorm(x)), then x + mlp(post_attention_layernorm(x)).
func (m *decoder) preNorm(t *step.Tape, l *decoderLayer, w *around, x step.T) step.T {
	t.In(step.PartNorm)
	h := m.normalize(l.inputNorm, t, x)
	t.In(step.PartAttention)
	attend := (*decoder).attention
	if m.attend != nil {
		attend = m.attend
	}
	attn, probabilities := attend(m, t, l, w, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := m.addBranch(t, x, attn)

	h = m.normalize(l.postAttentionNorm, t, middle)
	t.In(step.PartMLP)
	var mlp step.T
	second := probabilities // what the variable for a module's second result refers to
	if l.experts == nil {
		mlp = m.mlp(t, l, h)
	} else {
		var router step.T
		mlp, router = l.experts.forward(t, h)
		if m, ok := l.experts.(interface{ leaves() []step.T }); ok {
			defer func() { t.Drop(m.leaves()...) }()
		}
		if router != step.NoTensor {
			switch {
			case probabilities == nil:
			case m.keepsProbabilities:
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
func (m *decoder) addBranch(t *step.Tape, residual, branch step.T) step.T {
	scaled := t.Hold(branch)
	if m.scaleBranches {
		t.Drop(scaled)
		scaled = t.MulScalar(branch, step.LabelResidual)
	}
	y := t.Add(residual, scaled, step.LabelResidual)
	t.Drop(scaled, branch)
	return y
}

// likeLlama are Llama's own traits.
func likeLlama() traits {
	return traits{declare: declareLlama, block: (*decoder).preNorm, project: (*decoder).projectEach, rotate: rotate,
		normalize: norm.rms, makeMask: causalMask, makeTable: rotaryTables}
}
