package mixtures

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// GPTOSSFamily is transformers' GptOssForCausalLM: attention with sinks, windows in every other layer and experts
// whose matrices are one parameter. There is no attention but the written-out formula for it in torch itself.
// Source: transformers/models/gpt_oss/modeling_gpt_oss.py, configuration_gpt_oss.py, 4.57.
var GPTOSSFamily = arch.Family{ModelType: "gpt_oss", Keys: arch.CommonKeys, Classes: arch.ClassifyingLM,
	Defaults: map[string]any{
		"vocab_size": 201088.0, "hidden_size": 2880.0, "intermediate_size": 2880.0, "num_hidden_layers": 36.0,
		"num_attention_heads": 64.0, "num_key_value_heads": 8.0, "head_dim": 64.0, "hidden_act": "silu",
		"max_position_embeddings": 131072.0,
		"use_cache":               true, "tie_word_embeddings": false, "attention_bias": true, "attention_dropout": 0.0,
		"sliding_window":      128.0,
		"num_experts_per_tok": 4.0, "num_local_experts": 128.0, "output_router_logits": false},
	Spelled: map[string]string{"num_experts": "num_local_experts"},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.QKVBias, a.EagerOnly, a.FreeHeadDim = c.Boolean("attention_bias"), true, true
		a.OutBias = a.QKVBias
		a.SlidingWindow = c.Integer("sliding_window", arch.MaxRows)
		a = c.LayerTypes(a, arch.EveryNth(2))
		a.Own = &arch.Experts{Count: c.Integer("num_local_experts", arch.MaxExperts),
			TopK: c.Integer("num_experts_per_tok", arch.MaxExperts), FFN: a.FFN}
		blocks.RefuseRouterOptions(c)
		return a
	},
	Build: func(b *arch.Builder) step.Network {
		with := blocks.LikeLlama()
		with.Normalize = arch.Norm.Wide
		sinks := make([]step.Weight, b.Recorded)
		with.Declare = func(b *arch.Builder, l *blocks.DecoderLayer) { declareGPTOSS(b, l, &sinks[l.Index]) }
		with.Score = func(m *blocks.Decoder, t *step.Tape, l *blocks.DecoderLayer, w *blocks.Around, heads step.Heads,
			q, k, v step.T) (step.T, *step.T) {
			return sinkScores(t, m, w, sinks[l.Index], heads, q, k, v)
		}
		with.MakeTable = halfTables
		with.Rotate = func(t *step.Tape, q, k step.T, w *blocks.Around) (qr, kr step.T) {
			return t.RotaryHalves(q, w.Cos, w.Sin), t.RotaryHalves(k, w.Cos, w.Sin)
		}
		return blocks.BuildDecoder(b, with)
	}}

func declareGPTOSS(b *arch.Builder, l *blocks.DecoderLayer, sinks *step.Weight) {
	a := b.A
	blocks.DeclareProjections(b, l)
	*sinks = b.Parameter("self_attn.sinks", a.Heads, 1)
	b.Ahead(*sinks, l.Q.W)
	if joined := buildJoinedExperts(b); a.Software.Has(arch.GroupsExperts) {
		l.Experts = joined.grouped(a)
	} else {
		l.Experts = joined
	}
	l.InputNorm = b.Norm("input_layernorm", a.Hidden, false)
	l.PostAttentionNorm = b.Norm("post_attention_layernorm", a.Hidden, false)
}

// halfTables are cosines and sines of half a head, which both halves share.
func halfTables(t *step.Tape, dim int64, d step.DType) (cos, sin step.T) {
	t.Modules(1)
	n := t.Shape.Tokens
	positions := t.Table(n, step.F32)
	angles := t.Table(n*dim/2, step.F32)
	if t.Recipe.Software.Has(blocks.MultipliesAngles) {
		t.Drop(positions)
	} else {
		t.Workspace()
		defer t.Drop(positions)
	}
	wave := func() step.T {
		raw := t.Table(n*dim/2, step.F32)
		scaled := t.Table(n*dim/2, step.F32)
		t.Drop(raw)
		return scaled
	}
	cos, sin = wave(), wave()
	if d != step.F32 {
		c, s := t.Table(n*dim/2, d), t.Table(n*dim/2, d)
		t.Drop(cos, sin)
		cos, sin = c, s
	}
	t.Drop(angles)
	return cos, sin
}

// sinkScores is eager_attention_forward, where every head has a score more, which is dropped after the softmax.
func sinkScores(t *step.Tape, m *blocks.Decoder, w *blocks.Around, sinks step.Weight, heads step.Heads,
	q, k, v step.T) (step.T, *step.T) {
	k, v = t.RepeatKV(k, heads), t.RepeatKV(v, heads)
	heads.KV = heads.Query
	y, p := t.SinkAttention(step.EagerAttention{Heads: heads, Dropout: m.A.AttentionDropout, Mask: w.Mask}, sinks, q,
		k, v)
	t.Drop(k, v)
	return y, &p
}

// joinedExperts is GptOssMLP: a router, and experts whose matrices are stored as one parameter.
type joinedExperts struct {
	e                                  *arch.Experts
	d, recorded                        int64
	router                             arch.Linear
	gateUp, gateUpBias, down, downBias step.Weight
}

