package recordings

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/recording"
	"github.com/vramplan/vramplan/estimator/step"
)

// origins are those of a list.
func (s *stretch) origins(list []recording.Instruction) []int {
	if len(list) == 0 {
		return nil
	}
	of := s.m.origins[&list[0]]
	if of == nil {
		if s.m.origins == nil {
			s.m.origins = map[*recording.Instruction][]int{}
		}
		of = originsOf(list)
		s.m.origins[&list[0]] = of
	}
	return of
}

// addNode appends the first output of a node, which is the gradient of x.
func (s *stretch) addNode(x step.T) {
	s.nodes, s.made = append(s.nodes, x), append(s.made, x)
}

// compile runs instruction i of a list as torch.compile does, if that is otherwise than eager PyTorch does. An
// operation runs when both its node and its result have been seen.
func (s *stretch) compile(list []recording.Instruction, of []int, i int) bool {
	t := s.t
	switch in := &list[i]; in.Kind {
	case recording.Product, recording.Reduce:
		return true
	case recording.Allocate:
		d := recordedType(in.Type, s.half)
		switch n := of[i]; {
		case n == nowhere && operations[in.Name] == outside || n == nowhere && operations[in.Name] == multiplied,
			n == nowhere && d == step.I64 && operations[in.Name] != special:
			s.add(t.Made(s.elements(in.Size), d, labelOf(in.Name), s.ofEnd && s.part == "o"))
		case n == nowhere:
			s.add(t.Unmade(s.elements(in.Size), d, labelOf(in.Name)))
		case n > i:
			s.add(step.NoTensor)
		default:
			s.add(step.NoTensor)
			s.together(&list[n], in)
		}
		if s.stays[in.N] {
			t.KeptByModel(t.Written(s.values[in.N]))
			s.kept[in.N] = false
		}
		return true
	case recording.Node:
		switch k := of[i]; {
		case in.Alias:
			s.addNode(s.values[len(s.values)-1])
		case k == nowhere:
			s.view(in)
		case k > i:
			s.addNode(step.NoTensor)
		default:
			s.addNode(step.NoTensor)
			s.together(in, &list[k])
		}
		return true
	}
	return false
}

// source is what the gradient of an edge is the gradient of, with that edge.
func (s *stretch) source(r recording.Ref) step.T {
	e := s.edge(r)
	var x step.T
	switch r.Scope {
	case recording.Own:
		x = s.made[r.N]
	case recording.Outer:
		x = s.outer.made[r.N]
	case recording.Input:
		x = s.input
	default:
		return e
	}
	if !s.t.Alive(x) {
		x = step.NoTensor
	}
	return x.Attached(e)
}

// view is a node whose operation makes nothing: one that hands on what arrives is left out.
func (s *stretch) view(in *recording.Instruction) {
	if len(in.Edges) == 1 {
		x := s.source(in.Edges[0])
		bytes := s.gradients(in)[0]
		switch {
		case bytes == 0:
		case in.Outputs > 1 || !s.sums(in):
			x = s.t.PartReplayed(x, bytes, in.Outputs)
		}
		s.addNode(x)
		return
	}
	// in place: the result takes the place of the first input
	ins := s.inputs(in)
	x := ins[0].T
	y := s.t.FuseReplayed(x.Numel(), x.Type(), step.LabelElementwise, ins, s.savedOf(in))
	for n := range s.values {
		if s.kept[n] && s.values[n].SameStorage(x) {
			s.t.Drop(s.values[n])
			s.values[n] = y
			s.addNode(y)
			return
		}
	}
	s.addNode(y)
}

// sums says whether a node's backward adds what arrives up, as that of an expanded tensor does.
func (s *stretch) sums(in *recording.Instruction) bool {
	for i := range in.Backward {
		if b := &in.Backward[i]; b.Kind == recording.Take && b.Name == "sum" {
			return true
		}
	}
	return false
}

func (s *stretch) inputs(in *recording.Instruction) []step.FusedInput {
	ins, bytes := make([]step.FusedInput, len(in.Edges)), s.gradients(in)
	for k, r := range in.Edges {
		ins[k] = step.FusedInput{T: s.source(r), Gradient: bytes[k]}
		if r.Scope == recording.Nowhere {
			ins[k].T = step.NoTensor
		}
	}
	return ins
}

