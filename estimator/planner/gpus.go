package planner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/vramplan/vramplan/estimator"
)

// smallestListed bounds SmallestGPUs: the smallest is the answer, a few more are
// for those who cannot have it.
const smallestListed = 5

// smallestGPUs are the smallest cards of the catalog on which the job as it is
// today fits; without a today, on which its smallest pair does.
func (s *search) smallestGPUs(catalog []estimator.GPU) ([]string, error) {
	ids := []string{}
	if len(catalog) == 0 {
		return ids, nil
	}
	j := s.floor
	if s.today != nil {
		j = *s.today
	}
	in := j.input(s.costs.base)
	in.GPUs = catalog
	r, err := s.costs.estimate(in)
	if err != nil {
		return nil, fmt.Errorf("judging the GPUs of the catalog: %w", err)
	}
	fitting := slices.DeleteFunc(slices.Clone(r.GPUs), func(g estimator.GPUFit) bool { return g.Verdict != estimator.Fits })
	slices.SortFunc(fitting, func(a, b estimator.GPUFit) int {
		return cmp.Or(cmp.Compare(a.UsableBytes, b.UsableBytes), cmp.Compare(a.GPU, b.GPU))
	})
	for _, g := range fitting[:min(smallestListed, len(fitting))] {
		ids = append(ids, g.GPU)
	}
	return ids, nil
}

// largerGPU offers the smallest card on which today's job fits, where no setting
// makes room for it on this one.
func (s *search) largerGPU(ctx context.Context, catalog []estimator.GPU, smallest []string) (*judged, error) {
	if s.today == nil || len(smallest) == 0 {
		return nil, nil
	}
	i := slices.IndexFunc(catalog, func(g estimator.GPU) bool { return g.ID == smallest[0] })
	if i < 0 {
		return nil, nil
	}
	g := catalog[i]
	l := lever{
		code: "gpu-" + g.ID, group: "gpu", title: "Run on a larger GPU", effort: gpuEffort,
		apply:    func(in *estimator.Input) { in.GPUs = []estimator.GPU{g} },
		changes:  map[string]any{"gpus": []string{g.ID}},
		settings: []string{cmp.Or(g.Name, g.ID)},
	}
	j, err := s.judge(ctx, newVariant(l), s.today.choice())
	if err != nil || !j.fits() {
		return nil, err
	}
	return &j, nil
}

// gpuEffort puts another card behind everything that is a matter of settings.
const gpuEffort = 10
