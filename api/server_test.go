package api_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/workplace"
)

// asked is the real service with another Estimate: what these tests are about is
// around it.
type asked struct {
	*service.Service
	estimate func(ctx context.Context, job estimator.Job) (*estimator.Result, error)
}

func (s asked) Estimate(ctx context.Context, job estimator.Job, _ service.EstimateOptions) (*estimator.Result, error) {
	return workplace.Do(ctx, s.Workplace(), workplace.Long, func(ctx context.Context) (*estimator.Result, error) {
		return s.estimate(ctx, job)
	})
}

func askedAPI(o api.Options, estimate func(ctx context.Context, job estimator.Job) (*estimator.Result,
	error), limits ...workplace.Limits) *api.API {
	return api.New(asked{limited(limits), estimate}, o)
}

// echo answers with the micro-batch.
func echo(_ context.Context, job estimator.Job) (*estimator.Result, error) {
	return &estimator.Result{Peak: estimator.Peak{DeviceBytes: job.Training.MicroBatch}}, nil
}

func job(microBatch int) string {
	return fmt.Sprintf(`{"model":{"preset":"gpt2"},"training":{"micro_batch":%d}}`, microBatch)
}

func decodeProblem(t *testing.T, res *http.Response) problem.Problem {
	t.Helper()
	var p problem.Problem
	if got := res.Header.Get("Content-Type"); got != problem.ContentType {
		t.Fatalf("Content-Type %q", got)
	}
	if err := json.NewDecoder(res.Body).Decode(&p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPanicIsAProblemWithoutInternals(t *testing.T) {
	h := askedAPI(api.Options{}, func(context.Context, estimator.Job) (*estimator.Result, error) {
		panic("secret state")
	})
	res := do(h, http.MethodPost, "/v1/estimate", "application/json", job(1))
	body := read(t, res)
	if res.StatusCode != http.StatusInternalServerError || !strings.Contains(body, `"code":"internal"`) ||
		strings.Contains(body, "secret") || strings.Contains(body, ".go") {
		t.Errorf("status %d: %s", res.StatusCode, body)
	}
	res = do(h, http.MethodPost, "/v1/estimate/batch", "application/x-ndjson", job(1)+"\n{}\n")
	lines := strings.Split(strings.TrimSpace(read(t, res)), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], `"code":"internal"`) ||
		!strings.Contains(lines[1], `"code":"invalid_job"`) {
		t.Errorf("batch: %q", lines)
	}
}

func TestUnknownErrorsStayInTheLog(t *testing.T) {
	for err, want := range map[error]int{
		errors.New("open /var/lib/secret: no such file"):                                     500,
		context.DeadlineExceeded:                                                             503,
		&service.Error{Code: service.CodeUnavailable, Message: "the catalog cannot be read"}: 503,
	} {
		var out bytes.Buffer
		logger := zerolog.New(&out)
		h := askedAPI(api.Options{Logger: &logger}, func(context.Context, estimator.Job) (*estimator.Result, error) {
			return nil, err
		})
		res := do(h, http.MethodPost, "/v1/estimate", "application/json", job(1))
		for line := range strings.Lines(out.String()) {
			if !strings.Contains(line, `"request_id":"`+res.Header.Get("X-Request-Id")+`"`) {
				t.Errorf("a line of the log that the id of the answer does not find: %s", line)
			}
		}
		if !strings.Contains(out.String(), err.Error()) {
			t.Errorf("the log does not say %q: %s", err, &out)
		}
		if res.StatusCode != want {
			t.Errorf("%v: status %d, want %d", err, res.StatusCode, want)
		}
		if want == 503 && res.Header.Get("Retry-After") == "" {
			t.Errorf("%v: no Retry-After", err)
		}
		if p := decodeProblem(t, res); strings.Contains(p.Detail, "secret") {
			t.Errorf("internals in %q", p.Detail)
		}
	}
}

// endless counts how much of it is read.
type endless struct{ read atomic.Int64 }

func (e *endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = ' '
	}
	e.read.Add(int64(len(b)))
	return len(b), nil
}

func TestLargeBodiesAreCut(t *testing.T) {
	h := newAPI(api.Options{})
	for name, length := range map[string]int64{"with its length": 100 << 20, "without": -1} {
		most := int64(18 << 20)
		if length > 0 {
			most = 0
		}
		body := &endless{}
		r := httptest.NewRequest(http.MethodPost, "/v1/estimate", io.LimitReader(body, 100<<20))
		r.ContentLength = length
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d", name, w.Code)
		}
		if n := body.read.Load(); n > most {
			t.Errorf("%s: %d bytes were read", name, n)
		}
	}
}

