package api

import (
	"context"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/compare"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers"
	"github.com/vramplan/vramplan/service/workplace"
)

// Answers are what is said of jobs.
type Answers interface {
	Estimate(ctx context.Context, job estimator.Job, o service.EstimateOptions) (*estimator.Result, error)
	Plan(ctx context.Context, r service.PlanRequest, o service.PlanOptions) (*planner.Plan, error)
	Compare(ctx context.Context, a, b estimator.Job, o service.CompareOptions) (*compare.Comparison, error)
	Diagnose(ctx context.Context, r service.DiagnosisRequest) (*service.Diagnosis, error)
	// Names adds the unknown names of a job to what its reader found wrong with it.
	Names(ctx context.Context, err error, job estimator.Job, pointer string) error
}

// Readers make jobs of what other tools wrote.
type Readers interface {
	Read(ctx context.Context, r jobdoc.Reading) (*readers.Answer, error)
	// FileJob is the one job that files of other tools describe.
	FileJob(ctx context.Context, r jobdoc.Reading) (*service.FileJob, error)
	// ReadingOutlives is how many readings are at work whose request has ended.
	ReadingOutlives() int64
}

// Cards are the GPUs of the catalog.
type Cards interface {
	GPUs(ctx context.Context, f service.GPUFilter) (service.List[catalog.GPU], error)
	GPU(ctx context.Context, name string) (*catalog.GPU, error)
	GPUVariants(name string) ([]string, error)
	PutGPU(ctx context.Context, by service.Author, id string, e service.GPUEntry,
		known service.Precondition) (*catalog.GPU, bool, error)
}

// Models are those of the catalog.
type Models interface {
	Models(ctx context.Context, f service.ModelFilter) (service.List[catalog.Model], error)
	Model(ctx context.Context, name string) (*catalog.Model, error)
	PutModel(ctx context.Context, by service.Author, id string, e service.ModelEntry,
		known service.Precondition) (*catalog.Model, bool, error)
}

// Entries are what users put into the catalog, of either kind.
type Entries interface {
	DeleteEntry(ctx context.Context, by service.Author, kind service.EntryKind, id string,
		known service.Precondition) error
	History(ctx context.Context, f service.HistoryFilter) ([]service.HistoryEntry, error)
	CatalogRevision() string
}

// Runs are what users observed.
type Runs interface {
	Observe(ctx context.Context, by service.Author, list []service.Sent) ([]service.Observed, error)
	Observations(ctx context.Context, f service.ObservationFilter) (list []service.Observation, more bool, err error)
	DeleteObservation(ctx context.Context, by service.Author, id string) error
	Accuracy(ctx context.Context, f service.ObservationFilter, o service.AccuracyOptions) (*service.Accuracy, error)
}

// Fits are the calibrations.
type Fits interface {
	Calibrations(ctx context.Context, f service.CalibrationFilter) ([]service.Calibration, error)
	Calibration(ctx context.Context, id string) (*service.Calibration, error)
	FitCalibration(ctx context.Context, by service.Author, f service.CalibrationFit) (*service.FittedCalibration, error)
	Activate(ctx context.Context, by service.Author, id string, known service.Precondition) (*service.Activation, error)
	Activations(ctx context.Context, f service.CalibrationFilter) (*service.ActivationHistory, error)
	// Pin says whether requests may name a calibration.
	Pin(ctx context.Context, calibration string) error
	CalibrationStatus() service.CalibrationStatus
}

// State is who may do what, and how the service stands.
type State interface {
	// Keyring says whose key a request came with, and what it opens.
	Keyring() *service.Keyring
	Database() service.DatabaseState
	Ready(ctx context.Context) error
	CacheStats() service.CacheStats
	// Workplace is where all of it is worked on, and counted by client.
	Workplace() *workplace.Place
}
