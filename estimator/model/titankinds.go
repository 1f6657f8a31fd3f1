package model

import "github.com/vramplan/vramplan/estimator/step"

// titanKind is what torchtitan writes otherwise for a family: its attention, which modules a layer has, and its rotary
// table.
type titanKind struct {
	// declare lists a layer's modules in their order; attend is its attention.
	declare func(m *titan, b *builder, l *titanLayer, i int64)
	attend  func(m *titan, t *step.Tape, l *titanLayer, x step.T) step.T
	// tableWidth is how many float32 numbers of the rotary table a position has.
	tableWidth func(a *Architecture) int64
	// castsTable says that the table is brought to the type of a layer's inputs with them.
	castsTable bool
	// everywhere says that it is known in float32, with what checkpoints a part of a layer, and compiled, too.
	everywhere bool
	// unties says that its head is a matrix of its own, also where the configuration ties it to the embedding.
	unties bool
	// shares says that GPUs may share its sequences: torchtitan/train.py (forward_backward_step), 0.2.0, looks for the
	// table as freqs_cis, which Qwen3's model names otherwise.
	shares bool
	takes  func(a *Architecture) bool
}

var titanLlama = titanKind{everywhere: true, unties: true, shares: true,
	takes: func(a *Architecture) bool { return a.Heads*a.HeadDim == a.Hidden },
	declare: func(m *titan, b *builder, l *titanLayer, i int64) {
		m.projections(b, l)
		m.mlp(b, l)
		l.attentionNorm, l.forwardNorm = b.norm("attention_norm", m.a.Hidden, false), b.norm("ffn_norm", m.a.Hidden,
			false)
		l.block = step.LlamaBlock{AttentionNorm: l.attentionNorm.w, Query: l.q.w, Key: l.k.w, Value: l.v.w,
			Out:     l.out.w,
			MLPNorm: l.forwardNorm.w, Gate: l.mlp.gate.w, Up: l.mlp.up.w, Down: l.mlp.down.w, Heads: m.heads}
	},
	attend:     (*titan).attention,
	tableWidth: func(a *Architecture) int64 { return a.HeadDim },
}

// titanQwen is torchtitan/models/qwen3/model/model.py, 0.2.0.
var titanQwen = titanKind{castsTable: true,
	takes: func(a *Architecture) bool {
		e := expertsOf(a)
		return a.QKNorm && a.SlidingWindow == 0 && (e == nil || e.Dense == nil)
	},
	declare: func(m *titan, b *builder, l *titanLayer, i int64) {
		l.qNorm, l.kNorm = b.norm("attention.q_norm", m.a.HeadDim, false), b.norm("attention.k_norm", m.a.HeadDim,
			false)
		m.projections(b, l)
		m.feed(b, l, i)
		l.attentionNorm, l.forwardNorm = b.norm("attention_norm", m.a.Hidden, false), b.norm("ffn_norm", m.a.Hidden,
			false)
	},
	attend:     (*titan).normedAttention,
	tableWidth: func(a *Architecture) int64 { return 2 * a.HeadDim },
}

// titanDeepSeek is torchtitan/models/deepseek_v3/model/model.py, 0.2.0.
var titanDeepSeek = titanKind{shares: true,
	takes: func(a *Architecture) bool { return !a.own.(*latent).attentionBias },
	declare: func(m *titan, b *builder, l *titanLayer, i int64) {
		m.latentProjections(b, l)
		l.attentionNorm, l.forwardNorm = b.norm("attention_norm", m.a.Hidden, false), b.norm("ffn_norm", m.a.Hidden,
			false)
		m.feed(b, l, i)
	},
	attend:     (*titan).latentAttention,
	tableWidth: func(a *Architecture) int64 { return a.own.(*latent).rotaryDim },
}

// titanKindOf is how torchtitan writes models of a family, nil where it has none.
func titanKindOf(f *family) *titanKind {
	switch f {
	case &llamaFamily:
		return &titanLlama
	case &qwen3Family, &qwen3MoEFamily:
		return &titanQwen
	case &deepSeekV2Family, &deepSeekV3Family:
		return &titanDeepSeek
	}
	return nil
}

