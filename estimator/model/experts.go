package model

import (
	"github.com/vramplan/vramplan/estimator/step"
)

// declareSparse lists the modules of a decoder layer with a mixture of experts in place of the MLP.
func declareSparse(b *builder, l *decoderLayer) {
	b.projections(l)
	if a := b.a; a.QKNorm {
		l.qNorm, l.kNorm = b.norm("self_attn.q_norm", a.HeadDim, false), b.norm("self_attn.k_norm", a.HeadDim, false)
	}
	e := expertsOf(b.a)
	if e != nil && e.RotaryBuffers && !b.a.Software.GroupsExperts {
		b.buffer("self_attn.rotary_emb.inv_freq", b.a.HeadDim/2, step.F32)
	}
	if e.in(l.index) {
		l.experts = e.ofRelease(b)
	} else {
		b.mlp(l)
	}
	l.inputNorm = b.norm("input_layernorm", b.a.Hidden, false)
	l.postAttentionNorm = b.norm("post_attention_layernorm", b.a.Hidden, false)
}

// buildSparse is Llama with mixtures of experts.
func buildSparse(b *builder) step.Network {
	with := likeLlama()
	with.declare = declareSparse
	return b.decoder(with)
}

// mixture is a block of experts. It returns their weighted sum and what the router says of them.
type mixture interface {
	forward(t *step.Tape, x step.T) (y, router step.T)
}

// sparseBlock is a router and its experts: MixtralSparseMoeBlock and Qwen3MoeSparseMoeBlock
// (modeling_mixtral.py, modeling_qwen3_moe.py, 4.57), which run one expert after the other.
type sparseBlock struct {
	a       *Architecture
	e       *experts
	gate    linear
	experts []gatedMLP // those that are recorded
	// keepsInput says that the variable for an expert's input lives until the next one has its own.
	keepsInput bool

	shared     gatedMLP
	sharedGate linear
}

// ofRelease is the mixture as the job's transformers has it.
func (e *experts) ofRelease(b *builder) mixture {
	if b.a.Software.GroupsExperts {
		return e.buildGrouped(b)
	}
	return e.build(b)
}

func (e *experts) build(b *builder) *sparseBlock {
	m := &sparseBlock{a: b.a, e: e}
	m.gate = b.linear(e.Path+".gate", b.a.Hidden, e.Count, false)
	m.gate.matrix = true
	m.experts = b.experts(e.Count, true, func() gatedMLP { return e.Expert(b, e.Path+".experts", e.FFN, false) })
	if e.SharedFFN > 0 {
		m.shared = e.Expert(b, e.Path+".shared_expert", e.SharedFFN, false).onMatrices()
		m.sharedGate = b.linear(e.Path+".shared_expert_gate", b.a.Hidden, 1, false)
		m.sharedGate.matrix = true
	}
	return m
}

// forward returns the experts' weighted sum and the router's logits.
func (m *sparseBlock) forward(t *step.Tape, x step.T) (y, logits step.T) {
	logits = m.gate.forward(t, x)
	weights, chosen := m.route(t, logits, x.Dtype())
	y = t.Zeros(x.Numel(), x.Dtype(), step.LabelExpertOutput)
	locals := m.masks(t)
	y, variables := m.mix(t, x, weights, y)
	locals = append(locals, variables...)
	if m.e.SharedFFN > 0 {
		sum, gated := m.addShared(t, x, y)
		y, locals = sum, append(locals, gated)
	}
	t.Drop(append(locals, weights, chosen)...)
	return y, logits
}

// route chooses the experts of every token: their weights in type d and their indices.
func (m *sparseBlock) route(t *step.Tape, logits step.T, d step.DType) (weights, chosen step.T) {
	probabilities := t.SoftmaxFloat(logits, step.LabelRouting, step.LabelRouting)
	top, chosen := t.TopK(probabilities, m.e.Count, m.e.TopK)
	t.Drop(probabilities)
	if m.e.Normalise {
		sum := t.SumRowsKept(top, m.e.TopK)
		top = t.DivideInPlace(top, sum)
		t.Drop(sum)
	}
	weights = t.Cast(top, d, step.LabelRouting)
	t.Drop(top)
	return weights, chosen
}

