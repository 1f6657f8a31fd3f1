package estimator

import (
	"errors"
	"slices"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// Request is a tensor that a training step asks its allocator for in one piece.
type Request struct {
	Tensor
	// Phase is where it is made: "load", "forward", "backward" or "optimizer".
	Phase string
}

// Requests lists what a job asks its allocator for, tensors of one kind and size once: its parameters, everything that
// the forward and the backward pass of a micro-step make, whether or not it is alive at the peak, and the optimizer's
// state. It is for those who know a size and look for the tensor. The error is an *InvalidJobError, as that of
// [Estimate] is.
func Requests(in Input) (_ []Request, err error) {
	r, err := resolve(&in)
	if err != nil {
		return nil, err
	}
	p := playerOf(r, &in, nil)
	var first *GPU
	if len(in.GPUs) > 0 {
		first = &in.GPUs[0]
	}
	end, err := p.admit()
	if err != nil {
		return nil, err
	}
	defer end()
	defer r.refuseRecording(&err)
	s, err := p.begin(&replay.Workspace{}, hardware(r.recipe, first))
	if err != nil {
		return nil, err
	}
	var list []Request
	seen := map[play.LiveTensor]bool{}
	for _, g := range s.Program.Segments {
		if err := p.look(); err != nil {
			return nil, err
		}
		phase := "forward"
		if g.Backward {
			phase = "backward"
		}
		var made []play.LiveTensor
		for _, e := range s.Program.Events[g.Start:g.End] {
			slot := &s.Program.Slots[e.Slot]
			t := play.LiveTensor{Label: slot.Label, Component: slot.Component, Part: slot.Part, Layers: slot.Unit >= 0,
				Bytes: slot.Bytes, Dtype: slot.Dtype, Typed: slot.Typed, Count: 1}
			if slot.Bytes > 0 && !seen[t] {
				seen[t] = true
				made = append(made, t)
			}
		}
		for _, t := range r.tensors(&play.Moment{Tensors: made, Backward: g.Backward}) {
			list = append(list, Request{t, phase})
		}
	}
	standing := s.Account(false, true).Peak.Tensors
	for _, t := range r.tensors(&play.Moment{Tensors: standing}) {
		switch t.Component {
		case componentNames[step.Weights]:
			list = append(list, Request{t, "load"})
		case componentNames[step.OptimizerState]:
			list = append(list, Request{t, "optimizer"})
		}
	}
	return slices.Clip(list), nil
}

// FirstFailure plays a job on an allocator that may not take more than limitBytes from the driver, and says how many
// bytes the first request wants that it cannot serve; 0 where the job gets through three optimizer steps. The error is
// that of [Requests], or ErrNotPlayed.
func FirstFailure(in Input, limitBytes int64) (requestedBytes int64, err error) {
	r, err := resolve(&in)
	if err != nil {
		return 0, err
	}
	p := playerOf(r, &in, nil)
	end, err := p.admit()
	if err != nil {
		return 0, err
	}
	defer end()
	defer r.refuseRecording(&err)
	var first *GPU
	if len(in.GPUs) > 0 {
		first = &in.GPUs[0]
	}
	heap := memory.NewAllocator(false)
	heap.Reset(r.expand, limitBytes)
	s, err := p.begin(&replay.Workspace{}, hardware(r.recipe, first))
	if err != nil {
		return 0, err
	}
	if replay.Requests(s) > replay.ExactRequests {
		return 0, ErrNotPlayed
	}
	s.Watch = play.Watch{Done: in.Done, Pace: p.turn.Pace, Most: replay.MostRequests}
	s.Play(heap, 3)
	switch {
	case s.Ended() == play.Stopped:
		return 0, ErrStopped
	case s.Ended() == play.Spent && !heap.Failed():
		return 0, ErrNotPlayed
	}
	return heap.Refused(), nil
}

// ErrNotPlayed says that a job takes too long to be played with all its layers.
var ErrNotPlayed = errors.New("the job is too large to be played whole")
