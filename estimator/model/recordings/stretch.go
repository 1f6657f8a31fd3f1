package recordings

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
		return s.again(r.N)
	case recording.Outer:
		return s.outer.again(r.N)
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

// run runs the instructions of a stretch from one place to another.
func (s *stretch) run(list []recording.Instruction, from, to int) {
	t := s.t
	var of []int
	if t.Recipe.Compile {
		of = s.origins(list)
	}
	var chosen *selecting
	if t.Recipe.SelectiveAttention {
		chosen = s.selection(list)
	}
	for i := from; i < to; i++ {
		in := &list[i]
		if chosen != nil && chosen.inside[i] {
			s.passInside(in)
			continue
		}
		s.uncast(in)
		if of != nil && !s.tokensFirst[in.Ref] && !s.copies(list, i) && s.compile(list, of, i) {
			continue
		}
		switch in.Kind {
		case recording.Open:
			if s.open(list, i) {
				i = in.Region.End
			} else {
				s.opened = in.Region
			}
		case recording.Close:
			s.close(s.opened)
		case recording.Allocate:
			if s.tokensFirst[in.Ref] {
				s.add(t.Hold(s.of(in.Ref)))
				continue
			}
			s.allocate(in)
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
			if !s.takenBack {
				t.Product(in.Bias)
			}
			s.takenBack = false
		case recording.Reduce:
			t.Reduce(over[in.Over], s.elements(in.Rows), s.elements(in.Cols), step.F32)
		case recording.CastParam:
			s.cast(in)
		case recording.Attend:
			s.attend(in.Attention, chosen)
		case recording.Part:
			s.part = in.Name
			t.In(partOf[in.Name])
		case recording.Use:
			s.edge(in.Ref)
		case recording.Leaf:
			x := s.of(in.Ref).Sized(s.elements(in.Size), recordedType(in.Type, s.half), step.NoTensor)
			s.addNode(t.Wants(x))
		case recording.Node:
			if s.leafCopy(list, i) || s.noCopy(list, i) {
				i++
				continue
			}
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

// leafCopy makes autocast's copy of a layer's input, which node i and the allocation behind it are, where there is one
// already: a layer that runs again gets a leaf, whose copy autocast keeps.
func (s *stretch) leafCopy(list []recording.Instruction, i int) bool {
	in := &list[i]
	if len(in.Edges) != 1 || in.Edges[0].Scope != recording.Input || len(in.Saved) > 0 || i+1 == len(list) {
		return false
	}
	if made := &list[i+1]; made.Kind != recording.Allocate || made.Name != "_to_copy" || made.Type != recording.Half {
		return false
	}
	y, ok := s.t.LeafCopy(s.input, step.LabelCast)
	if ok {
		s.add(y)
		s.addNode(y)
	}
	return ok
}

func (s *stretch) node(in *recording.Instruction) {
	if in.Alias { // of the value before it
		s.addNode(s.values[len(s.values)-1])
		return
	}
	s.addNode(s.replayed(in))
}

// replayed is where the gradient of a node's first output goes, which does in backward what it was seen to do.
func (s *stretch) replayed(in *recording.Instruction) step.T {
	edges, live := s.edges(in.Edges), uint64(0)
	for k, e := range edges[:min(len(edges), 64)] {
		if e.WantsGradient() {
			live |= 1 << k
		}
	}
	saved := make([]step.T, 0, len(in.Saved))
	places := make([]int, len(in.Saved))
	for i, r := range in.Saved {
		places[i] = len(saved)
		if in.OnlySaved == nil || in.OnlySaved[i] == 0 || in.OnlySaved[i]&live != 0 {
			saved = append(saved, s.of(r))
		}
	}
	b := backward{s: s, n: s.t.Replay(edges, saved), live: live, places: places}
	for i := range in.Backward {
		b.run(&in.Backward[i])
	}
	return b.n.End(in.Outputs)
}

// backward is that of a node while it is told.
type backward struct {
	s *stretch
	n step.Replayed
	// live are the inputs whose gradients are wanted, places where each saved tensor stands among those that are there.
	live   uint64
	places []int
	// absent are the registers of gradients that are not wanted, left that the last tensor was one of them.
	absent [4]uint64
	left   bool
	sized  int64 // of the view that the next line hands on
}

func (b *backward) missing(register int) bool { return b.absent[register>>6]&(1<<(register&63)) != 0 }

// take notes whether a register's tensor is there.
func (b *backward) take(in *recording.Instruction) bool {
	bit := uint64(1) << (in.N & 63)
	if b.left = in.Only != 0 && in.Only&b.live == 0; b.left {
		b.absent[in.N>>6] |= bit
	} else {
		b.absent[in.N>>6] &^= bit
	}
	return !b.left
}

func (b *backward) run(in *recording.Instruction) {
	s, n := b.s, b.n.Sized(b.sized)
	b.sized = 0
	switch in.Kind {
	case recording.ViewOf:
		b.sized = s.elements(in.Size) * recordedType(in.Type, s.half).Size()
	case recording.Take:
		if b.take(in) {
			n.Alloc(in.N, s.elements(in.Size)*recordedType(in.Type, s.half).Size(), step.LabelInputGradient)
		}
	case recording.Give:
		if !b.missing(in.N) {
			n.Free(in.N)
		}
	case recording.Multiply:
		if !b.left {
			n.Product()
		}
	case recording.Sum:
		if !b.left {
			n.Reduce(over[in.Over], s.elements(in.Rows), s.elements(in.Cols))
		}
	case recording.Embedding:
		if b.take(in) {
			n.Embedding(s.elements(in.Size), s.elements(in.Rows), s.elements(in.Cols), recordedType(in.Type, s.half))
		}
	case recording.SortIndices:
		if !b.left {
			n.Sort(s.elements(in.Size), s.elements(in.Rows))
		}
	case recording.Validate:
		n.Validate()
	case recording.Send, recording.SendView, recording.SendAgain:
		if !b.missing(in.N) {
			n.Send(in.N, in.K, in.Kind == recording.SendView, in.Kind == recording.SendAgain)
		}
	case recording.Pass, recording.PassView:
		n.Pass(in.N, in.K, in.Kind == recording.PassView)
	case recording.SendSaved:
		n.SendSaved(b.places[in.N], in.K)
	case recording.SendUnknown:
		n.SendNothing(in.K)
	}
}

// allocate is what an operation made.
func (s *stretch) allocate(in *recording.Instruction) {
	t, numel, d := s.t, s.elements(in.Size), recordedType(in.Type, s.half)
	if t.Recipe.SelectiveOps && in.Name == "mm" {
		y, taken := t.MadeProduct(numel, d)
		s.takenBack = taken
		s.add(y)
		return
	}
	s.add(t.Made(numel, d, labelOf(in.Name), s.ofEnd && s.part == "o"))
}

// attend is a call of attention, chosen what checkpointing of it alone changes.
func (s *stretch) attend(a *recording.Attention, chosen *selecting) {
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
	if !s.t.Recipe.Compile {
		h.Copies = step.BackwardCopies(a.Copies)
	}
	if chosen != nil {
		call := chosen.calls[a]
		var qkv [3]step.T
		qkv, h.Dim = call.arguments(s, a, q, k, v)
		q, k, v = qkv[0], qkv[1], qkv[2]
	}
	var mask *step.T
	if a.Mask.Scope != recording.Nowhere {
		m := s.of(a.Mask)
		if a.BooleanMask {
			m = m.Sized(m.Numel(), step.Bool, step.NoTensor)
		} else {
			m = m.Sized(m.Numel(), d, gradient(3)) // of a bias that is learned
		}
		mask = &m
	}
	y, tokensFirst := s.t.Attend(q, k, v, h, mask, batch, a.HeadsFirst, a.TokensOutermost, a.Dropout)
	if tokensFirst {
		if s.tokensFirst == nil {
			s.tokensFirst = map[recording.Ref]bool{}
		}
		s.tokensFirst[recording.Ref{Scope: recording.Own, N: len(s.values)}] = true
	}
	s.add(y)
}

// copies says whether node i and the allocation behind it are one that noCopy or leafCopy leaves out.
func (s *stretch) copies(list []recording.Instruction, i int) bool {
	in := &list[i]
	if in.Kind != recording.Node || i+1 == len(list) || list[i+1].Kind != recording.Allocate || len(in.Edges) != 1 {
		return false
	}
	return s.tokensFirst[list[i+1].Ref]
}

// noCopy passes what attention returned on, where node i and the allocation behind it are a copy with the tokens first
// that the card's kernel makes needless.
func (s *stretch) noCopy(list []recording.Instruction, i int) bool {
	in := &list[i]
	if i+1 == len(list) || list[i+1].Kind != recording.Allocate || !s.tokensFirst[list[i+1].Ref] || len(in.Edges) != 1 {
		return false
	}
	y := s.t.Hold(s.of(list[i+1].Ref))
	s.add(y)
	s.addNode(y.Attached(s.edge(in.Edges[0])))
	return true
}
