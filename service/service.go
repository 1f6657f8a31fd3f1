// Package service holds vramplan's use cases. It resolves the names in a job with
// the catalog, asks the estimator or the planner, and remembers answers. HTTP
// and the command line are thin layers over it.
package service

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"sync/atomic"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/apart"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/workplace"
)

// defaultCacheEntries bounds what is remembered: an answer is some 5 KB, and one that
// lists the whole catalog some 30 KB.
const defaultCacheEntries = 1024

// replaysPerAnswer is how many replays are remembered for each answer, twice at most: a plan asks for some forty, and
// one takes some 250 bytes.
const replaysPerAnswer = 8

// Service answers questions about jobs. It may be used by several goroutines.
type Service struct {
	// catalog is the one that answers are made with now.
	catalog atomic.Pointer[catalog.Catalog]
	// store is nil where there is no database.
	store  Store
	follow follower
	now    func() time.Time
	// inForce is the calibration that answers are made with now.
	inForce atomic.Pointer[inForce]
	// kept are the calibrations that requests may name without a look into the store.
	kept *keptCalibrations
	// policy says who activates calibrations.
	policy ActivationPolicy
	// keys are those of the clients.
	keys Keyring
	// accuracy is the report that was made last, fits the fit that is under way or was made last.
	accuracy accuracyReport
	fits     fits
	// audits are the looks at the whole store.
	audits audits
	// maxObservations bounds those in the database, retention their age; 0 is no bound.
	maxObservations int64
	retention       time.Duration
	began           time.Time
	clockAtStart    time.Time
	results         *cache[*estimator.Result]
	plans           *cache[*planner.Plan]
	// estimate is estimator.Estimate with replays that the service remembers; tests of what is around it take another.
	estimate planner.Estimator
	// judge makes what a plan asks: estimator.Judge, since a plan shows nothing of what it leaves out, with the same
	// replays, or with some that the questions of one plan share where nothing is remembered.
	judge func() planner.Estimator
	// place is where the service works, and limits what it has there.
	place  *workplace.Place
	limits workplace.Limits
	// readingRoom is where strangers' files are read; nil reads them in this process.
	readingRoom *apart.Room
	// tellCost, where it is there, is told what each answer takes at most.
	tellCost func(estimator.Cost)
	// find, where it is there, looks for models that the catalog does not have.
	find ModelFinder
}

// Option changes how a Service works.
type Option func(*options)

type options struct {
	cacheEntries int
	store        Store
	keep         func(Snapshot)
	tell         func([]string)
	now          func() time.Time
	calibration  *Calibration
	calibrations []*Calibration
	policy       ActivationPolicy
	readingRoom  *apart.Room

	maxObservations     int64
	retention           time.Duration
	fitBudget, fitAwait time.Duration
	limits              workplace.Limits
	tellCost            func(estimator.Cost)
	find                ModelFinder
	writes              map[string]int64
}

// WithObservationLimits bounds how many observations the database takes, and how old they get; 0 is no bound.
func WithObservationLimits(most int64, retention time.Duration) Option {
	return func(o *options) { o.maxObservations, o.retention = most, retention }
}

// WithFitBudget sets how long the replays of one fit may take, and how long a request waits for the fit; 0 is the
// default.
func WithFitBudget(budget, await time.Duration) Option {
	return func(o *options) { o.fitBudget, o.fitAwait = budget, cmp.Or(await, defaultFitAwait) }
}

// WithCache sets how many answers are remembered; 0 remembers none.
func WithCache(entries int) Option { return func(o *options) { o.cacheEntries = entries } }

// WithLimits bounds what clients take of the service; without them nothing but the cores is bounded.
func WithLimits(l workplace.Limits) Option { return func(o *options) { o.limits = l } }

// WithCost calls tell with what each answer takes at most, before it is made. It may be called by several goroutines.
func WithCost(tell func(estimator.Cost)) Option { return func(o *options) { o.tellCost = tell } }

// WithStore lets users change the catalog. The service begins with the catalog that New
// gets; Refresh and Follow bring what the store has.
func WithStore(store Store) Option { return func(o *options) { o.store = store } }

// WithKeep calls keep with everything that answers are made with whenever some of it was read from the store, so
// that it can be kept for a start without the store.
func WithKeep(keep func(Snapshot)) Option { return func(o *options) { o.keep = keep } }

