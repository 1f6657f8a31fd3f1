package step

// Experts of a mixture are alike, but for the first two and the last two of a layer, whose neighbours differ: so five
// are recorded, and the middle one is repeated, as the middle one of five layers is.

// MiddleExpert is the number of the expert that is repeated, counted from 1.
const MiddleExpert = FoldedFirst + 1

// RecordedExperts is how many of the experts of a mixture have to be recorded, which are alike.
func RecordedExperts(count int64) int64 { return min(count, foldedUnits) }

// Run is the stretch of events that one expert makes. It lies within a segment.
type Run struct {
	Start, End int
	// Expert is the expert's number among those that were recorded, counted from 1.
	Expert int32
	// Falling says that the experts follow each other from the last to the first.
	Falling bool
}

// Repeated says whether the run stands for those of all experts that were not recorded.
func (r *Run) Repeated() bool { return r.Expert == MiddleExpert }

// Expert says that what follows in forward is done by the i-th of the experts that are recorded, or by none where i is
// below 0.
func (t *Tape) Expert(i int) { t.enterExpert(int32(i+1), false) }

func (t *Tape) enterExpert(expert int32, falling bool) {
	if t.Prog.ExpertCopies <= 1 || expert == t.expert && falling == t.falling {
		return
	}
	t.endRun()
	t.expert, t.falling = expert, falling
}

// endRun closes the running stretch of events of one expert.
func (t *Tape) endRun() {
	end := len(t.Prog.Events)
	if t.expert > 0 && end > t.runStart {
		t.Prog.Runs = append(t.Prog.Runs, Run{t.runStart, end, t.expert, t.falling})
	}
	t.runStart = end
}

// EachExpert calls do for parameters one after the other, each as its expert's.
func (t *Tape) EachExpert(parameters []int32, do func(p int32)) {
	expert, falling := t.expert, t.falling
	for _, p := range parameters {
		t.enterExpert(t.Parameters[p].Expert, false)
		do(p)
	}
	t.enterExpert(expert, falling)
}

// Times is for how many parameters of the model p stands, within its layer.
func (p *Parameter) Times(copies int64) int64 {
	if p.Expert == MiddleExpert {
		return max(copies, 1)
	}
	return 1
}

// EachStretch calls do for the stretches of a segment in order; run is nil for what no expert does.
func (p *Program) EachStretch(seg Segment, do func(from, to int, run *Run)) {
	at := seg.Start
	for k := p.firstRun(seg.Start); k < len(p.Runs) && p.Runs[k].Start < seg.End; k++ {
		r := &p.Runs[k]
		if r.Start > at {
			do(at, r.Start, nil)
		}
		do(r.Start, r.End, r)
		at = r.End
	}
	if at < seg.End {
		do(at, seg.End, nil)
	}
}

// firstRun is the first run that begins at an event or behind it.
func (p *Program) firstRun(event int) int {
	low, high := 0, len(p.Runs)
	for low < high {
		if middle := (low + high) / 2; p.Runs[middle].Start < event {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low
}

// RunAt is the run that event i lies in, or nil.
func (p *Program) RunAt(i int) *Run {
	if k := p.firstRun(i+1) - 1; k >= 0 && i < p.Runs[k].End {
		return &p.Runs[k]
	}
	return nil
}
