package play

import (
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/step"
)

// unfoldMixture lists the events of a segment in which the middle expert is repeated.
func (y *player) unfoldMixture(g step.Segment, copy int64) {
	y.program.EachStretch(g, func(from, to int, run *step.Run) {
		switch {
		case run == nil:
			y.unfoldStretch(g, from, to, copy, 0, 0)
		case !run.Repeated():
			y.unfoldStretch(g, from, to, copy, run.Expert, 0)
		default:
			y.unfoldRun(g, from, to, copy, run)
		}
	})
}

// edge is how many repetitions of an expert, at either end, are listed one by one: their neighbours are not all
// repetitions.
const edge = 2

// unfoldRun lists the middle expert's events for every repetition. Within, they are those of the repetition before with
// other handles, which are as far apart as in any two of them.
func (y *player) unfoldRun(g step.Segment, from, to int, copy int64, run *step.Run) {
	copies := y.experts.copies
	for i := range copies {
		k := i
		if run.Falling {
			k = copies - 1 - i
		}
		n := len(y.flat) - y.listed
		if i <= edge+1 || i >= copies-edge || n == 0 {
			y.listed = len(y.flat)
			y.unfoldStretch(g, from, to, copy, run.Expert, k)
			continue
		}
		at := y.listed
		y.listed = len(y.flat)
		for j := at; j < at+n; j++ {
			e := y.flat[j]
			e.Handle += e.Handle - y.flat[j-n].Handle
			y.flat = append(y.flat, e)
		}
	}
	y.listed = 0
}

// unfoldStretch lists events of the copy-th repetition of a unit and the which-th of an expert, which is 0 outside the
// experts.
func (y *player) unfoldStretch(g step.Segment, from, to int, copy int64, expert int32, which int64) {
	p, f := y.program, &y.fold
	for _, e := range p.Events[from:to] {
		if g.Unit < 0 && f.unit >= 0 && f.isMiddle[e.Slot] {
			for c := range f.copies {
				y.unfoldEvent(e, e.Slot, c, expert, which)
			}
			continue
		}
		slot, unit := y.inUnit(e.Slot, g.Unit, copy)
		y.unfoldEvent(e, slot, unit, expert, which)
	}
}

// unfoldEvent lists an event for a slot in a repetition of its unit, none where it is below 0.
func (y *player) unfoldEvent(e step.Event, slot int32, unit int64, expert int32, which int64) {
	s, x := &y.program.Slots[slot], &y.experts
	add := func(which int64) {
		y.flat = append(y.flat, memory.NewRequest(e.Op, y.program.Slots[e.Slot].Stream, y.program.Slots[e.Slot].Bytes,
			y.instance(slot, unit, which)))
	}
	switch {
	case s.Expert == 0:
		add(0)
	case expert == 0 && s.Expert == step.MiddleExpert:
		// Outside the experts, what happens to the middle one's tensor happens to that of every repetition.
		for k := range x.copies {
			add(k)
		}
	case expert == step.MiddleExpert:
		k := which + int64(s.Expert-expert)
		if s.Expert == step.MiddleExpert {
			add(which)
		} else if twin := x.twin[slot]; twin != step.None && k >= 0 && k < x.copies {
			slot = twin
			add(k)
		} else {
			add(0)
		}
	case s.Expert == step.MiddleExpert && expert > step.MiddleExpert:
		add(x.copies - 1)
	default:
		add(0)
	}
}

// inUnit is which slot of which repetition of the middle unit, none below 0, an event in the copy-th repetition of a
// unit is about.
func (y *player) inUnit(slot, unit int32, copy int64) (int32, int64) {
	f := &y.fold
	born := y.program.Slots[slot].Unit
	if f.unit < 0 || born < 0 {
		return slot, -1
	}
	switch {
	case unit == f.unit:
		c := copy + int64(born-unit)
		if c < 0 || c >= f.copies || born < f.unit-1 || born > f.unit+1 || int(f.local[slot]) >= len(y.middle) {
			return slot, -1
		}
		return y.middle[f.local[slot]], c
	case born == f.unit && unit < f.unit:
		return slot, 0
	case born == f.unit:
		return slot, f.copies - 1
	}
	return slot, -1
}

// instance is the handle of a slot in a repetition of its unit, none below 0, and one of its expert.
func (y *player) instance(slot int32, unit, which int64) int32 {
	x, n := &y.experts, int64(len(y.program.Slots))
	if which == 0 || y.program.Slots[slot].Expert != step.MiddleExpert {
		if unit < 0 {
			return slot
		}
		return y.repetition(slot, unit)
	}
	place := int64(x.place[slot])
	if unit >= 0 {
		place = x.all + unit*x.perUnit + int64(x.inUnit[slot])
	}
	return int32(n + y.fold.copies*int64(y.fold.perUnit) + (which-1)*(x.all+y.fold.copies*x.perUnit) + place)
}
