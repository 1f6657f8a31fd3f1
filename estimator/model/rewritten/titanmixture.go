package rewritten

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/mixtures"
	"github.com/vramplan/vramplan/estimator/step"
)

// titanMixture is torchtitan's MoE: a router, experts whose matrices stand in three tensors, and perhaps an MLP that
// every token takes besides. Source: torchtitan/models/moe/moe.py, 0.2.0.
type titanMixture struct {
	// experts are those of this GPU, of count that all have together. gpus share the layer.
	experts, count, chosen, gpus int64
	ffn, sharedFFN               int64
	// softmax, or sigmoids, are the scores; normalises divides those that are chosen by their sum.
	softmax, normalises bool

	gate       arch.Linear
	w1, w2, w3 step.Weight
	shared     arch.GatedMLP
	width      int64
	place      int64 // of its layer among those of this GPU, from 1
}

// titanExperts is a mixture of the architecture's as torchtitan builds it, nil where it has none.
func titanExperts(a *arch.Architecture, cut *titanCut, layer int64) *titanMixture {
	e := arch.ExpertsOf(a)
	if !e.In(layer) {
		return nil
	}
	x := &titanMixture{count: e.Count, chosen: e.TopK, ffn: e.FFN, softmax: true, normalises: e.Normalise,
		width: a.Hidden}
	if own := mixtures.RoutedOf(a); own != nil {
		if layer < own.FirstDense {
			return nil
		}
		x.sharedFFN, x.softmax = e.SharedFFN, own.Second
	}
	x.experts, x.gpus = x.count/cut.experts, cut.tensor
	return x
}

// sends says that rows go to other GPUs, which have their experts.
func (x *titanMixture) sends() bool { return x.experts < x.count }

// divides says that of the GPUs that share layers each has a part of the tokens for the experts, as where rows are sent
// (expert_tensor_parallel_degree is 1). Else each has a part of every expert.
// Source: torchtitan/models/llama4/infra/parallelize.py (apply_moe_ep_tp), 0.2.0.
func (x *titanMixture) divides() bool { return x.gpus > 1 && x.sends() }

// ownTokens are the scores and experts of this GPU's tokens. It takes all over.
// Source: torchtitan/distributed/expert_parallel.py (ReordererSequenceParallel), 0.2.0.
func (x *titanMixture) ownTokens(t *step.Tape, scores, chosen step.T) (ownScores, ownChosen step.T) {
	ownScores = t.SliceRows(scores, scores.Numel()/x.gpus)
	t.Drop(scores)
	return ownScores, chosen.Part(x.gpus)
}

// declare lists the modules.
func (x *titanMixture) declare(b *arch.Builder) {
	d, f := x.width, x.ffn
	if !x.sends() {
		f /= x.gpus
	}
	inner := len(b.P.List)
	x.w1 = b.Parameter("moe.experts.w1", x.experts*f, d)
	x.w2 = b.Parameter("moe.experts.w2", x.experts*d, f)
	x.w3 = b.Parameter("moe.experts.w3", x.experts*f, d)
	for i, w := range [...]step.Weight{x.w1, x.w2, x.w3} {
		b.Stacked(w, x.experts)
		b.P.List[inner+i].Inner = titanOf(b.A).experts > 1
	}
	x.gate = b.Linear("moe.router.gate", d, x.count, false)
	x.gate.Matrix = true
	if f := x.sharedFFN; f > 0 {
		f /= x.gpus
		x.shared.Gate, x.shared.Down = b.Linear("moe.shared_experts.w1", d, f, false),
			b.Linear("moe.shared_experts.w2", f, d, false)
		x.shared.Up = b.Linear("moe.shared_experts.w3", d, f, false)
		x.shared = x.shared.OnMatrices()
		if x.gpus > 1 { // each of which makes a tensor of the tokens of its own
			x.shared.Gate.Side, x.shared.Up.Side = arch.Columns, arch.Columns
		}
	}
	b.Buffer("moe.expert_bias", x.count, step.F32)
	b.Buffer("moe.tokens_per_expert", x.count, step.F32)
}

