package estimator

import (
	"errors"
	"slices"

	"github.com/vramplan/vramplan/estimator/answer"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/session"
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
	r, err := resolve.Resolve(&in)
	if err != nil {
		return nil, err
	}
	p := session.PlayerOf(r, &in, nil)
	var first *GPU
	if len(in.GPUs) > 0 {
		first = &in.GPUs[0]
	}
	end, err := p.Admit()
	if err != nil {
		return nil, err
	}
	defer end()
	defer p.RefuseRecording(&err)
	s, err := p.Begin(&replay.Workspace{}, session.Hardware(r.Recipe, first))
	if err != nil {
		return nil, err
	}
	var list []Request
	seen := map[play.LiveTensor]bool{}
	for _, g := range s.Program.Segments {
		if err := p.Look(); err != nil {
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
		for _, t := range answer.On(r).Tensors(&play.Moment{Tensors: made, Backward: g.Backward}) {
			list = append(list, Request{t, phase})
		}
	}
	standing := s.Account(false, true).Peak.Tensors
	for _, t := range answer.On(r).Tensors(&play.Moment{Tensors: standing}) {
		switch t.Component {
		case answer.ComponentNames[step.Weights]:
			list = append(list, Request{t, "load"})
		case answer.ComponentNames[step.OptimizerState]:
			list = append(list, Request{t, "optimizer"})
		}
	}
	return slices.Clip(list), nil
}

// FirstFailure plays a job on an allocator that may not take more than limitBytes from the driver, and says how many
// bytes the first request wants that it cannot serve; 0 where the job gets through three optimizer steps. The error is
// that of [Requests], or ErrNotPlayed.
func FirstFailure(in Input, limitBytes int64) (requestedBytes int64, err error) {
	r, err := resolve.Resolve(&in)
	if err != nil {
		return 0, err
	}
	p := session.PlayerOf(r, &in, nil)
	end, err := p.Admit()
	if err != nil {
		return 0, err
	}
	defer end()
	defer p.RefuseRecording(&err)
	var first *GPU
	if len(in.GPUs) > 0 {
		first = &in.GPUs[0]
	}
	heap := memory.NewAllocator(memory.Settings{})
	heap.Reset(r.Allocator, limitBytes)
	s, err := p.Begin(&replay.Workspace{}, session.Hardware(r.Recipe, first))
	if err != nil {
		return 0, err
	}
	if replay.Requests(s) > replay.ExactRequests {
		return 0, ErrNotPlayed
	}
	s.Watch = play.Watch{Done: in.Done, Pace: p.Turn.Pace, Most: replay.MostRequests}
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
