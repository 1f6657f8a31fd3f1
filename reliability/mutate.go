package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/reliability/meter"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/workplace"
)

// besiegedReplay is what a service of 512 MiB has for replays.
const besiegedReplay = 512 << 20 / 8 * 3

// asked are requests as people send them, from which the others are made.
//
// Of those whose answers take long one in sixteen is asked.
var asked = []struct {
	method, path, body string
	dear               bool
}{
	{"POST", "/v1/estimate", repeatedJob, false},
	{"POST", "/v1/estimate?timeline=true&tensors=true", repeatedJob, true},
	{"POST", "/v1/estimate", mixtureJob + `,"gpus":["h100-sxm5"]}`, true},
	{"POST", "/v1/estimate", deepSeekJob + `,"gpus":["h200","a100-sxm4-80gb"],"confidence":0.9}`, true},
	{"POST", "/v1/estimate", everyCardJob + `}`, true},
	{"POST", "/v1/estimate", `{"model":{"hf_config":{"model_type":"t5","d_model":64,"num_layers":2,"d_ff":128}},"training":{"micro_batch":2,"sequence_length":64,"lora":{"rank":4,"target_modules":["q","v"]}},"gpus":[{"name":"mine","memory_bytes":8589934592}]}`, false},
	{"POST", "/v1/estimate", `{"model":{"hf_config":{"model_type":"llama","hidden_size":256,"num_hidden_layers":4,"num_attention_heads":4,"vocab_size":1000}},"training":{"micro_batch":1,"sequence_length":128,"precision":"bf16","optimizer":{"name":"adamw"},"distributed":{"world_size":8,"data":"zero3"},"allocator":{"expandable_segments":true}}}`, false},
	{"POST", "/v1/plan", repeatedJob, true},
	{"POST", "/v1/compare", `{"a":` + repeatedJob + `,"b":` + repeatedJob + `}`, false},
	{"POST", "/v1/diagnose", `{"text":"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 500.00 MiB. GPU 0 has a total capacity of 24.00 GiB of which 100.00 MiB is free.","job":` + repeatedJob + `}`, true},
	{"POST", "/v1/read", `{"files":[{"name":"train.py","text":"TrainingArguments(per_device_train_batch_size=4)"}]}`,
		false},
	{"POST", "/v1/estimate/batch", repeatedJob + "\n" + repeatedJob + "\n", false},
	{"GET", "/v1/gpus?page_size=10", "", false},
	{"GET", "/v1/models/openai-community%2Fgpt2", "", false},
	{"GET", "/v1/gpus/rtx-4070", "", false},
}

// spliced are values and signs that documents go wrong with.
var spliced = []string{"0", "-1", "1e400", "9223372036854775807", "9223372036854775808", "4294967296", "0.5", "null",
	"true", `""`, "[]", "{}", `"*"`, `"gpt2"`,
	"\x00", "\xff", `\ud800`, `"model":`, `"training":`, `"preset":`, "{", "}", "[", "]", ",", ":", `"`, "\n",
	"[[[[[[[[[[[[[[[[", strings.Repeat("9", 400)}

// mutate asks for n requests that are nearly right, one after the other, and holds each against the bound of what it
// may take.
func mutate(ctx context.Context, out io.Writer, n int, seed uint64) (err error) {
	var m meter.Meter
	silent := zerolog.New(io.Discard)
	h := api.New(service.New(service.EmbeddedCatalog(), service.WithCost(m.Tell),
		// the bound is the processor's time
		service.WithLimits(workplace.Limits{ReplayBytes: besiegedReplay, RequestTimeout: 10 * time.Minute})),
		api.Options{Logger: &silent})
	random := rand.New(rand.NewPCG(seed, 0))
	statuses := map[int]int{}
	faults := 0
	for i := range n {
		if ctx.Err() != nil {
			n = i
			break
		}
		one := asked[random.IntN(len(asked))]
		if one.dear && random.IntN(16) > 0 {
			one = asked[0]
		}
		path, body := one.path, []byte(one.body)
		for range 1 + random.IntN(3) {
			if len(body) == 0 || random.IntN(12) == 0 {
				path = "/" + strings.Map(printable, string(mutated(random, []byte(path))))
				continue
			}
			body = mutated(random, body)
		}
		r, bad := http.NewRequestWithContext(ctx, one.method, "http://127.0.0.1"+path, bytes.NewReader(body))
		if bad != nil { // no URL
			continue
		}
		r.RequestURI, r.RemoteAddr = path, "127.0.0.1:1"
		r.Header.Set("Content-Type", "application/json")
		if strings.HasPrefix(path, "/v1/estimate/batch") {
			r.Header.Set("Content-Type", "application/x-ndjson")
		}
		w := httptest.NewRecorder()
		m.Begin()
		h.ServeHTTP(w, r)
		over := m.End(len(body), w.Body.Len())
		statuses[w.Code]++
		if over != nil || w.Code >= 500 {
			if faults++; faults <= 10 {
				err = errors.Join(err, fmt.Errorf("request %d, %s %s: status %d, %v\n%.2000s", i, one.method, path,
					w.Code, over, body))
			}
		}
	}
	fmt.Fprintf(out, "%d requests, seed %d: %v; %d faults; %v\n", n, seed, statuses, faults, &m)
	return err
}

// mutated is a document with one thing wrong: something put in, taken out, repeated, exchanged or flipped.
func mutated(random *rand.Rand, b []byte) []byte {
	from := random.IntN(len(b) + 1)
	to := min(from+random.IntN(24), len(b))
	var middle []byte
	switch random.IntN(6) {
	case 0:
		middle = []byte(spliced[random.IntN(len(spliced))])
	case 1: // taken out
	case 2:
		middle = bytes.Repeat(b[from:to], 2+random.IntN(3))
	case 3:
		other := asked[random.IntN(len(asked))].body
		if at := random.IntN(len(other) + 1); at < len(other) {
			middle = []byte(other[at:min(at+random.IntN(80), len(other))])
		}
	case 4:
		middle = bytes.Clone(b[from:to])
		if len(middle) > 0 {
			middle[random.IntN(len(middle))] ^= 1 << random.IntN(8)
		}
	case 5: // another number
		digit := bytes.IndexAny(b[from:], "0123456789")
		if digit < 0 {
			return b
		}
		from += digit
		to = from
		for to < len(b) && b[to] >= '0' && b[to] <= '9' {
			to++
		}
		middle = fmt.Append(nil, random.Int64N(1<<random.IntN(62)+1))
	}
	return append(append(append(make([]byte, 0, len(b)+len(middle)), b[:from]...), middle...), b[to:]...)
}

// printable is what a request's line may have.
func printable(r rune) rune {
	if r <= ' ' || r > '~' {
		return -1
	}
	return r
}
