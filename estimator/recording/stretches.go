package recording

import (
	"slices"
	"sort"
	"strconv"
)

// Program is what one training step does in one kind of precision.
type Program struct {
	Before, After []Instruction
	// Layers are those that repeat, one of each of the recording's kinds.
	Layers []LayerProgram
	// Input is the value of Before that the first layer gets and the edge to it.
	Input Result
	// Outputs are the values of Before and After that the model returns.
	Outputs []Ref
	Loss    Result
	// Shared are the values of Before that a layer uses or is given.
	Shared []int
	// Values and Nodes are how many Before and After have.
	Values, Nodes int
}

// LayerProgram is what one layer does.
type LayerProgram struct {
	Instructions []Instruction
	// Output is the value that the next layer gets, Escapes are those that the model returns.
	Output  Result
	Escapes []Ref
	// Values and Nodes are how many it has.
	Values, Nodes int
}

// Escapes says whether the model returns what a layer made, as it does of a key/value cache.
func (p *Program) Escapes() bool {
	return slices.ContainsFunc(p.Layers, func(l LayerProgram) bool { return len(l.Escapes) > 0 })
}

// Attends says whether the model calls scaled_dot_product_attention.
func (p *Program) Attends() bool {
	for _, list := range p.Stretches() {
		if slices.ContainsFunc(list, func(in Instruction) bool { return in.Attention != nil }) {
			return true
		}
	}
	return false
}

// WritesAttentionOut says whether a softmax runs outside of scaled_dot_product_attention and of the loss.
func (p *Program) WritesAttentionOut() bool {
	for _, list := range p.Stretches() {
		if slices.ContainsFunc(list, func(in Instruction) bool { return in.Kind == Allocate && in.Name == "_softmax" }) {
			return true
		}
	}
	return false
}

// Longest is how many lines the longest stretch has.
func (p *Program) Longest() (lines int) {
	for _, list := range p.Stretches() {
		lines = max(lines, len(list))
	}
	return lines
}

// Stretches are Before, each layer, and After.
func (p *Program) Stretches() [][]Instruction {
	all := [][]Instruction{p.Before}
	for k := range p.Layers {
		all = append(all, p.Layers[k].Instructions)
	}
	return append(all, p.After)
}

// Result is a value and the edge to the node that made it.
type Result struct{ Value, Edge Ref }

// readKinds reads what the layers that repeat have.
func (r *Recording) readKinds(d *layers, total *float64) error {
	if len(d.Others) > 0 && r.Layers == 0 || len(d.Others) >= maxKinds {
		return at("/layers/others", "has %d kinds of layers; there are up to %d of layers that repeat", len(d.Others),
			maxKinds-1)
	}
	r.Order = d.Order
	if len(r.Order) == 0 && r.Layers > 0 {
		r.Order = []int{0}
	}
	if int64(len(r.Order)) > r.Layers {
		return at("/layers/order", "names %d layers; there are %d", len(r.Order), r.Layers)
	}
	kinds := 0
	for i, k := range r.Order {
		if k < 0 || k > min(kinds, len(d.Others)) {
			return at("/layers/order/"+strconv.Itoa(i), "is %d; kinds are numbered as they come, up to %d", k,
				len(d.Others))
		}
		kinds = max(kinds, k+1)
	}
	if r.Layers > 0 && kinds != 1+len(d.Others) {
		return at("/layers/order", "names %d kinds of layers; there are %d", kinds, 1+len(d.Others))
	}
	times := make([]float64, 1+len(d.Others))
	times[0] = 1
	if r.Layers > 0 {
		times[0] = 0
		for i := range r.Layers {
			times[r.KindOf(i)]++
		}
	}
	for k, lines := range append([][]string{d.Parameters}, d.Others...) {
		pointer := "/layers/parameters"
		if k > 0 {
			pointer = "/layers/others/" + strconv.Itoa(k-1)
		}
		list, err := parameters(pointer, lines, times[k], total)
		if err != nil {
			return err
		}
		if r.Layers > 0 {
			r.Kinds = append(r.Kinds, LayerKind{Parameters: list})
		} else if len(list) > 0 {
			return at(pointer, "there are no layers")
		}
	}
	return nil
}

// MostLinears is how many linear layers a layer has that repeats, at most.
func (r *Recording) MostLinears() (most int) {
	for k := range r.Kinds {
		most = max(most, len(r.Kinds[k].Linears))
	}
	return most
}

// Alike says whether layers of all kinds have parameters of the same shapes and the same linear layers.
func (r *Recording) Alike() bool {
	for k := range r.Kinds {
		one, first := &r.Kinds[k], &r.Kinds[0]
		if !slices.Equal(one.Linears, first.Linears) ||
			!slices.EqualFunc(one.Parameters, first.Parameters, Parameter.like) {
			return false
		}
	}
	return true
}

