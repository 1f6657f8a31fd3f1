package planner

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
)

const (
	// layoutsRanked is up to how many structures are found to fit before the others, which cannot be faster, are left
	// out.
	layoutsRanked = 8
	// layoutsAsked is about how many candidates of a launcher are estimated for a ranking, and fewestAsked how many for
	// the fewest GPUs; each stage of a pipeline counts.
	layoutsAsked, fewestAsked = 28, 14
)

// layoutSearch looks for layouts of one job on one cluster.
type layoutSearch struct {
	*search
	cluster Cluster
	asked   int
	left    []LeftOutLayout
	// first is the first answer, nil before it, and parameters how many the model has in all and how many are trained.
	first      *estimator.Result
	parameters [2]float64
}

// placed is a structure with what is run again and a pair.
type placed struct {
	*structure
	mode         *estimator.Checkpointing
	leanness     int // of the mode: the larger, the less is kept
	micro, accum int64
	seconds      [3]float64
	waits        float64
	answer       answer
}

// input is the job document of a candidate.
func (l *layoutSearch) input(x *placed) estimator.Input {
	in := l.costs.base
	t := &in.Job.Training
	d := x.d
	t.Framework, t.Distributed, t.GradientCheckpointing = x.framework(in), &d, x.mode
	if halvesInFSDP(t, x.tool) {
		t.Precision, t.States = estimator.PrecisionBF16, &estimator.States{Weights: "fp32", Gradients: "fp32"}
	}
	if x.d.WorldSize == 1 {
		t.Distributed = nil
	}
	t.MicroBatch, t.GradientAccumulation = x.micro, x.accum
	return in
}

// framework is what the job document says of the structure's: nothing where its own default is meant.
func (x *structure) framework(in estimator.Input) string {
	if in.Job.Training.Framework == "" && x.tool == toolOf(in) {
		return ""
	}
	return x.tool
}

// halvesInFSDP reports whether what a job calls amp-bf16 is FSDP's own mixed precision: torchtitan gives fully_shard a
// MixedPrecisionPolicy (param_dtype bfloat16, reduce_dtype float32) in place of autocast, which keeps float32 parts and
// computes with gathered bfloat16. Source: torchtitan/models/llama3/infra/parallelize.py (apply_fsdp), 0.2.0.
func halvesInFSDP(t *estimator.Training, tool string) bool {
	return tool == "torchtitan" && t.States == nil &&
		(t.Precision == "" || t.Precision == estimator.PrecisionAMPBF16)
}

// time works out how long a step of a candidate takes, under the precision that its framework computes in.
func (l *layoutSearch) time(x *placed) {
	in := l.input(x)
	t := in.Job.Training
	if x.answer.result != nil && slices.ContainsFunc(x.answer.result.Notes, func(n estimator.Note) bool {
		return n.Code == "no-mixed-precision"
	}) {
		t.Precision = estimator.PrecisionFP32
	}
	w := workload{shape: l.shape, training: t, micro: float64(x.micro), accum: float64(x.accum), gpus: float64(x.data),
		parameters: l.parameters[0], trainable: l.parameters[1],
		tensor: float64(x.tensor), context: float64(x.context), experts: float64(x.experts), stages: float64(x.stages),
		perHost: float64(l.cluster.PerNode), network: l.cluster.NetworkBytesPerSecond}
	if w.sequence = float64(sequenceLength(in, w.shape)); w.sequence <= 0 {
		w.sequence = defaultSequence
	}
	if x.stages > 1 { // the embedding and the head count as a layer each
		whole := float64(l.shape.Layers + 2)
		w.uneven = math.Ceil(whole/float64(x.stages)) * float64(x.stages) / whole
	}
	c := cardOf(l.gpu, t.Precision)
	for i, a := range l.readings {
		s, waits := w.step(c, a)
		x.seconds[i] = s
		if i == 0 {
			x.waits = waits
		}
	}
}

// ask estimates a candidate.
func (l *layoutSearch) ask(ctx context.Context, x *placed) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	l.asked += int(x.stages) // each of which is replayed
	in := l.input(x)
	in.FitsOnly = true
	r, err := l.costs.ask(in)
	if err != nil && !refusal(err) {
		return err
	}
	x.answer = answer{result: r, err: err}
	if err == nil {
		l.time(x)
	}
	return nil
}

// refuses says why the estimator does not model a structure, without an estimate; empty where it does. Of several
// reasons it is the first.
func (l *layoutSearch) refuses(x *placed) string {
	_, err := estimator.CostOf(l.input(x))
	return reasonOf(err)
}

// reasonOf is the first reason of a refusal, with the field that it is about; empty for none.
func reasonOf(err error) string {
	if err == nil {
		return ""
	}
	var refused *invalid.Error
	if errors.As(err, &refused) && len(refused.Fields) > 0 {
		f := refused.Fields[0]
		return f.Pointer[strings.LastIndexByte(f.Pointer, '/')+1:] + ": " + f.Detail
	}
	return err.Error()
}

// measure keeps what a first answer says of the model.
func (l *layoutSearch) measure(x *placed) {
	r := x.answer.result
	l.first = r
	l.parameters = [2]float64{float64(r.Model.Parameters), float64(r.Model.TrainableParameters)}
	l.shape = shapeOf(l.costs.base, r.Model.Parameters)
}

