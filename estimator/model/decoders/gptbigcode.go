package decoders

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/blocks"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// GPTBigCodeFamily is GPT-2 with one head of keys and values, as StarCoder has it.
var GPTBigCodeFamily = arch.Family{ModelType: "gpt_bigcode", Classes: arch.ClassifyingLM, OwnClasses: true,
	Keys: arch.FieldNames{Heads: "n_head", Hidden: "n_embd", KV: "n_head", Dim: "n_embd"},
	Defaults: map[string]any{
		"vocab_size": 50257.0, "n_positions": 1024.0, "n_embd": 768.0, "n_layer": 12.0, "n_head": 12.0,
		"activation_function": "gelu_pytorch_tanh", "resid_pdrop": 0.1, "embd_pdrop": 0.1, "attn_pdrop": 0.1,
		"multi_query": true, "use_cache": true, "tie_word_embeddings": true},
	Read:    readGPTBigCode,
	Spelled: gpt2Spelled,
	Numbers: func(p *arch.Preset, c map[string]any) { c["multi_query"] = p.KVHeads == 1 },
	Build:   buildGPTBigCode,
}

// readGPTBigCode reads GPT-2's keys, and whether all queries share one head of keys and values. What is said of the
// softmax's type has no effect any more.
func readGPTBigCode(c *arch.Config, a arch.Architecture) arch.Architecture {
	a.WholeLogits = true
	a = readGPT2(c, a)
	if c.Boolean("multi_query") {
		a.KVHeads = 1
	}
	a.NeverCheckpoints = true
	return a
}

// readGPTBigCode is transformers' GPTBigCodeForCausalLM (modeling_gpt_bigcode.py, 4.57).
type gptBigCode struct {
	a                *arch.Architecture
	embed, positions step.Weight
	head             arch.Linear
	layers           []gpt2Block
	final            arch.Norm
	mask             *step.T
	cache            []step.T
}

func buildGPTBigCode(b *arch.Builder) step.Network {
	a, d := b.A, b.A.Hidden
	m := &gptBigCode{a: a, layers: make([]gpt2Block, b.Recorded)}
	m.embed, m.positions = b.Embedding("wte", a.Vocabulary, d), b.Embedding("wpe", a.MaxPositions, d)
	b.StackAt("transformer.h", func(i int64) {
		l := &m.layers[i]
		l.ln1 = b.Norm("ln_1", d, true)
		l.qkv, l.out = b.Linear("attn.c_attn", d, d+2*a.KVHeads*a.HeadDim, true), b.Linear("attn.c_proj", d, d, true)
		l.ln2 = b.Norm("ln_2", d, true)
		l.up, l.down = b.Linear("mlp.c_fc", d, a.FFN, true), b.Linear("mlp.c_proj", a.FFN, d, true)
	})
	m.final = b.Norm("ln_f", d, true)
	b.Buffer("bias", a.BufferSide*a.BufferSide, step.Bool)
	m.head = blocks.DecoderHead(b, "lm_head", d, false)
	return m
}

// Batch is input_ids, attention_mask and labels.
func (m *gptBigCode) Batch(t *step.Tape) []step.T { return blocks.EncoderBatch(t, m.a) }

func (m *gptBigCode) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	ids, labels := batch[0], batch[2]
	m.cache = nil
	t.In(step.PartEmbedding)
	tokens := t.Embedding(ids, m.embed, step.LabelEmbedding)
	positions := blocks.PositionNumbers(t)
	m.mask = blocks.CausalMask(t, 0, tokens.Dtype())
	learned := t.Embedding(positions, m.positions, step.LabelPositions)
	sum := t.Add(tokens, learned, step.LabelEmbedding)
	x := t.Dropout(sum, m.a.EmbeddingDropout)
	t.Drop(sum)
	var besides step.Besides
	if m.mask != nil {
		besides.Arguments = []step.T{*m.mask}
	}
	x, probabilities := blocks.RunPairs(t, m.a, len(m.layers), x, besides, m.block)

	t.In(step.PartNorm)
	normed := m.final.Layer(t, x)
	t.Drop(x)
	if probabilities != nil {
		t.Drop(*probabilities)
	}
	t.Drop(tokens, learned, positions)
	if m.mask != nil {
		t.Drop(*m.mask)
	}
	return blocks.DecoderOutputs(t, m.a, m.head, normed, labels, m.cache)
}

