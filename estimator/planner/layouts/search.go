package layouts

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
	"github.com/vramplan/vramplan/estimator/planner/steptime"
	"github.com/vramplan/vramplan/estimator/planner/traits"
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
	*asking.Asker
	cluster Cluster
	asked   int
	left    []document.LeftOutLayout
	// first is the first answer, nil before it, and parameters how many the model has in all and how many are trained.
	first      *estimator.Result
	parameters [2]float64
	// learned is how many times the bound candidates keep for backward, the least of those answered.
	learned map[kept]float64
}

// placed is a structure with what is run again and a pair.
type placed struct {
	*structure
	mode         *estimator.Checkpointing
	leanness     int // of the mode: the larger, the less is kept
	micro, accum int64
	seconds      [3]float64
	waits        float64
	answer       asking.Answer
}

// input is the job document of a candidate.
func (l *layoutSearch) input(x *placed) estimator.Input {
	in := l.Costs.Base
	t := &in.Job.Training
	d := x.d
	t.Framework, t.Distributed, t.GradientCheckpointing = x.framework(in), &d, x.mode
	if t.Optimizer == nil && x.tool == "torchtitan" {
		t.Optimizer = fusedByDefault
	}
	if own := ownHalves(t, x.tool); own != nil {
		t.Precision, t.States = estimator.PrecisionBF16, own
	}
	if x.d.WorldSize == 1 {
		t.Distributed = nil
	}
	t.MicroBatch, t.GradientAccumulation = x.micro, x.accum
	t.GradientCheckpointing = lever.ThatRun(in)
	return in
}

// framework is what the job document says of the structure's: nothing where its own default is meant.
func (x *structure) framework(in estimator.Input) string {
	if in.Job.Training.Framework == "" && x.tool == traits.ToolOf(in) {
		return ""
	}
	return x.tool
}

// ownHalves is what a framework stores of what a job calls amp-bf16, where it has no autocast; nil where it has, or the
// job says what is stored.
func ownHalves(t *estimator.Training, tool string) *estimator.States {
	if t.States != nil || t.Precision != "" && t.Precision != estimator.PrecisionAMPBF16 {
		return nil
	}
	return halvesOf[tool]
}

// halvesOf are those states. torchtitan gives fully_shard a MixedPrecisionPolicy (param_dtype bfloat16, reduce_dtype
// float32), which keeps float32 parts and computes with gathered bfloat16 (apply_fsdp in
// torchtitan/models/llama3/infra/parallelize.py, 0.2.0). With --bf16 Megatron-LM stores weights in bfloat16, adds
// gradients up in float32, and its optimizer has float32 copies (megatron/training/arguments.py validate_args,
// core/optimizer, core 0.14).
var halvesOf = map[string]*estimator.States{
	"torchtitan": {Weights: "fp32", Gradients: "fp32"},
	"megatron":   {MasterWeights: "fp32", Gradients: "fp32", Optimizer: "fp32"},
}

// fusedByDefault is torchtitan's optimizer where nobody names one. Source: torchtitan/config/job_config.py (Optimizer),
// 0.2.0.
var fusedByDefault = &estimator.Optimizer{Name: estimator.DefaultOptimizer, Implementation: "fused"}

// time works out how long a step of a candidate takes, under the precision that its framework computes in.
func (l *layoutSearch) time(x *placed) {
	in := l.input(x)
	t := in.Job.Training
	if x.answer.Result != nil && slices.ContainsFunc(x.answer.Result.Notes, func(n estimator.Note) bool {
		return n.Code == "no-mixed-precision"
	}) {
		t.Precision = estimator.PrecisionFP32
	}
	w := steptime.Workload{Shape: l.Shape, Training: t, Micro: float64(x.micro), Accum: float64(x.accum),
		GPUs:       float64(x.data),
		Parameters: l.parameters[0], Trainable: l.parameters[1],
		Tensor: float64(x.tensor), Context: float64(x.context), Experts: float64(x.experts), Stages: float64(x.stages),
		PerHost: float64(l.cluster.PerNode), Network: l.cluster.NetworkBytesPerSecond}
	if w.Sequence = float64(traits.SequenceLength(in, w.Shape)); w.Sequence <= 0 {
		w.Sequence = asking.DefaultSequence
	}
	if x.stages > 1 { // the embedding and the head count as a layer each
		whole := float64(l.Shape.Layers + 2)
		w.Uneven = math.Ceil(whole/float64(x.stages)) * float64(x.stages) / whole
	}
	c := steptime.CardOf(l.GPU, t.Precision)
	for i, a := range l.Readings {
		s, waits := w.Step(c, a)
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
	r, err := l.Costs.Ask(in)
	if err != nil && !asking.Refusal(err) {
		return err
	}
	x.answer = asking.Answer{Result: r, Err: err}
	if err == nil {
		l.time(x)
		l.learn(x)
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
	r := x.answer.Result
	l.first = r
	l.parameters = [2]float64{float64(r.Model.Parameters), float64(r.Model.TrainableParameters)}
	l.Shape = traits.ShapeOf(l.Costs.Base, r.Model.Parameters)
}

// candidates are the pairs and modes of a structure that may fit, the fastest first, and the leanest of all.
func (l *layoutSearch) candidates(x *structure) (list []*placed, leanest *placed) {
	if l.Batch.Target%x.data != 0 {
		return nil, nil
	}
	usable := l.GPU.UsableBytes - l.Costs.Base.Job.HeldOn(&l.GPU)
	pairs := pairing.Batch{Target: l.Batch.Target, GPUs: x.data}.Pairs(l.Batch.Target)
	for leanness, mode := range modes(l.Costs.Base, x.tool) {
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
