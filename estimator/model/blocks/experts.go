package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// DeclareSparse lists the modules of a decoder layer with a mixture of experts in place of the MLP.
func DeclareSparse(b *arch.Builder, l *DecoderLayer) {
	DeclareProjections(b, l)
	if a := b.A; a.QKNorm {
		l.QNorm, l.KNorm = b.Norm("self_attn.q_norm", a.HeadDim, false), b.Norm("self_attn.k_norm", a.HeadDim, false)
	}
	e := arch.ExpertsOf(b.A)
	if e != nil && e.RotaryBuffers && !b.A.Software.Has(arch.GroupsExperts) {
		b.Buffer("self_attn.rotary_emb.inv_freq", b.A.HeadDim/2, step.F32)
	}
	if e.In(l.Index) {
		l.Experts = OfRelease(e, b)
	} else {
		DeclareMLP(b, l)
	}
	l.InputNorm = b.Norm("input_layernorm", b.A.Hidden, false)
	l.PostAttentionNorm = b.Norm("post_attention_layernorm", b.A.Hidden, false)
}

// BuildSparse is Llama with mixtures of experts.
func BuildSparse(b *arch.Builder) step.Network {
	with := LikeLlama()
	with.Declare = DeclareSparse
	return BuildDecoder(b, with)
}

// mixture is a block of experts. It returns their weighted sum and what the router says of them.
type mixture interface {
	Forward(t *step.Tape, x step.T) (y, router step.T)
}

// SparseBlock is a router and its experts: MixtralSparseMoeBlock and Qwen3MoeSparseMoeBlock
// (modeling_mixtral.py, modeling_qwen3_moe.py, 4.57), which run one expert after the other.
type SparseBlock struct {
	A       *arch.Architecture
	E       *arch.Experts
	Gate    arch.Linear
	Experts []arch.GatedMLP // those that are recorded
	// KeepsInput says that the variable for an expert's input lives until the next one has its own.
	KeepsInput bool

	shared     arch.GatedMLP
	sharedGate arch.Linear
}

// OfRelease is the mixture as the job's transformers has it.
func OfRelease(e *arch.Experts, b *arch.Builder) mixture {
	if b.A.Software.Has(arch.GroupsExperts) {
		return buildGrouped(e, b)
	}
	return Build(e, b)
}

// Build declares a mixture whose experts run one after the other.
func Build(e *arch.Experts, b *arch.Builder) *SparseBlock {
	m := &SparseBlock{A: b.A, E: e}
	m.Gate = b.Linear(e.Path+".gate", b.A.Hidden, e.Count, false)
	m.Gate.Matrix = true
	m.Experts = Experts(b, e.Count, true, func() arch.GatedMLP { return e.Expert(b, e.Path+".experts", e.FFN, false) })
	if e.SharedFFN > 0 {
		m.shared = e.Expert(b, e.Path+".shared_expert", e.SharedFFN, false).OnMatrices()
		m.sharedGate = b.Linear(e.Path+".shared_expert_gate", b.A.Hidden, 1, false)
		m.sharedGate.Matrix = true
	}
	return m
}

// Forward returns the experts' weighted sum and the router's logits.
func (m *SparseBlock) Forward(t *step.Tape, x step.T) (y, logits step.T) {
	logits = m.Gate.Forward(t, x)
	weights, chosen := m.Route(t, logits, x.Dtype())
	y = t.Zeros(x.Numel(), x.Dtype(), step.LabelExpertOutput)
	locals := m.Masks(t)
	y, variables := m.Mix(t, x, weights, y)
	locals = append(locals, variables...)
	if m.E.SharedFFN > 0 {
		sum, gated := m.addShared(t, x, y)
		y, locals = sum, append(locals, gated)
	}
	t.Drop(append(locals, weights, chosen)...)
	return y, logits
}

// Route chooses the experts of every token: their weights in type d and their indices.
func (m *SparseBlock) Route(t *step.Tape, logits step.T, d step.DType) (weights, chosen step.T) {
	probabilities := t.SoftmaxFloat(logits, step.LabelRouting, step.LabelRouting)
	top, chosen := t.TopK(probabilities, m.E.Count, m.E.TopK)
	t.Drop(probabilities)
	if m.E.Normalise {
		sum := t.SumRowsKept(top, m.E.TopK)
		top = t.DivideInPlace(top, sum)
		t.Drop(sum)
	}
	weights = t.Cast(top, d, step.LabelRouting)
	t.Drop(top)
	return weights, chosen
}

