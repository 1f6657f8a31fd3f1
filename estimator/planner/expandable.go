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
	peak := s.reference.result.Peak
	l := lever.Expandable(s.costs.base.Job.Training)
	unused := float64(peak.ReservedBytes-peak.AllocatedBytes) > unusedWorthNaming*float64(peak.AllocatedBytes)
	if l.Code == "" || s.reference.atLeast() || !unused || !s.affords(1, "expandable_segments") {
		return nil
	}
	j, err := s.judge(ctx, s.reference.with.With(lever.Worded([]lever.Lever{l}, s.tool)[0]), s.reference.choice())
	if err != nil || j.result == nil || j.atLeast() {
		return err
	}
	grown := j.result.Peak
	does := "reserves no less"
	if grown.ReservedBytes < peak.ReservedBytes {
		does = "reserves less"
	}
	s.notes.add("expandable-segments", "With expandable_segments:True the allocator %s at %d × %d: %s in place of %s, on the "+
		"card %s in place of %s.", does, s.reference.micro, s.reference.accum, estimator.Bytes(grown.ReservedBytes),
		estimator.Bytes(peak.ReservedBytes), estimator.Bytes(grown.DeviceBytes), estimator.Bytes(peak.DeviceBytes))
	return nil
}
