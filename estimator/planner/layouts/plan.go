package layouts

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/launch"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
	"github.com/vramplan/vramplan/estimator/planner/steptime"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// Plan is a plan for a cluster.
func Plan(ctx context.Context, a *asking.Asker, cluster Cluster) (*document.Plan, error) {
	a.Readings, a.Basis = [3]steptime.Assumption{steptime.Expected, steptime.CheapSmall, steptime.DearSmall},
		asking.BasisModel
	l := &layoutSearch{Asker: a, cluster: cluster}
	one := l.Costs.Base // whatever is wrong with the job is wrong with it on one GPU
	one.Job.Training.Distributed, one.Job.Training.MicroBatch = nil, 1
	if _, err := estimator.CostOf(one); err != nil {
		return nil, err
	}
	found, err := l.findNearest(ctx)
	if err != nil {
		return nil, err
	}
	if l.first == nil {
		l.Notes.Add("no-layout", "The estimator models none of the layouts; left_out has the reasons.")
	}
	p := &document.Plan{EffectiveBatch: a.Batch.Target, DataParallelGPUs: l.cluster.GPUs, GPU: a.GPU.ID,
		UsableBytes:  max(a.GPU.UsableBytes-a.Costs.Base.Job.HeldOn(&a.GPU), 0),
		SmallestGPUs: []string{}, SmallestSlices: []string{}, Pairs: []document.Pair{}, Options: []document.Option{},
		StepTimeBasis: asking.BasisModel, SequenceLength: traits.SequenceLength(a.Costs.Base, a.Shape)}
	if l.first != nil {
		p.Versions, p.Model = l.first.Versions, l.first.Model
		p.FloorBytes = l.first.Peak.DeviceBytes
	}
	p.Layouts = &document.Layouts{GPUs: l.cluster.GPUs, GPUsPerNode: l.cluster.PerNode, Ranked: []document.Layout{}}
	for i, x := range found {
		p.Layouts.Ranked = append(p.Layouts.Ranked, l.layout(x, i+1))
	}
	if len(found) > 0 {
		best := found[0]
		p.DataParallelGPUs = best.data
		c := pairing.At(best.micro, best.accum)
		p.Recommended, p.LargestMicroBatch = &c, best.micro
		p.Pairs = append(p.Pairs, document.Pair{MicroBatch: best.micro, GradientAccumulation: best.accum,
			EffectiveBatch: a.Batch.Target, DeviceBytes: best.answer.Result.Peak.DeviceBytes,
			HighBytes:     best.answer.Result.Peak.HighBytes,
			HeadroomBytes: best.answer.Fit().HeadroomBytes, Verdict: best.answer.Fit().Verdict, RelativeStepTime: 1})
	}
	if l.first != nil {
		if p.FewestGPUs, err = l.fewest(ctx, found); err != nil {
			return nil, err
		}
	}
	p.Layouts.LeftOut, p.Layouts.Asked = l.gathered(), l.asked
	l.explainLayouts(p, found)
	p.Notes = a.Notes.List()
	return p, nil
}

