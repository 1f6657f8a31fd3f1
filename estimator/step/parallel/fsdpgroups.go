package parallel

import "github.com/vramplan/vramplan/estimator/step"

// shardGroup is the parameters that are gathered together: those of a layer, or of everything outside the layers.
type shardGroup struct {
	params []int32 // in the list of parameters
	whole  []int32 // the gathered parameters, empty while there are none
	output int32   // what an all-gather has brought and what is not copied out yet
	turn   int     // where in the order of the forward it stands
	summed bool    // its gradients are on their way, or accumulated
	inside bool    // a unit inside a layer
	kept   bool    // its parameters stay from the forward on
	late   []int32 // gathered parameters that stay a little longer
	// Of parts in the CPU's memory: those that are here while the parameters are, and the sum of their gradients, which
	// is until backward ends.
	brought []int32
	sum     int32
}

// groups puts parameters into groups: the root's first, then the layers', then the units inside these, and at the end
// the sections. inner has the latter by layer, counted from 1.
func groups(parameters []step.Parameter, sections bool) (all []shardGroup, inner []int) {
	all = []shardGroup{{output: step.None, sum: step.None}}
	var units []shardGroup
	apart := [step.HeadSection + 1]shardGroup{}
	for i := range apart {
		apart[i].sum = step.None
	}
	for i := range parameters {
		p := &parameters[i]
		if p.First {
			all = append(all, shardGroup{output: step.None, sum: step.None})
			units = append(units, shardGroup{output: step.None, sum: step.None, inside: true})
		}
		if p.Buffer {
			continue
		}
		g := &all[0]
		switch {
		case p.Inner:
			g = &units[len(units)-1]
		case p.InLayer:
			g = &all[len(all)-1]
		case sections && p.Section != step.NoSection:
			g = &apart[p.Section]
			g.output = step.None
		}
		g.params = append(g.params, int32(i))
	}
	inner = make([]int, len(all))
	for i := range units {
		if len(units[i].params) > 0 {
			inner[i+1] = len(all)
			all = append(all, units[i])
		}
	}
	if sections {
		all = append(all, apart[step.InputSection:]...)
	}
	return all, inner
}

// withGradients are the parameters of a group that have one.
func (f *fsdp) withGradients(g *shardGroup) []int32 {
	var with []int32
	for _, p := range g.params {
		if f.grads[p] != step.None {
			with = append(with, p)
		}
	}
	return with
}

// eachGroup calls f with the places of the parameters and buffers of every layer, and then of the rest.
func eachGroup(p step.Parameters, f func(group []int)) {
	var root []int
	layer := func(from, to int) {
		group := root[len(root):]
		p.Places(from, to, func(i int) { group = append(group, i) })
		f(group)
	}
	end := p.LayerStart + p.PerLayer*int(p.Recorded)
	for i := 0; i < len(p.List); {
		switch {
		case i == p.LayerStart && i < end:
			for range p.Layers {
				layer(i, i+p.PerLayer)
			}
			i = end
		case p.List[i].InLayer: // unlike the others
			to := i + 1
			for to < p.LayerStart && p.List[to].InLayer && !p.List[to].First {
				to++
			}
			layer(i, to)
			i = to
		default:
			root = append(root, i)
			i++
		}
	}
	f(root)
}
