package api

import (
	"cmp"
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// connections are those of one listener. A listener that stopped accepting would let them pile up where nobody sees
// them, the honest ones behind the others; one that refused the newest would be shut by whoever opens most. So where
// there are too many, in all or of one client, the one goes that has waited longest for a request: a client that has
// something to ask does so within milliseconds, and one that comes back opens another.
type connections struct {
	mu sync.Mutex
	// open counts all, waiting has those that were let in and have no request under way, the one that waits longest
	// first.
	open    int
	waiting list.List
	clients map[string]*connectedClient
	door    door

	// most bounds all of them, mostOfClient those of one client, mostWaiting those of them that wait.
	most, mostOfClient, mostWaiting int
	// proxies bring many clients, so only most bounds theirs.
	proxies []netip.Prefix

	gauge prometheus.Gauge
	shed  prometheus.Counter
}

// connectedClient is what one client has open.
type connectedClient struct {
	open    int
	waiting list.List
	outside standing
}

func (a *API) connections(name string) *connections {
	return &connections{
		clients: map[string]*connectedClient{},
		most:    a.limits.MaxConnections, mostOfClient: a.limits.MaxConnectionsPerClient,
		mostWaiting: a.limits.MaxIdlePerClient,
		door:        door{wake: make(chan struct{}, 1)},
		proxies:     a.options.Proxies,
		gauge:       a.metrics.connections.WithLabelValues(name), shed: a.place.Shedding("connections"),
	}
}

// countedConn is one connection. Its fields belong to the lock of all.
type countedConn struct {
	net.Conn
	all    *connections
	name   string
	client *connectedClient
	// place and own are where it is in the lists of those that wait; nil while it has a request.
	place, own *list.Element
	// outside is where it is among its client's that were not let in, fresh among those that just were.
	outside, fresh *list.Element
	letIn          time.Time
	closed         bool
}

// add counts a connection, which then waits at the door, and closes another one where there are too many, or this one.
func (s *connections) add(c net.Conn) {
	name := canonical(c.RemoteAddr().String())
	s.mu.Lock()
	client := s.clients[name]
	if client == nil {
		client = &connectedClient{outside: standing{at: -1}}
		s.clients[name] = client
	}
	var out *countedConn
	fits := true
	switch {
	case client.open >= s.mostOfClient && !s.proxied(c):
		out = cmp.Or(first(&client.waiting), first(&client.outside.line))
		fits = out != nil
	case s.open >= s.most:
		out = s.crowdsOut()
		fits = out != nil
	}
	if out != nil {
		s.remove(out)
	}
	if fits {
		s.open++
		client.open++
		s.clients[name] = client // remove may have forgotten it
		s.gauge.Inc()
		s.stand(&countedConn{Conn: c, all: s, name: name, client: client})
	}
	if client.open == 0 {
		delete(s.clients, name)
	}
	if out != nil || !fits {
		s.shed.Inc()
	}
	s.mu.Unlock()
	switch {
	case out != nil:
		_ = out.Conn.Close()
	case !fits:
		_ = c.Close() // all others have a request under way
	}
}

// lookedAt is how many of those that wait longest are compared where the listener is full.
const lookedAt = 64

// crowdsOut is the connection that goes first: of some that wait longest and of some that stand at the door, that of
// the client with most, one that waits before one at the door. What was just let in stays while another can go: its
// request is on its way, and where many come at once it is all that waits.
func (s *connections) crowdsOut() *countedConn {
	var out *countedConn
	n := 0
	for e := s.waiting.Front(); e != nil && n < lookedAt; e = e.Next() {
		if c := e.Value.(*countedConn); c.fresh == nil && (out == nil || c.client.open > out.client.open) {
			out = c
		}
		n++
	}
	if c := s.door.last(); c != nil && (out == nil || c.client.open > out.client.open) {
		out = c
	}
	return cmp.Or(out, first(&s.waiting))
}

func first(l *list.List) *countedConn {
	if e := l.Front(); e != nil {
		return e.Value.(*countedConn)
	}
	return nil
}

func (s *connections) proxied(c net.Conn) bool {
	remote, err := netip.ParseAddrPort(c.RemoteAddr().String())
	if err != nil {
		return false
	}
	for _, p := range s.proxies {
		if p.Contains(remote.Addr().Unmap()) {
			return true
		}
	}
	return false
}

// state is http.Server.ConnState: it says which connections wait.
func (s *connections) state(c net.Conn, now http.ConnState) {
	if t, ok := c.(*tls.Conn); ok {
		c = t.NetConn()
	}
	counted, ok := c.(*countedConn)
	if !ok {
		return
	}
	var out *countedConn
	s.mu.Lock()
	switch {
	case counted.closed:
	case now == http.StateActive:
		s.busy(counted)
	case now == http.StateIdle:
		s.settle(counted)
		s.wait(counted)
		if counted.client.waiting.Len() > s.mostWaiting && !s.proxied(counted) {
			out = first(&counted.client.waiting)
			s.remove(out)
			s.shed.Inc()
		}
	}
	s.mu.Unlock()
	if out != nil {
		_ = out.Conn.Close()
	}
}

// wait puts a connection behind the others that wait.
func (s *connections) wait(c *countedConn) {
	if c.place == nil {
		c.place, c.own = s.waiting.PushBack(c), c.client.waiting.PushBack(c)
	}
}

// busy takes a connection out of those that wait.
func (s *connections) busy(c *countedConn) {
	if c.place != nil {
		s.waiting.Remove(c.place)
		c.client.waiting.Remove(c.own)
		c.place, c.own = nil, nil
	}
}

// remove counts a connection off.
func (s *connections) remove(c *countedConn) {
	if c.closed {
		return
	}
	c.closed = true
	s.busy(c)
	s.settle(c)
	s.unstand(c)
	s.open--
	s.gauge.Dec()
	if c.client.open--; c.client.open == 0 {
		delete(s.clients, c.name)
	}
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.all.mu.Lock()
	c.all.remove(c)
	c.all.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite lets net/http end an answer before the client has sent all of its
// body, without a reset that would take the answer with it.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
