package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
)

// bare is what the API is measured against: a chi handler that decodes the same
// job and encodes the same answer with encoding/json, and does nothing else.
func bare(b *testing.B) http.Handler {
	s := service.New(service.EmbeddedCatalog())
	var job estimator.Job
	if err := json.Unmarshal([]byte(story), &job); err != nil {
		b.Fatal(err)
	}
	answer, err := s.Estimate(context.Background(), job, service.EstimateOptions{})
	if err != nil {
		b.Fatal(err)
	}
	r := chi.NewRouter()
	r.Post("/v1/estimate", func(w http.ResponseWriter, r *http.Request) {
		var job estimator.Job
		if err := json.NewDecoder(r.Body).Decode(&job); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			b.Error(err)
		}
	})
	return r
}

// BenchmarkEstimate compares POST /v1/estimate with the bare handler, through a
// real server over loopback and without one. The API logs every request, as it
// does in production. "ratio" is its requests a second over the bare handler's.
func BenchmarkEstimate(b *testing.B) {
	logger := zerolog.New(io.Discard).With().Timestamp().Logger()
	full := func(cache int) http.Handler {
		return api.New(service.New(service.EmbeddedCatalog(), service.WithCache(cache)), api.Options{Logger: &logger})
	}
	for _, way := range []struct {
		name string
		run  func(*testing.B, http.Handler)
	}{{"server", overLoopback}, {"handler", inProcess}} {
		var baseline float64
		for _, c := range []struct {
			name    string
			handler http.Handler
		}{{"bare", bare(b)}, {"api-cached", full(1024)}, {"api-uncached", full(0)}} {
			b.Run(way.name+"/"+c.name, func(b *testing.B) {
				b.ReportAllocs()
				way.run(b, c.handler)
				rate := float64(b.N) / b.Elapsed().Seconds()
				b.ReportMetric(rate, "req/s")
				if c.name == "bare" {
					baseline = rate
				} else if baseline > 0 {
					b.ReportMetric(rate/baseline, "ratio")
				}
			})
		}
	}
}

// BenchmarkNewEstimate is what a job that nobody has asked for costs in POST /v1/estimate, its entry in the cache
// included, beside what the estimator takes of that: the rest is the front door and the service.
func BenchmarkNewEstimate(b *testing.B) {
	logger := zerolog.New(io.Discard).With().Timestamp().Logger()
	h := api.New(service.New(service.EmbeddedCatalog()), api.Options{Logger: &logger})
	b.Run("estimator", func(b *testing.B) {
		b.ReportAllocs()
		var job estimator.Job
		if err := json.Unmarshal([]byte(story), &job); err != nil {
			b.Fatal(err)
		}
		c := service.EmbeddedCatalog()
		m, err := c.Model(job.Model.Preset)
		if err != nil {
			b.Fatal(err)
		}
		g, err := c.GPU(job.GPUs[0].Name)
		if err != nil {
			b.Fatal(err)
		}
		in := estimator.Input{Job: job, Preset: &m.Preset, GPUs: []estimator.GPU{g.ForEstimator()}}
		for b.Loop() {
			in.Job.ReserveBytes++
			if _, err := estimator.Estimate(in); err != nil {
				b.Fatal(err)
			}
		}
	})
	asked := 0 // how many jobs, all different
	for _, c := range []struct {
		name string
		job  func(n int) string
	}{
		{"handler", func(n int) string { // tensors that nobody asked for
			return strings.Replace(story, `"preset": "nanogpt/train_gpt2"`,
				`"nanogpt":{"n_layer":12,"n_head":12,"n_embd":768,"block_size":1024,"vocab_size":`+strconv.Itoa(50304+n)+`}`, 1)
		}},
		{"handler-other-card", func(n int) string { // those of another job, as on another card
			return strings.Replace(story, "{", `{"reserve_bytes": `+strconv.Itoa(n)+`, `, 1)
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				asked++
				inProcessOne(b, h, c.job(asked))
			}
		})
	}
}

func inProcessOne(b *testing.B, h http.Handler, job string) {
	r := httptest.NewRequest(http.MethodPost, "/v1/estimate", strings.NewReader(job))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		b.Fatalf("status %d: %s", w.Code, w.Body)
	}
}

func inProcess(b *testing.B, h http.Handler) {
	for b.Loop() {
		inProcessOne(b, h, story)
	}
}

func overLoopback(b *testing.B, h http.Handler) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(l) }()
	defer server.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	b.SetParallelism(8)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			res, err := client.Post("http://"+l.Addr().String()+"/v1/estimate", "application/json",
				strings.NewReader(story))
			if err != nil {
				b.Error(err)
				return
			}
			if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
				b.Errorf("status %d, %v", res.StatusCode, err)
			}
			res.Body.Close()
		}
	})
}

// BenchmarkBatch is a thousand lines through one request.
func BenchmarkBatch(b *testing.B) {
	h := newAPI(api.Options{})
	var line bytes.Buffer
	if err := json.Compact(&line, []byte(story)); err != nil {
		b.Fatal(err)
	}
	line.WriteByte('\n')
	body := bytes.Repeat(line.Bytes(), 1000)
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/v1/estimate/batch", bytes.NewReader(body))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := bytes.Count(w.Body.Bytes(), []byte("\n")); got != 1000 {
			b.Fatalf("%d lines", got)
		}
	}
	b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "lines/s")
}
