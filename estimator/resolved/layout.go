package resolved

import (
	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
)

// ManyGPUs is a strategy over several GPUs: what package step replays, and what an answer says of it.
type ManyGPUs interface {
	// Strategy is what is replayed; nil is what one GPU does.
	Strategy() step.Strategy
	// How says where a component's bytes come from in a job that trains p parameters; ok is false where that is no
	// different from one GPU.
	How(component, p string, run *Replayed) (how string, ok bool)
	// Notes say what the job was taken to be, and doubts what is less sure than on one GPU.
	Notes() []result.Note
	Doubts() []doubt.Doubt
	// MicroStep is the micro-step that the m-th of the ledger stands for.
	MicroStep(m int64) int64
}

// MicroStep is the micro-step that the m-th of the ledger stands for.
func (r *Layout) MicroStep(m int64) int64 {
	if r.Parallel == nil {
		return m
	}
	return r.Parallel.MicroStep(m)
}
