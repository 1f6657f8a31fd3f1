// Package traced is a job with everything that PyTorch allocated and freed for it, as oracle/trace.py --events writes
// it, and its replay.
package traced

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/release"
)

// Job is a traced job.
type Job struct {
	ID  string        `json:"id"`
	Job estimator.Job `json:"job"`
	// Card is what of the card decides allocations: compute capability times ten, multiprocessors.
	Card [2]int `json:"card"`
	// Events are bytes, of frees negative; What says by number which of Names each is: a phase, an operation, a module.
	Events []int64  `json:"events"`
	Names  []string `json:"names"`
	What   []int    `json:"what"`
}

// Check says what the trace lacks.
func (j *Job) Check() error {
	switch {
	case j.ID == "" || len(j.Events) == 0:
		return fmt.Errorf("a trace has an id and events")
	case len(j.What) != len(j.Events):
		return fmt.Errorf("%s: %d of %d events have names", j.ID, len(j.What), len(j.Events))
	case j.Card[0] <= 0 || j.Card[1] <= 0:
		return fmt.Errorf("%s does not say its card", j.ID)
	}
	for _, name := range j.What {
		if name < 0 || name >= len(j.Names) {
			return fmt.Errorf("%s: no name %d", j.ID, name)
		}
	}
	return nil
}

// Replayed are the events of as many steps as were traced; held is that of [estimator.EventsHolding]. The error is an
// *estimator.InvalidJobError.
func (j *Job) Replayed(held map[release.Switch]bool) ([]estimator.Event, error) {
	steps := 3
	if j.Job.Training.GradientAccumulation > 1 {
		steps = 2
	}
	card := estimator.GPU{ComputeCapability: j.Card[0], Multiprocessors: j.Card[1]}
	return estimator.EventsHolding(estimator.Input{Job: j.Job, GPUs: []estimator.GPU{card}}, steps, held)
}

// Traced are the trace's own events.
func (j *Job) Traced() []estimator.Event {
	events := make([]estimator.Event, len(j.Events))
	for i, bytes := range j.Events {
		events[i] = estimator.Event{Bytes: bytes, What: j.Names[j.What[i]]}
	}
	return events
}

// Order brings every run of frees between two allocations into one order: the allocator merges neighbours, so that
// the order within such a run makes no difference to it.
func Order(events []estimator.Event) {
	for i := 0; i < len(events); {
		j := i
		for j < len(events) && events[j].Bytes < 0 {
			j++
		}
		slices.SortStableFunc(events[i:j], func(a, b estimator.Event) int { return cmp.Compare(a.Bytes, b.Bytes) })
		i = max(j, i+1)
	}
}