// masks says which experts were chosen for which tokens and, in most blocks, which at all.
func (m *sparseBlock) masks(t *step.Tape) []step.T {
	rows := t.Shape.N() * m.e.TopK
	mask := t.RoutingTensor(rows*m.e.Count, step.I64)
	if m.e.Uncounted {
		return []step.T{mask}
	}
	counts := t.SumOverTokens(rows, m.e.Count)
	hit := t.RoutingTensor(m.e.Count, step.Bool)
	t.Drop(counts)
	return []step.T{mask, hit}
}

// mix runs every expert on its tokens and adds its weighted output to sum. It also returns what the variables of
// its loop refer to in the end.
func (m *sparseBlock) mix(t *step.Tape, x, weights, sum step.T) (step.T, []step.T) {
	d := m.a.Hidden
	share := (t.Shape.N()*m.e.TopK + m.e.Count - 1) / m.e.Count
	var places, tokens, current, held step.T
	for i := range m.experts {
		t.Expert(i)
		former := [...]step.T{places, tokens}
		for k, indices := range [...]*step.T{&places, &tokens} {
			*indices = t.RoutingTensor(share, step.I64)
			if i > 0 && !m.keepsInput {
				t.Drop(former[k])
			}
		}
		if i > 0 && m.keepsInput { // assigned together
			t.Drop(former[:]...)
		}
		input := t.Gather(x, d, tokens)
		switch {
		case i == 0:
		case m.keepsInput:
			t.Drop(held)
		default:
			t.Drop(current)
		}
		output := m.experts[i].forward(t, m.a, input)
		weight := t.Gather(weights, 1, tokens, places)
		weighted := t.Mul(output, weight, true, step.LabelExpertOutput)
		t.Drop(output, weight)
		if m.keepsInput {
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
	if m.keepsInput {
		return sum, []step.T{places, tokens, current, held}
	}
	return sum, []step.T{places, tokens, current}
}

// addShared adds sigmoid(shared_expert_gate(x)) · shared_expert(x), which it returns too, to y, which it takes over.
// Source: transformers/models/qwen2_moe/modeling_qwen2_moe.py (Qwen2MoeSparseMoeBlock), 4.57.
func (m *sparseBlock) addShared(t *step.Tape, x, y step.T) (sum, gated step.T) {
	output := m.shared.forward(t, m.a, x)
	logit := m.sharedGate.forward(t, x)
	gate := t.Sigmoid(logit, step.LabelRouting)
	t.Drop(logit)
	gated = t.Mul(gate, output, true, step.LabelExpertOutput)
	t.Drop(gate, output)
	sum = t.Add(y, gated, step.LabelExpertOutput)
	t.Drop(y)
	return sum, gated
}

// refuseRouterOptions refuses what makes the routers' losses part of the loss, or their inputs noisy.
func (c *config) refuseRouterOptions() {
	if c.boolean("output_router_logits") {
		c.errs.Add(c.pointer+"/output_router_logits", "unsupported",
			"the routers' own loss is not modelled yet; set it to false")
	}
	if c.positive("router_jitter_noise") {
		c.errs.Add(c.pointer+"/router_jitter_noise", "unsupported",
			"noise on the routers' input is not modelled yet; set it to 0")
	}
}

// mixture is how many of count experts are recorded: all where they are not alike.
func (b *builder) mixture(count int64, alike bool) int64 {
	recorded := step.RecordedExperts(count)
	if b.a.EveryExpert || !alike {
		recorded = count
	}
	b.p.ExpertCopies = count - recorded + 1
	return recorded
}

// experts declares those of a mixture that are recorded.
func (b *builder) experts(count int64, alike bool, declare func() gatedMLP) []gatedMLP {
	list := make([]gatedMLP, b.mixture(count, alike))
	for i := range list {
		if b.p.ExpertCopies > 1 {
			b.expert = int32(i + 1)
		}
		list[i] = declare().onMatrices()
	}
	b.expert = 0
	return list
}
