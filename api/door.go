package api

import (
	"container/heap"
	"container/list"
	"net"
	"runtime"
	"sync"
	"time"
)

// door is where connections wait until they are let in. Each costs some hundred microseconds then, of which its client
// asks for nothing: thousands at once had the cores in the order in which they came, requests on older connections and
// an honest client's new one behind them. So few are let in that have not had their first answer, and clients in turns
// (start-time fair queueing: who comes begins with the turn that it is).
type door struct {
	// clients with connections outside, the one whose turn it is first.
	clients standings
	// turn is that of the client of whom one was let in last, came counts them.
	turn, came int64
	// fresh were let in and had no answer yet, the oldest first.
	fresh list.List
	// wake is for whoever lets in.
	wake chan struct{}
}

// mostFresh are let in at once for each core, and count for freshFor at most: one that says nothing costs next to
// nothing, and keeps nobody out for longer.
const (
	mostFresh = 16
	freshFor  = 20 * time.Millisecond
)

// standing is one client's at the door. at is its place in the heap, below zero where it is not there.
type standing struct {
	line       list.List
	turn, came int64
	at         int
}

// standings are a heap of clients by their turns.
type standings []*connectedClient

// Len implements heap.Interface.
func (q standings) Len() int { return len(q) }

// Less implements heap.Interface.
func (q standings) Less(i, j int) bool {
	a, b := &q[i].outside, &q[j].outside
	return a.turn < b.turn || a.turn == b.turn && a.came < b.came
}

// Swap implements heap.Interface.
func (q standings) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].outside.at, q[j].outside.at = i, j
}

// Push implements heap.Interface.
func (q *standings) Push(c any) {
	client := c.(*connectedClient)
	client.outside.at = len(*q)
	*q = append(*q, client)
}

// Pop implements heap.Interface.
func (q *standings) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	last.outside.at = -1
	return last
}

// last is a connection of a client with many outside, of some that are far from their turn; nil where nobody is there.
func (d *door) last() (out *countedConn) {
	most := 0
	for i := len(d.clients) - 1; i >= max(0, len(d.clients)-lookedAt); i-- {
		if line := &d.clients[i].outside.line; line.Len() > most {
			out, most = first(line), line.Len()
		}
	}
	return out
}

// open wakes whoever lets in.
func (d *door) open() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// stand lets a connection wait at the door.
func (s *connections) stand(c *countedConn) {
	q := &c.client.outside
	c.outside = q.line.PushBack(c)
	if q.at < 0 {
		q.turn = max(q.turn, s.door.turn)
		s.enqueue(c.client)
	}
	s.door.open()
}

func (s *connections) enqueue(client *connectedClient) {
	s.door.came++
	client.outside.came = s.door.came
	heap.Push(&s.door.clients, client)
}

// unstand takes a connection from the door, if it is there.
func (s *connections) unstand(c *countedConn) {
	if c.outside == nil {
		return
	}
	q := &c.client.outside
	q.line.Remove(c.outside)
	c.outside = nil
	if q.line.Len() == 0 {
		heap.Remove(&s.door.clients, q.at)
	}
}

// settle counts a connection no longer as one that was just let in.
func (s *connections) settle(c *countedConn) {
	if c.fresh != nil {
		s.door.fresh.Remove(c.fresh)
		c.fresh = nil
		s.door.open()
	}
}

// let lets the next one in. Where nobody may come in, it says after what time somebody may, zero where nobody waits.
func (s *connections) let(now time.Time) (c *countedConn, wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for e := s.door.fresh.Front(); e != nil; e = s.door.fresh.Front() {
		oldest := e.Value.(*countedConn)
		if wait = freshFor - now.Sub(oldest.letIn); wait > 0 {
			break
		}
		s.settle(oldest)
	}
	if len(s.door.clients) == 0 {
		return nil, 0
	}
	if s.door.fresh.Len() >= mostFresh*runtime.GOMAXPROCS(0) {
		return nil, wait
	}
	client := s.door.clients[0]
	q := &client.outside
	c = first(&q.line)
	s.door.turn = q.turn
	q.turn++
	s.unstand(c)
	if q.at >= 0 { // behind the others
		heap.Remove(&s.door.clients, q.at)
		s.enqueue(client)
	}
	c.letIn = now
	c.fresh = s.door.fresh.PushBack(c)
	s.wait(c)
	return c, 0
}

// countedListener counts what it accepts, at once, and lets it in in turns.
type countedListener struct {
	net.Listener
	all    *connections
	failed chan error
	closed chan struct{}
	close  func() error
}

// counted begins to accept, until the listener is closed.
func (s *connections) counted(l net.Listener) *countedListener {
	c := &countedListener{Listener: l, all: s, failed: make(chan error), closed: make(chan struct{})}
	c.close = sync.OnceValue(func() error {
		close(c.closed)
		return l.Close()
	})
	go c.accept()
	return c
}

func (l *countedListener) accept() {
	for {
		c, err := l.Listener.Accept()
		if err == nil {
			l.all.add(c)
			continue
		}
		select {
		case l.failed <- err: // net/http knows which errors pass, and comes again
		case <-l.closed:
			l.all.turnAway()
			return
		}
	}
}

// Accept implements net.Listener.
func (l *countedListener) Accept() (net.Conn, error) {
	for {
		select {
		case <-l.closed:
			return nil, net.ErrClosed
		default:
		}
		c, wait := l.all.let(time.Now())
		if c != nil {
			return c, nil
		}
		if err := l.sleep(wait); err != nil {
			return nil, err
		}
	}
}

// sleep returns when somebody may come in.
func (l *countedListener) sleep(wait time.Duration) error {
	var late <-chan time.Time
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		late = timer.C
	}
	select {
	case <-l.all.door.wake:
	case <-late:
	case <-l.closed:
	case err := <-l.failed:
		return err
	}
	return nil
}

// Close implements net.Listener. Who still stands at the door is turned away.
func (l *countedListener) Close() error { return l.close() }

// turnAway closes the connections that were not let in.
func (s *connections) turnAway() {
	s.mu.Lock()
	var all []*countedConn
	for len(s.door.clients) > 0 {
		c := first(&s.door.clients[0].outside.line)
		s.remove(c)
		all = append(all, c)
	}
	s.mu.Unlock()
	for _, c := range all {
		_ = c.Conn.Close()
	}
}
