package arch

import "github.com/vramplan/vramplan/estimator/step"

// QKVAdapter declares the adapter for the named parts of the given widths; nil where none is asked for.
func (b *Builder) QKVAdapter(names []string, widths []int64, in int64) *adapter {
	l := b.A.LoRA
	if l == nil {
		return nil
	}
	var rows []int64
	var adapted, width int64
	for i, name := range names {
		b.linears = append(b.linears, name)
		width += widths[i]
		if l.Adapts(name) {
			rows = append(rows, widths[i])
			adapted += widths[i]
		}
	}
	if len(rows) == 0 {
		return nil
	}
	b.adapted++
	m := &adapter{magnitude: step.NoWeight, dropout: l.Dropout, parts: rows, width: width, castless: true}
	declare := func(part string, rows, cols int64) step.Weight {
		p := step.Parameter{Name: "self_attn.qkv" + part, Numel: rows * cols, Rows: rows, Cols: cols, Dtype: l.Dtype,
			Loading: l.adding()}
		return step.Weight{Index: b.Declare(p), Rows: rows, Cols: cols}
	}
	m.down, m.up = declare(".lora_A", l.Rank*int64(len(rows)), in), declare(".lora_B", adapted, l.Rank)
	return m
}

// besideParts is LoRAQKVLinear: lora_B of each part, put where the part is in the layer's output.
func (m *adapter) besideParts(t *step.Tape, base *Linear, x step.T) step.T {
	pretrained := base.base(t, x)
	dropped := t.Dropout(x, m.dropout)
	low := t.Linear(dropped, m.down, step.NoWeight, step.LabelAdapter)
	t.Drop(dropped)
	up := t.ConvolvedParts(low, m.up, m.parts)
	padded := t.Hold(up)
	if m.width != m.up.Rows {
		t.Drop(padded)
		padded = t.IndexCopy(up, up.Numel()/m.up.Rows*m.width, m.up.Rows)
	}
	delta := t.MulScalar(padded, step.LabelAdapter)
	t.Drop(padded)
	y := t.Add(pretrained, delta, step.LabelLinear)
	t.Drop(pretrained, low, up, delta)
	return y
}
