package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
)

// key makes an API key for the service beside it, as an operator does.
func (p *process) key(ctx context.Context) (string, error) {
	made := exec.CommandContext(ctx, p.cmd.Path, "keys", "create", "--name", "siege", "--output", "json",
		"--scope", "observations:write", "--scope", "calibrations:write")
	made.Env = p.cmd.Env
	out, err := made.Output()
	if err != nil {
		return "", fmt.Errorf("make a key: %w", err)
	}
	var key struct{ Key string }
	if err := json.Unmarshal(out, &key); err != nil {
		return "", fmt.Errorf("read a key: %w", err)
	}
	return key.Key, nil
}

// operator is a client with a key.
type operator struct {
	client       *http.Client
	address, key string
}

// send asks, reads all of the answer and says its status and how long it is; 0 where there is none.
func (o *operator) send(ctx context.Context, method, path, body string) (status int, bytes int64) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+o.address+path, strings.NewReader(body))
	if err != nil {
		return 0, 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+o.key)
	res, err := o.client.Do(req)
	if err != nil {
		return 0, 0
	}
	defer func() { _ = res.Body.Close() }()
	bytes, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode, bytes
}

// observation is a run of a job of its own, with so many bytes in its document that mean nothing.
func observation(preset string, n int64, padding int) string {
	model := fmt.Sprintf(`{"preset":%q}`, preset)
	if padding > 0 {
		model = fmt.Sprintf(`{"hf_config":{"model_type":"gpt2","n_layer":2,"n_embd":64,"n_head":4,"comment":%q}}`,
			strings.Repeat("x", padding))
	}
	return fmt.Sprintf(`{"job":{"model":%s,"training":{"micro_batch":1,"sequence_length":%d},"gpus":["h100-sxm5"]},"measured":{"reserved_bytes":70000000000}}`,
		model, 64+n%900)
}

// largeObservations reports runs with as large a document as a body may have, and as the service takes, and reads pages
// of them.
func largeObservations(ctx context.Context, address, key string) string {
	o := &operator{newClient("127.0.0.2"), address, key}
	var taken, refused, read atomic.Int64
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := worker; ctx.Err() == nil; i += 8 {
				padding := 1<<20 - 400
				if i >= 400 {
					padding = 15 << 10
				}
				status, _ := o.send(ctx, http.MethodPost, "/v1/observations", observation("", unique.Add(1), padding))
				switch {
				case status == http.StatusCreated:
					taken.Add(1)
				case status >= 400 && status < 500:
					refused.Add(1)
				}
				if i%20 == 0 {
					_, n := o.send(ctx, http.MethodGet, "/v1/observations?page_size=1000", "")
					read.Add(n)
				}
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("%d stored, %d refused, %d MiB of pages read", taken.Load(), refused.Load(), read.Load()>>20)
}

// dearObservations reports runs of a model whose replay is dear, and asks for fits and reports of them.
func dearObservations(ctx context.Context, address, key string) string {
	o := &operator{newClient("127.0.0.2"), address, key}
	for range 12 {
		o.send(ctx, http.MethodPost, "/v1/observations", observation("deepseek-ai/DeepSeek-V3", unique.Add(1), 0))
	}
	var fits, reports, failed atomic.Int64
	var all sync.WaitGroup
	ask := func(method, path, body string, answered *atomic.Int64) {
		for ctx.Err() == nil {
			switch status, _ := o.send(ctx, method, path, body); {
			case status >= 500:
				failed.Add(1)
			case status > 0:
				answered.Add(1)
			}
		}
	}
	all.Go(func() { ask(http.MethodPost, "/v1/calibrations", `{"dry_run":true}`, &fits) })
	all.Go(func() { ask(http.MethodGet, "/v1/accuracy", "", &reports) })
	all.Wait()
	return fmt.Sprintf("%d fits and %d reports answered, %d with 5xx", fits.Load(), reports.Load(), failed.Load())
}
