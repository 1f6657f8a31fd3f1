package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// besiegedMemory is the memory limit that the service is started with.
	besiegedMemory = "512MiB"
	// honestRate is what an honest client asks a second during an attack.
	honestRate = 20
	// patience is what it waits at most; the pages and hooks give up after ten seconds.
	patience = 10 * time.Second
)

// siege attacks the service in every way in turn whose name contains only, while an honest client asks.
func siege(ctx context.Context, out io.Writer, program string, length time.Duration, only string) (err error) {
	api, err := startVramplan(ctx, program, "VRAMPLAN_MEMORY_LIMIT="+besiegedMemory)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.stop()) }()

	// What the service can do of what the overload asks for.
	_, capacity := closedLoop(ctx, newClient("127.0.0.1"), api.url, planNew, 2, max(length, 5*time.Second))

	fmt.Fprintf(out, "plans that the service makes in a second: %.0f; its memory limit: %s\n", capacity, besiegedMemory)
	fmt.Fprintln(out, "| attack | it | honest requests | served | told to come back | p50 | p99 | probes failed | most memory | "+
		"cores: service | attackers |\n|---|---|---|---|---|---|---|---|---|---|---|")
	key, err := api.key(ctx)
	if err != nil {
		return err
	}
	for i, a := range attacks(capacity, key) {
		if !strings.Contains(a.name, only) {
			continue
		}
		// Numbers that nobody else asks with.
		o := orders{name: a.name, address: strings.TrimPrefix(api.url, "http://"), capacity: capacity, key: key,
			first: int64(i+1) << 24, length: length}
		failed, siegeErr := o.run(ctx, out, api)
		err = errors.Join(err, siegeErr)
		if failed != "" {
			err = errors.Join(err, fmt.Errorf("%s: %s", a.name, failed))
		}
	}
	fmt.Fprintf(out, "memory at the end: %d MiB\n", api.resident()>>20)
	return err
}

// attack is one way to hurt the service. do returns when ctx is done, and says
// what it did.
type attack struct {
	name string
	do   func(ctx context.Context, address string) (string, error)
}

// run attacks and asks honestly at the same time. It returns why the service did
// not stand, or nothing.
func (o orders) run(ctx context.Context, out io.Writer, api *process) (failed string, err error) {
	ctx, cancel := context.WithTimeout(ctx, o.length+2*patience)
	defer cancel()
	attackers, err := o.start(ctx)
	if err != nil {
		return "", err
	}
	probing, ceasefire := context.WithTimeout(ctx, o.length)
	defer ceasefire()

	var all sync.WaitGroup
	var peak int64
	var sentAway atomic.Int64
	probes, stop := &tally{}, make(chan struct{})
	all.Go(func() { peak = api.peakResident(stop) })
	all.Go(func() { probe(probing, api.url, probes) })

	client := newClient("127.0.0.1")
	client.Timeout = patience
	time.Sleep(o.length / 10) // the attack is under way
	began, service, attack := time.Now(), api.worked(), attackers.worked()
	honest := openLoop(ctx, client, api.url, askNew, func(ctx context.Context, c *http.Client, url string, q question,
		n int64) (int, error) {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		return insist(ctx, c, url, q, n, &sentAway)
	}, honestRate, o.length*8/10)
	share := func(had time.Duration) float64 { return had.Seconds() / time.Since(began).Seconds() }
	served, attacking := share(api.worked()-service), share(attackers.worked()-attack)
	ceasefire()
	close(stop)
	all.Wait()
	did, err := attackers.stop()

	fmt.Fprintf(out, "| %s | %s | %d | %d | %d | %s | %s | %d of %d | %d MiB | %.2f | %.2f |\n", o.name, did, honest.asked(),
		honest.statuses[http.StatusOK], sentAway.Load(),
		short(honest.quantile(.5)), short(honest.quantile(.99)), probes.others(), probes.asked(), peak>>20, served,
		attacking)
	switch {
	case honest.others() > 0:
		failed = fmt.Sprintf("%d of %d honest requests were not served: %v %v", honest.others(), honest.asked(),
			honest.statuses, honest.lastError)
	case probes.others() > 0:
		failed = fmt.Sprintf("%d of %d probes failed: %v", probes.others(), probes.asked(), probes.lastError)
	case peak > 512<<20:
		failed = fmt.Sprintf("memory reached %d MiB", peak>>20)
	}
	return failed, err
}

// probe asks like an orchestrator, on the API's own listener.
func probe(ctx context.Context, url string, t *tally) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	for ctx.Err() == nil {
		res, err := client.Get(url + "/readyz")
		status := 0
		if err == nil {
			status = res.StatusCode
			_ = res.Body.Close()
		}
		t.add(status, 0, err)
		time.Sleep(200 * time.Millisecond)
	}
}
