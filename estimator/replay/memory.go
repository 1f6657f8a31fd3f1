package replay

import (
	"sync"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// Memory is what the caching allocator made of jobs, by what they asked of it: cards and settings that make no
// difference to that share one replay. It may be used by several goroutines.
type Memory struct {
	key   play.ScriptKey
	mu    sync.Mutex
	known map[asked]*Played
	// earlier are those of which it is not known whether anybody asks for them still, where there is a bound.
	earlier map[asked]*Played
	most    int // how many known may have; 0 is any number
}

// asked is what was asked of an allocator, and the most that was alive at a time.
type asked struct {
	script   play.Script
	settings memory.Settings
	peak     int64
}

// Played is what the allocator made of it.
type Played struct {
	turn chan struct{} // full while somebody is at it
	// Done says that the rest is known.
	Done bool
	// Reserved and allocated are the most that the allocator had.
	Reserved, Allocated int64
	// Continued says that they were continued from some of the layers.
	Continued bool
	// Limit is the smallest; 0 where nobody has looked for it.
	Limit int64
	// Requests are those of a micro-step, and tries the runs that it took to find the limit.
	Requests, Tries int64
}

// NewMemory remembers nothing yet.
func NewMemory() *Memory {
	return &Memory{key: play.NewScriptKey(), known: map[asked]*Played{}}
}

// NewMemoryOf is newMemory for questions of strangers, of which there is no end: it forgets all but the last most
// replays that were asked for, and at most as many before them.
func NewMemoryOf(most int) *Memory {
	p := NewMemory()
	p.most = most
	return p
}

// Of is where the replay of a session is remembered; a nil p remembers nothing. What it returns is locked: whoever
// finds another at it waits without a turn of their own. The error is ErrStopped.
func (p *Memory) Of(s *play.Session, settings memory.Settings, peak int64, turn Turn,
	done <-chan struct{}) (*Played, error) {
	one := &Played{turn: make(chan struct{}, 1)}
	if p != nil {
		one = p.find(asked{s.Script(p.key), settings, peak}, one)
	}
	select {
	case one.turn <- struct{}{}:
		return one, nil
	default:
	}
	if p.most > 0 { // strangers do not wait for each other: who is at it may have to wait for a core for long
		own := &Played{turn: make(chan struct{}, 1)}
		own.turn <- struct{}{}
		return own, nil
	}
	turn.Rest()
	defer turn.Resume()
	select {
	case one.turn <- struct{}{}:
		return one, nil
	case <-done:
		return nil, ErrStopped
	}
}

// find is what is remembered of a question, or else one, which is remembered from here on.
func (p *Memory) find(key asked, one *Played) *Played {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.known[key]; known != nil {
		return known
	}
	if known := p.earlier[key]; known != nil {
		one = known
	}
	if p.most > 0 && len(p.known) >= p.most {
		p.known, p.earlier = map[asked]*Played{}, p.known
	}
	p.known[key] = one
	return one
}

// count is how many replays are remembered.
func (p *Memory) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.known) + len(p.earlier)
}

// Unlock lets others have what is remembered.
func (p *Played) Unlock() { <-p.turn }
