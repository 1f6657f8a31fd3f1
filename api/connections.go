package api

import (
	"net"
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// cappedListener closes connections beyond the most that may be open. A listener
// that stopped accepting would let them pile up where nobody sees them, the honest
// ones behind the others.
type cappedListener struct {
	net.Listener
	open atomic.Int64
	most int64

	gauge prometheus.Gauge
	shed  prometheus.Counter
}

func (a *API) capped(l net.Listener, name string) net.Listener {
	return &cappedListener{
		Listener: l, most: int64(a.limits.MaxConnections),
		gauge: a.metrics.connections.WithLabelValues(name), shed: a.metrics.shed.WithLabelValues("connections"),
	}
}

// Accept implements net.Listener.
func (l *cappedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) > l.most {
			l.open.Add(-1)
			l.shed.Inc()
			_ = c.Close() // whoever it was has nothing to lose
			continue
		}
		l.gauge.Inc()
		return &countedConn{Conn: c, listener: l}, nil
	}
}

// countedConn counts itself off when it is closed.
type countedConn struct {
	net.Conn
	listener *cappedListener
	once     sync.Once
}

// Close implements net.Conn.
func (c *countedConn) Close() error {
	c.once.Do(func() {
		c.listener.open.Add(-1)
		c.listener.gauge.Dec()
	})
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
