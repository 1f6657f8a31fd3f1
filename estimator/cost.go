package estimator

import (
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/session"
)

// CostOf bounds what [Estimate] takes for a job, from its document alone: nothing is recorded. Of bytes the bound is up
// to 12 times what jobs take (TestCostIsTight), of requests up to some hundred times: it has every micro-step, most of
// which are left out as soon as the allocator goes round, and every search for a limit. Errors are those of Estimate.
func CostOf(in Input) (Cost, error) {
	kinds, rank, _ := kindsOfRanks(&in.Job.Training)
	if kinds == 1 {
		return costOf(in)
	}
	var all Cost
	for i := range kinds { // the first says whether there are as many as are modelled
		c, err := costOf(ofRank(in, rank(i)))
		if err != nil {
			return Cost{}, err
		}
		all.Requests += c.Requests // which are played one rank after the other
		all.Bytes = max(all.Bytes, c.Bytes)
	}
	return all, nil
}

// costOf is the bound of an answer about one GPU.
func costOf(in Input) (Cost, error) {
	r, err := resolve.Resolve(&in)
	if err != nil {
		return Cost{}, err
	}
	return session.PlayerOf(r, &in, nil).Cost(max(len(in.GPUs), 1)), nil
}
