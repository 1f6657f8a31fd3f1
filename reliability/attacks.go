package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// overload is how much more is asked than the service can do.
const overload = 50

func attacks(capacity float64, key string) []attack {
	header := func(length string) string {
		return "POST /v1/estimate HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n" + length + "\r\n\r\n"
	}
	mib := bytes.Repeat([]byte(" "), 1<<20)
	return []attack{
		{"none", func(ctx context.Context, _ string) (string, error) {
			<-ctx.Done()
			return "", nil
		}},
		{"idle connections", func(ctx context.Context, address string) (string, error) {
			n := connections(ctx, address, 1000, func(net.Conn) {})
			return fmt.Sprintf("%d connections", n), nil
		}},
		{"idle keep-alive connections of one client", func(ctx context.Context, address string) (string, error) {
			n := connectionsFrom(ctx, 1, address, 8192, keepAlive)
			return fmt.Sprintf("%d connections", n), nil
		}},
		{"10,000 idle keep-alive connections", func(ctx context.Context, address string) (string, error) {
			n := connections(ctx, address, 10000, keepAlive)
			return fmt.Sprintf("%d connections", n), nil
		}},
		{"16 connections of plans", func(ctx context.Context, address string) (string, error) {
			t, _ := closedLoop(ctx, newClient("127.0.0.2"), "http://"+address, planNew, 16, time.Hour)
			return fmt.Sprintf("%d plans of one client, %d sent away", t.statuses[200], t.statuses[503]), nil
		}},
		{"16 connections of an assistant that plans", func(ctx context.Context, address string) (string, error) {
			t, _ := closedLoop(ctx, newClient("127.0.0.2"), "http://"+address, assistantPlan, 16, time.Hour)
			return fmt.Sprintf("%d answers of one client, %d sent away", t.statuses[200], t.statuses[503]), nil
		}},
		{"16 connections of mixtures with 65,536 experts and adapters",
			func(ctx context.Context, address string) (string, error) {
				return dear(ctx, address, mixtureJob), nil
			}},
		{"16 connections of DeepSeek V3", func(ctx context.Context, address string) (string, error) {
			return dear(ctx, address, deepSeekJob), nil
		}},
		{"16 connections of FSDP2 on every card, 64 micro-steps", func(ctx context.Context,
			address string) (string, error) {
			return dear(ctx, address, everyCardJob), nil
		}},
		{"diagnoses and comparisons of mixtures with 65,536 experts", func(ctx context.Context,
			address string) (string, error) {
			return dearQuestions(ctx, address), nil
		}},
		{"readings of a program of 5,000 calls that 60 commands start, of four clients",
			func(ctx context.Context, address string) (string, error) {
				return manyReadings(ctx, address), nil
			}},
		{"400 observations of 1 MiB, then of 15 KiB, and pages of 1,000",
			func(ctx context.Context, address string) (string, error) {
				return largeObservations(ctx, address, key), nil
			}},
		{"12 observations of DeepSeek V3, then fits and reports", func(ctx context.Context,
			address string) (string, error) {
			return dearObservations(ctx, address, key), nil
		}},
		{"paths that are not there", func(ctx context.Context, address string) (string, error) {
			nothing := question{"/v1/nothing", func(int64) string { return "{}" }}
			t, _ := closedLoop(ctx, newClient("127.0.0.2"), "http://"+address, nothing, 64, time.Hour)
			return fmt.Sprintf("%d asked", t.asked()), nil
		}},
		{"keys that are none", func(ctx context.Context, address string) (string, error) {
			return guessKeys(ctx, address), nil
		}},
		{"slow headers", func(ctx context.Context, address string) (string, error) {
			n := connections(ctx, address, 1000, func(c net.Conn) {
				if _, err := io.WriteString(c, "POST /v1/estimate HTTP/1.1\r\nHost: x\r\n"); err == nil {
					drip(ctx, c)
				}
			})
			return fmt.Sprintf("%d connections, a byte a second", n), nil
		}},
		{"slow bodies", func(ctx context.Context, address string) (string, error) {
			n := connections(ctx, address, 1000, func(c net.Conn) {
				if _, err := io.WriteString(c, header("Content-Length: 1000000")); err == nil {
					drip(ctx, c)
				}
			})
			return fmt.Sprintf("%d connections, a byte a second", n), nil
		}},
		{"bodies that never end", func(ctx context.Context, address string) (string, error) {
			n := connections(ctx, address, 300, func(c net.Conn) {
				if _, err := io.WriteString(c, header("Content-Length: 1048576")); err == nil {
					_, _ = c.Write(mib[:1<<20-1]) // all but a byte
				}
			})
			return fmt.Sprintf("%d connections, all but the last byte of 1 MiB", n), nil
		}},
		{"bodies over the limit", func(ctx context.Context, address string) (string, error) {
			var sent atomic.Int64
			connections(ctx, address, 20, func(c net.Conn) {
				if _, err := io.WriteString(c, header("Transfer-Encoding: chunked")); err != nil {
					return
				}
				for ctx.Err() == nil {
					n, err := fmt.Fprintf(c, "%x\r\n%s\r\n", len(mib), mib)
					if sent.Add(int64(n)); err != nil {
						return
					}
				}
			})
			return fmt.Sprintf("%d MiB sent", sent.Load()>>20), nil
		}},
		{"answers that nobody reads", func(ctx context.Context, address string) (string, error) {
			body := newJob(1)
			request := strings.Replace(header(fmt.Sprintf("Content-Length: %d", len(body))), "/v1/estimate",
				"/v1/estimate?timeline=true&tensors=true", 1) + body
			n := connectionsFrom(ctx, 10, address, 500, func(c net.Conn) {
				for range 100 {
					if _, err := io.WriteString(c, request); err != nil {
						return
					}
				}
			})
			return fmt.Sprintf("%d connections of 10 clients", n), nil
		}},
		{"large answers that are read slowly", func(ctx context.Context, address string) (string, error) {
			body := strings.Replace(newJob(1), `["rtx-4070"]`, `["*"]`, 1)
			request := strings.Replace(header(fmt.Sprintf("Content-Length: %d", len(body))), "/v1/estimate",
				"/v1/estimate?timeline=true&tensors=true", 1) + body
			n := connections(ctx, address, 1000, func(c net.Conn) {
				if _, err := io.WriteString(c, request); err == nil {
					sip(ctx, c)
				}
			})
			return fmt.Sprintf("%d connections, a KiB a second", n), nil
		}},
		{"batches that nobody reads", func(ctx context.Context, address string) (string, error) {
			// 2,000 jobs that name the whole catalog: 800 KB that ask for some 160 MB.
			body := strings.Repeat(strings.Replace(repeatedJob, `["rtx-4070"]`, `["*"]`, 1)+"\n", 2000)
			request := strings.Replace(header(fmt.Sprintf("Content-Length: %d", len(body))), "/v1/estimate",
				"/v1/estimate/batch", 1)
			request = strings.Replace(request, "application/json", "application/x-ndjson", 1) + body
			n := connectionsFrom(ctx, 10, address, 200, func(c net.Conn) { _, _ = io.WriteString(c, request) })
			return fmt.Sprintf("%d connections of 10 clients", n), nil
		}},
		{"batches of one client", func(ctx context.Context, address string) (string, error) {
			body := strings.Repeat(strings.Replace(repeatedJob, `["rtx-4070"]`, `["*"]`, 1)+"\n", 2000)
			var got atomic.Int64
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() { got.Add(readBatches(ctx, address, body)) })
			}
			all.Wait()
			return fmt.Sprintf("%d MiB of answers", got.Load()>>20), nil
		}},
		{"overload", func(ctx context.Context, address string) (string, error) {
			return flood(ctx, "http://"+address, capacity*overload), nil
		}},
	}
}

