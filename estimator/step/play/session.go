package play

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// Naming is a heap that is told what the allocations that follow are for, until it is told something else: a phase of
// the run or, within a micro-step, a tensor of the program, nil for none.
type Naming interface {
	Next(phase string, tensor *step.Slot)
}

func (s *Session) say(phase string, tensor *step.Slot) {
	if s.naming != nil {
		s.naming.Next(phase, tensor)
	}
}

// sayNext names the tensor that a request of a micro-step is about: a program that is not folded has the slots for
// handles.
func (s *Session) sayNext(e *memory.Request) {
	if slots := s.Program.Slots; int(e.Handle) < len(slots) {
		s.naming.Next("micro-step", &slots[e.Handle])
	}
}

// Reset makes s a session with the exported fields of n in the storage of its former runs.
func (s *Session) Reset(n Session) {
	n.player, n.evaluating, n.once, n.held = s.player, s.evaluating, s.once, s.held
	n.player.unfolded, n.evaluating.unfolded = false, false
	n.gradients, n.trained, n.updater, n.book, n.marks = s.gradients, s.trained[:0], s.updater, s.book, s.marks
	n.rank.Held, n.rank.Trained, n.rank.Reduced = s.rank.Held, s.rank.Trained, s.rank.Reduced
	*s = n
	s.strategy = s.Recipe.Spread()
}

// trainable are the parameters that are trained, in the order in which the optimizer has them.
func (s *Session) trainable() []*step.Parameter {
	if s.listed {
		return s.trained
	}
	s.trained = slices.DeleteFunc(s.Parameters.InOrder(s.trained[:0]), func(p *step.Parameter) bool {
		return !p.Trained() || p.Unreached
	})
	s.listed = true
	return s.trained
}

// reduced are the parameters whose gradients go between GPUs: those, too, that no gradient reaches, for which
// DistributedDataParallel has room in its buckets.
// Source: torch/csrc/distributed/c10d/reducer.cpp (Reducer::initialize_buckets, mark_variable_ready), 2.9.
func (s *Session) reduced() []*step.Parameter {
	return slices.DeleteFunc(s.Parameters.InOrder(nil), func(p *step.Parameter) bool { return !p.Trained() })
}

// Session is a whole run as a heap sees it: the model is loaded, then optimizer steps of several
// micro-steps each. The micro-step's program may have been recorded with fewer layer units than
// the model has; the session plays the middle unit as often as it takes.
type Session struct {
	Program *step.Program
	// Parameters are those that the GPU holds; Whole are those of the model where they are sharded.
	Parameters, Whole step.Parameters
	// Beside are the parameters of other models on the GPU, which nobody trains, in the order in which they come there.
	Beside []step.Parameters
	// Leaving are models that read something before training and go, nil for none.
	Leaving   *Leaving
	Optimizer *optim.Optimizer
	// Rank is that of GaLore's projections.
	Rank int64
	// Resumes says that the optimizer's states are there before the first step.
	Resumes bool
	// Clip clips the gradients' norm before the optimizer step.
	Clip bool
	// Recipe is how the program was recorded.
	Recipe step.Recipe
	// Units and Recorded are the layer units of the model and of the program, Lead those at the front that are unlike
	// the others and so are all recorded.
	Units, Recorded, Lead int64

	// Evaluation is a pass that follows each optimizer step, nil for none.
	Evaluation *Evaluation
	// Watch bounds what is played.
	Watch
	// Stand, where it is there, is called where the play may be saved before it goes on, on a heap that plays scripts:
	// before each update, and where the heap has paused. There it is called as well where the play may not be saved.
	Stand func(savable bool)

	heap       alloc.Heap
	naming     Naming // the heap, if it is one
	player            // of the micro-step's program
	evaluating player
	once       []int32 // handles of what is allocated once
	held       []int32 // handles of whole gradients that are accumulated
	rank       step.Rank
	ending     bool // the last micro-step is played, and unlike the others
	gradients  []int32
	trained    []*step.Parameter // once listed
	listed     bool
	masters    []*step.Parameter // what the optimizer updates instead, where there are such
	updater    optim.Updater
	minding    minding
	started    bool // the optimizer's state exists
	stepped    bool // a step was played
	strategy   step.Strategy
	at         place  // where the present step stands that may be saved
	from       place  // where the next step goes on that was under way when it was saved
	micro      int    // micro-steps of the present step that were played
	together   circle // of all parts of the heap
	rounds     bool   // the parts of the heap are played by themselves
	marks      marks
	// book is the storage of the last account.
	book Ledger
}

