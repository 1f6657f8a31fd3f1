package workplace

import (
	"cmp"
	"context"
	"math"
	"runtime/debug"
	measured "runtime/metrics"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// giveUpDearest ends the work that has booked most, of equals what began first, and says whether there was any that had
// not been given up before. Work books what it takes at most before it takes it, so that this is for what a bound had
// wrong: one answer is lost, and not the service.
func (p *Place) giveUpDearest() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var dearest *work
	for w := range p.works {
		if w.given {
			continue
		}
		if dearest == nil || cmp.Or(cmp.Compare(dearest.booked, w.booked), w.began.Compare(dearest.began)) < 0 {
			dearest = w
		}
	}
	if dearest == nil {
		return false
	}
	dearest.given = true
	dearest.cancel(ErrGivenUp)
	p.Shed("given_up")
	return true
}

const (
	// lookEvery is how often memory is looked at. In so long a replay takes some megabytes.
	lookEvery = 20 * time.Millisecond
	// restAfter is how long work that was given up has to end and the collector to take what it had: two collections of
	// the largest heap that a service has by default.
	restAfter = 200 * time.Millisecond
)

// Watch gives work up, one at a time, while near says that the limit is near, and calls tell then. It returns with ctx.
func (p *Place) Watch(ctx context.Context, near func() bool, tell func()) {
	for {
		wait := lookEvery
		if near() && p.giveUpDearest() {
			tell()
			wait = restAfter
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// NearMemoryLimit says whether the process has more than the runtime could keep below its limit (GOMEMLIMIT, or two
// thirds of the container's): the collector works as hard as it may before that, so that a tenth above it is what is
// alive. nil where there is no limit.
func NearMemoryLimit() func() bool {
	limit := debug.SetMemoryLimit(-1)
	if limit == math.MaxInt64 {
		return nil
	}
	samples := []measured.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	return func() bool {
		measured.Read(samples)
		return samples[0].Value.Uint64()-samples[1].Value.Uint64() > uint64(limit)/10*11
	}
}

// mostOutlives is how long work may go on when nobody waits for it any more.
const mostOutlives = 100 * time.Millisecond

// outlives counts work that goes on for too long after its request has ended; wait returns when it is over.
func (p *Place) outlives(w *work, wait func()) {
	p.metrics.left.WithLabelValues(w.of.route).Inc()
	late := time.AfterFunc(mostOutlives, func() {
		p.metrics.outliving.Inc()
		p.metrics.outlived.WithLabelValues(w.of.route).Inc()
	})
	wait()
	if !late.Stop() {
		p.metrics.outliving.Dec()
	}
}

// metrics are what Prometheus sees of the workplace.
type metrics struct {
	// shed counts what was sent away, by what there was too much of.
	shed *prometheus.CounterVec
	// left counts the work whose request ended before it; outliving is what of it goes on 100 ms after, and outlived
	// counts that.
	outliving      prometheus.Gauge
	left, outlived *prometheus.CounterVec
}

func newMetrics() metrics {
	m := metrics{
		shed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vramplan_shed_total", Help: "Requests and connections sent away, by what there was too much of: jobs, " +
				"memory, rate, connections, bytes, keys; given_up: by what the process was near its memory limit.",
		}, []string{"reason"}),
		outliving: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "vramplan_work_outliving", Help: "Jobs at work more than 100 ms after their request has ended.",
		}),
		left: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vramplan_work_left_total", Help: "Jobs whose request ended before they did.",
		}, []string{"route"}),
		outlived: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vramplan_work_outlived_total", Help: "Jobs that were at work 100 ms after their request had ended.",
		}, []string{"route"}),
	}
	for _, reason := range []string{"jobs", "memory", "rate", "connections", "bytes", "keys", "given_up"} {
		m.shed.WithLabelValues(reason) // a rate needs the 0 before the first 1
	}
	return m
}

func (m *metrics) collectors(p *Place) []prometheus.Collector {
	now := func(name, help string, mu *sync.Mutex, value func() int64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, func() float64 {
			mu.Lock()
			defer mu.Unlock()
			return float64(value())
		})
	}
	return []prometheus.Collector{m.shed, m.left, m.outliving, m.outlived,
		now("vramplan_queued_jobs", "Jobs that wait for their turn.", &p.mu, func() int64 { return int64(p.queued) }),
		now("vramplan_held_bytes", "Bytes of documents and answers in memory for clients.", &p.held.mu,
			func() int64 { return p.held.bytes }),
	}
}

// Shed counts what is sent away, by what there is too much of.
func (p *Place) Shed(what string) { p.metrics.shed.WithLabelValues(what).Inc() }

// Shedding is the counter of one thing that there may be too much of.
func (p *Place) Shedding(what string) prometheus.Counter { return p.metrics.shed.WithLabelValues(what) }
