package play

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/vramplan/vramplan/estimator/step"
)

// Script identifies everything that a session asks of a heap: sessions of equal scripts leave equal heaps behind,
// whatever card or recipe they were recorded for. It is a hash of 128 bits under a key.
type Script [2]uint64

// ScriptKey is what scripts are hashed under. Only scripts under one key compare. Nobody who does not know it can make
// two jobs that ask for different things under one hash, of which the one would be answered with the other's replay.
type ScriptKey [2]maphash.Seed

// NewScriptKey is a key that nobody knows.
func NewScriptKey() ScriptKey { return ScriptKey{maphash.MakeSeed(), maphash.MakeSeed()} }

// scribe is a heap that hashes what it is asked for.
type scribe struct {
	hashes [2]maphash.Hash
	// noted is what has not been hashed yet.
	noted [4096]byte
	n     int
	next  int32
}

func (w *scribe) note(v uint64) {
	if w.n == len(w.noted) {
		w.hash()
	}
	binary.LittleEndian.PutUint64(w.noted[w.n:], v)
	w.n += 8
}

func (w *scribe) hash() {
	for i := range w.hashes {
		_, _ = w.hashes[i].Write(w.noted[:w.n]) // never fails
	}
	w.n = 0
}

func (w *scribe) script() Script {
	w.hash()
	return Script{w.hashes[0].Sum64(), w.hashes[1].Sum64()}
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

// Script writes the session down: loading, what micro-steps and evaluations do, and two updates, the later of which
// finds what the first has left.
func (s *Session) Script(key ScriptKey) Script {
	w := &scribe{}
	for i := range key {
		w.hashes[i].SetSeed(key[i])
	}
	s.heap, s.started, s.stepped, s.gradients = w, false, false, s.gradients[:0]
	s.loadModel()
	s.strategy.BeforeFirstForward(s.asRank(), w)
	s.strategy.NextStep(s.asRank(), w)
	for range 2 {
		s.mind(watched)
		if !s.strategy.Update(s.asRank(), w, s.updating(func(int64) { w.note(3) })) {
			s.optimizerStep(w)
		}
	}
	w.note(uint64(s.Recipe.Accumulation))
	for _, yes := range [...]bool{s.Recipe.KeepsGradients, s.Recipe.States.GradientBuffers, s.strategy.SumsLast()} {
		if yes {
			w.note(1)
		}
		w.note(0)
	}
	w.program(s.Program, s.Recorded, s.Units, s.Lead)
	if e := s.Evaluation; e != nil {
		w.program(e.Program, e.Recorded, e.Units, s.Lead)
	}
	return w.script()
}

// program notes a program and how often its middle unit is repeated.
func (w *scribe) program(p *step.Program, recorded, units, lead int64) {
	for _, n := range [...]int64{recorded, units, lead, int64(p.Prologue), int64(len(p.Slots)), int64(len(p.Events)),
		int64(len(p.Segments)), p.ExpertCopies, int64(len(p.Runs))} {
		w.note(uint64(n))
	}
	for i := range p.Slots {
		x := &p.Slots[i]
		w.note(uint64(x.Bytes))
		w.note(uint64(uint32(x.Unit))<<8 | uint64(x.Stream))
	}
	for _, e := range p.Events {
		w.note(uint64(uint32(e.Slot))<<8 | uint64(e.Op))
	}
	for _, r := range p.Runs {
		w.note(uint64(r.Start)<<32 | uint64(r.End))
		w.note(uint64(r.Expert))
		if r.Falling {
			w.note(1)
		}
	}
	for _, g := range p.Segments {
		w.note(uint64(g.Start)<<32 | uint64(g.End))
		w.note(uint64(uint32(g.Unit)))
		if g.Backward {
			w.note(1)
		}
	}
}