// Begin loads the model on heap, from which s allocates from here on.
func (s *Session) Begin(heap alloc.Heap) {
	s.heap = heap
	s.naming, _ = heap.(Naming)
	s.say("load", nil)
	s.started, s.stepped, s.gradients = false, false, s.gradients[:0]
	s.played, s.ended, s.from = 0, NotEnded, place{}
	s.player.begin(s.Program, s.Recorded, s.Units, s.Lead, s.look)
	s.once = handles(s.once, len(s.now))
	if s.strategy.SumsLast() {
		s.held = handles(s.held, len(s.now))
	}
	if e := s.Evaluation; e != nil {
		s.evaluating.begin(e.Program, e.Recorded, e.Units, s.Lead, s.look)
	}
	s.load()
}

// Play runs the session on heap: the model is loaded, then steps optimizer steps follow.
func (s *Session) Play(heap alloc.Heap, steps int) {
	s.Begin(heap)
	for range steps {
		s.Step()
	}
}

func (s *Session) load() {
	s.loadModel()
	s.mind(watched)
	for _, e := range s.Program.Events[:s.Program.Prologue] {
		s.now[e.Slot] = s.heap.Alloc(s.Program.Slots[e.Slot].Bytes)
	}
	s.strategy.BeforeFirstForward(s.asRank(), s.heap)
}

// loadModel loads all but the first batch.
func (s *Session) loadModel() {
	r := s.asRank()
	r.Held = r.Held[:0]
	s.strategy.Load(r, s.heap)
	for i := range s.Beside {
		s.Beside[i].Each(func(p *step.Parameter) { s.heap.Alloc(p.Bytes()) })
	}
	s.loadStates(s.heap)
	s.construct(s.heap)
	if s.Leaving != nil {
		s.Leaving.play(s.heap)
	}
}

// asRank is what the strategy sees of s.
func (s *Session) asRank() *step.Rank {
	r := &s.rank
	r.Recipe, r.Whole, r.Parts, r.Ready = &s.Recipe, s.Whole, s.Parameters, s.Program.Ready
	if r.Trained == nil { // a list of a deep model takes longer than what most strategies ask for
		r.Trained, r.Reduced = s.trainable, s.reduced
	}
	return r
}

// Step plays one optimizer step, or what is left of one that was under way.
func (s *Session) Step() {
	from := s.from
	s.from = place{}
	if s.stepped && !from.began {
		s.strategy.NextStep(s.asRank(), s.heap)
	}
	if !from.updates && !s.accumulate(from) {
		return
	}
	s.finish()
}

// finish plays what follows the micro-steps of a step.
func (s *Session) finish() {
	s.say("optimizer", nil)
	s.mind(watched)
	if !s.strategy.Update(s.asRank(), s.heap, s.updating(func(int64) { s.letGo() })) {
		s.optimizerStep(s.heap)
	}
	s.mind(watched)
	if !s.Recipe.KeepsGradients {
		s.letGo()
		s.mind(watched)
	}
	s.say("evaluation", nil)
	s.evaluate()
	s.stepped = true
}

// accumulate plays the micro-steps of a step from a place on, and says whether what follows matters.
func (s *Session) accumulate(from place) bool {
	left := max(s.Recipe.Accumulation, 1)
	if s.strategy.SumsLast() {
		left--
	}
	heap, settles := s.heap.(alloc.Settling)
	if settles {
		if s.microSteps(heap, left, from); s.over(heap) {
			return false
		}
	} else {
		for m := range left {
			s.microStep(s.flat, m == 0 && len(s.gradients) == 0 && !s.Recipe.States.GradientBuffers)
		}
	}
	if s.strategy.SumsLast() {
		s.ending = true
		s.microStep(s.flat, false)
		s.ending = false
		if settles && s.over(heap) {
			return false
		}
	}
	if settles && s.Stand != nil {
		s.at = place{began: true, updates: true}
		s.Stand(true)
	}
	return true
}

// letGo frees the gradients.
func (s *Session) letGo() {
	for _, g := range s.gradients {
		s.heap.Free(g)
	}
	s.gradients = s.gradients[:0]
}

// Requests is how many a micro-step makes of the heap; the session has begun.
func (s *Session) Requests() int64 { return int64(len(s.flat)) }

// microStep plays one, of which script has what concerns a part of the heap or all of it.
func (s *Session) microStep(script []memory.Request, first bool) {
	s.last, s.now = s.now, s.last
	s.serveAll(script, 0, first)
}

