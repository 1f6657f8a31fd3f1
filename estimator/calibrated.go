package estimator

import (
	"fmt"
	"math"

	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/release"
)

// CalibrationKey is what a calibration goes by: what is known of a job before it runs. family is Result.Model.Family,
// and g, the card, may be nil.
func CalibrationKey(job *Job, family string, g *GPU) calibration.Key {
	t := &job.Training
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

// CalibrationBase reads what the built-in constants say of a job off an answer of theirs at the default confidence:
// what a calibration is fitted to.
func CalibrationBase(p *Peak) memory.Base {
	b := memory.Base{Allocated: p.AllocatedBytes, Reserved: p.ReservedBytes, Limit: p.MinimumLimitBytes,
		Context: p.DeviceBytes - p.ReservedBytes}
	b.Above = float64(p.HighBytes - p.DeviceBytes)
	b.Below = float64(b.Limit + b.Context - p.LowBytes)
	return b
}

// calibrated names the calibration of an answer.
func (r *proof) calibrated() string {
	if r.calibration == nil {
		return Calibration
	}
	return r.calibration.ID
}

// group is what the calibration says of the job on a card; nil where it says nothing.
func (r *proof) group(g *GPU) *calibration.Group {
	if r.calibration == nil {
		return nil
	}
	k := r.key
	if g != nil {
		k.GPU, k.ComputeCapability = g.ID, g.ComputeCapability
	}
	return r.calibration.For(k)
}

// bounded is what a group makes of a base.
func (r *card) bounded(b memory.Base, g *calibration.Group) memory.Figures {
	return b.Bounded(g.Correction(b.Reserved, r.confidence), r.confidence)
}

// figures are those of a run for a card of a group.
func (r *card) figures(run *run, g *calibration.Group) memory.Figures {
	if g == run.group {
		return run.figures
	}
	return r.bounded(run.base, g)
}

// correctedBy says what measured runs added to a component.
func (r *run) correctedBy(bytes int64) string {
	switch {
	case r.group == nil || bytes == 0:
		return ""
	case bytes < 0:
		return fmt.Sprintf("; %s less by %d measured jobs", Bytes(-bytes), r.group.Jobs)
	}
	return fmt.Sprintf("; %s of it by %d measured jobs", Bytes(bytes), r.group.Jobs)
}

// measuredDoubt says what the bounds rest on where runs were measured. Its bytes are those of the other doubts
// together.
func (r *card) measuredDoubt(run *run) []DoubtSource {
	g := run.group
	if g == nil || len(g.Bounds) == 0 {
		return nil
	}
	how := fmt.Sprintf("wide enough for %g %% of %d measured jobs of its group", math.Round(1000*r.confidence)/10,
		g.BoundedBy)
	if !g.Promises(r.confidence) {
		how = fmt.Sprintf("%d measured jobs of its group are too few to promise %g %%: the widest of them, stretched",
			g.BoundedBy, math.Round(1000*r.confidence)/10)
	}
	if g.Beyond(run.base.Reserved) {
		how += fmt.Sprintf("; they reserve %s to %s, and this one is far outside of that: not less than "+
			"the built-in bounds", Bytes(g.ReservedFromBytes), Bytes(g.ReservedToBytes))
	}
	return []DoubtSource{{Source: "calibration", How: how,
		BelowBytes: int64(run.base.Below * run.figures.Times.Below),
		AboveBytes: int64(run.base.Above * run.figures.Times.Above)}}
}