// returnsStatesAlone lets the probabilities of gpt_bigcode's attention go with the block that formed them.
var returnsStatesAlone = release.Declare("returns-states-alone", release.Change{
	Library: "transformers", After: "4.57", From: "5.10",
	What: "a block of gpt_bigcode in transformers 5.10 returns its hidden states alone: the probabilities of eager " +
		"attention go when it ends, not when the next one does",
	Source: "models/gpt_bigcode/modeling_gpt_bigcode.py (GPTBigCodeBlock.forward), 4.57.6 and 5.23.0",
	Shown:  "traces of checkpointed gpt_bigcode with eager attention",
})

func (m *gptBigCode) block(t *step.Tape, i int, x step.T) step.T {
	l := &m.layers[i]
	y, probabilities := gpt2Sums(t, l.ln1, l.ln2, x,
		func(h step.T) (step.T, *step.T) { return m.attention(t, l, h) },
		func(h step.T) step.T { return m.mlp(t, l, h) })
	if probabilities != nil && t.Recipe.Software.Has(returnsStatesAlone) {
		t.Drop(*probabilities)
	}
	return y
}

// attention returns its output and, where they are formed, the probabilities, which the block hands on in former
// releases.
func (m *gptBigCode) attention(t *step.Tape, l *gpt2Block, x step.T) (step.T, *step.T) {
	q, k, v := m.split(t, l.qkv.Forward(t, x))
	k, v = blocks.AppendKV(t, &m.cache, k, v)
	y, probabilities := blocks.Attend(t, m.a, m.mask, q, k, v)
	if probabilities != nil && !t.Recipe.Software.Has(returnsStatesAlone) {
		t.AlsoReturns(*probabilities)
	}
	out := l.out.Forward(t, y)
	t.Drop(y)
	dropped := t.Dropout(out, m.a.ResidualDropout)
	t.Drop(out, q, k, v)
	return dropped, probabilities
}

// handsOnProjections lets checkpointed layers of gpt_bigcode return keys and values, too, which are views of all that
// the projection of queries, keys and values made.
var handsOnProjections = arch.Of(func(a *arch.Architecture, by arch.Use) bool {
	return a.Family == "gpt_bigcode" && by.Checkpoints
}, release.Declare("hands-on-projections", release.Change{
	Library: "transformers", To: "4.53",
	What: "transformers before 4.53 keeps a key/value cache of checkpointed layers of gpt_bigcode: views of what the " +
		"projection of queries, keys and values made, all of which stays",
	Source: "models/gpt_bigcode/modeling_gpt_bigcode.py (GPTBigCodeAttention.forward: present; " +
		"GPTBigCodeModel.forward: presents), 4.48.1, 4.52.4 and 4.53.3",
	Shown: "traces of gpt_bigcode on 4.48.1",
}))

// split takes over qkv. Several heads of keys and values lie beside their queries.
func (m *gptBigCode) split(t *step.Tape, qkv step.T) (q, k, v step.T) {
	kv := t.Shape.N() * m.a.KVHeads * m.a.HeadDim
	if m.a.KVHeads == m.a.Heads {
		qkv = t.Heads(qkv, m.a.Heads > 1)
	}
	q, k, v = t.SplitHeads(qkv, kv)
	if t.Recipe.Software.Has(handsOnProjections) && m.a.UseCache && t.Recipe.CheckpointEvery > 0 && !t.Reruns() {
		m.cache = append(m.cache, t.Hold(qkv))
	}
	t.Drop(qkv)
	if m.a.KVHeads < m.a.Heads {
		q = t.Heads(q, t.CopiesQueryGradient(m.a.Geometry(), m.mask != nil))
	}
	return q, k, v
}

func (m *gptBigCode) mlp(t *step.Tape, l *gpt2Block, x step.T) step.T {
	up := l.up.Forward(t, x)
	act := arch.Activation(t, m.a.Activation, up)
	t.Drop(up)
	down := l.down.Forward(t, act)
	t.Drop(act)
	dropped := t.Dropout(down, m.a.ResidualDropout)
	t.Drop(down)
	return dropped
}

func (m *gptBigCode) PlainHead() bool { return !m.a.Classes() }
