package rewritten

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/decoders"
	"github.com/vramplan/vramplan/estimator/model/mixtures"
	"github.com/vramplan/vramplan/estimator/step"
)

// titanKind is what torchtitan writes otherwise for a family: its attention, which modules a layer has, and its rotary
// table.
type titanKind struct {
	// declare lists a layer's modules in their order; attend is its attention.
	declare func(m *titan, b *arch.Builder, l *titanLayer, i int64)
	attend  func(m *titan, t *step.Tape, l *titanLayer, x step.T) step.T
	// tableWidth is how many float32 numbers of the rotary table a position has.
	tableWidth func(a *arch.Architecture) int64
	// castsTable says that the table is brought to the type of a layer's inputs with them.
	castsTable bool
	// everywhere says that it is known in float32, with what checkpoints a part of a layer, and compiled, too.
	everywhere bool
	// unties says that its head is a matrix of its own, also where the configuration ties it to the embedding.
	unties bool
	// shares says that GPUs may share its sequences: torchtitan/train.py (forward_backward_step), 0.2.0, looks for the
	// table as freqs_cis, which Qwen3's model names otherwise.
	shares bool
	takes  func(a *arch.Architecture) bool
}

var titanLlama = titanKind{everywhere: true, unties: true, shares: true,
	takes: func(a *arch.Architecture) bool { return a.Heads*a.HeadDim == a.Hidden },
	declare: func(m *titan, b *arch.Builder, l *titanLayer, i int64) {
		m.projections(b, l)
		m.mlp(b, l)
		l.attentionNorm, l.forwardNorm = b.Norm("attention_norm", m.a.Hidden, false), b.Norm("ffn_norm", m.a.Hidden,
			false)
		l.block = step.LlamaBlock{AttentionNorm: l.attentionNorm.W, Query: l.q.W, Key: l.k.W, Value: l.v.W,
			Out:     l.out.W,
			MLPNorm: l.forwardNorm.W, Gate: l.mlp.Gate.W, Up: l.mlp.Up.W, Down: l.mlp.Down.W, Heads: m.heads}
	},
	attend:     (*titan).attention,
	tableWidth: func(a *arch.Architecture) int64 { return a.HeadDim },
}

// titanQwen is torchtitan/models/qwen3/model/model.py, 0.2.0.
var titanQwen = titanKind{castsTable: true,
	takes: func(a *arch.Architecture) bool {
		e := arch.ExpertsOf(a)
		return a.QKNorm && a.SlidingWindow == 0 && (e == nil || e.Dense == nil)
	},
	declare: func(m *titan, b *arch.Builder, l *titanLayer, i int64) {
		l.qNorm, l.kNorm = b.Norm("attention.q_norm", m.a.HeadDim, false), b.Norm("attention.k_norm", m.a.HeadDim,
			false)
		m.projections(b, l)
		m.feed(b, l, i)
		l.attentionNorm, l.forwardNorm = b.Norm("attention_norm", m.a.Hidden, false), b.Norm("ffn_norm", m.a.Hidden,
			false)
	},
	attend:     (*titan).normedAttention,
	tableWidth: func(a *arch.Architecture) int64 { return 2 * a.HeadDim },
}

// titanDeepSeek is torchtitan/models/deepseek_v3/model/model.py, 0.2.0.
var titanDeepSeek = titanKind{shares: true,
	takes: func(a *arch.Architecture) bool { return !a.Own.(*mixtures.Latent).AttentionBias },
	declare: func(m *titan, b *arch.Builder, l *titanLayer, i int64) {
		m.latentProjections(b, l)
		l.attentionNorm, l.forwardNorm = b.Norm("attention_norm", m.a.Hidden, false), b.Norm("ffn_norm", m.a.Hidden,
			false)
		m.feed(b, l, i)
	},
	attend:     (*titan).latentAttention,
	tableWidth: func(a *arch.Architecture) int64 { return a.Own.(*mixtures.Latent).RotaryDim },
}

// titanKindOf is how torchtitan writes models of a family, nil where it has none.
func titanKindOf(f *arch.Family) *titanKind {
	switch f {
	case &decoders.LlamaFamily:
		return &titanLlama
	case &decoders.Qwen3Family, &mixtures.Qwen3MoEFamily:
		return &titanQwen
	case &mixtures.DeepSeekV2Family, &mixtures.DeepSeekV3Family:
		return &titanDeepSeek
	}
	return nil
}

// projections lists those of an attention, of which this GPU may have some of the heads.
func (m *titan) projections(b *arch.Builder, l *titanLayer) {
	d, q, kv := m.a.Hidden, m.heads.Width(), m.heads.KVWidth()
	l.q, l.k, l.v = b.Linear("attention.wq", d, q, false), b.Linear("attention.wk", d, kv, false),
		b.Linear("attention.wv", d, kv, false)
	l.out = b.Linear("attention.wo", q, d, false)
}

