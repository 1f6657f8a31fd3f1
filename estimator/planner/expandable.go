package planner

import (
	"context"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/lever"
)

// unusedWorthNaming is the share of what is allocated beyond which an estimate speaks of what the allocator reserves
// besides, and sends its reader to a plan.
const unusedWorthNaming = 0.1

// explainExpandable says what segments that grow would reserve, where an estimate of the job promises that a plan does.
func (s *search) explainExpandable(ctx context.Context) error {
	peak := s.reference.Result.Peak
	l := lever.Expandable(s.Costs.Base.Job.Training)
	unused := float64(peak.ReservedBytes-peak.AllocatedBytes) > unusedWorthNaming*float64(peak.AllocatedBytes)
	if l.Code == "" || s.reference.AtLeast() || !unused || !s.Affords(1, "expandable_segments") {
		return nil
	}
	j, err := s.Judge(ctx, s.reference.With.With(lever.Worded([]lever.Lever{l}, s.Tool)[0]), s.reference.Choice())
	if err != nil || j.Result == nil || j.AtLeast() {
		return err
	}
	grown := j.Result.Peak
	does := "reserves no less"
	if grown.ReservedBytes < peak.ReservedBytes {
		does = "reserves less"
	}
	s.Notes.Add("expandable-segments", "With expandable_segments:True the allocator %s at %d × %d: %s in place of %s, on the "+
		"card %s in place of %s.", does, s.reference.Micro, s.reference.Accum, estimator.Bytes(grown.ReservedBytes),
		estimator.Bytes(peak.ReservedBytes), estimator.Bytes(grown.DeviceBytes), estimator.Bytes(peak.DeviceBytes))
	return nil
}