// WithFaults calls tell when it changes what of the database's catalog is not what was shipped or entered.
func WithFaults(tell func(faults []string)) Option { return func(o *options) { o.tell = tell } }

// WithCalibration sets the calibration to begin with; nil is the built-in one.
func WithCalibration(c *Calibration) Option { return func(o *options) { o.calibration = c } }

// WithCalibrations sets the calibrations that requests may name before the store was read.
func WithCalibrations(list []*Calibration) Option {
	return func(o *options) { o.calibrations = list }
}

// Snapshot is what answers are made with at one moment.
type Snapshot struct {
	Catalog *catalog.Contents
	// Calibration is nil for the built-in one.
	Calibration *Calibration
	// Calibrations are those that requests may name: the newest, and older ones that were asked for lately.
	Calibrations []*Calibration
	// Writes are the most that the store was seen to have of each table.
	Writes map[string]int64
}

// WithClock sets where the times of changes come from.
func WithClock(now func() time.Time) Option { return func(o *options) { o.now = now } }

// New makes a service that looks names up in c.
func New(c *catalog.Catalog, opts ...Option) *Service {
	o := options{cacheEntries: defaultCacheEntries, now: time.Now, maxObservations: DefaultMaxObservations,
		fitBudget: DefaultFitBudget, fitAwait: defaultFitAwait}
	for _, set := range opts {
		set(&o)
	}
	s := &Service{
		store: o.store,
		follow: follower{keep: o.keep, tell: o.tell, mark: CalibrationMark{-1, -1},
			state: DatabaseState{Status: DatabaseUnreachable, Seen: o.now()}},
		now:     o.now,
		results: newCache[*estimator.Result](o.cacheEntries),
		plans:   newCache[*planner.Plan](o.cacheEntries / 4),
		policy:  o.policy,
		kept:    newKeptCalibrations(o.calibrations),
		keys:    Keyring{store: o.store, now: o.now, refused: newRefusedKeys()},
		fits:    fits{budget: o.fitBudget, await: o.fitAwait},

		audits: audits{writes: map[string]int64{}},

		maxObservations: o.maxObservations, retention: o.retention, began: time.Now(), clockAtStart: o.now(),
		estimate: estimator.Estimate,
		place:    workplace.New(o.limits),
		limits:   o.limits,

		readingRoom: o.readingRoom,

		tellCost: o.tellCost,
		find:     o.find,
		judge:    func() planner.Estimator { return estimator.NewReplays().Judge },
	}
	maps.Copy(s.audits.writes, o.writes)
	if o.cacheEntries > 0 { // what one job asked of the allocator others ask, too, for other cards
		replays := estimator.NewReplaysOf(replaysPerAnswer * o.cacheEntries)
		s.estimate = replays.Estimate
		s.judge = func() planner.Estimator { return replays.Judge }
	}
	s.catalog.Store(c)
	if err := s.use(o.calibration); err != nil { // one that was kept by a program of another version
		s.inForce.Store(&inForce{chosen: o.calibration})
	}
	return s
}

// current is the catalog of this moment. A request takes it once, so that its answer is
// made with one catalog.
func (s *Service) current() *catalog.Catalog { return s.catalog.Load() }

// Workplace is where the service works for its clients.
func (s *Service) Workplace() *workplace.Place { return s.place }

// Ready is nil when the service can answer. The catalog is in memory, so a
// database that went away since the start does not matter to it.
func (s *Service) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.current().Load(); err != nil {
		return &Error{Code: CodeUnavailable, Message: "the catalog could not be read", Err: err}
	}
	return nil
}

// CatalogRevision names the catalog that answers are made with.
func (s *Service) CatalogRevision() string { return s.current().Revision() }

// CacheStats counts what the caches did since the start.
type CacheStats struct {
	Hits, Misses uint64
	Entries      int
}

// CacheStats is for metrics.
func (s *Service) CacheStats() CacheStats {
	a, b := s.results.stats(), s.plans.stats()
	return CacheStats{Hits: a.Hits + b.Hits, Misses: a.Misses + b.Misses, Entries: a.Entries + b.Entries}
}

// unreadable is a catalog that cannot be decoded, which only a broken build or database has.
func unreadable(err error) error {
	return &Error{Code: CodeInternal, Message: "the catalog could not be read", Err: fmt.Errorf("catalog: %w", err)}
}