// connections keeps n connections to an address open, from 100 addresses of their
// own side, until ctx is done: what the server closes is opened again. It returns how
// many were opened.
func connections(ctx context.Context, address string, n int, use func(net.Conn)) int64 {
	return connectionsFrom(ctx, 100, address, n, use)
}

func connectionsFrom(ctx context.Context, addresses int, address string, n int, use func(net.Conn)) int64 {
	var all sync.WaitGroup
	var opened atomic.Int64
	for i := range n {
		all.Go(func() {
			dialer := net.Dialer{Timeout: 5 * time.Second,
				LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(2+i%addresses))}}
			for ctx.Err() == nil {
				c, err := dialer.DialContext(ctx, "tcp", address)
				if err != nil {
					time.Sleep(100 * time.Millisecond)
					continue
				}
				opened.Add(1)
				unblock := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Now()) })
				use(c)
				_, _ = c.Read(make([]byte, 1)) // until the server closes it, or answers
				unblock()
				_ = c.Close()
			}
		})
	}
	all.Wait()
	return opened.Load()
}

// keepAlive asks once and leaves the connection open.
func keepAlive(c net.Conn) {
	if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
		return
	}
	if res, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
		_, _ = io.Copy(io.Discard, res.Body)
	}
}

// guessKeys tries keys that look right as fast as it can.
func guessKeys(ctx context.Context, address string) string {
	client := newClient("127.0.0.2")
	client.Timeout = patience
	var asked, limited atomic.Int64
	var all sync.WaitGroup
	for range 32 {
		all.Go(func() {
			for ctx.Err() == nil {
				req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/catalog/changes",
					nil)
				if err != nil {
					return
				}
				req.Header.Set("Authorization", "Bearer vrp_aaaaaaaaaa_"+rand.Text())
				res, err := client.Do(req)
				if err != nil {
					continue
				}
				if asked.Add(1); res.StatusCode == http.StatusTooManyRequests {
					limited.Add(1)
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
	all.Wait()
	return fmt.Sprintf("%d keys tried, %d of them not looked for", asked.Load(), limited.Load())
}

// manyReadings asks, from four addresses with four connections each, for what takes a reader longest: a large program
// that is read anew for every command which starts it.
func manyReadings(ctx context.Context, address string) string {
	body, err := json.Marshal(map[string]any{"files": map[string]string{
		"train.py": "from transformers import TrainingArguments\n" +
			strings.Repeat("TrainingArguments(per_device_train_batch_size=4)\n", 5000),
		"job.sh": strings.Repeat("python train.py\n", 60)}})
	if err != nil {
		return err.Error()
	}
	reading := question{"/v1/read", func(int64) string { return string(body) }}
	var asked, refused, sent atomic.Int64
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			t, _ := closedLoop(ctx, newClient(fmt.Sprintf("127.0.0.%d", 2+i)), "http://"+address, reading, 4, time.Hour)
			asked.Add(int64(t.asked()))
			refused.Add(int64(t.statuses[422]))
			sent.Add(int64(t.statuses[503]))
		})
	}
	all.Wait()
	return fmt.Sprintf("%d readings, %d refused for their limits, %d sent away", asked.Load(), refused.Load(), sent.Load())
}

// readBatches sends batches and reads their answers until ctx is done, and returns the bytes.
func readBatches(ctx context.Context, address, body string) (n int64) {
	client := newClient("127.0.0.2")
	for ctx.Err() == nil {
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/v1/estimate/batch",
			strings.NewReader(body))
		if err != nil {
			return n
		}
		req.Header.Set("Content-Type", "application/x-ndjson")
		if res, err := client.Do(req); err == nil {
			read, _ := io.Copy(io.Discard, res.Body)
			n += read
			_ = res.Body.Close()
		}
	}
	return n
}

