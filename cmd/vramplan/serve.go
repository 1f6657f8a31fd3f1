package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/store"
)

type serveCommand struct {
	databaseFlags `embed:""`
	Listen        string        `default:"127.0.0.1:8080" setting:"VRAMPLAN_LISTEN" placeholder:"HOST:PORT" help:"Address to listen on."`
	LogLevel      string        `default:"info" enum:"debug,info,warn,error,off" setting:"VRAMPLAN_LOG_LEVEL" help:"debug, info (one line a request), warn, error or off."`
	RateLimit     float64       `default:"0" setting:"VRAMPLAN_RATE_LIMIT" help:"Requests a second that one client may make; 0 is no limit."`
	MaxConcurrent int           `default:"0" setting:"VRAMPLAN_MAX_CONCURRENT" help:"Jobs worked on at once before others are told to come back; 0 is the API's own choice."`
	Cache         int           `default:"1024" setting:"VRAMPLAN_CACHE" help:"Answers to remember; 0 remembers none."`
	Drain         time.Duration `default:"1s" setting:"VRAMPLAN_DRAIN" help:"How long to go on answering after a signal, so that load balancers see that the service is about to stop."`
}

// Validate is called by kong after it has read the flags.
func (c *serveCommand) Validate() error {
	switch {
	case !(c.RateLimit >= 0) || math.IsInf(c.RateLimit, 0): // NaN is not ≥ 0 either
		return fmt.Errorf("--rate-limit %v: give 0 or more requests a second", c.RateLimit)
	case c.MaxConcurrent < 0:
		return fmt.Errorf("--max-concurrent %d: give 0 or more jobs", c.MaxConcurrent)
	case c.Cache < 0:
		return fmt.Errorf("--cache %d: give 0 or more answers", c.Cache)
	case c.Drain < 0:
		return fmt.Errorf("--drain %s: give 0s or more", c.Drain)
	}
	return nil
}

// Run serves the API until ctx ends, which a signal does.
func (c *serveCommand) Run(ctx context.Context, t *terminal) (err error) {
	log := logger(t.stderr, c.LogLevel)
	db, err := store.Open(ctx, c.Database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	ran, err := db.Migrate(ctx)
	if err != nil {
		return err
	}
	catalog, err := service.LoadCatalog(ctx, db)
	if err != nil {
		return err
	}
	handler := api.New(service.New(catalog, service.WithCache(c.Cache)), api.Options{
		Version:       buildVersion(),
		Logger:        &log,
		RatePerSecond: c.RateLimit,
		MaxConcurrent: c.MaxConcurrent,
	})

	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", c.Listen)
	if err != nil {
		return err
	}
	log.Info().Str("url", "http://"+listener.Addr().String()).Str("database", db.Name()).Int("migrations_run", len(ran)).
		Str("catalog", catalog.Revision()).Str("version", buildVersion()).Msg("ready")
	if err := handler.Serve(ctx, listener, c.Drain); err != nil {
		return err
	}
	log.Info().Msg("stopped")
	return nil
}

// logger writes JSON lines.
func logger(w io.Writer, level string) zerolog.Logger {
	parsed, err := zerolog.ParseLevel(level)
	if level == "off" || err != nil {
		parsed = zerolog.Disabled
	}
	return zerolog.New(w).Level(parsed).With().Timestamp().Logger()
}

// localHandler is the API on the embedded catalog, for answers without a
// service. Its log is silent but for faults of the program.
func localHandler(t *terminal) http.Handler {
	log := logger(t.stderr, "error")
	return api.New(service.New(service.EmbeddedCatalog(), service.WithCache(0)), api.Options{
		Version:       buildVersion(),
		Logger:        &log,
		MaxConcurrent: workers(),
	})
}
