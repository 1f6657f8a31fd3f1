package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/service"
)

// metric is a line of what Prometheus sees.
func metric(t *testing.T, a *API, name string) string {
	t.Helper()
	w := httptest.NewRecorder()
	a.metrics.handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for line := range strings.Lines(w.Body.String()) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return "0" // a route that nothing was counted for has no line
}

func TestDearestJobIsGivenUpFirst(t *testing.T) {
	var l lastLine
	var order []string
	began := time.Now()
	for _, j := range []struct {
		name  string
		bytes int64
		later time.Duration
	}{{"cheap", 1, 0}, {"dear", 9, time.Second}, {"dear and older", 9, 0}, {"dearest", 10, time.Second}} {
		leave := l.enter(t.Context(), func(cause error) {
			if !errors.Is(cause, errGivenUp) {
				t.Errorf("%s was given up for %v", j.name, cause)
			}
			order = append(order, j.name)
		})
		for at := range l.jobs {
			if at.bytes() == 0 { // the one that was just added
				at.bytes, at.began = func() int64 { return j.bytes }, began.Add(j.later)
			}
		}
		if j.name == "cheap" {
			defer leave()
		}
	}
	for l.giveUpDearest() {
	}
	if got := strings.Join(order, ", "); got != "dearest, dear and older, dear, cheap" {
		t.Errorf("given up in the order %s", got)
	}
}

// A job that is given up is answered with 503 and a reason, and counted; who asks for little beside it has an answer.
func TestGivingUp(t *testing.T) {
	a := New(service.New(service.EmbeddedCatalog(), service.WithReplayMemory(1<<30)), Options{})
	var near atomic.Bool
	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { a.watchMemory(ctx, func() bool { return near.Swap(false) }) })
	defer all.Wait()
	defer stop()
	started := make(chan struct{})
	request := httptest.NewRequest(http.MethodPost, "/v1/plan", nil)
	all.Go(func() {
		<-started
		near.Store(true)
	})
	_, err := work(a, request, func(ctx context.Context) (int, error) {
		close(started)
		<-ctx.Done()
		return 0, ctx.Err()
	})
	p := problem.From(err)
	if p.Code != problem.Overloaded.Code || !strings.Contains(p.Detail, "near the memory") || p.RetryAfterSeconds == 0 {
		t.Errorf("%+v", p)
	}
	if n := metric(t, a, `vramplan_shed_total{reason="given_up"}`); n != "1" {
		t.Errorf("%s jobs are counted as given up", n)
	}
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/v1/estimate", strings.NewReader(
		`{"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}}`))
	r.Header.Set("Content-Type", "application/json")
	if a.ServeHTTP(w, r); w.Code != http.StatusOK {
		t.Errorf("an estimate after it: %d %s", w.Code, w.Body)
	}
	if len(a.atWork.jobs) > 0 {
		t.Errorf("%d jobs are still in sight", len(a.atWork.jobs))
	}
}

// Work that ends with its request is no news; work that goes on for more than 100 ms is.
func TestOutlivingWork(t *testing.T) {
	for _, tt := range []struct {
		after time.Duration
		late  string
	}{{0, "0"}, {90 * time.Millisecond, "0"}, {110 * time.Millisecond, "1"}} {
		synctest.Test(t, func(t *testing.T) {
			a := New(service.New(service.EmbeddedCatalog()), Options{})
			ctx, leave := context.WithCancel(t.Context())
			request := httptest.NewRequest(http.MethodPost, "/v1/plan", nil).WithContext(ctx)
			go func() {
				time.Sleep(time.Millisecond)
				leave()
			}()
			_, err := work(a, request, func(ctx context.Context) (int, error) {
				<-ctx.Done()
				time.Sleep(tt.after)
				return 0, ctx.Err()
			})
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%v", err)
			}
			time.Sleep(105 * time.Millisecond)
			if n := metric(t, a, "vramplan_work_outliving"); n != tt.late {
				t.Errorf("%v after its request: %v at work", tt.after, n)
			}
			time.Sleep(time.Second)
			if n := metric(t, a, `vramplan_work_outlived_total{route="unmatched"}`); n != tt.late || metric(t, a, "vramplan_work_outliving") != "0" {
				t.Errorf("%v after its request: %v are counted", tt.after, n)
			}
		})
	}
}
