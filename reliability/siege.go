package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
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
	return errors.Join(err, api.nothingLate(ctx, out))
}

// nothingLate says whether work went on for 100 ms after its request had ended, or had to be given up for the memory
// that it took.
func (p *process) nothingLate(ctx context.Context, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, p.admin+"/metrics", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the metrics: %w", err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return fmt.Errorf("the metrics: %w", err)
	}
	late, left := map[string]int{}, map[string]int{}
	given := ""
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		metric, route, _ := strings.Cut(name, "{")
		switch n, _ := strconv.Atoi(value); {
		case metric == "vramplan_work_left_total":
			left[route] = n
		case metric == "vramplan_work_outlived_total":
			late[route] = n
		case name == `vramplan_shed_total{reason="given_up"}`:
			given = value
		}
	}
	fmt.Fprintf(out, "jobs at work 100 ms after their request had ended, by route: %v of %v; given up near the memory "+
		"limit: %s\n", late, left, given)
	for route, n := range late {
		if n > max(mostLate, left[route]/10) {
			err = errors.Join(err, fmt.Errorf("%s: %d of %d jobs were at work 100 ms after their request had ended",
				route, n, left[route]))
		}
	}
	if given != "0" {
		err = errors.Join(err, fmt.Errorf("%q jobs were given up near the memory limit", given))
	}
	return err
}

// mostLate is how many jobs of a route may be late in a siege, or a tenth of those that were cut off: what the machine
// held up, which has more to do than cores. Work that does not look at whether somebody waits is late each time.
const mostLate = 5

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
