package workplace

import (
	"cmp"
	"slices"
	"time"
)

// line is what clients wait for something in. They have equal parts of it (start-time fair queueing: Goyal, Vin and
// Cheng, SIGCOMM 1996): whoever comes begins with as much as the one who had least of those who are there. So nobody
// has a claim to what they did not want before, and nobody who asks for less than their part has to wait until
// newcomers have caught up with what they had.
type line[T comparable] struct {
	clients map[string]*share[T]
	// waiting has the clients that wait; among equals the first goes first.
	waiting []*share[T]
	// busy is how many have what they waited for.
	busy int
}

// share is one client's.
type share[T comparable] struct {
	had     time.Duration
	busy    int
	waiting []T
}

func newLine[T comparable]() line[T] { return line[T]{clients: map[string]*share[T]{}} }

func (c *share[T]) inUse() bool { return c.busy > 0 || len(c.waiting) > 0 }

func (l *line[T]) inUse() bool { return l.busy > 0 || len(l.waiting) > 0 }

// join makes a client one of those who are there.
func (l *line[T]) join(name string) *share[T] {
	if !l.inUse() {
		clear(l.clients) // nobody is left to be fair to
	}
	own := l.clients[name]
	if own != nil && own.inUse() {
		return own
	}
	least, inUse := time.Duration(-1), 0
	for _, c := range l.clients {
		if !c.inUse() {
			continue
		}
		if inUse++; least < 0 || c.had < least {
			least = c.had
		}
	}
	if own == nil {
		if len(l.clients) > 2*inUse+64 { // those that would begin with least are forgotten
			for other, c := range l.clients {
				if !c.inUse() && c.had <= least {
					delete(l.clients, other)
				}
			}
		}
		own = &share[T]{}
		l.clients[name] = own
	}
	own.had = max(own.had, least)
	return own
}

// begin and end count what a client has of what is waited for.
func (l *line[T]) begin(name string) {
	l.join(name).busy++
	l.busy++
}

func (l *line[T]) end(name string, had time.Duration) {
	c := l.clients[name]
	c.had += had
	c.busy--
	l.busy--
}

// put lets one wait behind its client's others.
func (l *line[T]) put(name string, t T) {
	c := l.join(name)
	if len(c.waiting) == 0 {
		l.waiting = append(l.waiting, c)
	}
	c.waiting = append(c.waiting, t)
}

// take takes one out of the line, and says whether it was there. What else its client wants waits behind the others
// then.
func (l *line[T]) take(name string, t T) bool {
	c := l.clients[name]
	if c == nil {
		return false
	}
	i := slices.Index(c.waiting, t)
	if i < 0 {
		return false
	}
	c.waiting = slices.Delete(c.waiting, i, i+1)
	at := slices.Index(l.waiting, c)
	l.waiting = slices.Delete(l.waiting, at, at+1)
	if len(c.waiting) > 0 {
		l.waiting = append(l.waiting, c)
	}
	return true
}

// first is the next of the client that had least, of a line in which somebody waits.
func (l *line[T]) first() T {
	return slices.MinFunc(l.waiting, func(a, b *share[T]) int { return cmp.Compare(a.had, b.had) }).waiting[0]
}

// inOrder calls yield with all that wait, those of the client that had least first, until it says no.
func (l *line[T]) inOrder(yield func(T) bool) {
	clients := slices.Clone(l.waiting)
	slices.SortStableFunc(clients, func(a, b *share[T]) int { return cmp.Compare(a.had, b.had) })
	for _, c := range clients {
		for _, t := range c.waiting {
			if !yield(t) {
				return
			}
		}
	}
}
