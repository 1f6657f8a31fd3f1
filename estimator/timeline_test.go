package estimator

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/answer"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/session"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// TestTimelineComponentsAddUp: at every moment the components add up to what is live, none is below nothing, and those
// of the largest moment are the components of the answer, which are found on another way.
func TestTimelineComponentsAddUp(t *testing.T) { timelineAddsUp(t, randomJob) }

// TestTimelineComponentsAddUpSharded does so for jobs all of which are sharded.
func TestTimelineComponentsAddUpSharded(t *testing.T) { timelineAddsUp(t, shardedJob) }

func timelineAddsUp(t *testing.T, draw func(*rapid.T) Job) {
	rapid.Check(t, func(t *rapid.T) {
		in := Input{Job: draw(t), Timeline: true}
		r, err := resolve.Resolve(&in)
		if err != nil {
			t.Fatal(err)
		}
		// In the ledger nothing makes up for what is missing.
		ledger := session.PlayerOf(
			r,
			&in,
			nil,
		).Session(
			&replay.Workspace{},
			session.Hardware(r.Recipe, nil),
			false,
		).Account(
			true,
			false,
		)
		for _, s := range ledger.Spans {
			most, end := int64(0), int64(0)
			for c := range s.AtEnd {
				most, end = most+s.AtMost[c], end+s.AtEnd[c]
				if s.AtMost[c] < 0 || s.AtEnd[c] < 0 {
					t.Fatalf("%s is below nothing: %+v", answer.ComponentNames[c], s)
				}
			}
			if most != s.Most || end != s.End {
				t.Fatalf("the components add up to %d and %d, the span says %d and %d", most, end, s.Most, s.End)
			}
			if s.Reached.Bytes <= 0 || s.Reached.Count != 1 {
				t.Fatalf("a span is reached by %+v", s.Reached)
			}
		}
		outside := [][2]int64{{ledger.Largest[play.StageOptimizer], 0}, {ledger.Steady, 0}}
		for c := range ledger.Shares.Steady {
			outside[0][1] += ledger.Shares.Optimizer[c]
			outside[1][1] += ledger.Shares.Steady[c]
		}
		for _, x := range outside {
			if x[0] != x[1] {
				t.Fatalf("between micro-steps the components add up to %d of %d", x[1], x[0])
			}
		}

		res, err := Estimate(in)
		if err != nil {
			t.Fatal(err)
		}
		var largest *TimelineEvent
		for i := range res.Timeline {
			e := &res.Timeline[i]
			sum := int64(0)
			for _, c := range e.Components {
				sum += c.Bytes
			}
			if e.Components != nil && sum != e.AllocatedBytes {
				t.Fatalf("%s: the components add up to %d of %d", e.Event, sum, e.AllocatedBytes)
			}
			if largest == nil || e.AllocatedBytes > largest.AllocatedBytes {
				largest = e
			}
		}
		if res.Peak.Phase != "forward" && res.Peak.Phase != "backward" {
			return
		}
		for _, c := range largest.Components {
			for _, want := range res.Components {
				// which has NCCL's besides
				if c.Name == want.Name && c.Bytes != want.Bytes && c.Name != "communication" {
					t.Fatalf("at %s %s has %d bytes, in the answer %d", largest.Event, c.Name, c.Bytes, want.Bytes)
				}
			}
		}
	})
}
