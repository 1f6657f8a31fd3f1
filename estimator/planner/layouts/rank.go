package layouts

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// queue is a structure with what is left to ask about it, the fastest first.
type queue struct {
	structure *structure
	list      []*placed
	leanest   *placed
	// asked are the answers so far.
	asked []*placed
}

// next is the fastest candidate of a structure that may fit by all that is known; nil where there is none.
func (l *layoutSearch) next(q *queue) *placed {
	usable := l.GPU.UsableBytes - l.Costs.Base.Job.HeldOn(&l.GPU)
	for len(q.list) > 0 && l.outlook(q, q.list[0]) > usable {
		q.list = q.list[1:]
	}
	if len(q.list) == 0 {
		return nil
	}
	return q.list[0]
}

// ranking is a search for the layouts that fit on a number of GPUs.
type ranking struct {
	*layoutSearch
	found []*placed
	// ranked are how many of a launcher were found, and spent what its answers took.
	ranked, spent map[string]int
}

// find ranks the layouts that fit on so many GPUs. The leanest candidates of the plain structures are asked about
// first, then, where none of them fits, those of the others by what they take at the least, and then the fastest of all
// that may fit. What is known to fit when the work is spent is ranked as it is.
func (l *layoutSearch) find(ctx context.Context, gpus int64) ([]*placed, error) {
	all := structures(l.Costs.Base, gpus, l.cluster.PerNode)
	queues, err := l.queues(ctx, all)
	if err != nil {
		return nil, err
	}
	r := &ranking{layoutSearch: l, ranked: map[string]int{}, spent: map[string]int{}}
	if queues, err = r.leanest(ctx, queues); err != nil {
		return nil, err
	}
	for len(queues) > 0 {
		queues = slices.DeleteFunc(queues, func(q *queue) bool { return l.next(q) == nil && r.settle(q) })
		if len(queues) == 0 {
			break
		}
		slices.SortStableFunc(queues, func(a, b *queue) int {
			// Pipelines last: each stage takes an answer, and what they cost is more than what they save where others
			// fit.
			return cmp.Or(compareTrue(a.structure.stages > 1, b.structure.stages > 1),
				cmp.Compare(a.list[0].seconds[0], b.list[0].seconds[0]))
		})
		done, err := r.look(ctx, queues[0])
		if err != nil {
			return nil, err
		}
		if done {
			queues = queues[1:]
		}
	}
	return l.undominated(r.found), nil
}

// leanest asks about the leanest candidates of plain structures and, for each launcher of which nothing fits, those of
// the others, those that take least first. It returns the structures of which something may still fit.
func (r *ranking) leanest(ctx context.Context, queues []*queue) ([]*queue, error) {
	least := slices.Clone(queues)
	slices.SortStableFunc(least, func(a, b *queue) int {
		x, y := a.structure, b.structure
		return cmp.Or(compareTrue(!r.plain(x), !r.plain(y)), compareTrue(x.stages > 1, y.stages > 1),
			cmp.Compare(r.leastBytes(a.leanest), r.leastBytes(b.leanest)))
	})
	fits, gone := map[string]bool{}, map[*queue]bool{}
	for _, q := range least {
		launcher := q.structure.launcher()
		if !r.plain(q.structure) && fits[launcher] || r.spent[launcher] >= layoutsAsked {
			continue
		}
		if err := r.try(ctx, q, q.leanest); err != nil {
			return nil, err
		}
		if q.leanest.answer.Fits() {
			fits[launcher] = true
		} else {
			gone[q] = true
			r.leaveShort(q.leanest)
		}
	}
	return slices.DeleteFunc(queues, func(q *queue) bool { return gone[q] }), nil
}

// plain reports whether a structure is one that everybody tries: state dealt out over all GPUs or over half of them,
// with layers whole or shared by a host.
func (l *layoutSearch) plain(x *structure) bool {
	d := &x.d
	if x.stages > 1 || x.context > 1 || x.experts > 1 || d.ReshardAfterForward != nil ||
		x.tensor > 1 && x.tensor != l.cluster.PerNode {
		return false
	}
	switch d.Data {
	case "fsdp":
		return d.ShardGroup == 0 || x.tensor == 1 && 2*d.ShardGroup == x.data
	case traits.ZeRO3:
		return true
	}
	return false
}

// try asks about a candidate of a structure, unless that was done.
func (r *ranking) try(ctx context.Context, q *queue, x *placed) error {
	if x.answer == (asking.Answer{}) {
		before := r.asked
		if err := r.ask(ctx, x); err != nil {
			return err
		}
		r.spent[q.structure.launcher()] += r.asked - before
	}
	if !slices.Contains(q.asked, x) {
		q.asked = append(q.asked, x)
	}
	return nil
}

// settle ends the search of a structure, always: its leanest candidate is ranked where it is known to fit.
func (r *ranking) settle(q *queue) bool {
	x := q.leanest
	switch {
	case x.answer.Fits():
		r.found = append(r.found, x)
		r.ranked[q.structure.launcher()]++
	case len(q.asked) > 0:
		r.leaveShort(q.asked[len(q.asked)-1])
	default:
		r.leave(q.structure, "does_not_fit", fmt.Sprintf("takes about %s a GPU at the least, by what others of its "+
			"kind take", estimator.Bytes(r.outlook(q, x))))
	}
	return true
}

