package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// leastRatio is what is asked of the service: half of what a handler does that
// does nothing.
const leastRatio = 0.5

// clients are enough to keep two cores busy and few enough to measure the server.
const clients = 16

// load measures throughput beside a bare handler, and latency at half of it.
func load(ctx context.Context, out io.Writer, program string, round time.Duration, rounds int) (err error) {
	bare, err := startBare()
	if err != nil {
		return err
	}
	defer func() { _ = bare.stop() }()
	api, err := startVramplan(ctx, program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.stop()) }()

	type measured struct {
		name string
		on   *process
		q    question
		rate []float64
	}
	all := []*measured{
		{name: "bare handler", on: bare, q: askAgain},
		{name: "estimate, asked before", on: api, q: askAgain},
		{name: "estimate, new, of tensors that were asked for", on: api, q: askCard},
		{name: "estimate, new", on: api, q: askNew},
		{name: "plan, asked before", on: api, q: planSame},
		{name: "plan, new", on: api, q: planNew},
	}
	for _, m := range all { // what was asked before has to be asked once
		if status, err := ask(ctx, newClient("127.0.0.1"), m.on.url, m.q, 0); err != nil || status != 200 {
			return fmt.Errorf("%s: status %d, %w", m.name, status, err)
		}
	}
	// In turns, so that whatever else the machine does hits all of them.
	for range rounds {
		for _, m := range all {
			t, rate := closedLoop(ctx, newClient("127.0.0.1"), m.on.url, m.q, clients, round)
			if t.others() > 0 {
				return fmt.Errorf("%s: %d of %d requests failed: %v %w", m.name, t.others(), t.asked(), t.statuses,
					t.lastError)
			}
			if rate == 0 {
				return fmt.Errorf("%s: nothing was answered in %s; measure longer", m.name, round)
			}
			m.rate = append(m.rate, rate)
		}
	}
	fmt.Fprintln(out, "| | requests/s | of the bare handler's | at half of it: p50 | p99 | p99.9 | failed "+
		"|\n|---|---|---|---|---|---|---|")
	base, ratio := median(all[0].rate), 0.0
	for _, m := range all {
		rate := median(m.rate)
		t := openLoop(ctx, newClient("127.0.0.1"), m.on.url, m.q, ask, rate/2, 3*round)
		fmt.Fprintf(out, "| %s | %.0f | %.2f | %s | %s | %s | %d |\n", m.name, rate, rate/base, short(t.quantile(.5)),
			short(t.quantile(.99)), short(t.quantile(.999)), t.others())
		if m == all[1] {
			ratio = rate / base
		}
		if t.others() > 0 {
			err = errors.Join(err, fmt.Errorf("%s: %d requests failed at half load: %v %w", m.name, t.others(),
				t.statuses, t.lastError))
		}
	}
	fmt.Fprintf(out, "memory of the service at the end: %d MiB\n", api.resident()>>20)
	if ratio < leastRatio {
		err = errors.Join(err, fmt.Errorf("estimate has %.2f of the bare handler's throughput, less than %.2f", ratio,
			leastRatio))
	}
	return err
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

func short(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.2f ms", d.Seconds()*1e3)
	}
	return fmt.Sprintf("%.0f ms", d.Seconds()*1e3)
}
