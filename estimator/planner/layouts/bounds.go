package layouts

import (
	"math"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/steptime"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// leastBytes is what a candidate takes at the very least: half-precision weights and, of what trains, its part of two
// bytes of optimizer state each (8-bit moments). What is left for backward is at least the input of every layer and,
// where nothing is run again, the inputs of its matrices, each in half precision; logits are counted once, in half
// precision, where the loss keeps them. It is a bound and no estimate: what is above it is asked about.
func (l *layoutSearch) leastBytes(x *placed) int64 { return int64(l.leastState(x) + l.leastKept(x)) }

// leastState is the part of the bound that does not grow with the micro-batch.
func (l *layoutSearch) leastState(x *placed) float64 {
	t := &l.Costs.Base.Job.Training
	cut := float64(x.tensor * x.stages)
	shard := float64(x.shard)
	weights, states := 2*l.parameters[0], l.statesPerParameter()*l.parameters[1]
	if zero := strings.HasPrefix(x.d.Data, "zero"); zero && states > 0 {
		states += 4 * l.parameters[1] // masters
	} else if w := (steptime.Workload{Training: *t}); !zero && t.States == nil && (w.Amp() || !w.Half()) {
		weights *= 2
	}
	if t.LoRA != nil {
		weights *= 0.25 // a base in four bits
	}
	switch x.d.Data {
	case "fsdp", traits.ZeRO3:
		weights, states = weights/shard, states/shard
	case "zero1", "zero2":
		states /= shard
	}
	if x.d.OffloadOptimizer {
		states = 0
	}
	least := (weights + states) / cut
	if x.d.Data != "fsdp" || t.LoRA != nil {
		return least
	}
	// What is gathered: everything that this GPU computes with, or the experts of a layer.
	experts := math.Min(float64(l.Shape.ExpertParameters), l.parameters[0])
	sharers := float64(x.experts) // of a layer's experts; else those that share layers have a part of each
	if x.experts <= 1 {
		sharers = float64(x.tensor)
	}
	if k := x.d.ReshardAfterForward; k != nil && !*k || x.stages > 1 {
		least += 2 * ((l.parameters[0]-experts)/cut + experts/(sharers*float64(x.stages)))
	} else {
		least += 2 * experts / (float64(max(l.Shape.Layers, 1)) * sharers)
	}
	return least
}

// leastKept is the part of the bound that grows with the micro-batch.
func (l *layoutSearch) leastKept(x *placed) float64 {
	t, cut := &l.Costs.Base.Job.Training, float64(x.tensor*x.stages)
	if t.LoRA != nil {
		return 0
	}
	s := l.Shape
	sequence := float64(max(traits.SequenceLength(l.Costs.Base, s), 1))
	tokens := float64(x.micro) * sequence / float64(x.context)
	kept := float64(s.Hidden)
	switch {
	case x.mode.Mode == "none":
		inner := s.FFN
		if s.Gated {
			inner *= 2
		}
		kept += float64(s.Hidden + 2*s.Heads*s.HeadDim + 2*s.KVHeads*s.HeadDim + inner)
	case x.mode.Mode == "selective-op":
		kept *= 2
	case x.mode.Offload:
		kept = 0
	}
	least := 2 * tokens * kept * float64(s.Layers) / cut
	if t.Loss == nil || t.Loss.Kind == "" || t.Loss.Kind == "standard" {
		least += 2 * tokens * float64(s.Vocabulary) / float64(x.tensor)
	}
	return least
}

// statesPerParameter is what the optimizer keeps of a trained parameter at the least.
func (l *layoutSearch) statesPerParameter() float64 {
	t := l.Costs.Base.Job.Training
	switch {
	case traits.TrainsLike(t, estimator.DefaultOptimizer) && t.States == nil &&
		t.Precision != estimator.PrecisionBF16 &&
		t.Precision != estimator.PrecisionFP16:
		return 8 // two float32 moments
	case t.States != nil:
		return 0
	}
	return float64(traits.RowOf(t).LeastStateBytes())
}

// kept names candidates that keep alike for backward: those of one framework, with the same run again, that cut layers
// in the same way.
type kept struct {
	tool, mode              string
	tensor, stages, context int64
}

func (x *placed) kept() kept { return kept{x.tool, x.mode.Mode, x.tensor, x.stages, x.context} }

// keptShare is how much of what others keep, above the bound, a candidate is taken to keep at the least.
const keptShare = 0.9

// learn takes down how many times the bound a candidate keeps for backward.
func (l *layoutSearch) learn(x *placed) {
	r := x.answer.Result
	if least := l.leastKept(x); least > 0 && r.Peak.Phase != "optimizer" && l.parameters[0] > 0 {
		if l.learned == nil {
			l.learned = map[kept]float64{}
		}
		times := float64(growing(r)) / least
		if old, known := l.learned[x.kept()]; !known || times < old {
			l.learned[x.kept()] = times
		}
	}
}

// growing is what is at the peak that grows with the micro-batch.
func growing(r *estimator.Result) (out int64) {
	for _, c := range r.Components {
		if c.Name == "activations" || c.Name == "logits_and_loss" {
			out += c.Bytes
		}
	}
	return out
}

// outlook is about what a candidate takes, from what is known of others of its structure: what grows with the
// micro-batch at the peak of one with the same mode, and the least that is kept more than by the leanest.
func (l *layoutSearch) outlook(q *queue, x *placed) int64 {
	out := l.leastBytes(x)
	if times, known := l.learned[x.kept()]; known {
		out = max(out, int64(l.leastState(x)+keptShare*times*l.leastKept(x)))
	}
	for _, y := range q.asked {
		r := y.answer.Result
		if r == nil {
			continue
		}
		if y.leanness == x.leanness {
			var grows int64
			if r.Peak.Phase != "optimizer" {
				grows = growing(r)
			}
			out = max(out, r.Peak.DeviceBytes+int64(float64(grows)*(float64(x.micro)/float64(y.micro)-1)))
		} else if y.leanness > x.leanness && y.micro <= x.micro {
			out = max(out, r.Peak.AllocatedBytes-r.Peak.AllocatedBytes/4)
		}
	}
	return out
}
