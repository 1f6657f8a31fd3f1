package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/rs/zerolog"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/hub"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/decision"
)

type serveCommand struct {
	catalogFlags          `embed:""`
	addressFlags          `embed:""`
	limitFlags            `embed:""`
	LogLevel              string `default:"info" enum:"debug,info,warn,error,off" setting:"VRAMPLAN_LOG_LEVEL" help:"debug, info (one line a request), warn, error or off."`
	AdmissionMode         string `default:"warn" enum:"audit,warn,enforce" setting:"VRAMPLAN_ADMISSION_MODE" help:"What /v1/admission/kubernetes does with a job that does not fit: audit, warn or enforce. A path with the mode at its end has that one."`
	CalibrationActivation string `default:"explicit" enum:"explicit,held-out-better" setting:"VRAMPLAN_CALIBRATION_ACTIVATION" help:"Who activates a calibration that was fitted: explicit (somebody) or held-out-better (the service, where it is not worse than the active one on runs that its fit did not see)."`

	AnonymousReads       bool          `setting:"VRAMPLAN_ANONYMOUS_READS" help:"Let observations and calibrations be read without a key, though the database has keys; nobody's name is shown then."`
	MaxObservations      int64         `default:"100000" setting:"VRAMPLAN_MAX_OBSERVATIONS" help:"Observations that the database takes; 0 is no limit."`
	ObservationRetention time.Duration `default:"0" setting:"VRAMPLAN_OBSERVATION_RETENTION" help:"How old observations get before they are deleted, as 8760h; 0 keeps them."`
	FitBudget            time.Duration `default:"5m" setting:"VRAMPLAN_FIT_BUDGET" help:"How long the replays of one fit of a calibration may take."`

	HubModels []string `sep:"," placeholder:"PATTERN" setting:"VRAMPLAN_HUB_MODELS" help:"Models that the Hugging Face Hub is asked about where the catalog does not have them, such as meta-llama/*,Qwen/*; of HF_ENDPOINT, with HF_TOKEN. None if not given."`

	Cache int `default:"1024" setting:"VRAMPLAN_CACHE" help:"Answers to remember; 0 remembers none."`
}

// Validate is called by kong after it has read the flags.
func (c *serveCommand) Validate() error {
	var cache error
	if c.Cache < 0 {
		cache = fmt.Errorf("--cache (VRAMPLAN_CACHE) %d: give 0 or more answers", c.Cache)
	}
	if c.MaxObservations < 0 {
		cache = errors.Join(cache, fmt.Errorf("--max-observations (VRAMPLAN_MAX_OBSERVATIONS) %d: give 0 or more",
			c.MaxObservations))
	}
	if c.ObservationRetention != 0 && c.ObservationRetention < time.Hour {
		cache = errors.Join(cache, fmt.Errorf("--observation-retention (VRAMPLAN_OBSERVATION_RETENTION) %s: give "+
			"1h or more, or 0", c.ObservationRetention))
	}
	if c.FitBudget < time.Second {
		cache = errors.Join(cache, fmt.Errorf("--fit-budget (VRAMPLAN_FIT_BUDGET) %s: give 1s or more", c.FitBudget))
	}
	if err := hub.CheckPatterns(c.HubModels); err != nil {
		cache = errors.Join(cache, fmt.Errorf("--hub-models (VRAMPLAN_HUB_MODELS): %w", err))
	}
	return errors.Join(c.catalogFlags.validate(), c.addressFlags.validate(), c.limitFlags.validate(), cache)
}

// Run serves the API until ctx ends, which a signal does.
func (c *serveCommand) Run(ctx context.Context, t *terminal) (err error) {
	log := logger(t.stderr, c.LogLevel)
	allowed := c.memory()
	room, err := readingRoom(allowed)
	if err != nil {
		return err
	}
	find, err := c.hub(t)
	if err != nil {
		return err
	}
	svc, err := c.start(ctx, log, service.WithModelFinder(find), service.WithReadingApart(room),
		service.WithCache(c.Cache),
		service.WithLimits(c.work(allowed)),
		service.WithActivationPolicy(service.ActivationPolicy(c.CalibrationActivation)),
		service.WithObservationLimits(c.MaxObservations, c.ObservationRetention), service.WithFitBudget(c.FitBudget, 0))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, svc.close()) }()
	gomemlimit, _ := t.lookup("GOMEMLIMIT")
	allowed.heed(gomemlimit)
	handler := api.New(svc, api.Options{
		Version:   buildVersion(),
		Logger:    &log,
		Limits:    c.limits(),
		Origins:   c.CORSOrigins,
		Proxies:   c.TrustedProxies,
		AdminOnly: c.AdminListen != "",

		AnonymousReads: c.AnonymousReads,

		AdmissionMode: decision.Mode(c.AdmissionMode),
	})

	listeners, err := c.open(ctx, log)
	if err != nil {
		return err
	}
	svc.follow(ctx)
	listeners.Drain, listeners.Finish = c.Drain, c.FinishTimeout
	status := svc.CalibrationStatus()
	if status.Calibration != status.Activated {
		log.Warn().Str("activated", status.Activated).Str("calibration", status.Calibration).
			Msg("the activated calibration was fitted to another version of the estimator and is not " +
				"used: fit a new one")
	}
	ready := log.Info().Str("url", c.url(listeners)).Str("database", svc.database.Name()).
		Str("catalog", svc.CatalogRevision()).Str("calibration", status.Calibration).Str("version",
		buildVersion()).Int64("memory_limit_bytes", allowed.limit)
	if listeners.Admin != nil {
		ready.Str("admin", "http://"+listeners.Admin.Addr().String())
	}
	ready.Msg("ready")
	if err := handler.Serve(ctx, listeners); err != nil {
		return err
	}
	log.Info().Msg("stopped")
	return nil
}

// hub finds the models that the operator allows, and nothing on this host; nil where there are none.
func (c *serveCommand) hub(t *terminal) (service.ModelFinder, error) {
	if len(c.HubModels) == 0 {
		return nil, nil
	}
	client, err := hubClient(t.lookup, hub.Options{OneHost: true, Timeout: c.RequestTimeout / 2})
	if err != nil {
		return nil, err
	}
	finder := &hub.Finder{Client: client, Allowed: c.HubModels}
	return func(ctx context.Context, name string) (*service.FoundModel, error) {
		return foundBy(ctx, finder, name)
	}, nil
}

// logger writes JSON lines.
func logger(w io.Writer, level string) zerolog.Logger {
	parsed, err := zerolog.ParseLevel(level)
	if level == "off" || err != nil {
		parsed = zerolog.Disabled
	}
	return zerolog.New(w).Level(parsed).With().Timestamp().Logger()
}

// localHandler is the API on a catalog in memory, for answers without a
// service. Its log is silent but for faults of the program.
func localHandler(t *terminal, c *catalog.Catalog, with *service.Calibration) http.Handler {
	log := logger(faults{t.stderr}, "error")
	// Who asks on a terminal waits as long as they like.
	return api.New(service.New(c, service.WithCache(0), service.WithCalibration(with), service.WithModelFinder(t.find),
		service.WithCost(warnOfCost(t.stderr))), api.Options{Version: buildVersion(), Logger: &log})
}