// savedOf are the values that a node saves, for the gradients that are wanted.
func (s *stretch) savedOf(in *recording.Instruction) []step.T {
	live, list := s.live(in), make([]step.T, 0, len(in.Saved))
	for i, r := range in.Saved {
		if in.OnlySaved != nil && in.OnlySaved[i] != 0 && in.OnlySaved[i]&live == 0 {
			continue
		}
		if x := s.of(r); s.t.Alive(x) {
			list = append(list, x)
		}
	}
	return list
}

func (s *stretch) live(in *recording.Instruction) (live uint64) {
	for k, r := range in.Edges[:min(len(in.Edges), 64)] {
		if r.Scope != recording.Nowhere && s.edge(r).WantsGradient() {
			live |= 1 << k
		}
	}
	return live
}

// together runs the operation of a node and its result.
func (s *stretch) together(node, result *recording.Instruction) {
	y := s.operation(node, result)
	if kind := operations[result.Name]; kind == multiplied || kind == outside {
		s.t.Drop(s.read...)
		s.read = s.read[:0]
	}
	s.values[result.N] = y
	s.nodes[node.N], s.made[node.N] = y, y
}

func (s *stretch) operation(node, result *recording.Instruction) step.T {
	t := s.t
	numel, d, l := s.elements(result.Size), recordedType(result.Type, s.half), labelOf(result.Name)
	switch operations[result.Name] {
	case multiplied:
		return s.product(node, result, numel, d)
	case special:
		return s.special(node, result, numel, d)
	case reduced:
		return t.ReducedReplayed(numel, d, l, s.inputs(node), s.savedOf(node))
	case fused:
		ins := s.inputs(node)
		if len(ins) == 1 {
			if x, ok := s.sameAs(result.Name, ins[0].T, numel, d); ok {
				return x
			}
		}
		if result.Name == "add" && len(ins) == 2 && t.Alive(ins[0].T) && t.Alive(ins[1].T) &&
			t.Apart(ins[0].T, ins[1].T) {
			return t.SumReplayed(numel, d, ins)
		}
		y := t.FuseReplayed(numel, d, l, ins, append(s.savedOf(node), s.madeAgainFrom(node, result, ins)...))
		if result.Name == "_to_copy" && len(ins) == 1 {
			s.lastCast.from, s.lastCast.to = ins[0].T, y
		}
		return y
	}
	for _, x := range append(s.savedOf(node), s.operands(node)...) {
		t.Written(x)
	}
	y := t.Made(numel, d, l, s.ofEnd && s.part == "o")
	return y.Attached(s.replayed(node))
}

// madeAgainFrom are the inputs of an operation whose node saves the result, which backward makes again; that of relu is
// kept by the product that reads it.
func (s *stretch) madeAgainFrom(node, result *recording.Instruction, ins []step.FusedInput) (list []step.T) {
	saves := slices.ContainsFunc(node.Saved, func(r recording.Ref) bool {
		return r.Scope == recording.Own && r.N == result.N
	})
	if !saves || result.Name == "relu" {
		return nil
	}
	for _, x := range ins {
		if s.t.Alive(x.T) {
			list = append(list, x.T)
		}
	}
	return list
}

// operands are the values that a node's inputs are.
func (s *stretch) operands(in *recording.Instruction) []step.T {
	var list []step.T
	for _, r := range in.Edges {
		if r.Scope == recording.Own || r.Scope == recording.Outer || r.Scope == recording.Input {
			if x := s.source(r); s.t.Alive(x) {
				list = append(list, x)
			}
		}
	}
	return list
}

// sameAs is x where a copy or a cast of it is what there is already.
func (s *stretch) sameAs(name string, x step.T, numel int64, d step.DType) (step.T, bool) {
	t := s.t
	if !t.Alive(x) {
		return x, false
	}
	switch {
	case name == "clone" && numel <= x.Numel(), name == "_to_copy" && x.Type() == d:
		return t.Hold(x), true
	case t.Recipe.CheckpointEvery > 0: // a layer that runs again has to record the same operations
	case name == "_to_copy" && s.lastCast.from.SameStorage(x) && t.Alive(s.lastCast.to) && s.lastCast.to.Type() == d &&
		s.lastCast.to.Numel() == numel:
		return t.Hold(s.lastCast.to), true
	}
	return x, false
}

