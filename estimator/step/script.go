package step

import "github.com/vramplan/vramplan/estimator/memory"

// Script identifies everything that a session asks of a heap: sessions of equal scripts leave equal heaps behind, whatever card or
// recipe they were recorded for. It is a hash of 128 bits.
type Script [2]uint64

// scribe is a heap that hashes what it is asked for.
type scribe struct {
	script Script
	next   int32
}

func (w *scribe) note(v uint64) {
	a, b := (w.script[0]^v)*0x9e3779b97f4a7c15, (w.script[1]+v)*0xc2b2ae3d27d4eb4f
	w.script = Script{a ^ a>>29, b ^ b>>31}
}

func (w *scribe) Alloc(bytes int64) int32 { return w.AllocOn(0, bytes) }

func (w *scribe) AllocOn(stream uint8, bytes int64) int32 {
	w.note(uint64(stream)<<1 | 1)
	w.note(uint64(bytes))
	w.next++
	return w.next
}

func (w *scribe) Free(handle int32) { w.note(uint64(handle) << 2) }

func (w *scribe) ReleaseCached() { w.note(2) }

// Script writes the session down: loading, the lists of what micro-steps and evaluations do, and two updates, the later of which
// finds what the first has left.
func (s *Session) Script() Script {
	w := &scribe{}
	s.Begin(w)
	s.rebuildBuckets(w)
	s.optimizerStep(w)
	s.optimizerStep(w)
	w.note(uint64(s.Recipe.Accumulation))
	for _, yes := range [...]bool{s.Recipe.KeepsGradients, s.Recipe.States.GradientBuffers} {
		if yes {
			w.note(1)
		}
		w.note(0)
	}
	w.list(s.flat)
	if s.Evaluation != nil {
		w.list(s.evaluating.flat)
	}
	return w.script
}

func (w *scribe) list(requests []memory.Request) {
	w.note(uint64(len(requests)))
	for i := range requests {
		e := &requests[i]
		w.note(uint64(e.Handle)<<16 | uint64(e.Stream())<<8 | uint64(e.Op))
		w.note(uint64(e.Bytes))
	}
}
