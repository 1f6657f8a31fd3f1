package workplace

import (
	"fmt"
	"time"
)

// room is places and memory for work of one size. Memory is booked by what work takes at most, which is known before
// anything is recorded. One client has some of the places, and half of the memory together but for work that takes
// more.
type room struct {
	line[*booking]
	places, placesOfClient int
	all, free              int64
	has                    map[string]*holding
	patience               time.Duration
}

// holding is what one client has of a room.
type holding struct {
	places int
	bytes  int64
}

// booking is memory that is asked for, and a place where the work has none; called is closed when it has them. Without
// work it is a fit's, which waits however long others wait.
type booking struct {
	work   *work
	of     *request
	bytes  int64
	room   *room
	called chan struct{}
}

func newRoom(bytes int64, places, ofClient int, patience time.Duration) room {
	return room{line: newLine[*booking](), places: places, placesOfClient: ofClient, all: bytes, free: bytes,
		has: map[string]*holding{}, patience: patience}
}

// TooLargeError is of work that takes more memory than there is for one.
type TooLargeError struct{ Bytes, Most int64 }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("takes up to %d bytes, and there are %d for one", e.Bytes, e.Most)
}

// quickRequests is up to how many requests of the replayed allocator, at most, an estimate is quick. Estimates of one
// card have a bound below it and take up to 40 ms of a core (an 8B Llama with 64 micro-steps: 23 million); those of
// mixtures of hundreds of experts and of the whole catalog have one above.
const quickRequests = 32 << 20

// roomFor is where work of that cost is done.
func (p *Place) roomFor(w *work, of *request, bytes, requests int64) (*room, error) {
	quick := w != nil && w.size == Unknown && !w.part && requests <= quickRequests && stageOf(of) < stageOfLong
	switch {
	case bytes <= p.ordinary && quick:
		return &p.quick, nil
	case bytes <= p.ordinary:
		return &p.small, nil
	case bytes <= p.large.all:
		return &p.large, nil
	}
	return nil, &TooLargeError{bytes, p.large.all}
}

// Book waits until there is memory for what the turn is taken for, without a core, and for a place where its work has
// none. It is given back with the turn.
func (t *Turn) Book(bytes, requests int64) error {
	p := t.place
	p.mu.Lock()
	defer p.mu.Unlock()
	r, err := p.roomFor(t.work, t.of, bytes, requests)
	if err != nil {
		return err
	}
	b := &booking{work: t.work, of: t.of, bytes: bytes, called: make(chan struct{})}
	if !r.admit(b) {
		t.rest()
		if !p.awaitRoom(r, b, t.gone) {
			return why(t.ctx)
		}
	}
	t.booked = append(t.booked, b)
	t.resume()
	return nil
}

// settle gives work its place where that does not wait for its cost.
func (p *Place) settle(w *work) error {
	if w.part {
		return nil
	}
	r := &p.small
	if w.size == Reading {
		r = &p.readings
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := &booking{work: w, of: w.of, called: make(chan struct{})}
	if !r.admit(b) && !p.awaitRoom(r, b, w.ctx.Done()) {
		return why(w.ctx)
	}
	r.giveBack(b) // the place stays the work's
	return nil
}

// awaitRoom waits in the line of a room. It is called with the lock, and returns with it.
func (p *Place) awaitRoom(r *room, b *booking, gone <-chan struct{}) bool {
	r.put(b.of.client, b)
	if r.call(); b.room != nil || p.await(b.work, r.patience, b.called, gone) {
		return true
	}
	r.take(b.of.client, b)
	r.call()
	return false
}

// admit gives room to a booking where there is some and nobody waits for it.
func (r *room) admit(b *booking) bool {
	if len(r.waiting) > 0 || !r.allows(b) || b.bytes > r.free {
		return false
	}
	r.grant(b)
	return true
}

// allows says whether the client of a booking may have it beside what they have.
func (r *room) allows(b *booking) bool {
	has := holding{}
	if h := r.has[b.of.client]; h != nil {
		has = *h
	}
	if b.work.homeless() && (r.places == 0 || has.places >= r.placesOfClient) {
		return false
	}
	return has.bytes == 0 || has.bytes+b.bytes <= r.all/2
}

func (r *room) grant(b *booking) {
	h := r.has[b.of.client]
	if h == nil {
		h = &holding{}
		r.has[b.of.client] = h
	}
	if w := b.work; w != nil {
		if w.homeless() {
			w.room = r
			r.places--
			h.places++
			r.begin(b.of.client)
		}
		w.booked += b.bytes
	}
	b.room = r
	r.free -= b.bytes
	h.bytes += b.bytes
	r.begin(b.of.client)
}

// call gives room to those who wait. One whose client has its share lets others pass, and so does one for whom there is
// no place; for one that needs more memory than is free all others wait, so that what takes much has its turn.
func (r *room) call() {
	for {
		var next *booking
		for b := range r.inOrder {
			if r.allows(b) {
				next = b
				break
			}
		}
		if next == nil || next.bytes > r.free {
			return
		}
		r.take(next.of.client, next)
		r.grant(next)
		close(next.called)
	}
}

// giveBack gives the memory of a booking back, and vacate the place of work.
func (r *room) giveBack(b *booking) {
	if b.work != nil {
		b.work.booked -= b.bytes
	}
	r.free += b.bytes
	r.has[b.of.client].bytes -= b.bytes
	r.end(b.of.client, 0)
	r.tidy(b.of.client)
}

func (r *room) vacate(w *work) {
	r.places++
	r.has[w.of.client].places--
	r.end(w.of.client, w.had)
	r.tidy(w.of.client)
}

func (r *room) tidy(client string) {
	if *r.has[client] == (holding{}) {
		delete(r.has, client)
	}
	r.call()
}