// look asks about one candidate of a structure, and reports whether it is done with.
func (r *ranking) look(ctx context.Context, q *queue) (done bool, err error) {
	launcher := q.structure.launcher()
	switch n := r.ranked[launcher]; {
	case n >= layoutsRanked:
		r.leave(q.structure, "slower", fmt.Sprintf("at its fastest %s a step, which is no faster than those ranked",
			document.Seconds(q.list[0].seconds[0])))
		return true, nil
	case r.spent[launcher] >= layoutsAsked && q.leanest.answer.Fits():
		return r.settle(q), nil
	case r.spent[launcher] >= layoutsAsked:
		r.leave(q.structure, "not_asked", fmt.Sprintf("not looked at: of this launcher %d candidates were estimated "+
			"before", r.spent[launcher]))
		return true, nil
	}
	x := q.list[0]
	if len(q.asked) == 0 {
		x = q.leanest
	}
	if err := r.try(ctx, q, x); err != nil {
		return false, err
	}
	switch {
	case x == q.list[0] && x.answer.Fits():
		r.found = append(r.found, x)
		r.ranked[launcher]++
		return true, nil
	case x == q.leanest && !x.answer.Fits():
		r.leaveShort(x)
		return true, nil
	case x == q.list[0]: // and what keeps more with as large a micro-batch
		q.list = slices.DeleteFunc(q.list, func(y *placed) bool {
			return y == x || x.answer.Err == nil && y.leanness <= x.leanness && y.micro >= x.micro
		})
	}
	return false, nil
}

// compareTrue orders false before true.
func compareTrue(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// queues are the structures that the estimator models and of which something may fit.
func (l *layoutSearch) queues(ctx context.Context, all []structure) ([]*queue, error) {
	var out []*queue
	for i := range all {
		x := &all[i]
		_, leanest := l.candidates(x)
		if leanest == nil {
			l.leave(x, "batch", fmt.Sprintf("%d GPUs that train on different sequences do not divide an effective "+
				"batch of %d", x.data, l.Batch.Target))
			continue
		}
		if why := l.refuses(leanest); why != "" {
			l.leave(x, "refused", why)
			continue
		}
		if l.parameters[0] == 0 {
			if err := l.ask(ctx, leanest); err != nil {
				return nil, err
			}
			if leanest.answer.Err != nil {
				l.leave(x, "refused", reasonOf(leanest.answer.Err))
				continue
			}
			l.measure(leanest)
		}
		list, last := l.candidates(x)
		if leanest.answer != (asking.Answer{}) {
			last.answer = leanest.answer
			l.time(last)
			l.learn(last)
		}
		leanest = last
		refused := map[int]string{}
		for _, y := range slices.Backward(list) { // of each mode the smallest micro-batch among the first
			if _, known := refused[y.leanness]; !known {
				refused[y.leanness] = l.refuses(y)
			}
		}
		list = slices.DeleteFunc(list, func(y *placed) bool { return refused[y.leanness] != "" })
		if len(list) == 0 {
			l.leave(x, "does_not_fit", fmt.Sprintf("takes at least %s a GPU", estimator.Bytes(l.leastBytes(leanest))))
			continue
		}
		out = append(out, &queue{structure: x, list: list, leanest: leanest})
	}
	return out, nil
}

// undominated leaves out what another of the same launcher beats in time and in memory, and sorts the others.
func (l *layoutSearch) undominated(found []*placed) []*placed {
	slices.SortStableFunc(found, func(a, b *placed) int {
		return cmp.Or(cmp.Compare(round4(a.seconds[0]), round4(b.seconds[0])),
			cmp.Compare(a.answer.Result.Peak.DeviceBytes, b.answer.Result.Peak.DeviceBytes))
	})
	var out []*placed
	for i, x := range found {
		var by *placed
		for _, y := range found[:i] {
			if y.launcher() == x.launcher() && y.answer.Result.Peak.DeviceBytes <= x.answer.Result.Peak.DeviceBytes {
				by = y
				break
			}
		}
		if by == nil {
			out = append(out, x)
			continue
		}
		l.leave(x.structure, "beaten",
			fmt.Sprintf("fits at %d × %d with %s and %s a step; %s takes no more memory and "+
				"is faster", x.micro, x.accum, estimator.Bytes(x.answer.Result.Peak.DeviceBytes), document.Seconds(x.seconds[0]),
				by.name()))
	}
	return out
}

func (l *layoutSearch) leave(x *structure, code, reason string) {
	l.left = append(l.left, document.LeftOutLayout{Name: x.name(), Framework: x.tool, Count: 1, Code: code,
		Reason: reason})
}

// leaveShort leaves a structure out that does not fit.
func (l *layoutSearch) leaveShort(x *placed) {
	reason := "no pair is estimated"
	if r := x.answer.Result; r != nil {
		reason = fmt.Sprintf("takes %s (up to %s) at %d × %d with checkpointing %s",
			estimator.Bytes(r.Peak.DeviceBytes),
			estimator.Bytes(r.Peak.HighBytes), x.micro, x.accum, x.mode.Mode)
	} else if x.answer.Err != nil {
		reason = reasonOf(x.answer.Err)
	}
	if fit := x.answer; fit.Result != nil && fit.Fit().Verdict == estimator.Tight {
		l.leave(x.structure, "tight", fmt.Sprintf("%s: %.0f %% likely to fit", reason, 100*fit.Fit().Probability))
		return
	}
	l.leave(x.structure, "does_not_fit", reason)
}
