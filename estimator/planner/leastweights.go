package planner

import (
	"context"
	"slices"

	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// leastWeights are the bytes of the job's weights as they are stored under the settings that make them least; 0 where
// that is not known. No other setting moves them, so that nothing fits where they are too much.
func (s *search) leastWeights(ctx context.Context, at pairing.Choice) (int64, error) {
	base := s.Costs.Base
	if base.Calibration != nil || base.Job.Training.Distributed != nil || len(lever.SmallerModels(base)) > 0 {
		return 0, nil
	}
	stored := [2][]lever.Variant{{{}}, {{}}}
	for _, l := range lever.Changing(base, s.Shape, s.Tool) {
		switch l.Group {
		case "precision":
			stored[0] = append(stored[0], lever.NewVariant(l))
		case "adapters":
			stored[1] = append(stored[1], lever.NewVariant(l))
		}
	}
	least := int64(0)
	for _, precision := range stored[0] {
		for _, adapters := range stored[1] {
			v := lever.NewVariant(append(slices.Clone(precision.Levers), adapters.Levers...)...)
			j, err := s.JudgeLeast(ctx, v, at)
			if err != nil {
				return 0, err
			}
			if j.Result == nil {
				continue // such a combination is refused
			}
			for _, c := range j.Result.Components {
				if c.Name == "weights" && (least == 0 || c.Bytes < least) {
					least = c.Bytes
				}
			}
			if least > 0 && least <= s.floor.Fit().UsableBytes {
				return least, nil
			}
		}
	}
	return least, nil
}
