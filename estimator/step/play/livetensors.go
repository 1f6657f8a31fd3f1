package play

import (
	"sort"

	"github.com/vramplan/vramplan/estimator/step"
)

// LiveTensor is Count tensors of the same kind and size that are alive at a moment.
type LiveTensor struct {
	// Name is that of the parameter; empty for other tensors.
	Name string
	// Dtype is the type of its elements where Typed says that it is known.
	Dtype     step.DType
	Typed     bool
	Label     step.Label
	Component step.Component
	Part      step.Part
	Layers    bool // made in a layer, so once or more in each
	Bytes     int64
	Count     int64
}

// tensors groups what is alive by kind and size, largest first: what l counts, and what others count of their programs.
func (l *Ledger) tensors(others ...*Ledger) []LiveTensor {
	var list []LiveTensor
	index := map[LiveTensor]int{}
	add := func(k LiveTensor, n int64) {
		if n == 0 {
			return
		}
		i, ok := index[k]
		if !ok {
			i = len(list)
			index[k] = i
			list = append(list, k)
		}
		list[i].Count += n
	}
	for _, counted := range append(others, l) {
		for i, n := range counted.counts {
			add(tensor(&counted.session.Program.Slots[i]), n)
		}
	}
	l.session.Parameters.Distinct(func(p *step.Parameter, times int64) {
		label := step.LabelParameter
		if p.Buffer {
			label = step.LabelBuffer
		}
		p.Tensors(func(bytes int64) {
			add(LiveTensor{Name: p.Name, Label: label, Component: step.Weights, Bytes: bytes, Dtype: p.Dtype,
				Typed: bytes == p.Numel*p.Dtype.Size()}, times)
		})
	})
	if l.session.Parameters.Nested() {
		add(LiveTensor{Label: step.LabelBuffer, Component: step.Weights, Bytes: step.DynamicCode}, 1)
	}
	l.session.eachState(func(bytes int64, c step.Component) {
		label := step.LabelGradient
		switch c {
		case step.OptimizerState:
			label = step.LabelMaster
		case step.Communication:
			label = step.LabelBucket
		}
		add(LiveTensor{Label: label, Component: c, Bytes: bytes}, 1)
	})
	if l.live[step.OptimizerState] > 0 {
		reckoner{l.session}.playedTotals(&l.tally)
		for _, bytes := range l.tally.Sizes {
			if bytes > 0 {
				add(LiveTensor{Label: step.LabelOptimizerState, Component: step.OptimizerState, Bytes: bytes}, 1)
			}
		}
	}
	kept := list[:0]
	for _, t := range list {
		if t.Count > 0 {
			kept = append(kept, t)
		}
	}
	largestFirst(kept)
	return kept
}

func largestFirst(list []LiveTensor) {
	sort.SliceStable(list, func(i, j int) bool { return list[i].Bytes*list[i].Count > list[j].Bytes*list[j].Count })
}

// tensor is a tensor of the slot s.
func tensor(s *step.Slot) LiveTensor {
	return LiveTensor{Label: s.Label, Component: s.Component, Part: s.Part, Layers: s.Unit >= 0, Bytes: s.Bytes,
		Dtype: s.Dtype, Typed: s.Typed}
}
