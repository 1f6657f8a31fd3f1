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
	// earlier are those of which it is not known whether anybody asks for them still, where there is a bound.
	earlier map[asked]*played
	most    int // how many known may have; 0 is any number
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

// NewReplaysOf is NewReplays for questions of strangers, of which there is no end: it forgets all but the last most
// replays that were asked for, and at most as many before them.
func NewReplaysOf(most int) *Replays {
	p := NewReplays()
	p.most = most
	return p
}

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
		one = p.find(asked{s.Script(p.key), expandable, peak}, one)
	}
	select {
	case one.turn <- struct{}{}:
		return one, nil
	default:
	}
	if p.most > 0 { // strangers do not wait for each other: who is at it may have to wait for a core for long
		own := &played{turn: make(chan struct{}, 1)}
		own.turn <- struct{}{}
		return own, nil
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

// find is what is remembered of a question, or else one, which is remembered from here on.
func (p *Replays) find(key asked, one *played) *played {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.known[key]; known != nil {
		return known
	}
	if known := p.earlier[key]; known != nil {
		one = known
	}
	if p.most > 0 && len(p.known) >= p.most {
		p.known, p.earlier = map[asked]*played{}, p.known
	}
	p.known[key] = one
	return one
}

func (p *played) unlock() { <-p.turn }