// serveAll serves what is left of a micro-step of which so many requests were served.
func (s *Session) serveAll(script []memory.Request, served int, first bool) {
	heap, serves := s.heap.(alloc.Settling)
	for rest := script[served:]; len(rest) > 0; {
		left := rest[:min(len(rest), watched)]
		rest = rest[len(left):]
		if !s.passes(len(left)) {
			return
		}
		for ; len(left) > 0; left = left[1:] {
			if serves {
				left = left[heap.Serve(left, s.now, first):]
				for heap.Paused() > 0 {
					s.pause(len(script)-len(rest)-len(left), first)
					left = left[heap.Serve(left, s.now, first):]
				}
				if len(left) == 0 {
					break
				}
			}
			s.serve(&left[0], first)
		}
	}
	if !first || !serves {
		return
	}
	for i := range script {
		if e := &script[i]; e.Op == memory.Yield {
			s.keepGradient(e.Handle)
		}
	}
}

// pause lets the play be saved within a micro-step of which so many requests were served.
func (s *Session) pause(served int, first bool) {
	s.at = place{began: true, inside: true, micro: s.micro, served: served, first: first,
		seen: s.together.seen[:s.together.played]}
	s.Stand(!s.rounds && !s.ending)
}

// over says that what follows does not matter any more.
func (s *Session) over(heap alloc.Settling) bool { return s.ended != NotEnded || heap.Failed() }

// part is what concerns one part of the heap in the micro-step's script.
func (s *Session) part(part int) []memory.Request {
	if len(s.parts[part]) == 0 {
		for i := range s.flat {
			if s.flat[i].Part() == part {
				s.parts[part] = append(s.parts[part], s.flat[i])
			}
		}
	}
	return s.parts[part]
}

// turn exchanges what the last micro-step and the one before have of the other parts, after one that was played for one
// part alone.
func (s *Session) turn(heap alloc.Settling, part int) {
	for i := range s.now {
		now, last := s.now[i], s.last[i]
		if now != alloc.None && heap.Part(now) != part || last != alloc.None && heap.Part(last) != part {
			s.now[i], s.last[i] = last, now
		}
	}
}

// keepGradient takes what handle i has for a gradient, which stays until the optimizer has seen it.
func (s *Session) keepGradient(i int32) {
	s.gradients = append(s.gradients, s.now[i])
	s.now[i] = alloc.None
}

// serve does what one request of a micro-step asks for.
func (s *Session) serve(e *memory.Request, first bool) {
	i := e.Handle
	if s.naming != nil {
		s.sayNext(e)
	}
	switch e.Op {
	case step.Alloc:
		s.now[i] = s.heap.Alloc(e.Bytes)
	case step.AllocAside:
		s.now[i] = alloc.Aside(s.heap, e.Stream(), e.Bytes)
	case step.Free:
		s.heap.Free(s.now[i])
		s.now[i] = alloc.None
	case step.Keep:
		if first {
			s.keepGradient(i)
			return
		}
		s.heap.Free(s.now[i])
		s.now[i] = alloc.None
	case step.AllocFirst:
		if first {
			s.gradients = append(s.gradients, s.heap.Alloc(e.Bytes))
		}
	case step.AllocOnce:
		if s.once[i] == alloc.None {
			s.once[i] = s.heap.Alloc(e.Bytes)
		}
	case step.FreePrev:
		s.freeLast(s.heap, i)
	case step.ReleaseCached:
		releasePart(s.heap, e)
	default:
		s.accumulateWhole(e, first)
	}
}

// accumulateWhole serves a request of gradients that are accumulated whole.
func (s *Session) accumulateWhole(e *memory.Request, first bool) {
	i := e.Handle
	switch e.Op {
	case step.Hold:
		if first {
			s.held[i] = s.now[i]
		} else {
			s.heap.Free(s.now[i])
		}
		s.now[i] = alloc.None
	case step.AllocHeld:
		if first {
			s.held[i] = s.heap.Alloc(e.Bytes)
		}
	}
	if !s.ending {
		return
	}
	switch e.Op {
	case step.FreeHeld:
		s.heap.Free(s.held[i])
		s.held[i] = alloc.None
	case step.AllocLast:
		s.now[i] = s.heap.Alloc(e.Bytes)
	case step.AllocAsideLast:
		s.now[i] = alloc.Aside(s.heap, e.Stream(), e.Bytes)
	case step.FreeLast:
		s.heap.Free(s.now[i])
		s.now[i] = alloc.None
	case step.KeepLast:
		s.keepGradient(i)
	}
}
