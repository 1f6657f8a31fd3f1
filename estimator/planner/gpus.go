package planner

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/lever"
)

const (
	// smallestListed bounds SmallestGPUs: the smallest is the answer, the others are
	// for those who cannot have it.
	smallestListed = 3
	// smallestAsked bounds the cards above the edge that are asked about, belowAsked those below it. Each may take an
	// estimate of its own, because kernels and workspaces differ between cards.
	smallestAsked = 24
	belowAsked    = 4
)

// InPlaceOf reports whether a card of one line may stand where one of another does: a cluster has cards of its own
// line, a desktop or a workstation takes either's, and who has a laptop looks for a desktop. Nothing is known to stand
// in for a system on a chip but another, and anything may for a card of which the line is not known.
func InPlaceOf(own, other estimator.Line) bool {
	desk := func(l estimator.Line) bool { return l == estimator.Desktop || l == estimator.Workstation }
	switch {
	case other == "":
		return true
	case own == "":
		return other != estimator.Laptop && other != estimator.Embedded
	case desk(own):
		return desk(other)
	case own == estimator.Laptop:
		return desk(other) || other == estimator.Laptop
	}
	return other == own
}

// smallestGPUs are the smallest of some cards, of the vendor of the job's own and of a line that may stand in its
// place, on which the job as it is today fits; without a today, on which its smallest pair does.
func (s *search) smallestGPUs(ctx context.Context, catalog []estimator.GPU) ([]string, error) {
	ids := []string{}
	j := s.floor
	if s.rank.today != nil {
		j = *s.rank.today
	}
	in := j.Input(s.Costs.Base)
	cards := slices.DeleteFunc(slices.Clone(catalog), func(g estimator.GPU) bool {
		otherVendor := s.GPU.Vendor != "" && g.Vendor != "" && g.Vendor != s.GPU.Vendor
		return g.UsableBytes <= 0 || otherVendor || !InPlaceOf(s.GPU.Line, g.Line)
	})
	slices.SortFunc(cards, func(a, b estimator.GPU) int {
		return cmp.Or(cmp.Compare(a.UsableBytes, b.UsableBytes), cmp.Compare(a.ID, b.ID))
	})
	// The bytes on the job's own card say about where the edge is. Above it as many are asked about as are listed,
	// below it those that other kernels might make room on.
	needed := j.HighBytes()
	edge, _ := slices.BinarySearchFunc(cards, needed, func(g estimator.GPU, needed int64) int {
		return cmp.Compare(g.UsableBytes-in.Job.Aside(&g), needed)
	})
	above, err := s.fitting(ctx, in, cards[edge:], smallestListed, smallestAsked)
	if err != nil {
		return nil, err
	}
	var below []estimator.GPU
	if s.Affords(asking.SpareQuestions, "smaller cards, on which other kernels may make room") {
		below = slices.Clone(cards[:edge])
		slices.Reverse(below)
	}
	smaller, err := s.fitting(ctx, in, below, len(below), belowAsked)
	if err != nil {
		return nil, err
	}
	slices.Reverse(smaller)
	for _, g := range append(smaller, above...) {
		if len(ids) < smallestListed {
			ids = append(ids, g.ID)
		}
	}
	return ids, nil
}

// fitting are those of some cards on which a job fits, in their order: at most the number wanted, and of
// the first that are asked about. The search ends with a whole round in which none fits, once it has asked about that
// many.
func (s *search) fitting(ctx context.Context, in estimator.Input, cards []estimator.GPU, wanted,
	asked int) ([]estimator.GPU, error) {
	var found []estimator.GPU
	for len(cards) > 0 && len(found) < wanted {
		now := cards[:min(asking.MaxWorkers, len(cards))]
		cards = cards[len(now):]
		verdicts := make([]estimator.Verdict, len(now))
		err := asking.Parallel(ctx, len(now), func(_ context.Context, i int) error {
			in := in
			in.GPUs, in.FitsOnly, in.LeastIfBeyond = now[i:i+1:i+1], true, true
			r, err := s.Costs.Ask(in)
			if err == nil && len(r.GPUs) > 0 {
				verdicts[i] = r.GPUs[0].Verdict
			}
			if err != nil && asking.Refusal(err) {
				return nil // not modelled on this card
			}
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("judging the GPUs of the catalog: %w", err)
		}
		before := len(found)
		for i, v := range verdicts {
			if v == estimator.Fits && len(found) < wanted {
				found = append(found, now[i])
			}
		}
		if asked -= len(now); asked <= 0 && len(found) == before {
			break
		}
	}
	return found, nil
}

// largerGPU offers the smallest card on which today's job fits, where no setting
// makes room for it on this one.
func (s *search) largerGPU(ctx context.Context, smallest []string) (*asking.Judged, error) {
	if s.rank.today == nil || len(smallest) == 0 {
		return nil, nil
	}
	i := slices.IndexFunc(s.catalog, func(g estimator.GPU) bool { return g.ID == smallest[0] })
	if i < 0 {
		return nil, nil
	}
	g := s.catalog[i]
	l := lever.Lever{
		Code: "gpu-" + g.ID, Group: "gpu", Title: "Run on a larger GPU", Effort: lever.SettingEffort,
		Apply:    func(in *estimator.Input) { in.GPUs = []estimator.GPU{g} },
		Changes:  map[string]any{"gpus": []string{g.ID}},
		Settings: []string{cmp.Or(g.Name, g.ID)},
	}
	j, err := s.Judge(ctx, lever.NewVariant(l), s.rank.today.Choice())
	if err != nil || !j.Fits() {
		return nil, err
	}
	return &j, nil
}