// layout is a candidate as the answer has it.
func (l *layoutSearch) layout(x *placed, rank int) document.Layout {
	in := l.input(x)
	changes := map[string]any{"micro_batch": x.micro, "gradient_accumulation": x.accum,
		"gradient_checkpointing": *in.Job.Training.GradientCheckpointing}
	if d := in.Job.Training.Distributed; d != nil {
		changes["distributed"] = *d
	}
	if ownHalves(&l.Costs.Base.Job.Training, x.tool) != nil {
		changes["precision"], changes["states"] = in.Job.Training.Precision, *in.Job.Training.States
	}
	if o := in.Job.Training.Optimizer; l.Costs.Base.Job.Training.Optimizer == nil && o != nil {
		changes["optimizer"] = *o
	}
	if f := in.Job.Training.Framework; f != l.Costs.Base.Job.Training.Framework {
		changes["framework"] = f
	}
	fit := x.answer.Fit()
	sequence := traits.SequenceLength(l.Costs.Base, l.Shape)
	gpus := max(x.d.WorldSize, 1)
	perNode := min(l.cluster.PerNode, gpus)
	out := document.Layout{Rank: rank, Name: x.name(), Framework: x.tool, DataParallelGPUs: x.data,
		TensorParallel:   x.tensor,
		PipelineParallel: x.stages, ContextParallel: x.context, ExpertParallel: x.experts, ShardGroup: x.shard,
		GradientCheckpointing: x.mode.Mode, MicroBatch: x.micro, GradientAccumulation: x.accum, Changes: changes,
		DeviceBytes: x.answer.Result.Peak.DeviceBytes, HighBytes: x.answer.Result.Peak.HighBytes,
		HeadroomBytes: fit.HeadroomBytes, Verdict: fit.Verdict,
		StepTime: document.StepSeconds{LowSeconds: round4(slices.Min(x.seconds[:])),
			ExpectedSeconds: round4(x.seconds[0]),
			HighSeconds:     round4(slices.Max(x.seconds[:])), Basis: asking.BasisModel},
		CommunicationShare: asking.Round3(x.waits / x.seconds[0]),
		TokensPerSecondPerGPU: round4(float64(l.Batch.Target) * float64(max(sequence, 1)) / x.seconds[0] /
			float64(gpus)),
		Launch: launch.Of(launch.Job{Framework: x.tool, Model: x.answer.Result.Model.Name,
			Family: x.answer.Result.Model.Family, Training: in.Job.Training, Nodes: gpus / perNode, PerNode: perNode,
			Data: x.data, SequenceLength: sequence, Architecture: traits.DescribedArchitecture(in)}),
	}
	return out
}

// round4 keeps four digits: more than the model can mean, and fewer than the last bit of a processor shows in.
func round4(x float64) float64 {
	if x == 0 {
		return 0
	}
	digits := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(x))))
	return math.Round(x*digits) / digits
}

// gathered are the layouts left out, those of one framework that are left out for one reason, numbers apart, together.
func (l *layoutSearch) gathered() []document.LeftOutLayout {
	out := []document.LeftOutLayout{}
	rows := map[string]int{}
	for _, x := range l.left {
		words := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' || r == '.' || r == ',' {
				return -1
			}
			return r
		}, x.Reason)
		if x.Code == "refused" { // by the field alone
			words, _, _ = strings.Cut(words, ":")
		}
		key := x.Framework + x.Code + words
		if i, again := rows[key]; again {
			out[i].Count++
			continue
		}
		rows[key] = len(out)
		out = append(out, x)
	}
	order := []string{"tight", "beaten", "slower", "not_asked", "does_not_fit", "batch", "refused"}
	slices.SortStableFunc(out, func(a, b document.LeftOutLayout) int {
		return cmp.Compare(slices.Index(order, a.Code), slices.Index(order, b.Code))
	})
	return out
}

// explainLayouts says what the ranking rests on.
func (l *layoutSearch) explainLayouts(p *document.Plan, found []*placed) {
	c := steptime.CardOf(l.GPU, "")
	wire := c.Network
	if n := l.cluster.NetworkBytesPerSecond; n > 0 {
		wire = n
	}
	l.Notes.Add("communication", "Step times count what GPUs send each other: %.3g GB/s each way within a host of %d, "+
		"%.3g GB/s for each GPU between hosts, of which 30 to 85 %% are reached, less what computing "+
		"hides. Say what the "+
		"network carries in cluster.network_bytes_per_second (--network-gbps).", c.Link/1e9, l.cluster.PerNode,
		wire/1e9)
	l.Notes.Add("step-time-model", "Step times come from a model, not from a run: low and high are what "+
		"it says for other "+
		"shares of the card's and the links' peaks.")
	l.explainExperts()
	if len(found) == 0 {
		l.Notes.Add("no-layout-fits", "None of the layouts looked at fits on %d GPUs at an effective batch of %d.",
			l.cluster.GPUs, l.Batch.Target)
		if d := l.Costs.Base.Job.Training.Distributed; d == nil || !d.OffloadOptimizer && !d.OffloadParameters {
			l.Notes.Add("offload-not-looked-at", "States in the hosts' memory are not looked at. ZeRO-3 with "+
				"offload_optimizer or offload_param needs fewer GPUs, and steps take longer; an estimate of such a job "+
				"says what each GPU holds.")
		}
		return
	}
	l.Notes.Add("layout-options", "pairs are those of the first layout. With its changes in the job, and "+
		"without cluster, a "+
		"plan has all pairs and other ways to save memory or time.")
}
