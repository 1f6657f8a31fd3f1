package api

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
)

// metrics are what Prometheus sees. Labels come from closed sets: routes, known
// methods, status codes and verdicts, never from what a client wrote.
type metrics struct {
	registry    *prometheus.Registry
	requests    *prometheus.CounterVec
	durations   *prometheus.HistogramVec
	inFlight    prometheus.Gauge
	panics      prometheus.Counter
	decisions   *prometheus.CounterVec
	overrides   prometheus.Counter
	connections *prometheus.GaugeVec
}

func newMetrics(a *API) *metrics {
	s := a.service
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vramplan_http_requests_total", Help: "Requests answered.",
		}, []string{"route", "method", "code"}),
		durations: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "vramplan_http_request_duration_seconds", Help: "Time from a request's header to its answer.",
			// An estimate takes tens of microseconds, a plan milliseconds, a batch as long as it likes.
			Buckets: []float64{50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 5e-3, 10e-3, 25e-3, 100e-3, 500e-3, 2.5,
				10},
		}, []string{"route"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "vramplan_http_in_flight_requests", Help: "Requests that are being answered.",
		}),
		panics: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vramplan_http_panics_total", Help: "Requests that ended in a fault of the program.",
		}),
		decisions: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "vramplan_decisions_total", Help: "Verdicts given: by estimate and plan one for each job and GPU, " +
				"by admission one for each workload, with the hook's mode.",
		}, []string{"endpoint", "verdict", "mode"}),
		overrides: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "vramplan_overrides_total", Help: "Workloads that do not fit and were admitted for a reason that " +
				"their user gave.",
		}),
		connections: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "vramplan_http_connections", Help: "Open connections, by listener: api or admin.",
		}, []string{"listener"}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "vramplan_build_info", Help: "Always 1; the labels say what runs.",
		ConstLabels: prometheus.Labels{"version": a.options.Version, "go": runtime.Version()},
	})
	build.Set(1)
	cache := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, value)
	}
	now := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.registry.MustRegister(m.requests, m.durations, m.inFlight, m.panics, m.decisions, m.overrides,
		m.connections, build,
		catalogInfo{s}, calibrationInfo{s}, databaseUp(s),
		now("vramplan_catalog_age_seconds", "Time since the catalog was last known to be the database's; 0 "+
			"without a database.", func() float64 {
			return catalogAge(s)
		}),
		now("vramplan_catalog_faults", "Entries of the database's catalog that are not what was shipped or entered.",
			func() float64 {
				return float64(s.Database().Faults)
			}),
		now("vramplan_store_faults", "What of the database is not as the service wrote it, at the last "+
			"look at all of it.", func() float64 {
			return float64(s.Database().StoreFaults)
		}),
		now("vramplan_database_writes_accepted", "0 while changes are refused: the database cannot be reached, or "+
			"every write has failed since one did.", func() float64 {
			if d := s.Database(); d.Status == service.DatabaseNone || d.TakesWrites() {
				return 1
			}
			return 0
		}),
		now("vramplan_reading_outliving", "Readings at work whose request has ended: 0 but for the moment in which they "+
			"are stopped.", func() float64 {
			return float64(s.ReadingOutlives())
		}),
		now("vramplan_draining", "1 from the signal to stop to the end.", func() float64 {
			if a.draining.Load() {
				return 1
			}
			return 0
		}),
		cache("vramplan_cache_hits_total", "Answers that were remembered.", func() float64 {
			return float64(s.CacheStats().Hits)
		}),
		cache("vramplan_cache_misses_total", "Answers that were worked out.", func() float64 {
			return float64(s.CacheStats().Misses)
		}),
		now("vramplan_cache_entries", "Answers that are remembered now.", func() float64 {
			return float64(s.CacheStats().Entries)
		}),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.registry.MustRegister(a.place.Collectors()...)
	return m
}

func (m *metrics) answered(route, method string, status int, took time.Duration) {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodOptions,
		http.MethodPatch:
	default:
		method = "other"
	}
	m.requests.WithLabelValues(route, method, strconv.Itoa(status)).Inc()
	m.durations.WithLabelValues(route).Observe(took.Seconds())
}

func (m *metrics) decided(endpoint string, v estimator.Verdict) {
	m.decisions.WithLabelValues(endpoint, string(v), "").Inc()
}

// measurements serves the metrics.
//
//	@Summary		Prometheus metrics
//	@Description	Where the service has an admin listener, the metrics are there, and here is nothing.
//	@ID				metrics
//	@Tags			operations
//	@Produce		plain
//	@Success		200		{string}	string	"Prometheus text format"
//	@Failure		400,404	{object}	problem.Problem
//	@Router			/metrics [get]
func (a *API) measurements() endpoint {
	h := a.metrics.handler()
	return func(w http.ResponseWriter, r *http.Request, _ query) (any, error) {
		if a.options.AdminOnly {
			return nil, problem.New(problem.NotFound, "The metrics of this service are on its admin listener.")
		}
		h.ServeHTTP(w, r)
		return nil, nil
	}
}

func (m *metrics) handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// catalogInfo is a metric whose label is the catalog of the moment.
type catalogInfo struct{ service Service }

var catalogDesc = prometheus.NewDesc("vramplan_catalog_info",
	"Always 1; the label says which catalog answers are made with.", []string{"catalog"}, nil)

// Describe implements prometheus.Collector.
func (catalogInfo) Describe(to chan<- *prometheus.Desc) { to <- catalogDesc }

// Collect implements prometheus.Collector.
func (c catalogInfo) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(catalogDesc, prometheus.GaugeValue, 1, c.service.CatalogRevision())
}

// calibrationInfo is a metric whose labels are the calibrations of the moment.
type calibrationInfo struct{ service Service }

var calibrationDesc = prometheus.NewDesc("vramplan_calibration_info",
	"Always 1; the labels say which calibration answers are made with, and which was activated.",
	[]string{"calibration", "activated"}, nil)

// Describe implements prometheus.Collector.
func (calibrationInfo) Describe(to chan<- *prometheus.Desc) { to <- calibrationDesc }

// Collect implements prometheus.Collector.
func (c calibrationInfo) Collect(to chan<- prometheus.Metric) {
	status := c.service.CalibrationStatus()
	to <- prometheus.MustNewConstMetric(calibrationDesc, prometheus.GaugeValue, 1, status.Calibration, status.Activated)
}

func databaseUp(s Service) prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "vramplan_database_up",
		Help: "1 where the database answered when it was last asked, or there is none to ask."}, func() float64 {
		if s.Database().Status == service.DatabaseUnreachable {
			return 0
		}
		return 1
	})
}

// catalogAge grows while the database is gone.
func catalogAge(s Service) float64 {
	state := s.Database()
	if state.Status == service.DatabaseNone {
		return 0
	}
	return time.Since(state.Seen).Seconds()
}
