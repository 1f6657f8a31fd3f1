package layouts

import (
	"cmp"
	"context"
	"slices"

	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// outOfReach is how many times the card a candidate takes that no other of as many GPUs is expected to make up for.
const outOfReach = 1.5

// fewest are the fewest GPUs on which some layout of the job fits at the same effective batch; nil where none of those
// looked at does. More GPUs are taken to hold what fewer do, so that the number is found by halving; where the cluster
// is too small, up to sixteen times as many are tried.
func (l *layoutSearch) fewest(ctx context.Context, found []*placed) (*document.FewestGPUs, error) {
	var counts []int64
	most := l.cluster.GPUs
	if len(found) == 0 {
		most = min(16*most, MostGPUs)
	}
	for n := int64(1); n < l.cluster.PerNode && n <= most; n *= 2 {
		counts = append(counts, n)
	}
	step := func(nodes int64) int64 { return nodes + max(1, nodes/8) }
	if l.Shape.Experts > 0 { // which a power of two divides more often
		step = func(nodes int64) int64 { return 2 * nodes }
	}
	for nodes := int64(1); nodes*l.cluster.PerNode <= most; nodes = step(nodes) {
		counts = append(counts, nodes*l.cluster.PerNode)
	}
	counts = slices.DeleteFunc(counts, func(n int64) bool { return !l.divides(n) })
	if len(found) == 0 {
		counts = slices.DeleteFunc(counts, func(n int64) bool { return n <= l.cluster.GPUs })
	}
	before, target := l.asked, l.Batch.Target
	usable := l.GPU.UsableBytes - l.Costs.Base.Job.HeldOn(&l.GPU)
	spent := func() bool { return l.asked-before >= fewestAsked }
	defer func() { l.Batch.Target = target }()
	holds := func(n int64) (*placed, error) {
		if n == l.cluster.GPUs && len(found) > 0 {
			return found[0], nil
		}
		l.Batch.Target = l.sequencesOn(n, target)
		for _, x := range l.leanestOn(n) {
			if spent() {
				return nil, nil
			}
			if err := l.ask(ctx, x); err != nil {
				return nil, err
			}
			if x.answer.Fits() {
				return x, nil
			}
			if r := x.answer.Result; r != nil && float64(r.Peak.AllocatedBytes) > outOfReach*float64(usable) {
				break // and the next by the bound takes about as much
			}
		}
		return nil, nil
	}
	var best *placed
	low, high := 0, len(counts) // the first that holds it is in low…high
	for low < high && !spent() {
		middle := (low + high) / 2
		x, err := holds(counts[middle])
		if err != nil {
			return nil, err
		}
		switch {
		case x != nil:
			best, high = x, middle
		case !spent():
			low = middle + 1
		}
	}
	if best == nil && len(found) > 0 { // what is known without more work
		best = found[0]
	}
	if best == nil {
		return nil, nil
	}
	l.Batch.Target = l.sequencesOn(best.d.WorldSize, target)
	f := l.layout(best, 0)
	delete(f.Changes, "micro_batch")
	delete(f.Changes, "gradient_accumulation")
	return &document.FewestGPUs{GPUs: max(best.d.WorldSize, 1), Changes: f.Changes, MicroBatch: f.MicroBatch,
		GradientAccumulation: f.GradientAccumulation, DeviceBytes: f.DeviceBytes, HighBytes: f.HighBytes,
		Layout: f.Name, EffectiveBatch: l.Batch.Target}, nil
}

// sequencesOn is the effective batch with which a number of GPUs is looked at: that of the plan or, on more GPUs than
// the cluster has, as many sequences on each.
func (l *layoutSearch) sequencesOn(gpus, target int64) int64 {
	if gpus <= l.cluster.GPUs {
		return target
	}
	return min(max(target*gpus/l.cluster.GPUs, target), pairing.MaxEffectiveBatch)
}

// divides reports whether some layout of so many GPUs reaches the effective batch.
func (l *layoutSearch) divides(gpus int64) bool {
	if gpus > l.cluster.GPUs {
		return true
	}
	return slices.ContainsFunc(structures(l.Costs.Base, gpus, min(l.cluster.PerNode, gpus)), func(x structure) bool {
		return l.Batch.Target%x.data == 0
	})
}

// leanestTried is how many layouts of a number of GPUs are asked about before it is taken to be too few.
const leanestTried = 3

// leanestOn are the layouts of so many GPUs that take least, by the bound on what they take, with the least kept and
// the smallest micro-batch.
func (l *layoutSearch) leanestOn(gpus int64) []*placed {
	usable := l.GPU.UsableBytes - l.Costs.Base.Job.HeldOn(&l.GPU)
	all := structures(l.Costs.Base, gpus, min(l.cluster.PerNode, gpus))
	var out []*placed
	for i := range all {
		if _, x := l.candidates(&all[i]); x != nil && l.outlook(&queue{}, x) <= usable && l.refuses(x) == "" {
			out = append(out, x)
		}
	}
	slices.SortStableFunc(out, func(a, b *placed) int { // pipelines, whose every stage is replayed, last
		none := &queue{}
		return cmp.Or(cmp.Compare(a.stages, b.stages), cmp.Compare(l.outlook(none, a), l.outlook(none, b)))
	})
	return out[:min(len(out), leanestTried)]
}