// candidates are the pairs and modes of a structure that may fit, the fastest first, and the leanest of all.
func (l *layoutSearch) candidates(x *structure) (list []*placed, leanest *placed) {
	if l.batch.target%x.data != 0 {
		return nil, nil
	}
	usable := l.gpu.UsableBytes - l.costs.base.Job.ReserveBytes
	pairs := batch{target: l.batch.target, gpus: x.data}.pairs(l.batch.target)
	for leanness, mode := range modes(l.costs.base, x.tool) {
		for _, p := range pairs {
			one := &placed{structure: x, mode: mode, leanness: leanness, micro: p.MicroBatch,
				accum: p.GradientAccumulation}
			if x.stages > 1 && one.accum < x.stages && p.MicroBatch > 1 {
				continue // a pipeline that never fills
			}
			leanest = one // the last: the leanest mode with the smallest micro-batch
			if l.parameters[0] == 0 || l.leastBytes(one) > usable {
				continue
			}
			l.time(one)
			list = append(list, one)
		}
	}
	slices.SortStableFunc(list, func(a, b *placed) int {
		return cmp.Or(cmp.Compare(a.seconds[0], b.seconds[0]), cmp.Compare(a.leanness, b.leanness),
			cmp.Compare(b.micro, a.micro))
	})
	return list, leanest
}

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
	usable := l.gpu.UsableBytes - l.costs.base.Job.ReserveBytes
	for len(q.list) > 0 && l.outlook(q, q.list[0]) > usable {
		q.list = q.list[1:]
	}
	if len(q.list) == 0 {
		return nil
	}
	return q.list[0]
}

// find ranks the layouts that fit on so many GPUs. The leanest candidate of each structure is asked about first, those
// of the structures that may be the fastest before others, and then the fastest that may fit.
func (l *layoutSearch) find(ctx context.Context, gpus int64) ([]*placed, error) {
	all := structures(l.costs.base, gpus, l.cluster.PerNode)
	queues, err := l.queues(ctx, all)
	if err != nil {
		return nil, err
	}
	var found []*placed
	launchers, spent := map[string]int{}, map[string]int{}
	for len(queues) > 0 {
		slices.SortStableFunc(queues, func(a, b *queue) int {
			// Pipelines last: each stage takes an answer, and what they cost is more than what they save where others
			// fit.
			return cmp.Or(compareTrue(a.structure.stages > 1, b.structure.stages > 1),
				cmp.Compare(a.list[0].seconds[0], b.list[0].seconds[0]))
		})
		q := queues[0]
		launcher := q.structure.launcher()
		if n := launchers[launcher]; n >= layoutsRanked || spent[launcher] >= layoutsAsked {
			queues = queues[1:]
			reason := fmt.Sprintf("at its fastest %s a step, which is no faster than those ranked",
				seconds(q.list[0].seconds[0]))
			if n < layoutsRanked {
				reason = fmt.Sprintf("not looked at: of this launcher %d candidates were estimated before",
					spent[launcher])
			}
			l.leave(q.structure, "slower", reason)
			continue
		}
		x := q.list[0]
		if len(q.asked) == 0 {
			x = q.leanest
		}
		if x.answer == (answer{}) {
			before := l.asked
			if err := l.ask(ctx, x); err != nil {
				return nil, err
			}
			spent[launcher] += l.asked - before
		}
		q.asked = append(q.asked, x)
		switch {
		case x == q.leanest && !x.answer.fits():
			queues = queues[1:]
			l.leaveShort(x)
			continue
		case x == q.list[0] && x.answer.fits():
			found = append(found, x)
			launchers[q.structure.launcher()]++
			queues = queues[1:]
			continue
		case x == q.list[0]: // and what keeps more with as large a micro-batch
			q.list = slices.DeleteFunc(q.list, func(y *placed) bool {
				return y == x || x.answer.err == nil && y.leanness <= x.leanness && y.micro >= x.micro
			})
		}
		if l.next(q) == nil {
			queues = queues[1:]
			if q.leanest.answer.fits() { // which was taken for more than it is
				found = append(found, q.leanest)
				launchers[q.structure.launcher()]++
				continue
			}
			l.leaveShort(x)
		}
	}
	return l.undominated(found), nil
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
				"batch of %d", x.data, l.batch.target))
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
			if leanest.answer.err != nil {
				l.leave(x, "refused", reasonOf(leanest.answer.err))
				continue
			}
			l.measure(leanest)
		}
		list, _ := l.candidates(x)
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
			cmp.Compare(a.answer.result.Peak.DeviceBytes, b.answer.result.Peak.DeviceBytes))
	})
	var out []*placed
	for i, x := range found {
		var by *placed
		for _, y := range found[:i] {
			if y.launcher() == x.launcher() && y.answer.result.Peak.DeviceBytes <= x.answer.result.Peak.DeviceBytes {
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
				"is faster", x.micro, x.accum, estimator.Bytes(x.answer.result.Peak.DeviceBytes), seconds(x.seconds[0]),
				by.name()))
	}
	return out
}

func (l *layoutSearch) leave(x *structure, code, reason string) {
	l.left = append(l.left, LeftOutLayout{Name: x.name(), Framework: x.tool, Count: 1, Code: code, Reason: reason})
}

// leaveShort leaves a structure out that does not fit.
func (l *layoutSearch) leaveShort(x *placed) {
	reason := "no pair is estimated"
	if r := x.answer.result; r != nil {
		reason = fmt.Sprintf("takes %s (up to %s) at %d × %d with checkpointing %s",
			estimator.Bytes(r.Peak.DeviceBytes),
			estimator.Bytes(r.Peak.HighBytes), x.micro, x.accum, x.mode.Mode)
	} else if x.answer.err != nil {
		reason = reasonOf(x.answer.err)
	}
	l.leave(x.structure, "does_not_fit", reason)
}

// seconds prints a time.
func seconds(s float64) string {
	switch {
	case s >= 100:
		return fmt.Sprintf("%.0f s", s)
	case s >= 0.1:
		return fmt.Sprintf("%.2g s", s)
	}
	return fmt.Sprintf("%.2g ms", s*1000)
}
