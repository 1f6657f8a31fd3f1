package parallel

import "github.com/vramplan/vramplan/estimator/step"

// shardGroup is the parameters that are gathered together: those of a layer, or of everything outside the layers.
type shardGroup struct {
	params []int32 // in the list of parameters
	whole  []int32 // the gathered parameters, empty while there are none
	output int32   // what an all-gather has brought and what is not copied out yet
	turn   int     // where in the order of the forward it stands
	summed bool    // its gradients are on their way, or accumulated
}

// groups puts parameters into groups: the root's first, then the layers'.
func groups(parameters []step.Parameter, sections bool) []shardGroup {
	all := []shardGroup{{output: step.None}}
	var apart [step.HeadSection + 1]shardGroup
	for i := range parameters {
		p := &parameters[i]
		if p.First {
			all = append(all, shardGroup{output: step.None})
		}
		if p.Buffer {
			continue
		}
		g := &all[0]
		switch {
		case p.InLayer:
			g = &all[len(all)-1]
		case sections && p.Section != step.NoSection:
			g = &apart[p.Section]
			g.output = step.None
		}
		g.params = append(g.params, int32(i))
	}
	if sections {
		all = append(all, apart[step.InputSection:]...)
	}
	return all
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
