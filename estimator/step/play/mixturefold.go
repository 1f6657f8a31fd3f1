package play

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
)

// experts is how the slots of the middle expert map to its repetitions.
type experts struct {
	copies int64 // how often it is repeated; 1 when nothing is folded
	// twin is, by slot, the middle expert's slot that it corresponds to, for that expert's neighbours; none for others.
	twin []int32
	// place is, by slot, where a slot of the middle expert stands among all of them, and inUnit among those of its
	// unit.
	place, inUnit []int32
	all, perUnit  int64
	// times is, by event, how often it happens.
	times []int64
}

// set works out the folding of p's experts, where units is that of its layers.
func (x *experts) set(p *step.Program, units *fold) {
	*x = experts{copies: max(p.ExpertCopies, 1), twin: x.twin[:0], place: x.place[:0], inUnit: x.inUnit[:0],
		times: x.times[:0]}
	if x.copies == 1 {
		return
	}
	x.twin, x.place, x.inUnit = room(x.twin, p.Slots), room(x.place, p.Slots), room(x.inUnit, p.Slots)
	x.times = room(x.times, p.Events)
	type family struct{ unit, expert int32 }
	count := map[family]int32{}
	slots := map[int32][]int32{} // of the middle expert, by unit
	local := make([]int32, len(p.Slots))
	for i := range p.Slots {
		s := &p.Slots[i]
		x.place, x.inUnit = append(x.place, step.None), append(x.inUnit, step.None)
		if s.Expert == 0 {
			continue
		}
		key := family{s.Unit, s.Expert}
		local[i] = count[key]
		count[key]++
		if s.Expert == step.MiddleExpert {
			x.place[i], x.inUnit[i] = int32(x.all), local[i]
			x.all++
			slots[s.Unit] = append(slots[s.Unit], int32(i))
		}
	}
	for i := range p.Slots {
		s, twin := &p.Slots[i], step.None
		if list := slots[s.Unit]; (s.Expert == step.MiddleExpert-1 || s.Expert == step.MiddleExpert+1) &&
			int(local[i]) < len(list) {
			twin = list[local[i]]
		}
		x.twin = append(x.twin, twin)
	}
	if units.unit >= 0 {
		x.perUnit = int64(len(slots[units.unit]))
	}
	run := 0
	for i, e := range p.Events {
		for run < len(p.Runs) && p.Runs[run].End <= i {
			run++
		}
		times := int64(1)
		if inside := run < len(p.Runs) && p.Runs[run].Start <= i; inside && p.Runs[run].Repeated() || !inside &&
			p.Slots[e.Slot].Expert == step.MiddleExpert {
			times = x.copies
		}
		x.times = append(x.times, times)
	}
}

// room is list, which is empty, with room for as many as there are in all.
func room[E, A any](list []E, all []A) []E { return slices.Grow(list, len(all)) }

// happens is how often event i of the program does.
func (x *experts) happens(i int) int64 {
	if x.copies == 1 {
		return 1
	}
	return x.times[i]
}

// of is for how many experts' slots a slot of the program stands.
func (x *experts) of(p *step.Program, slot int32) int64 {
	if p.Slots[slot].Expert == step.MiddleExpert {
		return x.copies
	}
	return 1
}
