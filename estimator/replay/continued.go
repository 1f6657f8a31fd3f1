package replay

import (
	"errors"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// ErrStopped says that [Input.Done] was closed before the answer was there.
var ErrStopped = errors.New("the estimate was stopped before it was done")

// Bounds on what is played of one job on one kind of hardware, in requests of the allocator; a million take about 50
// ms.
const (
	// ExactRequests is up to how many requests, of runs without gradient accumulation beyond two micro-steps, a job is
	// played with all its layers.
	ExactRequests = 1 << 20
	// MostRequests ends a play that goes on for longer, since its micro-steps do not go round.
	MostRequests = 8 << 20
	// SearchedRequests is up to how many the smallest limit is looked for, which takes up to ten more plays.
	SearchedRequests = 1 << 19
	// sampledRequests is about how many are played of a job that is continued, twice, and sampledSteps in how many
	// optimizer steps of how many micro-steps at most.
	sampledRequests, SampledSteps, SampledMicroSteps = 1 << 18, 2, 4
	// MostSampledRequests is with how many such a job is played with fewer experts in a layer, and leastSampledExperts
	// with how many at least.
	MostSampledRequests, LeastSampledExperts = 2 << 20, 64
)

// Requests is about how many requests a play of s takes in which the allocator goes round at once.
func Requests(s *play.Session) int64 {
	return int64(Steps(s)) * min(s.Recipe.Accumulation, 2) * s.CountRequests()
}

// PlayAll plays the job with all its layers where that is affordable, and otherwise some of them and continues from
// there. peak is what is alive at the job's largest moment.
func (w *Workspace) PlayAll(found *Played, peak int64, settings memory.Settings, keep bool) error {
	s := &w.Session
	if Requests(s) <= ExactRequests {
		s.Most = MostRequests
		above := int64(0)
		if keep {
			above = peak - 1
		}
		found.Reserved, found.Allocated = w.Play(Steps(s), settings, above)
		found.Requests = s.Requests()
		switch s.Ended() {
		case play.Stopped:
			return ErrStopped
		case play.NotEnded:
			return nil
		}
	}
	whole := *s
	found.Continued, found.Requests = true, whole.CountRequests()
	// What the allocator holds beyond what is alive at the peak grows evenly with the layers and with the experts of
	// each.
	var reserved, allocated line
	depths, widths := samples(&whole)
	for _, units := range depths {
		var wide, wideAllocated line
		for _, experts := range widths {
			n := whole.Part(units, experts)
			n.Recipe.Accumulation = min(n.Recipe.Accumulation, SampledMicroSteps)
			w.total += w.Session.Total
			w.Session.Reset(n)
			alive := w.Session.Account(false, false).Peak.Bytes
			most, mostAllocated := w.Play(SampledSteps, settings, 0)
			if w.Session.Ended() == play.Stopped {
				return ErrStopped
			}
			wide.add(experts, most-alive)
			wideAllocated.add(experts, mostAllocated-alive)
		}
		reserved.add(units, wide.at(whole.Program.ExpertCopies))
		allocated.add(units, wideAllocated.at(whole.Program.ExpertCopies))
	}
	found.Allocated = peak + max(allocated.at(whole.Units), 0)
	found.Reserved = max(peak+reserved.at(whole.Units), found.Allocated)
	return nil
}

// samples are with how many units, and with a middle expert that stands for how many, a job is played from which its
// whole is continued: two of either where there are more than the budget has room for.
func samples(s *play.Session) (depths, widths []int64) {
	microSteps := min(s.Recipe.Accumulation, SampledMicroSteps)
	perUnit := max(SampledSteps*microSteps*s.CountRequests()/s.Units, 1)
	depths, widths = []int64{s.Units}, []int64{s.Program.ExpertCopies}
	if s.Units > s.Recorded+1 {
		deep := min(max(sampledRequests/perUnit, s.Recorded+1), s.Units)
		depths = []int64{deep, max(s.Recorded, deep/2)} // the larger first, whose storage has room for the other
	}
	deepest := perUnit * depths[0]
	if copies := s.Program.ExpertCopies; copies > LeastSampledExperts && deepest > MostSampledRequests {
		wide := max(copies*MostSampledRequests/deepest, LeastSampledExperts)
		widths = []int64{wide, wide / 2}
	}
	return depths, widths
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
