package api

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// connections are those of one listener. A listener that stopped accepting would let them pile up where nobody sees
// them, the honest ones behind the others; one that refused the newest would be shut by whoever opens most. So where
// there are too many, in all or of one client, the one goes that has waited longest for a request: a client that has
// something to ask does so within milliseconds, and one that comes back opens another.
type connections struct {
	mu sync.Mutex
	// open counts all, waiting has those without a request under way, the one that waits longest first.
	open    int
	waiting list.List
	clients map[string]*connectedClient

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
}

func (a *API) connections(name string) *connections {
	return &connections{
		clients: map[string]*connectedClient{},
		most:    a.limits.MaxConnections, mostOfClient: a.limits.MaxConnectionsPerClient,
		mostWaiting: a.limits.MaxIdlePerClient,
		proxies:     a.options.Proxies,
		gauge:       a.metrics.connections.WithLabelValues(name), shed: a.metrics.shed.WithLabelValues("connections"),
	}
}

// countedListener counts what it accepts.
type countedListener struct {
	net.Listener
	all *connections
}

// Accept implements net.Listener.
func (l countedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if counted := l.all.add(c); counted != nil {
			return counted, nil
		}
		_ = c.Close() // all others have a request under way
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
	closed     bool
}

// add counts a connection, and closes another one where there are too many; nil where this one has to go.
func (s *connections) add(c net.Conn) *countedConn {
	name := canonical(c.RemoteAddr().String())
	s.mu.Lock()
	client := s.clients[name]
	if client == nil {
		client = &connectedClient{}
		s.clients[name] = client
	}
	var out *countedConn
	fits := true
	switch {
	case client.open >= s.mostOfClient && !s.proxied(c):
		out = first(&client.waiting)
		fits = out != nil
	case s.open >= s.most:
		out = s.crowdsOut()
		fits = out != nil
	}
	if out != nil {
		s.remove(out)
	}
	var counted *countedConn
	if fits {
		counted = &countedConn{Conn: c, all: s, name: name, client: client}
		s.open++
		client.open++
		s.clients[name] = client // remove may have forgotten it
		s.gauge.Inc()
		s.wait(counted)
	}
	if client.open == 0 {
		delete(s.clients, name)
	}
	if out != nil || !fits {
		s.shed.Inc()
	}
	s.mu.Unlock()
	if out != nil {
		_ = out.Conn.Close()
	}
	return counted
}

// lookedAt is how many of those that wait longest are compared where the listener is full.
const lookedAt = 64

// crowdsOut is the connection that goes first: of those that wait longest, that of the client with most.
func (s *connections) crowdsOut() *countedConn {
	var out *countedConn
	n := 0
	for e := s.waiting.Front(); e != nil && n < lookedAt; e = e.Next() {
		if c := e.Value.(*countedConn); out == nil || c.client.open > out.client.open {
			out = c
		}
		n++
	}
	return out
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
