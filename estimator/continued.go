package estimator

import (
	"context"
	"errors"

	"github.com/vramplan/vramplan/estimator/step"
)

// ErrStopped says that [Input.Done] was closed before the answer was there.
var ErrStopped = errors.New("the estimate was stopped before it was done")

// Until is an estimate, such as [Estimate], that ends with ctx: within milliseconds, and with the context's error.
func Until(ctx context.Context, estimate func(Input) (*Result, error)) func(Input) (*Result, error) {
	return func(in Input) (*Result, error) {
		in.Done = ctx.Done()
		r, err := estimate(in)
		if errors.Is(err, ErrStopped) {
			return nil, ctx.Err()
		}
		return r, err
	}
}

// Bounds on what is played of one job on one kind of hardware, in requests of the allocator; a million take about 50 ms.
const (
	// exactRequests is up to how many requests, of runs without gradient accumulation beyond two micro-steps, a job is played
	// with all its layers.
	exactRequests = 1 << 20
	// mostRequests ends a play that goes on for longer, since its micro-steps do not go round.
	mostRequests = 8 << 20
	// searchedRequests is up to how many the smallest limit is always looked for, which takes up to ten more plays, and
	// decidingRequests up to how many where a verdict depends on it.
	searchedRequests = 1 << 19
	decidingRequests = 1 << 20
	// sampledRequests is about how many are played of a job that is continued, twice.
	sampledRequests = 1 << 19
	// sampledMicroSteps is how many micro-steps of such a job are played in an optimizer step.
	sampledMicroSteps = 4
)

// requests is about how many requests a play of s takes in which the allocator goes round at once.
func requests(s *step.Session) int64 {
	return int64(steps(s)) * min(s.Recipe.Accumulation, 2) * s.CountRequests()
}

// playAll plays the job with all its layers where that is affordable, and otherwise some of them and continues from there. peak is
// what is alive at the job's largest moment.
func (w *workspace) playAll(found *played, peak int64, expandable, keep bool) error {
	s := &w.session
	divisible := s.Units > s.Recorded+1
	if requests(s) <= exactRequests || !divisible {
		s.Most = mostRequests
		found.reserved, found.allocated = w.play(expandable, keep)
		found.requests = s.Requests()
		switch s.Ended() {
		case step.Stopped:
			return ErrStopped
		case step.NotEnded:
			return nil
		}
	}
	whole := *s
	found.continued, found.requests = true, whole.CountRequests()
	depths := []int64{whole.Units}
	if divisible {
		perUnit := max(requests(&whole)/whole.Units, 1)
		deep := min(max(sampledRequests/perUnit, whole.Recorded+1), whole.Units)
		depths = []int64{max(whole.Recorded, deep/2), deep}
	}
	// What the allocator holds beyond what is alive at the peak grows evenly with the layers.
	var reserved, allocated line
	for _, units := range depths {
		n := whole.Shallower(units)
		n.Done = whole.Done
		n.Recipe.Accumulation = min(n.Recipe.Accumulation, sampledMicroSteps)
		w.session.Reset(n)
		alive := w.session.Account(false, false).Peak.Bytes
		most, mostAllocated := w.play(expandable, false)
		if w.session.Ended() == step.Stopped {
			return ErrStopped
		}
		reserved.add(units, most-alive)
		allocated.add(units, mostAllocated-alive)
	}
	found.allocated = peak + max(allocated.at(whole.Units), 0)
	found.reserved = max(peak+reserved.at(whole.Units), found.allocated)
	return nil
}

// line goes through the last two points that were added.
type line struct{ x, y [2]int64 }

func (l *line) add(x, y int64) { l.x, l.y = [2]int64{l.x[1], x}, [2]int64{l.y[1], y} }

func (l *line) at(x int64) int64 {
	if x == l.x[1] {
		return l.y[1]
	}
	return l.y[1] + (l.y[1]-l.y[0])*(x-l.x[1])/(l.x[1]-l.x[0])
}