// projections lists those of an attention, of which this GPU may have some of the heads.
func (m *titan) projections(b *builder, l *titanLayer) {
	d, q, kv := m.a.Hidden, m.heads.Width(), m.heads.KVWidth()
	l.q, l.k, l.v = b.linear("attention.wq", d, q, false), b.linear("attention.wk", d, kv, false),
		b.linear("attention.wv", d, kv, false)
	l.out = b.linear("attention.wo", q, d, false)
}

// mlp lists an MLP's matrices.
func (m *titan) mlp(b *builder, l *titanLayer) {
	d, f := m.a.Hidden, m.a.FFN/m.cut.tensor
	l.mlp.gate, l.mlp.down = b.linear("feed_forward.w1", d, f, false), b.linear("feed_forward.w2", f, d, false)
	l.mlp.up = b.linear("feed_forward.w3", d, f, false)
}

// feed lists what a layer has behind its attention.
func (m *titan) feed(b *builder, l *titanLayer, i int64) {
	if l.experts = m.a.titanExperts(m.cut, m.cut.layer(i)); l.experts != nil {
		l.experts.place = i + 1
		l.experts.declare(b)
		return
	}
	m.mlp(b, l)
}

// latentProjections lists those of multi-head latent attention.
func (m *titan) latentProjections(b *builder, l *titanLayer) {
	own, d, h := m.a.own.(*latent), m.a.Hidden, m.heads
	x := &titanLatent{}
	l.latent = x
	if own.queryRank == 0 {
		l.q = b.linear("attention.wq", d, h.Query*h.Dim, false)
	} else {
		x.qDown = b.linear("attention.wq_a", d, own.queryRank, false)
		x.qNorm = b.norm("attention.q_norm", own.queryRank, false)
		l.q = b.linear("attention.wq_b", own.queryRank, h.Query*h.Dim, false)
	}
	x.kvDown = b.linear("attention.wkv_a", d, own.keyValueRank+own.rotaryDim, false)
	x.kvNorm = b.norm("attention.kv_norm", own.keyValueRank, false)
	x.kvUp = b.linear("attention.wkv_b", own.keyValueRank, h.Query*(own.keyDim+own.valueDim), false)
	l.out = b.linear("attention.wo", h.Query*own.valueDim, d, false)
}

// titanLatent is what latent attention has besides.
type titanLatent struct {
	qDown, kvDown, kvUp linear
	qNorm, kvNorm       norm
}

// normedAttention is Qwen3's Attention.
func (m *titan) normedAttention(t *step.Tape, l *titanLayer, x step.T) step.T {
	entered := t.Cuts().Enter(x)
	q, k, v := l.q.forward(t, entered), l.k.forward(t, entered), l.v.forward(t, entered)
	t.Drop(entered)
	qn := t.NativeRMSNorm(q, l.qNorm.w)
	t.Drop(q)
	kn := t.NativeRMSNorm(k, l.kNorm.w)
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
	own, h := m.a.own.(*latent), m.heads
	n := t.Shape.N()
	x = t.Cuts().Enter(x)
	query := t.Hold(x)
	if own.queryRank > 0 {
		down := l.latent.qDown.forward(t, x)
		t.Drop(query)
		query = t.NativeRMSNorm(down, l.latent.qNorm.w)
		t.Drop(down)
	}
	wide := l.q.forward(t, query)
	t.Drop(query)
	plain, turning := t.Split2(wide, n*h.Query*own.keyDim)
	t.Drop(wide)
	turned := t.ComplexTurn(turning, own.rotaryDim)
	t.Drop(turning)
	q := t.JoinHeads(plain, turned)

	both := l.latent.kvDown.forward(t, x)
	narrow, turning := t.Split2(both, n*own.keyValueRank)
	t.Drop(both)
	key := t.ComplexTurn(turning, own.rotaryDim)
	t.Drop(turning)
	normed := t.StridedRMSNorm(narrow, l.latent.kvNorm.w)
	up := l.latent.kvUp.forward(t, normed)
	t.Drop(normed)
	pass, v := t.Split2(up, n*h.Query*own.keyDim)
	t.Drop(up)
	shown := t.Expand(key, h.Query)
	k := t.JoinHeads(pass, shown)
	t.Drop(shown)
	y := t.TokensFirst(t.CausalSDPA(q, k, v, h), h, false)
	out := t.Cuts().Leave(l.out.forward(t, y))
	t.Drop(y, q, k, v, pass, narrow, plain, turned, key, x)
	return out
}
