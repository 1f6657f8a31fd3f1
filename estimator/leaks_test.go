package estimator

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/answer"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/session"
	"github.com/vramplan/vramplan/estimator/step"
)

// TestNothingIsForgotten: what a micro-step or a batch of an evaluation allocates it frees, keeps as a gradient, or
// leaves to the next one to free.
func TestNothingIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { nothingIsForgotten(t, Input{Job: randomJob(t)}) })
}

func nothingIsForgotten(t rapid.TB, in Input) {
	t.Helper()
	r, err := resolve.Resolve(&in)
	if err != nil {
		t.Fatal(err)
	}
	s := session.PlayerOf(r, &in, nil).Session(&replay.Workspace{}, session.Hardware(r.Recipe, nil), false)
	allIsFollowed(t, r, "micro-step", s.Program)
	if s.Evaluation != nil {
		allIsFollowed(t, r, "evaluation", s.Evaluation.Program)
	}
}

func allIsFollowed(t rapid.TB, r *resolved.Job, pass string, p *step.Program) {
	t.Helper()
	alive, followed := make([]bool, len(p.Slots)), make([]bool, len(p.Slots))
	for _, e := range p.Events {
		switch e.Op {
		case step.Alloc, step.AllocAside:
			alive[e.Slot] = true
		case step.Free, step.Keep, step.Hold, step.FreeHeld, step.FreeLast, step.KeepLast:
			alive[e.Slot] = false
		case step.FreePrev:
			followed[e.Slot] = true
		}
	}
	for i := range p.Slots {
		if alive[i] && !followed[i] {
			t.Fatalf(
				"%s: %s of %s is left behind: %s, %d bytes",
				pass,
				p.Slots[i].Label,
				answer.On(
					r,
				).LayerName(
					int64(p.Slots[i].Unit),
				),
				answer.ComponentNames[p.Slots[i].Component],
				p.Slots[i].Bytes,
			)
		}
	}
}
