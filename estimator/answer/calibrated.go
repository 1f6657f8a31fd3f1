package answer

import (
	"fmt"
	"math"

	"github.com/vramplan/vramplan/estimator/bounds"
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
)

// CalibrationBase reads what the built-in constants say of a job off an answer of theirs at the default confidence:
// what a calibration is fitted to.
func CalibrationBase(p *result.Peak) memory.Base {
	b := memory.Base{Allocated: p.AllocatedBytes, Reserved: p.ReservedBytes, Limit: p.MinimumLimitBytes,
		Context: p.DeviceBytes - p.ReservedBytes}
	b.Above = float64(p.HighBytes - p.DeviceBytes)
	b.Below = float64(b.Limit + b.Context - p.LowBytes)
	return b
}

// calibrated names the calibration of an answer.
func (r Answerer) calibrated() string {
	if r.Calibration == nil {
		return resolved.Calibration
	}
	return r.Calibration.ID
}

// Figures are those of a run for a card of a group.
func (r Answerer) Figures(run *resolved.Replayed, g *calibration.Group) memory.Figures {
	if g == run.Group {
		return run.Figures
	}
	return bounds.On(r.Job).Bounded(run.Base, g)
}

// correctedBy says what measured runs added to a component.
func correctedBy(r *resolved.Replayed, bytes int64) string {
	switch {
	case r.Group == nil || bytes == 0:
		return ""
	case bytes < 0:
		return fmt.Sprintf("; %s less by %d measured jobs", result.Bytes(-bytes), r.Group.Jobs)
	}
	return fmt.Sprintf("; %s of it by %d measured jobs", result.Bytes(bytes), r.Group.Jobs)
}

// measuredDoubt says what the bounds rest on where runs were measured. Its bytes are those of the other doubts
// together.
func (r Answerer) measuredDoubt(run *resolved.Replayed) []result.DoubtSource {
	g := run.Group
	if g == nil || len(g.Bounds) == 0 {
		return nil
	}
	how := fmt.Sprintf("wide enough for %g %% of %d measured jobs of its group", math.Round(1000*r.Confidence)/10,
		g.BoundedBy)
	if !g.Promises(r.Confidence) {
		how = fmt.Sprintf("%d measured jobs of its group are too few to promise %g %%: the widest of them, stretched",
			g.BoundedBy, math.Round(1000*r.Confidence)/10)
	}
	if g.Beyond(run.Base.Reserved) {
		how += fmt.Sprintf("; they reserve %s to %s, and this one is far outside of that: not less than "+
			"the built-in bounds", result.Bytes(g.ReservedFromBytes), result.Bytes(g.ReservedToBytes))
	}
	return []result.DoubtSource{{Source: "calibration", How: how,
		BelowBytes: int64(run.Base.Below * run.Figures.Times.Below),
		AboveBytes: int64(run.Base.Above * run.Figures.Times.Above)}}
}
