package api

import (
	"context"
	"sync"
	"time"
)

// pauses makes a client wait for being told that there is too much to do, the longer the more of its requests wait for
// that: to read, route, refuse and log a request takes a tenth of an estimate, and a client that asks again at once
// over many connections would have the cores that way. Whatever their number, it is told so perRefusal apart.
type pauses struct {
	mu   sync.Mutex
	here map[string]int
}

// perRefusal is between two refusals of one client, and longestPause what the last of many waits at most. A client that
// asks one thing at a time does not notice; all are told to come back after a second.
const (
	perRefusal   = 20 * time.Millisecond
	longestPause = 2 * time.Second
)

func newPauses() *pauses { return &pauses{here: map[string]int{}} }

// wait returns after the pause, or with ctx.
func (p *pauses) wait(ctx context.Context, client string) {
	p.mu.Lock()
	p.here[client]++
	pause := min(time.Duration(p.here[client])*perRefusal, longestPause)
	p.mu.Unlock()
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.here[client]--; p.here[client] == 0 {
		delete(p.here, client)
	}
}
