// Package service holds vramplan's use cases. It resolves the names in a job with
// the catalog, asks the estimator or the planner, and remembers answers. HTTP
// and the command line are thin layers over it.
package service

import (
	"context"
	"fmt"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/catalog"
)

// defaultCacheEntries bounds what is remembered: an answer is some 5 KB, and one that
// lists the whole catalog some 30 KB.
const defaultCacheEntries = 1024

// Service answers questions about jobs. It may be used by several goroutines.
type Service struct {
	catalog *catalog.Catalog
	results *cache[*estimator.Result]
	plans   *cache[*planner.Plan]
	// estimate is estimator.Estimate; tests of what is around it take another.
	estimate planner.Estimator
}

// Option changes how a Service works.
type Option func(*options)

type options struct{ cacheEntries int }

// WithCache sets how many answers are remembered; 0 remembers none.
func WithCache(entries int) Option { return func(o *options) { o.cacheEntries = entries } }

// New makes a service that looks names up in c.
func New(c *catalog.Catalog, opts ...Option) *Service {
	o := options{cacheEntries: defaultCacheEntries}
	for _, set := range opts {
		set(&o)
	}
	return &Service{
		catalog:  c,
		results:  newCache[*estimator.Result](o.cacheEntries),
		plans:    newCache[*planner.Plan](o.cacheEntries / 4),
		estimate: estimator.Estimate,
	}
}

// Ready is nil when the service can answer. The catalog is in memory, so a
// database that went away since the start does not matter to it.
func (s *Service) Ready(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.catalog.Load(); err != nil {
		return &Error{Code: CodeUnavailable, Message: "the catalog could not be read", Err: err}
	}
	return nil
}

// CatalogRevision names the catalog that answers are made with.
func (s *Service) CatalogRevision() string { return s.catalog.Revision() }

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