// Most clients send all of a body before they read the answer. They are to see a
// 413 and not a connection that was reset.
func TestLargeBodiesAreAnswered(t *testing.T) {
	url, _ := serve(t, newAPI(api.Options{}), 0)
	address := strings.TrimPrefix(url, "http://")
	const size = 8 << 20
	blank := bytes.Repeat([]byte(" "), size)
	for name, body := range map[string][]byte{
		"with its length": fmt.Appendf(nil, "Content-Length: %d\r\n\r\n%s", size, blank),
		"in chunks":       fmt.Appendf(nil, "Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", size, blank),
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(conn, "POST /v1/estimate HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\n%s",
			address, body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: status %d", name, res.StatusCode)
		}
		if p := decodeProblem(t, res); p.Code != "too_large" {
			t.Errorf("%s: %+v", name, p)
		}
		_ = conn.Close()
	}
}

func TestRateLimit(t *testing.T) {
	h := newAPI(api.Options{}, workplace.Limits{RatePerSecond: 0.01})
	if res := do(h, http.MethodGet, "/v1/version", "", ""); res.StatusCode != http.StatusOK {
		t.Fatalf("the first request has status %d", res.StatusCode)
	}
	res := do(h, http.MethodGet, "/v1/version", "", "")
	if p := decodeProblem(t, res); res.StatusCode != http.StatusTooManyRequests || p.Code != "rate_limited" ||
		res.Header.Get("Retry-After") == "" {
		t.Errorf("status %d, problem %+v, header %v", res.StatusCode, p, res.Header)
	}
	if res := do(h, http.MethodGet, "/healthz", "", ""); res.StatusCode != http.StatusOK {
		t.Errorf("a probe has status %d", res.StatusCode)
	}
}

func TestOverload(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	h := askedAPI(api.Options{}, func(ctx context.Context, job estimator.Job) (*estimator.Result, error) {
		close(began)
		<-end
		return echo(ctx, job)
	}, workplace.Limits{MaxConcurrent: 1, MaxQueue: 1, QueueTimeout: time.Millisecond})
	var first sync.WaitGroup
	first.Go(func() { do(h, http.MethodPost, "/v1/estimate", "application/json", job(1)) })
	<-began
	res := do(h, http.MethodPost, "/v1/estimate", "application/json", job(1))
	close(end)
	first.Wait()
	if p := decodeProblem(t, res); res.StatusCode != http.StatusServiceUnavailable || p.Code != "overloaded" ||
		res.Header.Get("Retry-After") != "1" {
		t.Errorf("status %d, problem %+v", res.StatusCode, p)
	}
}

func TestBatchKeepsOrderAndGoesOnAfterBadLines(t *testing.T) {
	h := askedAPI(api.Options{}, echo)
	var in bytes.Buffer
	want := make([]string, 0, 503)
	for i := 1; i <= 500; i++ {
		fmt.Fprintln(&in, job(i))
		want = append(want, fmt.Sprintf(`"device_bytes":%d,`, i))
	}
	in.WriteString("\n  \r\n{\"modle\": 1}\r\n")
	want = append(want, `#line=503","code":"invalid_document"`)
	in.WriteString(strings.Repeat("x", 3<<20) + "\n")
	want = append(want, `#line=504","code":"too_large"`)
	in.WriteString(job(7)) // without a line feed
	want = append(want, `"device_bytes":7,`)
	res := do(h, http.MethodPost, "/v1/estimate/batch", "application/x-ndjson", in.String())
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("status %d, header %v", res.StatusCode, res.Header)
	}
	got := strings.Split(strings.TrimSuffix(read(t, res), "\n"), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines, want %d", len(got), len(want))
	}
	for i := range got {
		if !strings.Contains(got[i], want[i]) {
			t.Errorf("line %d has no %s: %.200s", i+1, want[i], got[i])
		}
	}
}

// A line of a batch gets the same bytes as a request of its own.
func TestBatchLineEqualsSingle(t *testing.T) {
	h := newAPI(api.Options{})
	for _, target := range []string{"", "?timeline=true&tensors=true"} {
		var compact bytes.Buffer
		if err := json.Compact(&compact, []byte(story)); err != nil {
			t.Fatal(err)
		}
		single := read(t, do(h, http.MethodPost, "/v1/estimate"+target, "application/json", story))
		batch := read(t, do(h, http.MethodPost, "/v1/estimate/batch"+target, "application/x-ndjson", compact.String()))
		batch = strings.ReplaceAll(batch, "/v1/estimate/batch#line=1", "/v1/estimate")
		if single != batch {
			t.Errorf("single %.300s\nbatch %.300s", single, batch)
		}
	}
}

