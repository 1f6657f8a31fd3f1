package play

import (
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// player is a program being played, with the handles of its tensors.
type player struct {
	program   *step.Program
	unfolded  bool // flat and fold are those of the program
	fold      fold
	experts   experts
	middle    []int32             // the middle unit's slots
	now, last []int32             // handles: in this run of the program and what the one before left
	flat      []memory.Request    // one run with all layers
	listed    int                 // where the last repetition of an expert begins in it
	parts     [2][]memory.Request // what of it concerns each part of the heap, once asked for
}

// begin prepares to play p, which was recorded with fewer units than the model has.
func (y *player) begin(p *step.Program, recorded, units, lead int64, look func() bool) {
	if y.unfolded {
		y.forget()
		return
	}
	y.program, y.unfolded = p, true
	y.fold.set(p, recorded, units, lead)
	y.experts.set(p, &y.fold)
	all := len(p.Slots) + int(y.fold.copies)*int(y.fold.perUnit)
	if x := &y.experts; x.copies > 1 {
		y.middle = y.middle[:0]
		for i := range p.Slots {
			if y.fold.unit >= 0 && y.fold.isMiddle[i] {
				y.middle = append(y.middle, int32(i))
			}
		}
		all += int(x.copies-1) * int(x.all+y.fold.copies*x.perUnit)
	}
	// Memory that was never touched is dear to touch first: a mixture's is 25 MB, in parts with looks between them.
	if y.now = handles(y.now, all); !look() {
		return
	}
	if y.last = handles(y.last, all); !look() {
		return
	}
	y.unfold(look)
	for i := range y.parts {
		y.parts[i] = y.parts[i][:0]
	}
}

// forget lets go of all handles, of what a heap that is no more had allocated.
func (y *player) forget() {
	y.now, y.last = handles(y.now, len(y.now)), handles(y.last, len(y.last))
}

// fold says how slots of the recorded middle unit map to its repetitions.
type fold struct {
	unit     int32 // the recorded unit that is repeated; -1 when nothing is folded
	copies   int64 // how often
	perUnit  int32
	local    []int32 // by slot: index among the slots of its unit, for the middle unit and its neighbours
	isMiddle []bool
}

// set works out the folding of a program that was recorded with fewer units than the model has.
func (f *fold) set(p *step.Program, recorded, units, lead int64) {
	local, middle := f.local[:0], f.isMiddle[:0]
	*f = fold{unit: -1, local: local, isMiddle: middle}
	if units <= recorded {
		return
	}
	f.unit, f.copies = int32(lead)+step.FoldedFirst, units-recorded+1
	count := make([]int32, recorded)
	for i := range p.Slots {
		u := p.Slots[i].Unit
		index := int32(0)
		if u >= 0 {
			index = count[u]
			count[u]++
		}
		f.local = append(f.local, index)
		f.isMiddle = append(f.isMiddle, u == f.unit)
	}
	f.perUnit = count[f.unit]
}

// handles is n empty handles, in the storage of h where that is large enough.
func handles(h []int32, n int) []int32 {
	if cap(h) < n {
		h = make([]int32, n)
	}
	h = h[:n]
	for i := range h {
		h[i] = alloc.None
	}
	return h
}

// unfold lists the events of one micro-step with the middle unit repeated. Handles up to the number of slots
// are those of the program; behind them come the repetitions' of the middle unit's slots.
//
// It ends early where look says that nobody waits for the play any more.
func (y *player) unfold(look func() bool) {
	p, f := y.program, &y.fold
	// Of a mixture that is half a million. What make reserves is touched as it is listed, and what Grow does at once.
	if n := int(requests(p, f, &y.experts)); cap(y.flat) < n {
		y.flat = make([]memory.Request, 0, n)
	}
	y.flat = y.flat[:0]
	listed := 0
	goesOn := func() bool {
		if len(y.flat)-listed < watched {
			return true
		}
		listed = len(y.flat)
		return look()
	}
	for _, g := range p.Segments {
		if g.Unit != f.unit || g.Unit < 0 {
			if !goesOn() {
				return
			}
			y.unfoldSegment(g, 0)
			continue
		}
		for c := range f.copies {
			if !goesOn() {
				return
			}
			if g.Backward {
				c = f.copies - 1 - c
			}
			y.unfoldSegment(g, c)
		}
	}
}

func (y *player) unfoldSegment(g step.Segment, copy int64) {
	p, f := y.program, &y.fold
	if y.experts.copies > 1 {
		y.unfoldMixture(g, copy)
		return
	}
	for _, e := range p.Events[g.Start:g.End] {
		bytes := p.Slots[e.Slot].Bytes
		if g.Unit < 0 && f.unit >= 0 && f.isMiddle[e.Slot] {
			// Outside the layers, what happens to the middle unit's tensor happens to that of every repetition.
			for c := range f.copies {
				y.flat = append(y.flat, memory.NewRequest(e.Op, p.Slots[e.Slot].Stream, bytes, y.repetition(e.Slot, c)))
			}
			continue
		}
		y.flat = append(y.flat, memory.NewRequest(e.Op, p.Slots[e.Slot].Stream, bytes, y.handle(e.Slot, g.Unit, copy)))
	}
}

// repetition is the handle of a middle unit's slot in the copy-th repetition.
func (y *player) repetition(slot int32, copy int64) int32 {
	return int32(len(y.program.Slots)) + int32(copy)*y.fold.perUnit + y.fold.local[slot]
}

// handle is the handle of slot for an event of the copy-th repetition of a recorded unit.
func (y *player) handle(slot, unit int32, copy int64) int32 {
	f := &y.fold
	born := y.program.Slots[slot].Unit
	if f.unit < 0 || born < 0 {
		return slot
	}
	switch {
	case unit == f.unit:
		c := copy + int64(born-unit)
		if c < 0 || c >= f.copies || born < f.unit-1 || born > f.unit+1 {
			return slot
		}
		return y.repetition(slot, c)
	case born == f.unit && unit < f.unit:
		return y.repetition(slot, 0)
	case born == f.unit:
		return y.repetition(slot, f.copies-1)
	}
	return slot
}
