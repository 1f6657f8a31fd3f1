package api

import (
	"fmt"
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// knock is a connection that only says from where it is, and whether it was closed.
type knock struct {
	net.Conn
	from   net.Addr
	closed bool
}

// RemoteAddr implements net.Conn.
func (k *knock) RemoteAddr() net.Addr { return k.from }

// Close implements net.Conn.
func (k *knock) Close() error {
	k.closed = true
	return nil
}

func knockFrom(host string) *knock {
	return &knock{from: net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(host), 1))}
}

// Where more come than the listener holds, nearly all stand at the door, and what was let in and has not said
// anything yet is all that waits: it may be honest, with its request on the way.
func TestWhoWasJustLetInIsNotCrowdedOut(t *testing.T) {
	for name, c := range map[string]struct {
		attackers int           // addresses
		after     time.Duration // since it was let in
	}{
		"at once":                        {attackers: 4},
		"at once, each attacker has one": {attackers: 1000},
		"later than it counts as new":    {attackers: 4, after: 2 * freshFor},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			s := &connections{
				clients: map[string]*connectedClient{}, most: 16, mostOfClient: 8, mostWaiting: 8,
				door:  door{wake: make(chan struct{}, 1)},
				gauge: prometheus.NewGauge(prometheus.GaugeOpts{}),
				shed:  prometheus.NewCounter(prometheus.CounterOpts{}),
			}
			honest := knockFrom("192.0.2.1")
			s.add(honest)
			if in, _ := s.let(now); in == nil || in.Conn != honest {
				t.Fatal("who comes first is not let in")
			}
			if in, _ := s.let(now.Add(c.after)); in != nil {
				t.Fatal("somebody is let in who was not there")
			}
			for i := range 100 {
				s.add(knockFrom(fmt.Sprintf("198.51.%d.%d", 100+i%c.attackers/250, i%c.attackers%250)))
			}
			if honest.closed || s.open != s.most {
				t.Errorf("closed: %t, with %d connections of %d open", honest.closed, s.open, s.most)
			}
		})
	}
}