// A brief line has the peak and the verdicts of the whole one; a problem stays whole.
func TestBriefBatch(t *testing.T) {
	h := newAPI(api.Options{})
	var compact bytes.Buffer
	if err := json.Compact(&compact, []byte(story)); err != nil {
		t.Fatal(err)
	}
	var whole, brief map[string]json.RawMessage
	if err := json.Unmarshal([]byte(read(t, do(h, http.MethodPost, "/v1/estimate", "application/json", story))),
		&whole); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(read(t, do(h, http.MethodPost, "/v1/estimate/batch?brief=true", "application/x-ndjson",
		compact.String()+"\n{}\n")), "\n")
	if err := json.Unmarshal([]byte(lines[0]), &brief); err != nil {
		t.Fatal(err)
	}
	if len(brief) != 2 || string(brief["peak"]) != string(whole["peak"]) ||
		string(brief["gpus"]) != string(whole["gpus"]) {
		t.Errorf("the brief line is %s", lines[0])
	}
	if !strings.Contains(lines[1], `"pointer":"/training/micro_batch"`) {
		t.Errorf("the bad line is answered with %s", lines[1])
	}
	if res := do(h, http.MethodPost, "/v1/estimate/batch?brief=perhaps", "application/x-ndjson", compact.String()); res.StatusCode != http.StatusBadRequest {
		t.Errorf("brief=perhaps is answered with %d", res.StatusCode)
	}
}

// serve starts a real server; stop ends it and returns what Serve said.
func serve(t *testing.T, a *api.API, drain time.Duration) (url string, stop func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Serve(ctx, api.Listeners{API: l, Drain: drain, Finish: 10 * time.Second}) }()
	var once sync.Once
	var result error
	stop = func() error {
		once.Do(func() { cancel(); result = <-done })
		return result
	}
	t.Cleanup(func() { _ = stop() })
	return "http://" + l.Addr().String(), stop
}

