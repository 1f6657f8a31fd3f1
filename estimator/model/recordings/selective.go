package recordings

import (
	"github.com/vramplan/vramplan/estimator/recording"
	"github.com/vramplan/vramplan/estimator/step"
)

// attentionInside is a call of attention with what scaled_dot_product_attention does by itself: under autocast it
// casts its arguments, and flash attention pads their heads and cuts the result, so that a checkpoint around the call
// has both inside.
// Source: aten/src/ATen/autocast_mode.cpp (scaled_dot_product_attention is in the list for half precision) and
// native/transformers/attention.cpp (pad_last_dim), torch 2.9.
type attentionInside struct {
	// from are the values that its arguments are made from.
	from [3]recording.Result
	// queries are the elements of the queries before their heads were padded, nil where they were not.
	queries *recording.Size
}

// insideAttention is that of instruction i of the list that values are in, with the places of the casts and of the
// padding, which stand right before it, and of the cut behind it.
func insideAttention(values *valuesOf, i int) (c attentionInside, places []int) {
	list, of := values.list, values.of
	a := list[i].Attention
	at := map[recording.Ref]int{}
	for k := i - 1; k > 0; k-- {
		if !madeForAttention(list, of, k) {
			if list[k].Kind == recording.Node && of[k] == nowhere { // a view
				continue
			}
			break
		}
		at[recording.Ref{Scope: recording.Own, N: list[k].N}] = k
		k--
	}
	for n, ref := range [3]recording.Ref{a.Query, a.Key, a.Value} {
		from := recording.Result{Value: ref}
		if n < len(a.Edges) {
			from.Edge = a.Edges[n]
		}
		for {
			k, made := at[from.Value]
			if !made {
				break
			}
			edge := list[k-1].Edges[0]
			v, ok := values.at(edge)
			if !ok {
				break
			}
			if list[k].Name == padding && n == 0 {
				c.queries = firstMade(&list[k-1])
			}
			from = recording.Result{Value: v, Edge: edge}
			places = append(places, k-1, k)
		}
		c.from[n] = from
	}
	if c.queries != nil && i+2 < len(list) && list[i+2].Kind == recording.Node && of[i+2] == nowhere {
		places = append(places, i+2)
	}
	return c, places
}

// padding is the operation that pads heads.
const padding = "constant_pad_nd"

// madeForAttention says whether instruction k is a cast or padding whose node stands before it.
func madeForAttention(list []recording.Instruction, of []int, k int) bool {
	in := &list[k]
	return in.Kind == recording.Allocate && (in.Name == "_to_copy" && in.Type == recording.Half ||
		in.Name == padding) &&
		of[k] == k-1 && len(list[k-1].Edges) == 1 && len(list[k-1].Saved) == 0
}

// firstMade is the size of what a node's backward makes first, nil where it makes nothing.
func firstMade(in *recording.Instruction) *recording.Size {
	for i := range in.Backward {
		if b := &in.Backward[i]; b.Kind == recording.Take {
			return &b.Size
		}
	}
	return nil
}

// valuesOf says which values the edges of a list take the gradients of. Each node is followed once, however many calls
// of attention lie behind it.
type valuesOf struct {
	list []recording.Instruction
	of   []int
	// nodes are the places of nodes by their numbers, found what lies behind those that were followed.
	nodes map[int]int
	found map[int]recording.Ref
}

func valuesIn(list []recording.Instruction, of []int) *valuesOf {
	v := &valuesOf{list: list, of: of, nodes: map[int]int{}, found: map[int]recording.Ref{}}
	for i := range list {
		if in := &list[i]; in.Kind == recording.Node {
			v.nodes[in.N] = i
		}
	}
	return v
}

// at is the value whose gradient an edge takes, through the views between, where the list says so.
func (v *valuesOf) at(edge recording.Ref) (value recording.Ref, ok bool) {
	var passed []int
	for edge.Scope == recording.Own {
		have, met := v.found[edge.N]
		if met {
			value = have
			break
		}
		v.found[edge.N] = recording.Ref{}
		passed = append(passed, edge.N)
		i, there := v.nodes[edge.N]
		edge = recording.Ref{}
		switch {
		case !there:
		case v.of[i] != nowhere:
			value = recording.Ref{Scope: recording.Own, N: v.list[v.of[i]].N}
		case v.list[i].Alias && i > 0:
			value = recording.Ref{Scope: recording.Own, N: v.list[i-1].N}
		case len(v.list[i].Edges) == 1:
			edge = v.list[i].Edges[0]
		}
	}
	if edge.Scope == recording.Input {
		value = edge
	}
	for _, n := range passed {
		v.found[n] = value
	}
	return value, value.Scope != recording.Nowhere
}

// selecting is what checkpointing of attention alone changes of a list: the places that lie inside, and each call.
type selecting struct {
	inside map[int]bool
	calls  map[*recording.Attention]attentionInside
}

// selection is that of a list.
func (s *stretch) selection(list []recording.Instruction) *selecting {
	if len(list) == 0 {
		return nil
	}
	if s.m.selections == nil {
		s.m.selections = map[*recording.Instruction]*selecting{}
	}
	have := s.m.selections[&list[0]]
	if have != nil {
		return have
	}
	have = &selecting{inside: map[int]bool{}, calls: map[*recording.Attention]attentionInside{}}
	values := valuesIn(list, s.origins(list))
	for i := range list {
		if a := list[i].Attention; a != nil {
			call, places := insideAttention(values, i)
			have.calls[a] = call
			for _, k := range places {
				have.inside[k] = true
			}
		}
	}
	s.m.selections[&list[0]] = have
	return have
}

// passInside leaves out what attention does itself.
func (s *stretch) passInside(in *recording.Instruction) {
	if in.Kind == recording.Node {
		s.addNode(s.edge(in.Edges[0]))
		return
	}
	s.add(step.NoTensor)
	s.kept[in.N] = false
}

// arguments are queries, keys and values as a checkpoint around attention gets them, with heads of that width.
func (c *attentionInside) arguments(s *stretch, a *recording.Attention, q, k, v step.T) (qkv [3]step.T, width int64) {
	width, qkv = a.Width, [3]step.T{q, k, v}
	if c.queries != nil {
		width = s.elements(*c.queries) / (s.elements(a.Batch) * a.Heads * s.elements(a.Queries))
	}
	for n := range qkv {
		given := s.of(c.from[n].Value)
		qkv[n] = given.Sized(qkv[n].Numel()/a.Width*width, given.Type(), s.edge(c.from[n].Edge))
	}
	return qkv, width
}
