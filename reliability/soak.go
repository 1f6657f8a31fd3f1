package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// mostGrowth is what memory may differ by between two parts of a soak whose load
// is the same; a leak of one answer a request would double it in a minute.
const mostGrowth = 1.2

// soak keeps the service at a part of what it can do and watches its memory.
func soak(ctx context.Context, out io.Writer, program string, length time.Duration) (err error) {
	api, err := startVramplan(ctx, program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.stop()) }()

	var samples []int64
	watched := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		defer close(watched)
		ticker := time.NewTicker(length / 600)
		defer ticker.Stop()
		for ctx.Err() == nil {
			samples = append(samples, api.resident())
			<-ticker.C
		}
	}()
	client := newClient("127.0.0.1")
	var all sync.WaitGroup
	tallies := make([]*tally, 3)
	for i, l := range []struct {
		q    question
		rate float64
	}{{askAgain, 200}, {askNew, 40}, {planNew, 1}} {
		all.Go(func() { tallies[i] = openLoop(ctx, client, api.url, l.q, ask, l.rate, length) })
	}
	all.Wait()
	cancel()
	<-watched

	most := func(from, to int) (m int64) {
		for _, s := range samples[len(samples)*from/10 : len(samples)*to/10] {
			m = max(m, s)
		}
		return m
	}
	asked, others := 0, 0
	for _, t := range tallies {
		asked, others = asked+t.asked(), others+t.others()
		if t.lastError != nil {
			err = errors.Join(err, t.lastError)
		}
	}
	fmt.Fprintf(out, "%d requests in %s, %d not answered with 200\n", asked, length, others)
	for tenth := range 10 {
		fmt.Fprintf(out, "tenth %2d: at most %4d MiB\n", tenth+1, most(tenth, tenth+1)>>20)
	}
	// A peak that goes again is the garbage collector's; a leak stays to the end.
	early, late := most(2, 6), most(8, 10)
	fmt.Fprintf(out, "from the third tenth to the sixth at most %d MiB, in the last two %d MiB\n", early>>20, late>>20)
	if float64(late) > mostGrowth*float64(early) {
		err = errors.Join(err, fmt.Errorf("memory grew from %d to %d MiB", early>>20, late>>20))
	}
	if others > 0 {
		err = errors.Join(err, fmt.Errorf("%d requests failed", others))
	}
	return err
}
