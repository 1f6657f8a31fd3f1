package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/step"
)

// OPTFamily is OPT.
var OPTFamily = arch.Family{ModelType: "opt", Classes: arch.ScoringLM,
	Keys: arch.FieldNames{Heads: "num_attention_heads", Hidden: "hidden_size", KV: "num_attention_heads",
		Dim: "hidden_size"},
	Defaults: map[string]any{
		"vocab_size": 50272.0, "hidden_size": 768.0, "num_hidden_layers": 12.0, "ffn_dim": 3072.0,
		"max_position_embeddings": 2048.0,
		"do_layer_norm_before":    true, "_remove_final_layer_norm": false, "dropout": 0.1, "attention_dropout": 0.0,
		"num_attention_heads": 12.0, "activation_function": "relu", "layerdrop": 0.0, "use_cache": true,
		"enable_bias":                   true,
		"layer_norm_elementwise_affine": true, "tie_word_embeddings": true},
	Read: readOPT,
	Spelled: map[string]string{"intermediate_size": "ffn_dim", "attention_bias": "enable_bias",
		"residual_dropout": "dropout"},
	Numbers: func(p *arch.Preset, c map[string]any) {
		c["do_layer_norm_before"] = p.FinalNorm
		if p.WordEmbeddingWidth > 0 {
			c["word_embed_proj_dim"] = float64(p.WordEmbeddingWidth)
		}
	},
	Build: buildOPT,
}

// optOptions is what only OPT's configuration says.
type optOptions struct {
	// width is that of the token embedding, from and to which other widths are projected.
	width int64
	// postNorm puts the norms behind attention and MLP; noFinalNorm leaves out the one behind the layers.
	postNorm, noFinalNorm bool
}

// optOffset is by how much positions are shifted in the table, which has that many rows more.
const optOffset = 2

func readOPT(c *arch.Config, a arch.Architecture) arch.Architecture {
	a.Layers = c.Integer("num_hidden_layers", arch.MaxLayers)
	a.Hidden = c.Integer("hidden_size", arch.MaxWidth)
	a.Heads = c.Integer("num_attention_heads", arch.MaxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.Integer("ffn_dim", arch.MaxRows)
	a.Vocabulary = c.Integer("vocab_size", arch.MaxRows)
	a.MaxPositions = c.Integer("max_position_embeddings", arch.MaxRows)
	a.LearnedPositions, a.WholeLogits = true, true
	a.Activation = c.Activation("activation_function", "relu", "gelu", "gelu_new", "gelu_pytorch_tanh", "silu", "swish")
	a.ResidualDropout, a.AttentionDropout = c.Probability("dropout"), c.Probability("attention_dropout")
	a.UseCache, a.Tied = c.Boolean("use_cache"), c.Boolean("tie_word_embeddings")
	a.QKVBias = c.Boolean("enable_bias")
	a.OutBias, a.MLPBias, a.NormBias = a.QKVBias, a.QKVBias, true
	own := optOptions{width: c.Optional("word_embed_proj_dim", arch.MaxWidth), postNorm: !c.Boolean("do_layer_norm_before"),
		noFinalNorm: c.Boolean("_remove_final_layer_norm")}
	if own.width == 0 {
		own.width = a.Hidden
	}
	a.Own = own
	if float64(own.width)*float64(a.Vocabulary+a.Hidden) > arch.MaxParameters {
		c.Errs.Add(c.Pointer+"/word_embed_proj_dim", "too_large", "the embedding would have %.1e parameters",
			float64(own.width)*float64(a.Vocabulary))
	}
	if !c.Boolean("layer_norm_elementwise_affine") {
		c.Errs.Add(c.Pointer+"/layer_norm_elementwise_affine", "unsupported",
			"norms without weights are not modelled; transformers itself fails to initialise them")
	}
	if c.Probability("layerdrop") > 0 {
		c.Errs.Add(c.Pointer+"/layerdrop", "unsupported", "layers that are left out at random are not modelled; "+
			"set layerdrop to 0")
	}
	return a
}

// HeadWidth is that of the embedding, which the head shares.
func (o optOptions) HeadWidth() int64 { return o.width }

// opt is transformers' OPTForCausalLM (modeling_opt.py, 4.57).
type opt struct {
	a                     *arch.Architecture
	own                   optOptions
	embed, positions      step.Weight
	head                  arch.Linear
	projectOut, projectIn arch.Linear
	final                 arch.Norm
	layers                []optLayer
	mask                  *step.T
	cache                 []step.T
}

type optLayer struct {
	k, v, q, out             arch.Linear
	fc1, fc2                 arch.Linear
	attentionNorm, finalNorm arch.Norm
}

func buildOPT(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	m := &opt{a: a, own: a.Own.(optOptions), layers: make([]optLayer, b.Recorded)}
	m.embed, m.positions = b.Embedding("embed_tokens", a.Vocabulary, m.own.width),
		b.Embedding("embed_positions", a.MaxPositions+optOffset, d)
	if m.projects() {
		m.projectOut, m.projectIn = b.Linear("project_out", d, m.own.width, false),
			b.Linear("project_in", m.own.width, d, false)
	}
	if m.normsLast() {
		m.final = b.Norm("final_layer_norm", d, true)
	}
	b.StackAt("model.decoder.layers", func(i int64) {
		l := &m.layers[i]
		l.k, l.v = b.Linear("self_attn.k_proj", d, d, a.QKVBias), b.Linear("self_attn.v_proj", d, d, a.QKVBias)
		l.q, l.out = b.Linear("self_attn.q_proj", d, d, a.QKVBias), b.Linear("self_attn.out_proj", d, d, a.OutBias)
		l.attentionNorm = b.Norm("self_attn_layer_norm", d, true)
		l.fc1, l.fc2 = b.Linear("fc1", d, a.FFN, a.MLPBias), b.Linear("fc2", a.FFN, d, a.MLPBias)
		l.fc1.Matrix, l.fc2.Matrix = true, true
		l.finalNorm = b.Norm("final_layer_norm", d, true)
	})
	m.head = blocks.DecoderHead(b, "lm_head", m.own.width, false)
	return m
}

// projects says whether tokens are embedded in another width than that of the layers.
func (m *opt) projects() bool { return m.own.width != m.a.Hidden }

func (m *opt) normsLast() bool { return !m.own.postNorm && !m.own.noFinalNorm }

// Batch is input_ids, attention_mask and labels.
func (m *opt) Batch(t *step.Tape) []step.T { return blocks.EncoderBatch(t, m.a) }

func (m *opt) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	if !m.own.postNorm {
		t.SumsAgain()
	}
	t.In(step.PartEmbedding)
	embedded := t.Embedding(ids, m.embed, step.LabelEmbedding)
	var order, positions step.T
	if t.Recipe.Software.Has(blocks.MasksByLibrary) {
		order, positions = step.NoTensor, blocks.MaskPositions(t)
		m.mask = blocks.CausalMask(t, 0, embedded.Dtype())
	} else {
		order = t.Input(t.Shape.Tokens, step.I64) // cache_position
		m.mask = blocks.TriangularMask(t, embedded.Dtype())
		positions = blocks.MaskPositions(t)
	}
	shifted := t.Input(positions.Numel(), step.I64)
	learned := t.Embedding(shifted, m.positions, step.LabelPositions)
	t.Drop(shifted)
	if m.projects() {
		projected := m.projectIn.Forward(t, embedded)
		t.Drop(embedded)
		embedded = projected
	}
	x := t.Add(embedded, learned, step.LabelEmbedding)

	captured := []step.T{order, positions}
	if m.mask != nil {
		captured = append(captured, *m.mask)
	}
	x = blocks.RunLayers(t, m.a, len(m.layers), x, step.Besides{Captured: captured}, m.layer)

	t.In(step.PartNorm)
	if m.normsLast() {
		normed := m.final.Layer(t, x)
		t.Drop(x)
		x = normed
	}
	if m.projects() {
		projected := m.projectOut.Forward(t, x)
		t.Drop(x)
		x = projected
	}
	t.Drop(embedded, learned)
	for _, c := range captured {
		t.Drop(c)
	}
	return blocks.DecoderOutputs(t, m.a, m.head, x, labels, m.cache)
}

