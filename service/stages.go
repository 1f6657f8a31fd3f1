package service

import (
	"slices"
	"time"
)

// stage is what requests in one stage want and had. Its clients have equal parts (start-time fair queueing: Goyal,
// Vin and Cheng, SIGCOMM 1996): whoever comes to it begins with as much as the one who had least has had. So nobody has
// a claim to what they did not want before, and nobody who asks for less than their part has to wait until newcomers
// have caught up with what they had.
type stage struct {
	clients map[string]*share
	// line has the clients that wait; among equals the first goes first.
	line []*share
	// running is how many turns have a core.
	running int
	// used is how long all of them had a core, over the stage's weight, since it was last in use with others.
	used time.Duration
}

// share is one client's part of a stage.
type share struct {
	had     time.Duration
	running int
	waiting []*turn
}

func (c *share) inUse() bool { return c.running > 0 || len(c.waiting) > 0 }

func (s *stage) inUse() bool { return s.running > 0 || len(s.line) > 0 }

// join makes a client one of the stage's.
func (s *stage) join(name string) {
	if !s.inUse() {
		clear(s.clients) // nobody is left to be fair to
	}
	own := s.clients[name]
	if own != nil && own.inUse() {
		return
	}
	least := time.Duration(-1)
	inUse := 0
	for _, c := range s.clients {
		if !c.inUse() {
			continue
		}
		if inUse++; least < 0 || c.had < least {
			least = c.had
		}
	}
	if own == nil {
		if len(s.clients) > 2*inUse+64 {
			s.forget(least)
		}
		own = &share{}
		s.clients[name] = own
	}
	own.had = max(own.had, least)
}

// forget drops the clients that would begin with least.
func (s *stage) forget(least time.Duration) {
	for name, c := range s.clients {
		if !c.inUse() && c.had <= least {
			delete(s.clients, name)
		}
	}
}

// queue lets a turn wait behind its client's others.
func (s *stage) queue(t *turn) {
	c := s.clients[t.client.name]
	if len(c.waiting) == 0 {
		s.line = append(s.line, c)
	}
	c.waiting = append(c.waiting, t)
}

// unqueue takes a turn out of the line, if it is there. What else its client wants waits behind the others then.
func (s *stage) unqueue(t *turn) {
	c := s.clients[t.client.name]
	if c == nil {
		return
	}
	i := slices.Index(c.waiting, t)
	if i < 0 {
		return
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	at := slices.Index(s.line, c)
	s.line = slices.Delete(s.line, at, at+1)
	if len(c.waiting) > 0 {
		s.line = append(s.line, c)
	}
}

// first is the next turn of the client that had least.
func (s *stage) first() *turn {
	least := s.line[0]
	for _, c := range s.line[1:] {
		if c.had < least.had {
			least = c
		}
	}
	return least.waiting[0]
}
