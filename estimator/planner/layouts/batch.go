package layouts

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// batchesTried is at how many other effective batches a cluster is looked at that divides none in a layout that fits.
const batchesTried = 2

// findNearest ranks the layouts of the cluster at the effective batch that is wanted or, where none of those that
// divide it fits and others do not divide it, at the nearest that they divide.
func (l *layoutSearch) findNearest(ctx context.Context) ([]*placed, error) {
	found, err := l.find(ctx, l.cluster.GPUs)
	if err != nil || len(found) > 0 {
		return found, err
	}
	wanted, left := l.Batch.Target, l.left
	for _, n := range l.nearestBatches() {
		l.Batch.Target, l.left = n, nil
		if found, err = l.find(ctx, l.cluster.GPUs); err != nil {
			return nil, err
		}
		if len(found) > 0 {
			l.Notes.Add("nearest-batch", "An effective batch of %d cannot be divided over the GPUs of any layout that "+
				"fits on %d GPUs; these are for %d, %+.3g %%.", wanted, l.cluster.GPUs, n,
				100*float64(n-wanted)/float64(wanted))
			return found, nil
		}
	}
	l.Batch.Target, l.left = wanted, left
	return nil, nil
}

// nearestBatches are the effective batches nearest to the one wanted that structures divide which do not divide that.
func (l *layoutSearch) nearestBatches() []int64 {
	usable := l.GPU.UsableBytes - l.Costs.Base.Job.HeldOn(&l.GPU)
	target := l.Batch.Target
	defer func() { l.Batch.Target = target }()
	var out []int64
	all := structures(l.Costs.Base, l.cluster.GPUs, l.cluster.PerNode)
	for i := range all {
		x := &all[i]
		n := max((target+x.data/2)/x.data, 1) * x.data
		if target%x.data == 0 || n > pairing.MaxEffectiveBatch || slices.Contains(out, n) {
			continue
		}
		l.Batch.Target = n
		if _, leanest := l.candidates(x); leanest != nil && l.refuses(leanest) == "" &&
			(l.parameters[0] == 0 || l.leastBytes(leanest) <= usable) {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, func(a, b int64) int {
		return cmp.Or(cmp.Compare(max(a-target, target-a), max(b-target, target-b)), cmp.Compare(a, b))
	})
	return out[:min(len(out), batchesTried)]
}

// explainExperts says that experts are not shared, for a model that has them and tools that are not known to share
// them.
func (l *layoutSearch) explainExperts() {
	if traits.ReadShape(l.Costs.Base).ExpertsPerToken <= 0 || l.cluster.GPUs < 2 {
		return
	}
	for _, tool := range layoutTools(l.Costs.Base) {
		in := l.Costs.Base
		in.Job.Training.Framework, in.Job.Training.MicroBatch, in.Job.Training.GradientAccumulation = tool, 1, 1
		in.Job.Training.Distributed = &estimator.Distributed{WorldSize: l.cluster.GPUs, Data: "fsdp", FSDPVersion: 2,
			ExpertParallel: 2}
		_, err := estimator.CostOf(in)
		var refused *invalid.Error
		if !errors.As(err, &refused) || !slices.ContainsFunc(refused.Fields, func(f invalid.Field) bool {
			return strings.HasSuffix(f.Pointer, "/expert_parallel")
		}) {
			return
		}
	}
	l.Notes.Add(document.ExpertsNotShared, "No layout here shares the experts of such a model among GPUs (expert parallelism), "+
		"with which a run takes less on each: torchtitan's is modelled for Qwen3's and DeepSeek's mixtures, and "+
		"DeepSpeed's and Megatron-LM's are not.")
}
