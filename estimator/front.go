package estimator

import (
	"github.com/vramplan/vramplan/estimator/answer"
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/evidence"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolved"
)

// What stands in the rooms below and users of this package name.
type (
	// Input is a job with its names resolved, and what is asked about it.
	Input = resolved.Input
	// Cost is what an answer takes at most.
	Cost = resolved.Cost
)

// Version is the estimator's; answers of one version are the same everywhere. Calibration names the constants that were
// not replayed.
const (
	Version     = resolved.Version
	Calibration = resolved.Calibration
)

// DefaultOptimizer is the one that a job has that names none.
const DefaultOptimizer = fields.DefaultOptimizer

// CalibrationKey is [resolved.CalibrationKey].
func CalibrationKey(j *Job, family string, g *GPU) calibration.Key {
	return resolved.CalibrationKey(j, family, g)
}

// CalibrationBase is [answer.CalibrationBase].
func CalibrationBase(p *Peak) memory.Base { return answer.CalibrationBase(p) }

// WithPictures is [resolve.WithPictures].
func WithPictures(in Input) (Input, []Note) { return resolve.WithPictures(in) }

// Evidence is [resolve.Evidence].
func Evidence(in Input) (family string, recipe evidence.Recipe, err error) {
	return resolve.Evidence(in)
}