func (m *opt) layer(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	t.In(step.PartNorm)
	h := t.Hold(x)
	if !m.own.postNorm {
		h = m.normed(t, l.attentionNorm, h)
	}
	t.In(step.PartAttention)
	attn, probabilities := m.attention(t, l, h)
	t.Drop(h)
	t.In(step.PartNorm)
	middle := m.residual(t, x, attn)
	if m.own.postNorm {
		middle = m.normed(t, l.attentionNorm, middle)
	}

	middle = t.View(middle) // one row for each token of the batch
	h = t.Hold(middle)
	if !m.own.postNorm {
		h = m.normed(t, l.finalNorm, h)
	}
	t.In(step.PartMLP)
	mlp := m.mlp(t, l, h)
	t.In(step.PartNorm)
	y := t.View(m.residual(t, middle, mlp))
	if m.own.postNorm {
		y = m.normed(t, l.finalNorm, y)
	}
	t.Drop(middle)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	return y
}

// normed is n(x) where x is a variable that the result is assigned to.
func (m *opt) normed(t *step.Tape, n arch.Norm, x step.T) step.T {
	y := n.Layer(t, x)
	t.Drop(x)
	return y
}

// residual is x + dropout(y). It takes over y.
func (m *opt) residual(t *step.Tape, x, y step.T) step.T {
	dropped := t.DropoutFunction(y, m.a.ResidualDropout)
	t.Drop(y)
	sum := t.Add(x, dropped, step.LabelResidual)
	t.Drop(dropped)
	return sum
}

// attention is OPTAttention. It also returns the probabilities where they are formed and the layer gets them.
func (m *opt) attention(t *step.Tape, l *optLayer, x step.T) (step.T, *step.T) {
	heads := m.a.Geometry()
	written := t.WritesOut(heads, false)
	projected := l.q.Forward(t, x)
	scaled := t.MulScalar(projected, step.LabelLinear)
	t.Drop(projected)
	q := t.Heads(scaled, t.CopiesQueryGradient(heads, m.mask != nil))
	copied := t.CopiesKVGradient(heads, m.mask != nil, t.Recipe.UseCache)
	// The gradient comes transposed, and is copied only where the sequences of a batch have to be joined.
	k := l.k.Keys(t, x, written && t.Shape.Batch > 1)
	v := l.v.Forward(t, x)
	k, v = t.Heads(k, copied && !written), t.Heads(v, copied)
	k, v = blocks.AppendKV(t, &m.cache, k, v)
	y, probabilities := blocks.Attend(t, m.a, m.mask, q, k, v)
	out := l.out.Forward(t, y)
	t.Drop(y, q, k, v)
	if probabilities != nil && !t.Recipe.Software.Has(blocks.ReturnsProbabilities) {
		t.Drop(*probabilities)
		probabilities = nil
	}
	return out, probabilities
}

// mlp takes over x.
func (m *opt) mlp(t *step.Tape, l *optLayer, x step.T) step.T {
	up := l.fc1.Forward(t, x)
	t.Drop(x)
	act := arch.Activation(t, m.a.Activation, up)
	t.Drop(up)
	down := l.fc2.Forward(t, act)
	t.Drop(act)
	return down
}

func (m *opt) PlainHead() bool { return !m.a.Classes() }
