package resolved

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/result"
)

// CalibrationKey is what a calibration goes by: what is known of a job before it runs. family is Result.Model.Family,
// and g, the card, may be nil.
func CalibrationKey(j *job.Job, family string, g *job.GPU) calibration.Key {
	t := &j.Training
	k := calibration.Key{Family: family, Torch: calibration.Unnamed, SeveralGPUs: t.Distributed != nil &&
		t.Distributed.WorldSize > 1}
	if v, ok := release.Parse(t.Versions["torch"]); ok {
		k.Torch = fmt.Sprintf("%d.%d", v.Major, v.Minor)
	}
	if g != nil {
		k.GPU, k.ComputeCapability = g.ID, g.ComputeCapability
	}
	return k
}

// Least is the least that the run reserves, which is known before it was played; never 0.
func (run *Replayed) Least() int64 { return max(run.Base.Reserved, run.Ledger.Peak.Bytes, 1) }

// FillIn writes the figures of full cards into an answer.
func (r *Replayed) FillIn(list []result.GPUFit) {
	for _, c := range r.Cards {
		list[c.Index].DeviceBytes = c.WhenFull
	}
}

// Judged is a card that a run is held against.
type Judged struct {
	Usable int64
	Group  *calibration.Group
	Index  int // of the card in the answer
	// WhenFull is the process figure where the run gets through on the card only because cached segments are given
	// back; 0 elsewhere.
	WhenFull int64
}
