package resolved

import (
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// Cost is what an answer takes at most.
type Cost struct {
	// Requests are those of the allocator that are recorded and played, one for each kind of hardware, each run and
	// each search for the smallest limit; ten to twenty million take a second.
	Requests int64
	// Bytes are those of the workspace.
	Bytes int64
}

// Version is the version of the estimator: the same version gives the same bytes.
const Version = "0.6.0"

// Calibration names the constants that come with the estimator and were fitted rather than derived: contexts (package
// memory) and doubts.
const Calibration = "builtin-3"

// Input is a job with its names resolved: what a catalog says of the preset and
// the GPUs that the job names.
type Input struct {
	Job job.Job
	// Preset is the catalog's entry for Job.Model.Preset; nil otherwise.
	Preset *model.Preset
	// GPUs are the cards to judge, in the order in which the answer lists them. The
	// first decides the figures of the answer (attention kernels, workspaces).
	GPUs []job.GPU
	// Timeline and Tensors ask for those parts of the answer.
	Timeline, Tensors bool
	// FitsOnly is for those who ask [Judge] for nothing but whether the job fits: then no verdict makes it look for the
	// smallest limit, and one of "unlikely" may be "does_not_fit" to others.
	FitsOnly bool
	// VerdictsOnly is for those who ask [Judge] for nothing but the device figure and the verdicts, which are those of
	// [Estimate]: the smallest limit is looked for no further than they need.
	VerdictsOnly bool
	// LeastOnly is for those who ask [Judge] how much a job takes at least: nothing is played on the allocator, which
	// is taken to reserve no more than what is alive at the peak. Without a Calibration no figure of it lies above that
	// of [Estimate], and no verdict is worse.
	LeastOnly bool
	// LeastIfBeyond is for those who ask [Judge] and do not mind by how much a job is too large: what fits on no GPU
	// even if the allocator reserves no more than is alive is answered as with LeastOnly, the verdicts those of
	// [Estimate], as Result.AtLeast says; not where ranks differ or a Calibration is given.
	LeastIfBeyond bool
	// LowerBound is for those who ask [Judge] for minimum_limit_bytes and low_bytes as [Estimate] gives them.
	LowerBound bool
	// OwnLoop says that the job runs in a plain loop such as the oracle's, which does not do what the Trainer does
	// besides: the model fills the cache that its configuration asks for, and the batch goes when forward has run.
	OwnLoop bool `json:"-"`
	// Held says of some changes of the table of releases whether they are there, whatever the job's releases are.
	Held map[release.Switch]bool `json:"-"`
	// Done stops the estimate within milliseconds when it is closed, with [ErrStopped]; nil never does. It is no part
	// of the question.
	Done <-chan struct{} `json:"-"`
	// Admit, where it is there, is asked before anything is recorded whether a job of this cost may be answered now. It
	// may wait.
	Admit func(Cost) (replay.Turn, error) `json:"-"`
	// MostRequests refuses a job that takes more requests of the replayed allocator in all its runs; 0 is any number.
	MostRequests int64 `json:"-"`
	// Took, where it is there, gets what the answer took.
	Took *Cost `json:"-"`
	// Storage, where it is there, is that of the answer before, of the same job.
	Storage *replay.Workspace `json:"-"`
	// EveryExpert records every expert of a mixture.
	EveryExpert bool `json:"-"`
	// Calibration corrects the constants that were not replayed; nil is the one that is built in. It has to be one that
	// was fitted to this version of the estimator.
	Calibration *calibration.Calibration
}

// Replayed is what a replay found.
type Replayed struct {
	Recipe step.Recipe
	Limits bool     // look for the smallest limit whether or not a verdict depends on it
	Cards  []Judged // that are judged by it

	Ledger *play.Ledger
	// Embeddings is how many elements the trained embeddings have that a GPU updates.
	Embeddings int64
	// Applied is what of the recipe the recording made use of.
	Applied step.Applied
	Base    memory.Base
	// Group corrects the base, and figures are what comes of it.
	Group   *calibration.Group
	Figures memory.Figures
	// Uneven is what is alive at the peak where rows go unevenly to the experts of GPUs; 0 where they do not go.
	Uneven int64
	// Played and Requests are those of the Result.
	Played, Requests int64
	// Continued says that not all layers were played, AtLeast that none were.
	Continued, AtLeast bool
	// Parameters is how many the model has, and Trained how many of them are trained; counted for the answer.
	Parameters, Trained int64
}

// RecordedLayers is how many units a model has, and how many of them, with how many layers, have to be recorded.
func RecordedLayers(a *model.Architecture, all bool) (units, recorded, layers int64) {
	per := a.UnitLayers()
	units = (a.Layers + per - 1) / per
	recorded = step.RecordedUnits(units, a.Lead)
	if all || a.Irregular || a.Layers%per != 0 || a.Lead > 0 && per > 1 {
		recorded = units // the last unit is cut short: nothing repeats to the end
	}
	return units, recorded, min(a.Layers, recorded*per)
}