// forward is MoE.forward with the scores behind the experts, as all of torchtitan's Qwen3 and DeepSeek V3 have them.
func (x *titanMixture) forward(t *step.Tape, a *arch.Architecture, input step.T) step.T {
	in := t.View(t.Cuts().EnterLocal(input))
	scores, chosen, counts := x.route(t, in)
	if x.divides() {
		scores, chosen = x.ownTokens(t, scores, chosen)
	}
	again := t.RoutingTensor(x.count, step.I64)
	order := t.ArgSort(chosen.Numel())
	sorted := t.Rows(scores, 1, order)
	rows := t.RoutingTensor(chosen.Numel(), step.I64) // order // top_k
	t.Drop(order, counts)
	routed := t.GatherWhole(in, rows, x.width)
	mixed, sent := x.spread(t, routed)
	var out step.T
	if x.sharedFFN > 0 {
		out = x.shared.Forward(t, a, in)
	} else {
		out = t.Zeros(in.Numel(), in.Dtype(), step.LabelExpertOutput)
	}
	if sent != step.NoTensor {
		t.Drop(sent)
	}
	wide := t.Float(mixed, step.LabelExpertOutput)
	weighted := t.Mul(wide, sorted, true, step.LabelExpertOutput)
	t.Drop(wide)
	narrow := t.Cast(weighted, in.Dtype(), step.LabelExpertOutput)
	t.Drop(weighted, mixed)
	y := t.ScatterAdd(out, rows, narrow)
	t.Drop(in, narrow, routed, rows, sorted, again, chosen, scores)
	return t.Cuts().Leave(y)
}

// route is TokenChoiceTopKRouter.
func (x *titanMixture) route(t *step.Tape, in step.T) (scores, chosen, counts step.T) {
	logits := x.gate.Forward(t, in)
	wide := t.Float(logits, step.LabelRouting)
	var all step.T
	if x.softmax {
		all = t.Softmax(wide, step.LabelRouting)
	} else {
		all = t.Sigmoid(wide, step.LabelRouting)
	}
	t.Drop(wide, logits)
	corrected := t.RoutingTensor(all.Numel(), step.F32) // by the bias, which is there for choosing alone
	values, chosen := t.TopK(corrected, x.count, x.chosen)
	t.Drop(corrected)
	top := t.Chosen(all, chosen)
	var sum step.T
	if x.normalises {
		raw := t.SumRowsKept(top, x.chosen)
		sum = t.AddScalar(raw, step.LabelRouting)
		t.Drop(raw)
		share := t.Divide(top, sum)
		t.Drop(top)
		top = share
	}
	scores = t.MulScalar(top, step.LabelRouting)
	t.Drop(top)
	counts = t.RoutingTensor(x.count, step.I64)
	t.Drop(values, all)
	if x.normalises {
		t.Drop(sum)
	}
	return scores, chosen, counts
}

// spread runs the experts on rows in their order. Where GPUs share the experts, each row goes to the GPU that has its
// expert and comes back; sent is what is on its way until somebody waits for what comes.
// Source: torchtitan/distributed/expert_parallel.py (ExpertParallel), 0.2.0.
func (x *titanMixture) spread(t *step.Tape, rows step.T) (y, sent step.T) {
	if !x.sends() {
		if x.gpus > 1 {
			rows = t.SharedInput(rows)
			defer t.Drop(rows)
		}
		out, locals := x.run(t, t.Hold(rows))
		y = t.UnpermuteRows(out, locals.places, x.width, rows.Numel())
		locals.drop(t, out)
		return y, step.NoTensor
	}
	y = t.InnerUnit(int(x.place), rows, func(rows step.T) step.T {
		theirs := t.RoutingTensor(x.count, step.I64)
		for range 2 { // how many rows go where, and come from where
			t.Drop(t.RoutingTensor(x.count/x.experts, step.I64))
		}
		came := t.SendRows(rows, x.width)
		received := came.Numel()
		out, locals := x.run(t, came)
		t.Drop(theirs)
		sent = t.UnpermuteRows(out, locals.places, x.width, received)
		back := t.ReturnRows(sent, rows.Numel())
		locals.drop(t, out)
		return back
	})
	return y, sent
}

// expertLocals is what variables hold while the experts run: the rows that they get, where each came from, and how many
// each expert has.
type expertLocals struct{ in, places, sizes step.T }

func (l expertLocals) drop(t *step.Tape, out step.T) {
	t.Drop(out, l.places, l.sizes, l.in)
}

// run is GroupedExperts on rows, which it takes over, as products of all experts at once.
func (x *titanMixture) run(t *step.Tape, rows step.T) (step.T, expertLocals) {
	in, places, sizes := t.PermuteRows(rows, x.width, x.count, x.experts)
	ends := t.RowOffsets(x.experts)
	product := func(in step.T, w step.Weight, l step.Label) step.T { return t.GroupedMM(in, w, x.experts, ends, l) }
	gate := product(in, x.w1, step.LabelActivation)
	act := t.SiLU(gate)
	t.Drop(gate)
	up := product(in, x.w3, step.LabelActivation)
	both := t.Mul(act, up, false, step.LabelActivation)
	t.Drop(act, up)
	out := product(both, x.w2, step.LabelExpertOutput)
	t.Drop(both, ends)
	return out, expertLocals{in, places, sizes}
}
