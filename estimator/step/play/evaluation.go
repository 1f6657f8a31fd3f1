package play

import (
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
)

// Evaluation is a pass over batches of its own between optimizer steps: forward and loss, in evaluation mode and under
// torch.no_grad.
type Evaluation struct {
	Program *step.Program
	// Units and Recorded are those of the model and of the program.
	Units, Recorded int64
	// Prepares says that it is no evaluation, but what comes before the micro-steps of the next optimizer step.
	Prepares bool
}

// evaluatedBatches show all that an evaluation does: the second finds what the first has kept.
const evaluatedBatches = 2

// evaluate plays the evaluation, and lets go of what it has kept.
func (s *Session) evaluate() {
	if s.Evaluation == nil {
		return
	}
	y := &s.evaluating
	for range evaluatedBatches {
		y.last, y.now = y.now, y.last
		for _, e := range y.flat {
			switch e.Op {
			case step.Alloc:
				y.now[e.Handle] = s.heap.Alloc(e.Bytes)
			case step.AllocAside:
				y.now[e.Handle] = alloc.Aside(s.heap, e.Stream(), e.Bytes)
			case step.Free:
				s.heap.Free(y.now[e.Handle])
				y.now[e.Handle] = alloc.None
			case step.FreePrev:
				y.freeLast(s.heap, e.Handle)
			case step.ReleaseCached:
				releasePart(s.heap, &e)
			}
		}
	}
	y.last, y.now = y.now, y.last
	for i := range y.last {
		y.freeLast(s.heap, int32(i))
	}
}

// releasePart gives back cached segments of the part of the heap that a request concerns, where the heap has any.
func releasePart(heap alloc.Heap, e *memory.Request) {
	if h, ok := heap.(alloc.Releasing); ok {
		h.ReleasePart(e.Part())
	}
}

// freeLast frees what the run before left under a handle.
func (y *player) freeLast(heap alloc.Heap, i int32) {
	if y.last[i] != alloc.None {
		heap.Free(y.last[i])
		y.last[i] = alloc.None
	}
}

// evaluation is a ledger of the evaluation, which starts from what l holds between two optimizer steps.
func (l *Ledger) evaluation() *Ledger {
	e := l.session.Evaluation
	sub := &Session{Program: e.Program, Recorded: e.Recorded, Units: e.Units, Lead: l.session.Lead,
		Recipe: l.session.Recipe, strategy: l.session.strategy}
	n := len(e.Program.Slots)
	v := &Ledger{session: sub, live: l.live, parts: l.parts, total: l.total,
		previous: make([]bool, n), current: make([]bool, n), once: make([]bool, n)}
	for i := range v.once { // training has been there
		v.once[i] = true
	}
	v.fold.set(e.Program, e.Recorded, e.Units, l.session.Lead)
	v.experts.set(e.Program, &v.fold)
	return v
}

// surveyEvaluation finds the largest moment of the evaluation.
func (l *Ledger) surveyEvaluation() {
	if l.session.Evaluation == nil {
		return
	}
	v := l.evaluation()
	for i := range evaluatedBatches {
		v.surveyMicroStep(int64(i))
	}
	if m := v.Peak; m.Bytes > 0 {
		if !l.session.Evaluation.Prepares {
			m.Stage = StageEvaluation
			l.record(StageEvaluation, m)
			return
		}
		m.between = true
		l.record(m.Stage, m)
		for _, stage := range [...]Stage{StageReference, StageGeneration, StageEvaluation} {
			l.Largest[stage] = max(l.Largest[stage], v.Largest[stage])
		}
	}
}

// stockEvaluation walks through the evaluation to the moment at which the walk stops and says what is alive there.
func (l *Ledger) stockEvaluation(tensors bool) Moment {
	l.begin()
	v := l.evaluation()
	v.stop = l.stop
	if tensors {
		v.counts = make([]int64, len(v.session.Program.Slots))
	}
	for i := range evaluatedBatches {
		if v.microStep(int64(i)) {
			break
		}
	}
	taken := Moment{Components: v.live, Parts: v.parts}
	if tensors {
		taken.Tensors = l.tensors(v)
	}
	return taken
}
