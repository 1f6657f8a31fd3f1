package model

import (
	"github.com/vramplan/vramplan/estimator/recording"
	"github.com/vramplan/vramplan/estimator/step"
)

func (s *stretch) add(x step.T) {
	s.values, s.kept = append(s.values, x), append(s.kept, true)
}

// of is the value that a reference means.
func (s *stretch) of(r recording.Ref) step.T {
	switch r.Scope {
	case recording.Own:
		return s.values[r.N]
	case recording.Outer:
		return s.outer.values[r.N]
	case recording.Input:
		return s.input
	}
	return step.NoTensor
}

// edge is where a gradient goes, as a tensor.
func (s *stretch) edge(r recording.Ref) step.T {
	switch r.Scope {
	case recording.Own:
		return s.nodes[r.N].Sibling(r.Out)
	case recording.Outer:
		return s.outer.nodes[r.N].Sibling(r.Out)
	case recording.Input:
		return s.input
	case recording.Model:
		return s.t.Parameter(s.model[r.N])
	case recording.Layer:
		return s.t.Parameter(s.layer[r.N])
	}
	return step.NoTensor
}

func (s *stretch) edges(refs []recording.Ref) []step.T {
	list := make([]step.T, len(refs))
	for i, r := range refs {
		list[i] = s.edge(r)
	}
	return list
}

func (s *stretch) elements(z recording.Size) int64 { return z.Elements(s.b, s.n) }

// run runs the instructions of a stretch.
func (s *stretch) run(list []recording.Instruction) {
	t := s.t
	for i := range list {
		in := &list[i]
		switch in.Kind {
		case recording.Allocate:
			s.add(t.Made(s.elements(in.Size), recordedType(in.Type, s.half), labelOf(in.Name), s.ofEnd &&
				s.part == "o"))
			if s.stays[in.N] {
				t.KeptByModel(s.values[in.N])
				s.kept[in.N] = false
			}
		case recording.Free:
			t.Drop(s.of(in.Ref))
			if in.Ref.Scope == recording.Own {
				s.kept[in.Ref.N] = false
			}
		case recording.Product:
			t.Product(in.Bias)
		case recording.Reduce:
			t.Reduce(over[in.Over], s.elements(in.Rows), s.elements(in.Cols), step.F32)
		case recording.CastParam:
			w := s.model
			if in.Ref.Scope == recording.Layer {
				w = s.layer
			}
			x := t.HalfCopy(w[in.Ref.N])
			s.add(x)
			s.kept[len(s.kept)-1] = false
			t.Drop(x)
		case recording.Attend:
			s.attend(in.Attention)
		case recording.Part:
			s.part = in.Name
			t.In(partOf[in.Name])
		case recording.Node:
			s.node(in)
		}
	}
}

var over = [...]step.Over{recording.OverRows: step.OverRows, recording.OverColumns: step.OverCols,
	recording.OverAll: step.OverAll}

var partOf = map[string]step.Part{"a": step.PartAttention, "m": step.PartMLP, "n": step.PartNorm,
	"e": step.PartEmbedding, "o": step.PartNorm}

// labelOf says what the results of an operation are.
func labelOf(name string) step.Label {
	switch name {
	case "addmm", "mm", "bmm", "baddbmm":
		return step.LabelLinear
	case "embedding":
		return step.LabelEmbedding
	case "native_layer_norm":
		return step.LabelNormOutput
	case "native_dropout":
		return step.LabelDropout
	case "_softmax":
		return step.LabelAttentionProbabilities
	case "_log_softmax":
		return step.LabelLogProbabilities
	case "_to_copy":
		return step.LabelCast
	case "clone":
		return step.LabelContiguous
	}
	return step.LabelElementwise
}

func (s *stretch) node(in *recording.Instruction) {
	if in.Alias { // of the value before it
		s.nodes = append(s.nodes, s.values[len(s.values)-1])
		return
	}
	saved := make([]step.T, len(in.Saved))
	for i, r := range in.Saved {
		saved[i] = s.of(r)
	}
	n := s.t.Replay(s.edges(in.Edges), saved)
	sized := int64(0) // of the view that the next line hands on
	for i := range in.Backward {
		b := &in.Backward[i]
		if b.Kind == recording.ViewOf {
			sized = s.elements(b.Size) * recordedType(b.Type, s.half).Size()
			continue
		}
		s.backward(n.Sized(sized), b)
		sized = 0
	}
	s.nodes = append(s.nodes, n.End(in.Outputs))
}

func (s *stretch) backward(n step.Replayed, b *recording.Instruction) {
	switch b.Kind {
	case recording.Take:
		n.Alloc(b.N, s.elements(b.Size)*recordedType(b.Type, s.half).Size(), step.LabelInputGradient)
	case recording.Give:
		n.Free(b.N)
	case recording.Multiply:
		n.Product()
	case recording.Sum:
		n.Reduce(over[b.Over], s.elements(b.Rows), s.elements(b.Cols))
	case recording.Embedding:
		n.Embedding(s.elements(b.Size), s.elements(b.Rows), s.elements(b.Cols), recordedType(b.Type, s.half))
	case recording.Validate:
		n.Validate()
	case recording.Send, recording.SendView, recording.SendAgain:
		n.Send(b.N, b.K, b.Kind == recording.SendView, b.Kind == recording.SendAgain)
	case recording.Pass, recording.PassView:
		n.Pass(b.N, b.K, b.Kind == recording.PassView)
	case recording.SendSaved:
		n.SendSaved(b.N, b.K)
	case recording.SendUnknown:
		n.SendNothing(b.K)
	}
}

// attend is a call of attention.
func (s *stretch) attend(a *recording.Attention) {
	batch, queries, keys := s.elements(a.Batch), s.elements(a.Queries), s.elements(a.Keys)
	d := s.half
	gradient := func(i int) step.T {
		if i < len(a.Edges) {
			return s.edge(a.Edges[i])
		}
		return step.NoTensor
	}
	q := s.of(a.Query).Sized(batch*a.Heads*queries*a.Width, d, gradient(0))
	k := s.of(a.Key).Sized(batch*a.KVHeads*keys*a.Width, d, gradient(1))
	v := s.of(a.Value).Sized(batch*a.KVHeads*keys*a.ValueWidth, d, gradient(2))
	h := step.Heads{Query: a.Heads, KV: a.KVHeads, Dim: a.Width, Value: a.ValueWidth, Queries: queries, Keys: keys,
		Drops: a.Dropout > 0}
	if h.Value == h.Dim {
		h.Value = 0
	}
	var mask *step.T
	if a.Mask.Scope != recording.Nowhere {
		m := s.of(a.Mask)
		if a.BooleanMask {
			m = m.Sized(m.Numel(), step.Bool, step.NoTensor)
		} else {
			m = m.Sized(m.Numel(), d, step.NoTensor)
		}
		mask = &m
	}
	s.add(s.t.Attend(q, k, v, h, mask, batch, a.HeadsFirst, a.Dropout))
}