func (s *stretch) product(node, result *recording.Instruction, numel int64, d step.DType) step.T {
	bytes := s.gradients(node)
	ins, saved := make([]step.ProductInput, len(node.Edges)), make([]step.T, len(node.Edges))
	for k := range saved {
		saved[k] = step.NoTensor
	}
	reads := s.operands(node)
	for i, r := range node.Saved {
		x := s.of(r)
		reads = append(reads, x)
		if node.OnlySaved != nil && node.OnlySaved[i] != 0 {
			for k := range saved {
				if node.OnlySaved[i]&(1<<k) != 0 {
					saved[k] = x
				}
			}
		} else if len(saved) > 0 {
			saved[len(saved)-1] = x
		}
	}
	var order []int
	for k, r := range node.Edges {
		ins[k] = step.ProductInput{T: s.source(r), Gradient: bytes[k], Saved: saved[k]}
		if r.Scope == recording.Nowhere {
			ins[k].T = step.NoTensor
		}
		order = append([]int{k}, order...)
	}
	alive := reads[:0]
	for _, x := range reads {
		if s.t.Alive(x) {
			alive = append(alive, x)
		}
	}
	y := s.t.ProductReplayed(numel, d, ins, alive, order, result.Name == "addmm")
	if s.ofEnd && s.part == "o" {
		s.t.OfLoss(y)
	}
	return y
}

// special are operations that Inductor takes apart in ways of their own.
func (s *stretch) special(node, result *recording.Instruction, numel int64, d step.DType) step.T {
	t := s.t
	x := s.source(node.Edges[0])
	switch result.Name {
	case "embedding":
		ids := step.NoTensor // of a buffer
		if len(node.Saved) > 0 {
			ids = s.of(node.Saved[0])
		}
		return t.GatherReplayed(x, ids, numel)
	case "native_layer_norm":
		if s.parallel {
			t.SumsAgain()
		}
		w, b := s.weightOf(node.Edges, 1), s.weightOf(node.Edges, 2)
		if w.Exists() {
			return t.LayerNorm(x.Shaped(numel), w, b)
		}
	case "_softmax":
		return t.Softmax(x.Shaped(numel), step.LabelAttentionProbabilities)
	case "native_dropout":
		return t.DroppedReplayed(x.Shaped(numel))
	case "_log_softmax":
		return t.Hold(s.narrow(x)).Shaped(numel)
	case "nll_loss_forward":
		for _, r := range node.Saved {
			if v := s.of(r); v.Type() == step.I64 && t.Alive(v) {
				if s.m.r.Breaks == recording.BreaksBeforeLoss {
					t.GraphBreak()
				}
				return t.CrossEntropyReplayed(t.Written(s.narrow(x)), v)
			}
		}
	}
	return t.FuseReplayed(numel, d, labelOf(result.Name), s.inputs(node), s.savedOf(node))
}

// narrow is what x was cast from, if x is no more than a cast.
func (s *stretch) narrow(x step.T) step.T {
	if from := s.lastCast.from; s.lastCast.to.SameStorage(x) && s.t.IsUnmade(x) && s.t.Alive(from) {
		return from
	}
	return x
}

// weightOf is the parameter that input k of a node is.
func (s *stretch) weightOf(edges []recording.Ref, k int) step.Weight {
	if k < len(edges) {
		switch r := edges[k]; r.Scope {
		case recording.Model:
			return s.model[r.N]
		case recording.Layer:
			return s.layer[r.N]
		}
	}
	return step.NoWeight
}

// oneNorm says whether all norms of a layer read the same tensor, so that what runs behind them is summed at once.
func oneNorm(list []recording.Instruction, of []int) bool {
	var read []recording.Ref
	for i := range list {
		if in := &list[i]; in.Kind == recording.Node && of[i] != nowhere && list[of[i]].Name == "native_layer_norm" {
			read = append(read, in.Edges[0])
		}
	}
	for _, r := range read {
		if r != read[0] {
			return false
		}
	}
	return len(read) > 0
}
