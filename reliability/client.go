package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// repeatedJob is a job that many ask: the service remembers its answer.
const repeatedJob = `{"model":{"preset":"nanogpt/train_gpt2"},"training":{"micro_batch":16,"sequence_length":1024,"gradient_accumulation":32,` +
	`"precision":"amp-bf16","optimizer":{"name":"adamw","implementation":"fused"},"gradient_checkpointing":"none","attention":"sdpa","loss":"standard","compile":false},"gpus":["rtx-4070"]}`

// newJob is one that nobody asked before: every number gives a vocabulary of its own, and so other tensors.
func newJob(n int64) string {
	return strings.Replace(repeatedJob, `"preset":"nanogpt/train_gpt2"`, fmt.Sprintf(
		`"nanogpt":{"n_layer":12,"n_head":12,"n_embd":768,"block_size":1024,"vocab_size":%d}`, 50304+n), 1)
}

// cardJob is one that nobody asked before, of tensors that were asked for, as on another card: reserve_bytes is part of
// what decides an answer.
func cardJob(n int64) string {
	return strings.TrimSuffix(repeatedJob, "}") + fmt.Sprintf(`,"reserve_bytes":%d}`, n)
}

// question is one request, made for its number.
type question struct {
	path string
	body func(n int64) string
}

var unique atomic.Int64

var (
	askAgain = question{"/v1/estimate", func(int64) string { return repeatedJob }}
	askNew   = question{"/v1/estimate", func(int64) string { return newJob(unique.Add(1)) }}
	askCard  = question{"/v1/estimate", func(int64) string { return cardJob(unique.Add(1)) }}
	planNew  = question{"/v1/plan", func(int64) string { return newJob(unique.Add(1)) }}
	planSame = question{"/v1/plan", func(int64) string { return repeatedJob }}
	// assistantPlan is planNew as assistants ask it, by the Model Context Protocol.
	assistantPlan = question{"/mcp", func(int64) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"plan","arguments":{"whole":true,"job":%s}}}`,
			newJob(unique.Add(1)))
	}}
)

// newClient is a client at an address of this machine: 127.0.0.2 is another
// client than 127.0.0.1.
func newClient(from string) *http.Client {
	dialer := &net.Dialer{Timeout: 5 * time.Second, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	return &http.Client{
		Timeout:   30 * time.Second,
		Transport: &http.Transport{DialContext: dialer.DialContext, MaxIdleConnsPerHost: 4096},
	}
}

// tally is what became of requests.
type tally struct {
	mu        sync.Mutex
	latencies []time.Duration
	statuses  map[int]int // 0 is no answer
	lastError error
}

func (t *tally) add(status int, took time.Duration, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.statuses == nil {
		t.statuses = map[int]int{}
	}
	t.statuses[status]++
	t.latencies = append(t.latencies, took)
	if err != nil {
		t.lastError = err
	}
}

func (t *tally) asked() int { return len(t.latencies) }

// others are those that were not answered with 200.
func (t *tally) others() int { return t.asked() - t.statuses[http.StatusOK] }

func (t *tally) quantile(q float64) time.Duration {
	if len(t.latencies) == 0 {
		return 0
	}
	slices.Sort(t.latencies)
	return t.latencies[min(int(q*float64(len(t.latencies))), len(t.latencies)-1)]
}

// insist is ask for a client that does as it is told: it comes back after
// Retry-After, until ctx is done. Each time that it has to is counted.
func insist(ctx context.Context, c *http.Client, url string, q question, n int64,
	sentAway *atomic.Int64) (status int, err error) {
	for {
		status, err = ask(ctx, c, url, q, n)
		if status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests {
			return status, err
		}
		sentAway.Add(1)
		select {
		case <-ctx.Done():
			return status, err
		case <-time.After(time.Second): // what the service says in Retry-After
		}
	}
}

// ask sends one request and reads all of the answer.
func ask(ctx context.Context, c *http.Client, url string, q question, n int64) (status int, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+q.path, strings.NewReader(q.body(n)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	res, err := c.Do(req)
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return 0, err
	}
	return res.StatusCode, nil
}

// closedLoop keeps a number of clients busy for a while: each asks again when it
// has its answer. It finds what a server can do at most.
func closedLoop(ctx context.Context, c *http.Client, url string, q question, clients int,
	length time.Duration) (*tally, float64) {
	var t tally
	var all sync.WaitGroup
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	began := time.Now()
	for range clients {
		all.Go(func() {
			for n := int64(0); ctx.Err() == nil; n++ {
				asked := time.Now()
				status, err := ask(ctx, c, url, q, n)
				if ctx.Err() != nil {
					return // cut off by the end, not by the server
				}
				t.add(status, time.Since(asked), err)
			}
		})
	}
	all.Wait()
	return &t, float64(t.statuses[http.StatusOK]) / time.Since(began).Seconds()
}

// asker is ask or insist.
type asker func(ctx context.Context, c *http.Client, url string, q question, n int64) (status int, err error)

// mostUnderWay keeps the one who measures from measuring itself: a request that is
// due while so many are unanswered counts as failed.
const mostUnderWay = 2048

var errBehind = errors.New("too many requests were unanswered to send another")

// openLoop sends requests at a rate, whether or not the ones before have been
// answered, and counts the time of each from the moment at which it was due: a
// client that waits for a slow server would hide how slow it is.
func openLoop(ctx context.Context, c *http.Client, url string, q question, how asker, perSecond float64,
	length time.Duration) *tally {
	var t tally
	var all sync.WaitGroup
	var underWay atomic.Int64
	every := time.Duration(float64(time.Second) / max(perSecond, 1e-3))
	began := time.Now()
	for n := int64(0); ; n++ {
		due := began.Add(time.Duration(n) * every)
		if due.Sub(began) >= length || ctx.Err() != nil {
			break
		}
		if wait := time.Until(due); wait > 0 {
			time.Sleep(wait)
		}
		if underWay.Load() >= mostUnderWay {
			t.add(0, 0, errBehind)
			continue
		}
		underWay.Add(1)
		all.Go(func() {
			defer underWay.Add(-1)
			status, err := how(ctx, c, url, q, n)
			t.add(status, time.Since(due), err)
		})
	}
	all.Wait()
	return &t
}
