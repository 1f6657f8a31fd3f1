package model

import "github.com/vramplan/vramplan/estimator/step"

// What litgpt writes otherwise than transformers: one linear layer makes queries, keys and values, and attention keeps
// the values as a view of its whole output, unless grouped ones are repeated first. With LoRA that layer has one
// adapter, whose input is dropped out once and whose output is scattered over the parts that were asked for. Sources:
// litgpt/model.py (CausalSelfAttention), litgpt/lora.py (LoRAQKVLinear), litgpt 0.4.

// fuses says whether the model is written as litgpt does.
func (b *builder) fuses() bool { return b.a.LitGPT && !b.a.QKNorm }

// qkv declares the one linear layer, as long as l is like litgpt's.
func (b *builder) qkv(l *decoderLayer) {
	a, d := b.a, b.a.Hidden
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	l.parts = true
	l.qkv.w, l.qkv.b = b.pair("self_attn.qkv", q+2*kv, d, a.QKVBias)
	l.qkv.quantised = b.quantise(l.qkv.w)
	l.qkv.adapter = b.qkvAdapter([]string{"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
		[]int64{q, kv, kv}, d)
	l.out = b.linear("self_attn.o_proj", q, d, a.OutBias)
}

// qkvAdapter declares the adapter for the named parts of the given widths; nil where none is asked for.
func (b *builder) qkvAdapter(names []string, widths []int64, in int64) *adapter {
	l := b.a.LoRA
	if l == nil {
		return nil
	}
	var groups, adapted, width int64
	for i, name := range names {
		b.linears = append(b.linears, name)
		width += widths[i]
		if l.adapts(name) {
			groups++
			adapted += widths[i]
		}
	}
	if groups == 0 {
		return nil
	}
	b.adapted++
	m := &adapter{magnitude: step.NoWeight, dropout: l.Dropout, groups: groups, width: width, castless: true}
	declare := func(part string, rows, cols int64) step.Weight {
		p := step.Parameter{Name: "self_attn.qkv" + part, Numel: rows * cols, Rows: rows, Cols: cols, Dtype: l.Dtype,
			Loading: l.adding()}
		return step.Weight{Index: b.declare(p), Rows: rows, Cols: cols}
	}
	m.down, m.up = declare(".lora_A", l.Rank*groups, in), declare(".lora_B", adapted, l.Rank)
	return m
}

// projectParts is queries, keys and values as views of one tensor; grouped keys and values are repeated for every
// query.
func (m *decoder) projectParts(t *step.Tape, l *decoderLayer, w *around, x step.T) (q, k, v step.T) {
	heads := m.a.geometry()
	qkv := l.qkv.forward(t, x)
	n := qkv.Numel() / (heads.Query + 2*heads.KV)
	q, k, v = t.Slice(qkv, n*heads.Query), t.Slice(qkv, n*heads.KV), t.Slice(qkv, n*heads.KV)
	t.Drop(qkv)
	for _, x := range [...]*step.T{&k, &v} {
		repeated := t.RepeatKV(*x, heads)
		t.Drop(*x)
		*x = repeated
	}
	return q, k, v
}

// scattered is lora_B of each part, put where the part is in the layer's output. It takes over low.
func (m *adapter) scattered(t *step.Tape, low step.T) step.T {
	up := t.GroupedProduct(low, m.up, m.groups)
	t.Drop(low)
	if m.width == m.up.Rows {
		return up
	}
	y := t.IndexCopy(up, up.Numel()/m.up.Rows*m.width)
	t.Drop(up)
	return y
}