// Masks says which experts were chosen for which tokens and, in most blocks, which at all.
func (m *SparseBlock) Masks(t *step.Tape) []step.T {
	rows := t.Shape.N() * m.E.TopK
	mask := t.RoutingTensor(rows*m.E.Count, step.I64)
	if m.E.Uncounted {
		return []step.T{mask}
	}
	counts := t.SumOverTokens(rows, m.E.Count)
	hit := t.RoutingTensor(m.E.Count, step.Bool)
	t.Drop(counts)
	return []step.T{mask, hit}
}

// Mix runs every expert on its tokens and adds its weighted output to sum. It also returns what the variables of
// its loop refer to in the end.
func (m *SparseBlock) Mix(t *step.Tape, x, weights, sum step.T) (step.T, []step.T) {
	d := m.A.Hidden
	share := (t.Shape.N()*m.E.TopK + m.E.Count - 1) / m.E.Count
	var places, tokens, current, held step.T
	for i := range m.Experts {
		t.Expert(i)
		former := [...]step.T{places, tokens}
		for k, indices := range [...]*step.T{&places, &tokens} {
			*indices = t.RoutingTensor(share, step.I64)
			if i > 0 && !m.KeepsInput {
				t.Drop(former[k])
			}
		}
		if i > 0 && m.KeepsInput { // assigned together
			t.Drop(former[:]...)
		}
		input := t.Gather(x, d, tokens)
		switch {
		case i == 0:
		case m.KeepsInput:
			t.Drop(held)
		default:
			t.Drop(current)
		}
		output := m.Experts[i].Forward(t, m.A, input)
		weight := t.Gather(weights, 1, tokens, places)
		weighted := t.Mul(output, weight, true, step.LabelExpertOutput)
		t.Drop(output, weight)
		if m.KeepsInput {
			if held = input; i > 0 {
				t.Drop(current)
			}
		} else {
			t.Drop(input)
		}
		current = weighted
		sum = t.IndexAdd(sum, tokens, current)
	}
	t.Expert(-1)
	if m.KeepsInput {
		return sum, []step.T{places, tokens, current, held}
	}
	return sum, []step.T{places, tokens, current}
}

// addShared adds sigmoid(shared_expert_gate(x)) · shared_expert(x), which it returns too, to y, which it takes over.
// Source: transformers/models/qwen2_moe/modeling_qwen2_moe.py (Qwen2MoeSparseMoeBlock), 4.57.
func (m *SparseBlock) addShared(t *step.Tape, x, y step.T) (sum, gated step.T) {
	output := m.shared.Forward(t, m.A, x)
	logit := m.sharedGate.Forward(t, x)
	gate := t.Sigmoid(logit, step.LabelRouting)
	t.Drop(logit)
	gated = t.Mul(gate, output, true, step.LabelExpertOutput)
	t.Drop(gate, output)
	sum = t.Add(y, gated, step.LabelExpertOutput)
	t.Drop(y)
	return sum, gated
}

// RefuseRouterOptions refuses what makes the routers' losses part of the loss, or their inputs noisy.
func RefuseRouterOptions(c *arch.Config) {
	if c.Boolean("output_router_logits") {
		c.Errs.Add(c.Pointer+"/output_router_logits", "unsupported",
			"the routers' own loss is not modelled yet; set it to false")
	}
	if c.Positive("router_jitter_noise") {
		c.Errs.Add(c.Pointer+"/router_jitter_noise", "unsupported",
			"noise on the routers' input is not modelled yet; set it to 0")
	}
}

// Mixture is how many of count experts are recorded: all where they are not alike.
func Mixture(b *arch.Builder, count int64, alike bool) int64 {
	recorded := step.RecordedExperts(count)
	if b.A.EveryExpert || !alike {
		recorded = count
	}
	b.P.ExpertCopies = count - recorded + 1
	return recorded
}

// Experts declares those of a mixture that are recorded.
func Experts(b *arch.Builder, count int64, alike bool, declare func() arch.GatedMLP) []arch.GatedMLP {
	list := make([]arch.GatedMLP, Mixture(b, count, alike))
	for i := range list {
		if b.P.ExpertCopies > 1 {
			b.Expert = int32(i + 1)
		}
		list[i] = declare().OnMatrices()
	}
	b.Expert = 0
	return list
}