// mlp lists an MLP's matrices.
func (m *titan) mlp(b *arch.Builder, l *titanLayer) {
	d, f := m.a.Hidden, m.a.FFN/m.cut.tensor
	l.mlp.Gate, l.mlp.Down = b.Linear("feed_forward.w1", d, f, false), b.Linear("feed_forward.w2", f, d, false)
	l.mlp.Up = b.Linear("feed_forward.w3", d, f, false)
}

// feed lists what a layer has behind its attention.
func (m *titan) feed(b *arch.Builder, l *titanLayer, i int64) {
	if l.experts = titanExperts(m.a, m.cut, m.cut.layer(i)); l.experts != nil {
		l.experts.place = i + 1
		l.experts.declare(b)
		return
	}
	m.mlp(b, l)
}

// latentProjections lists those of multi-head latent attention.
func (m *titan) latentProjections(b *arch.Builder, l *titanLayer) {
	own, d, h := m.a.Own.(*mixtures.Latent), m.a.Hidden, m.heads
	x := &titanLatent{}
	l.latent = x
	if own.QueryRank == 0 {
		l.q = b.Linear("attention.wq", d, h.Query*h.Dim, false)
	} else {
		x.qDown = b.Linear("attention.wq_a", d, own.QueryRank, false)
		x.qNorm = b.Norm("attention.q_norm", own.QueryRank, false)
		l.q = b.Linear("attention.wq_b", own.QueryRank, h.Query*h.Dim, false)
	}
	x.kvDown = b.Linear("attention.wkv_a", d, own.KeyValueRank+own.RotaryDim, false)
	x.kvNorm = b.Norm("attention.kv_norm", own.KeyValueRank, false)
	x.kvUp = b.Linear("attention.wkv_b", own.KeyValueRank, h.Query*(own.KeyDim+own.ValueDim), false)
	l.out = b.Linear("attention.wo", h.Query*own.ValueDim, d, false)
}

// titanLatent is what latent attention has besides.
type titanLatent struct {
	qDown, kvDown, kvUp arch.Linear
	qNorm, kvNorm       arch.Norm
}

// normedAttention is Qwen3's Attention.
func (m *titan) normedAttention(t *step.Tape, l *titanLayer, x step.T) step.T {
	entered := t.Cuts().Enter(x)
	q, k, v := l.q.Forward(t, entered), l.k.Forward(t, entered), l.v.Forward(t, entered)
	t.Drop(entered)
	qn := t.NativeRMSNorm(q, l.qNorm.W)
	t.Drop(q)
	kn := t.NativeRMSNorm(k, l.kNorm.W)
	t.Drop(k)
	if m.cut.tensor > 1 {
		qn, kn = t.SumsApart(qn), t.SumsApart(kn)
	}
	qr := t.Rotary(qn, m.table, m.table)
	kr := t.Rotary(kn, m.table, m.table)
	t.Drop(qn, kn)
	return m.attendTo(t, l, qr, kr, v)
}

// latentAttention is DeepSeek V3's Attention.
func (m *titan) latentAttention(t *step.Tape, l *titanLayer, x step.T) step.T {
	own, h := m.a.Own.(*mixtures.Latent), m.heads
	n := t.Shape.N()
	x = t.Cuts().Enter(x)
	query := t.Hold(x)
	if own.QueryRank > 0 {
		down := l.latent.qDown.Forward(t, x)
		t.Drop(query)
		query = t.NativeRMSNorm(down, l.latent.qNorm.W)
		t.Drop(down)
	}
	wide := l.q.Forward(t, query)
	t.Drop(query)
	plain, turning := t.Split2(wide, n*h.Query*own.KeyDim)
	t.Drop(wide)
	turned := t.ComplexTurn(turning, own.RotaryDim)
	t.Drop(turning)
	q := t.JoinHeads(plain, turned)

	both := l.latent.kvDown.Forward(t, x)
	narrow, turning := t.Split2(both, n*own.KeyValueRank)
	t.Drop(both)
	key := t.ComplexTurn(turning, own.RotaryDim)
	t.Drop(turning)
	normed := t.StridedRMSNorm(narrow, l.latent.kvNorm.W)
	up := l.latent.kvUp.Forward(t, normed)
	t.Drop(normed)
	pass, v := t.Split2(up, n*h.Query*own.KeyDim)
	t.Drop(up)
	shown := t.Expand(key, h.Query)
	k := t.JoinHeads(pass, shown)
	t.Drop(shown)
	y := t.TokensFirst(t.CausalSDPA(q, k, v, h), h, false)
	out := t.Cuts().Leave(l.out.Forward(t, y))
	t.Drop(y, q, k, v, pass, narrow, plain, turned, key, x)
	return out
}