func buildJoinedExperts(b *arch.Builder) *joinedExperts {
	e, d := arch.ExpertsOf(b.A), b.A.Hidden
	m := &joinedExperts{e: e, d: d, recorded: blocks.Mixture(b, e.Count, true)}
	b.Module("mlp.router")
	m.router.W, m.router.B, m.router.Matrix = b.Parameter("mlp.router", e.Count, d),
		b.Parameter("mlp.router", e.Count, 1), true
	m.gateUp, m.gateUpBias = b.Parameter("mlp.experts.gate_up_proj", e.Count*d, 2*e.FFN),
		b.Parameter("mlp.experts.gate_up_proj_bias", e.Count, 2*e.FFN)
	m.down, m.downBias = b.Parameter("mlp.experts.down_proj", e.Count*e.FFN, d),
		b.Parameter("mlp.experts.down_proj_bias", e.Count, d)
	b.Stacked(m.gateUp, e.Count)
	b.Stacked(m.down, e.Count)
	return m
}

// Forward returns the experts' weighted sum and the router's scores.
func (m *joinedExperts) Forward(t *step.Tape, x step.T) (y, scores step.T) {
	scores, chosen := m.route(t, x)
	x = t.View(t.Hold(x))
	sum := t.Zeros(x.Numel(), x.Dtype(), step.LabelExpertOutput)
	rows := t.Shape.N() * m.e.TopK
	mask := t.RoutingTensor(rows*(m.e.Count+1), step.I64)
	counts := t.SumOverTokens(rows, m.e.Count+1)
	hit := t.RoutingTensor(m.e.Count+1, step.Bool)
	t.Drop(counts)
	sum, locals := m.mix(t, x, scores, sum)
	t.Drop(append(locals, mask, hit, x, chosen)...)
	return sum, scores
}

// route is GptOssTopKRouter: the softmax of the best logits in their places, zeros elsewhere.
func (m *joinedExperts) route(t *step.Tape, x step.T) (scores, chosen step.T) {
	x = t.View(t.Hold(x))
	logits := m.router.Forward(t, x)
	t.Drop(x)
	top, chosen := t.TopK(logits, m.e.Count, m.e.TopK)
	weights := t.Softmax(top, step.LabelRouting)
	t.Drop(top)
	scores = t.Scatter(weights, chosen, logits.Numel())
	t.Drop(weights, logits)
	return scores, chosen
}

// mix is the loop of GptOssExperts.forward. It also returns what its variables refer to in the end.
func (m *joinedExperts) mix(t *step.Tape, x, scores, sum step.T) (step.T, []step.T) {
	share := (t.Shape.N()*m.e.TopK + m.e.Count - 1) / m.e.Count
	var locals [10]step.T
	var assigned [10]bool
	for i := range m.recorded {
		t.Expert(int(i))
		assign := func(k int, x step.T) step.T {
			if assigned[k] {
				t.Drop(locals[k])
			}
			locals[k], assigned[k] = x, true
			return x
		}
		assign(0, t.RoutingTensor(share, step.I64))
		tokens := assign(1, t.RoutingTensor(share, step.I64))
		current := assign(2, t.Rows(x, m.d, tokens))
		gateUp := assign(3, m.biased(t, current, m.gateUp, m.gateUpBias))
		out := assign(7, m.biased(t, m.gated(t, gateUp, assign), m.down, m.downBias))
		column := t.SliceRows(scores, scores.Numel()/m.e.Count)
		weight := t.Rows(column, 1, tokens)
		t.Drop(column)
		weighted := assign(8, t.Mul(out, weight, true, step.LabelExpertOutput))
		t.Drop(weight)
		source := t.Cast(weighted, sum.Dtype(), step.LabelExpertOutput)
		sum = t.IndexAdd(sum, tokens, source)
		t.Drop(source)
	}
	t.Expert(-1)
	return sum, locals[:]
}

// biased is x @ w[i] + b[i] for one of the experts whose matrices w and b hold.
func (m *joinedExperts) biased(t *step.Tape, x step.T, w, b step.Weight) step.T {
	product := t.ExpertProduct(x, w, m.e.Count)
	bias := t.SliceRows(t.Parameter(b), b.Cols)
	y := t.Add(product, bias, step.LabelLinear)
	t.Drop(product)
	return y
}

// gated is (up + 1) · gate · sigmoid(α · gate), both clamped.
func (m *joinedExperts) gated(t *step.Tape, gateUp step.T, assign func(k int, x step.T) step.T) step.T {
	gate, up := t.Interleaved(gateUp)
	gate, up = assign(4, gate), assign(5, up)
	gate, up = assign(4, t.ClampAbove(gate)), assign(5, t.ClampBetween(up))
	scaled := t.MulScalar(gate, step.LabelElementwise)
	sigmoid := t.Sigmoid(scaled, step.LabelElementwise)
	t.Drop(scaled)
	glu := assign(9, t.Mul(gate, sigmoid, false, step.LabelActivation))
	t.Drop(sigmoid)
	one := t.AddScalar(up, step.LabelElementwise)
	y := assign(6, t.Mul(one, glu, false, step.LabelActivation))
	t.Drop(one)
	return y
}