// drip sends a byte a second.
func drip(ctx context.Context, c net.Conn) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if _, err := io.WriteString(c, "x"); err != nil {
				return
			}
		}
	}
}

// sip reads a KiB a second.
func sip(ctx context.Context, c net.Conn) {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	some := make([]byte, 1<<10)
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			if _, err := c.Read(some); err != nil {
				return
			}
		}
	}
}

// Jobs of a few hundred bytes that ask for as much work as any: those of mixtures with a stack in which each expert has
// tensors of its own.
const (
	formerStack = `"versions":{"torch":"2.9.1","transformers":"4.57.6"}`
	mixtureJob  = `{"model":{"hf_config":{"model_type":"qwen3_moe","num_hidden_layers":64,"hidden_size":64,"num_attention_heads":1,"num_key_value_heads":1,"head_dim":64,` +
		`"num_experts":1024,"num_experts_per_tok":8,"moe_intermediate_size":64,"intermediate_size":64,"vocab_size":1000}},` +
		`"training":{"micro_batch":1,"sequence_length":128,"lora":{"rank":8,"target_modules":["all-linear"]},` +
		formerStack + `}`
	deepSeekJob = `{"model":{"preset":"deepseek-ai/DeepSeek-V3"},"training":{"micro_batch":1,"sequence_length":2048,` +
		formerStack + `}`
	everyCardJob = `{"model":{"preset":"meta-llama/Llama-3.1-8B"},"training":{"micro_batch":1,"sequence_length":2048,"gradient_accumulation":64,` +
		`"distributed":{"world_size":8,"data":"fsdp"}},"gpus":["*"]`
)

