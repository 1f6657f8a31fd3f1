package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// PhiFamily is Phi 1 to 2.
var PhiFamily = arch.Family{ModelType: "phi", Classes: arch.ClassifyingLM,
	Keys: arch.CommonKeys, Build: buildPhi,
	Defaults: map[string]any{
		"vocab_size": 51200.0, "hidden_size": 2048.0, "intermediate_size": 8192.0, "num_hidden_layers": 24.0,
		"num_attention_heads": 32.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0, "attention_dropout": 0.0,
		"hidden_act":              "gelu_new",
		"max_position_embeddings": 2048.0, "use_cache": true, "tie_word_embeddings": false,
		"partial_rotary_factor": 0.5,
		"qk_layernorm":          false},
	Read: func(c *arch.Config, a arch.Architecture) arch.Architecture {
		a = blocks.ReadLlama(c, a)
		a.Gated, a.Rotary = false, false
		a.EmbeddingDropout, a.ResidualDropout = c.Probability("embd_pdrop"), c.Probability("resid_pdrop")
		a.QKVBias, a.OutBias, a.MLPBias, a.NormBias = true, true, true, true
		if a.QKNorm = c.Boolean("qk_layernorm"); a.QKNorm && a.HeadDim*a.Heads != a.Hidden {
			c.Errs.Add(c.Pointer+"/head_dim", "conflict", "qk_layernorm is as wide as hidden_size over "+
				"num_attention_heads, and head_dim is %d", a.HeadDim)
		}
		a.Own = &blocks.PartialRotary{Width: blocks.RotaryFraction(c, "partial_rotary_factor", &a, false)}
		return a
	},
	Spelled: map[string]string{"residual_dropout": "resid_pdrop", "embedding_dropout": "embd_pdrop"}}

// phi is transformers' PhiForCausalLM (modeling_phi.py, 4.57).
type phi struct {
	a        *arch.Architecture
	embed    step.Weight
	head     arch.Linear
	layers   []phiLayer
	final    arch.Norm
	mask     *step.T
	cos, sin step.T
	cache    []step.T
}

type phiLayer struct {
	q, k, v, dense, fc1, fc2 arch.Linear
	qNorm, kNorm, inputNorm  arch.Norm
}

func buildPhi(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	m := &phi{a: a, layers: make([]phiLayer, b.Recorded)}
	m.embed = b.Embedding("embed_tokens", a.Vocabulary, d)
	b.StackAt("model.layers", func(i int64) {
		l := &m.layers[i]
		l.q, l.k = b.Linear("self_attn.q_proj", d, q, true), b.Linear("self_attn.k_proj", d, kv, true)
		l.v, l.dense = b.Linear("self_attn.v_proj", d, kv, true), b.Linear("self_attn.dense", q, d, true)
		if a.QKNorm {
			l.qNorm, l.kNorm = b.Norm("self_attn.q_layernorm", a.HeadDim, true),
				b.Norm("self_attn.k_layernorm", a.HeadDim, true)
		}
		l.fc1, l.fc2 = b.Linear("mlp.fc1", d, a.FFN, true), b.Linear("mlp.fc2", a.FFN, d, true)
		l.inputNorm = b.Norm("input_layernorm", d, true)
	})
	b.Frequencies("rotary_emb.", blocks.Rotary(a).Width/2)
	m.final = b.Norm("final_layernorm", d, true)
	m.head = blocks.DecoderHead(b, "lm_head", d, true)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *phi) Batch(t *step.Tape) []step.T { return blocks.EncoderBatch(t, m.a) }

func (m *phi) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.SumsAgain()
	t.In(step.PartEmbedding)
	tokens := t.Embedding(ids, m.embed, step.LabelEmbedding)
	positions := blocks.PositionNumbers(t)
	m.mask = blocks.CausalMask(t, 0, tokens.Dtype())
	embedded := t.Dropout(tokens, m.a.EmbeddingDropout)
	t.Drop(tokens)
	m.cos, m.sin = blocks.RotaryTables(t, blocks.Rotary(m.a).Width, embedded.Dtype())

	locals := []step.T{positions, m.cos, m.sin}
	if m.mask != nil {
		locals = append(locals, *m.mask)
	}
	x := blocks.RunLayers(t, m.a, len(m.layers), t.Hold(embedded), step.Besides{Captured: locals}, m.layer)

	t.In(step.PartNorm)
	normed := m.final.Layer(t, x)
	t.Drop(x, embedded)
	t.Drop(locals...)
	return blocks.DecoderOutputs(t, m.a, m.head, normed, labels, m.cache)
}

// layer is attention(norm(x)) + mlp(norm(x)) + x, with one norm.
func (m *phi) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	h := l.inputNorm.Layer(t, x)
	t.In(step.PartAttention)
	out, probabilities := m.attention(t, l, h)
	attn := t.Dropout(out, m.a.ResidualDropout)
	t.Drop(out)
	t.In(step.PartMLP)
	down := m.mlp(t, l, h)
	mlp := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	t.In(step.PartNorm)
	both := t.Add(attn, mlp, step.LabelResidual)
	y := t.Add(both, x, step.LabelResidual)
	t.Drop(both, h, attn, mlp)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// attention returns its output and, where they are formed, the probabilities.
func (m *phi) attention(t *step.Tape, l *phiLayer, x step.T) (step.T, *step.T) {
	heads, p := m.a.Geometry(), blocks.Rotary(m.a)
	several := heads.KV > 1
	q := t.Heads(l.q.Forward(t, x), heads.Query > 1)
	k := t.Heads(l.k.Forward(t, x), several)
	v := t.Heads(l.v.Forward(t, x), several && t.CopiesKVGradient(heads, m.mask != nil, t.Recipe.UseCache))
	if m.a.QKNorm {
		qn := t.HeadsNorm(q, l.qNorm.W, l.qNorm.B)
		t.Drop(q)
		kn := t.HeadsNorm(k, l.kNorm.W, l.kNorm.B)
		t.Drop(k)
		q, k = qn, kn
	}
	qs, ks := p.Split(t, q, heads.Dim), p.Split(t, k, heads.Dim)
	qe, ke := t.Rotary(qs.Turned, m.cos, m.sin), t.Rotary(ks.Turned, m.cos, m.sin)
	qr := t.JoinHeads(qe, qs.Rest)
	t.Drop(q)
	kr := t.JoinHeads(ke, ks.Rest)
	t.Drop(k)
	k, v = blocks.AppendKV(t, &m.cache, kr, v)
	y, probabilities := blocks.Attend(t, m.a, m.mask, qr, k, v)
	out := l.dense.Forward(t, y)
	t.Drop(y, qr, k, v, qe, ke)
	qs.Drop(t)
	ks.Drop(t)
	return out, probabilities
}

func (m *phi) mlp(t *step.Tape, l *phiLayer, x step.T) step.T {
	up := l.fc1.Forward(t, x)
	act := arch.Activation(t, m.a.Activation, up)
	t.Drop(up)
	down := l.fc2.Forward(t, act)
	t.Drop(act)
	return down
}

func (m *phi) PlainHead() bool { return !m.a.Classes() }