// program reads one program, of an evaluation where nothing has a graph.
func (r *Recording) program(pointer string, d *programDocument, noGraph bool) (*Program, [][]*Region, error) {
	n := len(d.Before) + len(d.Layer) + len(d.After)
	for i := range d.Others {
		n += len(d.Others[i].Layer)
	}
	for i := range d.Blocks {
		n += len(d.Blocks[i])
	}
	if len(d.Blocks) > maxBlocks {
		return nil, nil, at(pointer+"/blocks", "are %d; up to %d are accepted", len(d.Blocks), maxBlocks)
	}
	r.unfolded += mostTimes * n
	common := d.Blocks
	if len(common) == 0 {
		common = r.common
	}
	if n > maxLines {
		return nil, nil, at(pointer, "has %d lines; up to %d are accepted", n, maxLines)
	}
	if len(d.Outputs)+len(d.Escapes)+len(d.Given) > maxOutputList {
		return nil, nil, at(pointer, "has more than %d outputs", maxOutputList)
	}
	p := &Program{}
	shortened := &blocks{common, &r.unfolded}
	outer := &scope{model: len(r.Parameters), sizes: r.sizes, noGraph: noGraph, blocks: shortened}
	for range r.Batch {
		outer.own = append(outer.own, true)
	}
	var err error
	if p.Before, err = outer.stretch(d.Before); err != nil {
		return nil, nil, at(pointer+"/before", "%w", err)
	}
	last, found := outer, make([][]*Region, 1, 1+len(r.Kinds))
	switch {
	case len(d.Others)+1 != max(len(r.Kinds), 1):
		return nil, nil, at(pointer+"/others", "has %d layers; there are %d kinds of them", len(d.Others), len(r.Kinds))
	case r.Layers > 0:
		if p.Input, err = outer.result(d.Input); err != nil {
			return nil, nil, at(pointer+"/input", "%w", err)
		}
		shared := map[int]bool{}
		for k := range r.Kinds {
			written, where := layerDocument{d.Layer, d.Output, d.Escapes}, pointer
			if k > 0 {
				written, where = d.Others[k-1], pointer+"/others/"+strconv.Itoa(k-1)
			}
			inner := &scope{outer: outer, input: true, model: len(r.Parameters), layer: len(r.Kinds[k].Parameters),
				shared: shared, sizes: r.sizes, noGraph: noGraph, blocks: &blocks{}}
			layer, err := inner.readLayer(&written, where)
			if err != nil {
				return nil, nil, err
			}
			p.Layers, found = append(p.Layers, layer), append(found, inner.regions)
		}
		given, err := outer.outputs(d.Given)
		if err != nil {
			return nil, nil, at(pointer+"/given", "%w", err)
		}
		for _, ref := range given {
			if ref.Scope != Own {
				return nil, nil, at(pointer+"/given", "a layer is given what was made before the layers")
			}
			shared[ref.N] = true
		}
		for n := range shared {
			p.Shared = append(p.Shared, n)
		}
		sort.Ints(p.Shared)
		last.input = true
	case len(d.Layer)+len(d.After) > 0:
		return nil, nil, at(pointer+"/layer", "there are no layers")
	}
	if p.After, err = last.stretch(d.After); err != nil {
		return nil, nil, at(pointer+"/after", "%w", err)
	}
	if p.Outputs, err = last.outputs(d.Outputs); err != nil {
		return nil, nil, at(pointer+"/outputs", "%w", err)
	}
	if p.Loss, err = last.result(d.Loss); err != nil {
		return nil, nil, at(pointer+"/loss", "%w", err)
	}
	if p.Loss.Value.Scope != Own || p.Loss.Edge.Scope != Own && !noGraph {
		return nil, nil, at(pointer+"/loss", "no gradient reaches it")
	}
	p.Values, p.Nodes = len(last.own), len(last.nodes)
	found[0] = outer.regions
	return p, found, nil
}

// readLayer reads the layer of one kind.
func (s *scope) readLayer(d *layerDocument, pointer string) (l LayerProgram, err error) {
	if l.Instructions, err = s.stretch(d.Layer); err != nil {
		return l, at(pointer+"/layer", "%w", err)
	}
	if l.Output, err = s.result(d.Output); err != nil {
		return l, at(pointer+"/output", "%w", err)
	}
	if l.Output.Value.Scope != Own {
		return l, at(pointer+"/output", "a layer returns what it made")
	}
	if l.Escapes, err = s.outputs(d.Escapes); err != nil {
		return l, at(pointer+"/escapes", "%w", err)
	}
	l.Values, l.Nodes = len(s.own), len(s.nodes)
	return l, nil
}