// dear asks for a job again and again over 16 connections of one client, every time another.
func dear(ctx context.Context, address, job string) string {
	asked := question{"/v1/estimate", func(int64) string {
		return fmt.Sprintf(`%s,"reserve_bytes":%d}`, job, unique.Add(1))
	}}
	t, _ := closedLoop(ctx, newClient("127.0.0.2"), "http://"+address, asked, 16, time.Hour)
	return fmt.Sprintf("%d answered, %d sent away, %d refused", t.statuses[200], t.statuses[503], t.statuses[422])
}

// dearQuestions asks what plays a job more than once, over 16 connections of one client.
func dearQuestions(ctx context.Context, address string) string {
	const text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 500.00 MiB. GPU 0 has a total " +
		"capacity of 24.00 GiB of which 100.00 MiB is free. " +
		"Including non-PyTorch memory, this process has 23.00 GiB memory in use. Of the allocated memory 22.40 GiB is " +
		"allocated by PyTorch, and 100.00 MiB is reserved by PyTorch but unallocated."
	one := func() string {
		return fmt.Sprintf(`%s,"gpus":["rtx-4090"],"reserve_bytes":%d}`, mixtureJob, unique.Add(1))
	}
	var all sync.WaitGroup
	var tallies [2]*tally
	for i, q := range []question{
		{"/v1/diagnose", func(int64) string { return fmt.Sprintf(`{"text":%q,"job":%s}`, text, one()) }},
		{"/v1/compare", func(int64) string { return fmt.Sprintf(`{"a":%s,"b":%s}`, one(), one()) }},
	} {
		all.Go(func() { tallies[i], _ = closedLoop(ctx, newClient("127.0.0.2"), "http://"+address, q, 8, time.Hour) })
	}
	all.Wait()
	return fmt.Sprintf("%d and %d answered, %d and %d sent away", tallies[0].statuses[200], tallies[1].statuses[200],
		tallies[0].statuses[503], tallies[1].statuses[503])
}

// flood asks for plans at a rate from one address.
func flood(ctx context.Context, url string, perSecond float64) string {
	deadline, _ := ctx.Deadline()
	client := newClient("127.0.0.2")
	client.Timeout = patience
	t := openLoop(ctx, client, url, planNew, ask, perSecond, time.Until(deadline))
	return fmt.Sprintf("%.0f plans/s, %d of %d sent away", perSecond, t.statuses[503], t.asked())
}