func TestBatchStreams(t *testing.T) {
	url, _ := serve(t, askedAPI(api.Options{}, echo), 0)
	in, feed := io.Pipe()
	req, err := http.NewRequest(http.MethodPost, url+"/v1/estimate/batch", in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	go func() { _, _ = io.WriteString(feed, job(1)+"\n") }()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	out := bufio.NewScanner(res.Body)
	// Each answer arrives before the next job is sent.
	for i := 1; i <= 3; i++ {
		if !out.Scan() || !strings.Contains(out.Text(), fmt.Sprintf(`"device_bytes":%d,`, i)) {
			t.Fatalf("line %d is %q, %v", i, out.Text(), out.Err())
		}
		if _, err := io.WriteString(feed, job(i+1)+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	feed.Close()
	if !out.Scan() || out.Scan() {
		t.Errorf("the batch does not end where its input ends")
	}
}

// A connection serves on after a batch and after a job.
func TestConnectionsAreUsedAgain(t *testing.T) {
	url, _ := serve(t, askedAPI(api.Options{}, echo), 0)
	connections := atomic.Int64{}
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network,
		address string) (net.Conn, error) {
		connections.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}}
	for range 3 {
		for _, c := range []struct{ path, contentType, body string }{
			{"/v1/estimate/batch", "application/x-ndjson", job(1) + "\n" + job(2)},
			{"/v1/estimate", "application/json", job(1)},
			{"/v1/gpus/a100", "", ""},
			{"/v1/estimate/batch", "application/x-ndjson", ""},
			{"/readyz", "", ""},
		} {
			method := http.MethodGet
			if c.contentType != "" {
				method = http.MethodPost
			}
			req, err := http.NewRequest(method, url+c.path, strings.NewReader(c.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Content-Type", c.contentType)
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			if read(t, res); res.StatusCode != http.StatusOK {
				t.Errorf("%s has status %d", c.path, res.StatusCode)
			}
			res.Body.Close()
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections were made", n)
	}
}

func TestBatchEndsWithItsClient(t *testing.T) {
	var jobs atomic.Int64
	a := askedAPI(api.Options{}, func(ctx context.Context, job estimator.Job) (*estimator.Result, error) {
		jobs.Add(1)
		return echo(ctx, job)
	})
	url, stop := serve(t, a, 0)
	in, feed := io.Pipe()
	defer feed.Close()
	ctx, leave := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"/v1/estimate/batch", in)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	go func() { _, _ = io.WriteString(feed, job(1)+"\n") }()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	leave()
	res.Body.Close()
	// Shutdown waits for handlers: one that still waited for lines would fail it.
	if err := stop(); err != nil {
		t.Errorf("the handler did not end: %v", err)
	}
	if jobs.Load() != 1 {
		t.Errorf("%d jobs were worked on", jobs.Load())
	}
}

func TestServeDrains(t *testing.T) {
	began, end := make(chan struct{}), make(chan struct{})
	a := askedAPI(api.Options{}, func(ctx context.Context, job estimator.Job) (*estimator.Result, error) {
		close(began)
		<-end
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return echo(ctx, job)
	})
	url, stop := serve(t, a, 200*time.Millisecond)
	answered := make(chan int, 1)
	go func() {
		res, err := http.Post(url+"/v1/estimate", "application/json", strings.NewReader(job(1)))
		if err != nil {
			answered <- 0
			return
		}
		res.Body.Close()
		answered <- res.StatusCode
	}()
	<-began
	stopped := make(chan error, 1)
	go func() { stopped <- stop() }()
	// While it drains, the service answers but says that it is not ready.
	status := 0
	for range 100 {
		res, err := http.Get(url + "/readyz")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if status = res.StatusCode; status == http.StatusServiceUnavailable {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if status != http.StatusServiceUnavailable {
		t.Errorf("readyz has status %d while draining", status)
	}
	close(end)
	if got := <-answered; got != http.StatusOK {
		t.Errorf("the request under way has status %d", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

func TestServerTellsWhyItCannotServe(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := newAPI(api.Options{}).Serve(context.Background(), api.Listeners{API: l}); err == nil ||
		!strings.HasPrefix(err.Error(), "serve: ") {
		t.Errorf("error %v", err)
	}
}

// Equal requests get equal bytes, whatever their ids and whoever sends them.
func TestEqualRequestsGetEqualBytes(t *testing.T) {
	h := newAPI(api.Options{})
	var first string
	for i := range 20 {
		r := httptest.NewRequest(http.MethodPost, "/v1/estimate", strings.NewReader(story))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = fmt.Sprintf("10.0.0.%d:1", i)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if i == 0 {
			first = w.Body.String()
		} else if w.Body.String() != first {
			t.Fatalf("answer %d differs: %s", i, w.Body)
		}
	}
}

// FuzzRequests: no request is answered by a fault.
func FuzzRequests(f *testing.F) {
	f.Add("POST", "/v1/estimate?timeline=true", "application/json", story)
	f.Add("POST", "/v1/plan?frontier=true", "application/json; charset=utf-8", `{"effective_batch": 512}`)
	f.Add("POST", "/estimate/batch", "application/x-ndjson", "{}\n{}\n")
	f.Add("GET", "/v1/models/meta-llama%2FLlama-3.1-8B?x=%zz", "", "")
	f.Add("GET", "/v1/gpus/%00", "", "")
	f.Add("PUT", "/v1/models/lab/house-1b", "application/json", `{"family": "llama"}`)
	f.Add("GET", "/v1/gpus?page_size=10&page_token=MTAgcnR4LTQwNzA", "", "")
	h := newDemo(f)
	f.Fuzz(func(t *testing.T, method, target, contentType, body string) {
		r, err := http.NewRequest(method, "http://x"+target, strings.NewReader(body))
		if err != nil {
			return
		}
		r.Header.Set("Content-Type", contentType)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		switch {
		case w.Code >= 500:
			t.Fatalf("%s %q: status %d: %s", method, target, w.Code, w.Body)
		case w.Code >= 400:
			var p problem.Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || p.Status != w.Code || p.Type != "/problems/"+
				p.Code || p.Title == "" || p.Detail == "" {
				t.Fatalf("%s %q: status %d is no problem: %s", method, target, w.Code, w.Body)
			}
		}
	})
}

// Work that had to go is answered with 503, the reason and when to come back, and a panic with nothing of what it said.
func TestWorkThatHadToGo(t *testing.T) {
	for _, c := range []struct {
		err    error
		status int
		detail string
		after  string
	}{
		{workplace.ErrGivenUp, 503, "near the memory", "5"},
		{workplace.ErrShed, 503, "as many jobs", "1"},
		{workplace.ErrFullOfBytes, 503, "as many bytes", "1"},
		{context.DeadlineExceeded, 503, "took too long", "1"},
		{nil, 500, "request id", ""},
	} {
		h := askedAPI(api.Options{}, func(context.Context, estimator.Job) (*estimator.Result, error) {
			if c.err == nil {
				panic("a secret")
			}
			return nil, fmt.Errorf("estimate: %w", c.err)
		})
		res := do(h, http.MethodPost, "/v1/estimate", "application/json", job(1))
		if p := decodeProblem(t, res); res.StatusCode != c.status || !strings.Contains(p.Detail, c.detail) ||
			res.Header.Get("Retry-After") != c.after || strings.Contains(p.Detail, "secret") {
			t.Errorf("%v: %d, %+v, %v", c.err, res.StatusCode, p, res.Header)
		}
		if got := strings.Contains(metricsOf(t, h), "vramplan_http_panics_total 1"); got != (c.err == nil) {
			t.Errorf("%v: a panic is counted: %v", c.err, got)
		}
	}
}
