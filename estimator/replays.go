package estimator

import (
	"sync"

	"github.com/vramplan/vramplan/estimator/step/play"
)

// Replays remembers what the caching allocator made of a job, by what the job asked of it: cards and settings that make
// no difference to that share one replay. It is for questions that belong together, such as those of a plan or about
// the cards of a catalog; answers are what [Estimate] and [Judge] say without it. It may be used by several goroutines.
type Replays struct {
	key   play.ScriptKey
	mu    sync.Mutex
	known map[asked]*played
}

// asked is what was asked of an allocator, and the most that was alive at a time.
type asked struct {
	script     play.Script
	expandable bool
	peak       int64
}

// played is what the allocator made of it.
type played struct {
	turn                chan struct{} // full while somebody is at it
	done                bool
	reserved, allocated int64
	continued           bool  // from some of the layers
	limit               int64 // the smallest; 0 where nobody has looked for it
	// requests are those of a micro-step, and tries the runs that it took to find the limit.
	requests, tries int64
}

// NewReplays remembers nothing yet.
func NewReplays() *Replays { return &Replays{key: play.NewScriptKey(), known: map[asked]*played{}} }

// forOne remembers replays for one answer, where it has several cards.
func forOne(in Input) *Replays {
	if len(in.GPUs) > 1 {
		return NewReplays()
	}
	return nil
}

// Estimate is [Estimate].
func (p *Replays) Estimate(in Input) (*Result, error) { return estimate(in, true, p) }

// Judge is [Judge].
func (p *Replays) Judge(in Input) (*Result, error) { return estimate(in, false, p) }

// of is where the replay of a session is remembered; a nil p remembers nothing. What it returns is locked: whoever
// finds another at it waits without a turn of their own. The error is ErrStopped.
func (p *Replays) of(s *play.Session, expandable bool, peak int64, r *resolved) (*played, error) {
	one := &played{turn: make(chan struct{}, 1)}
	if p != nil {
		key := asked{s.Script(p.key), expandable, peak}
		p.mu.Lock()
		if known := p.known[key]; known != nil {
			one = known
		} else {
			p.known[key] = one
		}
		p.mu.Unlock()
	}
	select {
	case one.turn <- struct{}{}:
		return one, nil
	default:
	}
	r.turn.Rest()
	defer r.turn.Resume()
	select {
	case one.turn <- struct{}{}:
		return one, nil
	case <-r.done:
		return nil, ErrStopped
	}
}

func (p *played) unlock() { <-p.turn }
