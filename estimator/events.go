package estimator

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/answer"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// Event is one request that the replay makes of the allocator.
type Event struct {
	// Bytes are those of an allocation or, negative, of what is freed.
	Bytes int64
	// Aside is the stream that it is allocated on, 0 for the one that computes.
	Aside uint8
	// What says the phase of the run and, in a micro-step, what the tensor is and where it was born: "micro-step layer
	// 3, attention: attention output". A free says it of what is freed.
	What string
}

// Events are the requests of the given number of optimizer steps in PyTorch's order: what [Replay] plays, with names.
// Every layer is played by itself. The error is an *InvalidJobError, as Estimate's.
func Events(in Input, steps int) ([]Event, error) {
	var list eventList
	in.OwnLoop = true
	if err := Replay(in, &list, steps, true); err != nil {
		return nil, err
	}
	return list.events, nil
}

// EventsHolding are [Events] with the changes of the table of releases that held says to be there, and without those
// that it says not to be, whatever the releases of the job are.
func EventsHolding(in Input, steps int, held map[release.Switch]bool) ([]Event, error) {
	in.Held = held
	return Events(in, steps)
}

// eventList is a heap that writes down what it is asked for.
type eventList struct {
	events []Event
	taken  []int // by handle: the event that allocated it
	phase  string
	tensor *step.Slot
}

// Next is part of [play.Naming].
func (l *eventList) Next(phase string, tensor *step.Slot) { l.phase, l.tensor = phase, tensor }

func (l *eventList) what() string {
	x := l.tensor
	if x == nil {
		return l.phase
	}
	where := ""
	if x.Unit >= 0 {
		where = fmt.Sprintf(" layer %d", x.Unit)
	}
	if x.Component == step.Activations {
		where += " " + answer.PartNames[x.Part]
	}
	return l.phase + where + ": " + x.Label.String()
}

func (l *eventList) Alloc(bytes int64) int32 { return l.AllocOn(0, bytes) }

// AllocOn is part of [alloc.Streaming].
func (l *eventList) AllocOn(stream uint8, bytes int64) int32 {
	l.taken = append(l.taken, len(l.events))
	l.events = append(l.events, Event{Bytes: bytes, Aside: stream, What: l.what()})
	return int32(len(l.taken) - 1)
}

func (l *eventList) Free(handle int32) {
	made := l.events[l.taken[handle]]
	l.events = append(l.events, Event{Bytes: -made.Bytes, Aside: made.Aside, What: made.What})
}
