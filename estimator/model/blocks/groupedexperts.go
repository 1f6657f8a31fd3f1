package blocks

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// GroupedBlock is a mixture whose experts are two tensors for all of them: MixtralSparseMoeBlock,
// Qwen2MoeSparseMoeBlock, Qwen3MoeSparseMoeBlock and OlmoeSparseMoeBlock (transformers 5.23), as the experts'
// implementation grouped_mm runs them, which is the default.
type GroupedBlock struct {
	A            *arch.Architecture
	E            *arch.Experts
	Path         string // of the block, "mlp" where empty
	gate         arch.Router
	GateUp, Down step.Weight
	// gateUpAdapter and downAdapter are on them; nil without.
	gateUpAdapter, downAdapter *arch.FoldedAdapter
	// Project is both projections of the experts where they are not activate's: what they make, and what a variable
	// holds of them to the end.
	Project func(t *step.Tape, input, sorted, ends step.T) (output, held step.T)

	shared     arch.GatedMLP
	sharedGate arch.Linear
}

func buildGrouped(e *arch.Experts, b *arch.Builder) *GroupedBlock {
	m := &GroupedBlock{A: b.A, E: e}
	if e.ExpertsFirst {
		m.DeclareExperts(b)
	}
	m.gate = b.Router("mlp.gate", e.Count, nil)
	if !e.ExpertsFirst {
		m.DeclareExperts(b)
	}
	if e.SharedFFN > 0 {
		m.shared = arch.BuildGatedMLP(b, "mlp.shared_expert", e.SharedFFN, false).OnMatrices()
		m.sharedGate = b.Linear("mlp.shared_expert_gate", b.A.Hidden, 1, false)
		m.sharedGate.Matrix = true
	}
	return m
}

// DeclareExperts lists the two tensors of all experts.
func (m *GroupedBlock) DeclareExperts(b *arch.Builder) {
	name, gateUp, down := "mlp.experts", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"
	if m.Path != "" { // joining names for every layer shows in the time of an estimate
		name = m.Path + ".experts"
		gateUp, down = name+".gate_up_proj", name+".down_proj"
	}
	m.GateUp = b.Parameter(gateUp, m.E.Count*2*m.E.FFN, b.A.Hidden)
	m.Down = b.Parameter(down, m.E.Count*b.A.Hidden, m.E.FFN)
	b.Stacked(m.GateUp, m.E.Count)
	b.Stacked(m.Down, m.E.Count)
	expertAdapters(b, m, name)
}

// Forward returns the experts' weighted sum. The router's logits go with the block.
func (m *GroupedBlock) Forward(t *step.Tape, x step.T) (y, _ step.T) {
	x = t.View(t.Hold(x)) // view(-1, hidden_dim)
	var shared step.T
	if m.E.SharedFFN > 0 {
		shared = m.shared.Forward(t, m.A, x)
	}
	gate := m.gate.Adapter.Open(t)
	rows := t.View(t.Hold(x)) // reshape, which is a view even of what has that shape
	logits := m.gate.Linear(t, gate, rows, step.LabelLinear)
	t.Drop(rows)
	weights, chosen := m.route(t, logits)
	gate.Close(t)
	y = m.Mix(t, x, weights, chosen)
	if m.E.SharedFFN > 0 {
		logit := m.sharedGate.Forward(t, x)
		share := t.Sigmoid(logit, step.LabelRouting)
		t.Drop(logit)
		gated := t.Mul(share, shared, true, step.LabelExpertOutput)
		t.Drop(share, shared)
		sum := t.Add(y, gated, step.LabelExpertOutput)
		t.Drop(gated, y)
		y = sum
	}
	t.Drop(weights, chosen, logits, x)
	return y, step.NoTensor
}

// route is the router: the weights of the experts of every token, and their numbers.
func (m *GroupedBlock) route(t *step.Tape, logits step.T) (weights, chosen step.T) {
	var probabilities step.T
	if m.E.WideWeights { // router_logits.float() goes in
		wide := t.Float(logits, step.LabelRouting)
		probabilities = t.Softmax(wide, step.LabelRouting)
		t.Drop(wide)
	} else {
		probabilities = t.SoftmaxFloat(logits, step.LabelRouting, step.LabelRouting)
	}
	top, chosen := t.TopK(probabilities, m.E.Count, m.E.TopK)
	if m.E.Normalise {
		sum := t.SumRowsKept(top, m.E.TopK)
		top = t.DivideInPlace(top, sum)
		t.Drop(sum)
	}
	defer t.Drop(probabilities)
	if m.E.WideWeights {
		return top, chosen
	}
	weights = t.Cast(top, logits.Dtype(), step.LabelRouting)
	t.Drop(top)
	return weights, chosen
}

// activate is _apply_gate. It takes over both.
func (m *GroupedBlock) activate(t *step.Tape, both step.T) step.T {
	gate, up := t.Chunk2(both)
	t.Drop(both)
	act := arch.Activation(t, m.A.Activation, gate)
	product := t.Mul(act, up, false, step.LabelActivation)
	t.Drop(act, gate, up)
	return product
}

// fillsIdleRows zeroes the rows of a mixture that belong to no expert, before and behind its products, where there
// are none, too.
var fillsIdleRows = release.Declare("fills-idle-rows", release.Change{
	Library: "transformers", From: "5.8", To: "5.18",
	What: "mixtures of experts of transformers 5.8 to 5.17 fill the rows that belong to no expert of this " +
		"process, also where all are here: a mask, and a copy of the gradient, before the products and behind them",
	Source: "integrations/moe.py (grouped_mm_experts_forward), 5.7.0, 5.8.0, 5.17.0 and 5.18.0",
	Shown:  "traces of Mixtral with transformers 5.10.0",
})

// Mix is grouped_mm_experts_forward: the tokens, once for each expert that they chose, are sorted by expert.
// Source: transformers/integrations/moe.py (grouped_mm_experts_forward), 5.23.
func (m *GroupedBlock) Mix(t *step.Tape, x, weights, chosen step.T) step.T {
	d, rows := m.A.Hidden, chosen.Numel()
	down := m.downAdapter.Open(t) // the wrapper of the second tensor is around that of the first
	gateUp := m.gateUpAdapter.Open(t)
	sorted, order := t.Sort(rows)
	tokens := t.RoutingTensor(rows, step.I64)
	input := t.GatherRows(x, d, tokens)
	t.Drop(tokens)
	weight := t.GatherRows(weights, 1, order)
	narrow, counts := t.Counts(rows), t.Counts(m.E.Count)
	ends := t.CumulativeCounts(m.E.Count)
	filled := func(x step.T) step.T { return x }
	if t.Recipe.Software.Has(fillsIdleRows) {
		idle := t.RoutingTensor(rows, step.Bool)
		defer t.Drop(idle)
		filled = func(x step.T) step.T { return t.FillInPlace(x, idle) }
	}
	input = filled(input)

	var output, bias step.T
	if m.Project == nil {
		product := m.activate(t, t.ExpertsProductOf(input, gateUp.Parameter(t, m.GateUp), m.GateUp, m.E.Count, ends,
			step.LabelActivation))
		output = t.ExpertsProductOf(product, down.Parameter(t, m.Down), m.Down, m.E.Count, ends, step.LabelExpertOutput)
		t.Drop(product)
	} else {
		output, bias = m.Project(t, input, sorted, ends)
		defer t.Drop(bias)
	}
	weighted := filled(t.Mul(output, weight, true, step.LabelExpertOutput))

	places := t.RoutingTensor(rows, step.I64)
	t.Drop(t.RoutingTensor(rows, step.I64))
	back := t.GatherRows(weighted, d, places)
	t.Drop(weighted)
	sum := t.SumOfChosen(back, m.E.TopK, step.LabelExpertOutput)
	y := t.Cast(sum, x.Dtype(), step.LabelExpertOutput)
	t.Drop(sum, back, places, output, ends, counts, narrow, weight, input, order, sorted)
	gateUp.Close(t)
	down.Close(t)
	return y
}

// expertAdapters declares the adapters of the two tensors of all experts, below the module name.
func expertAdapters(b *arch.Builder, m *GroupedBlock, name string) {
	l := b.A.LoRA
	if l == nil {
		return
	}
	inner := name // the wrapper of the tensor that stands first is inside that of the second
	if l.Fused.GateUp && l.Fused.Down {
		inner = name + ".base_layer"
	}
	if e := m.E; l.Fused.GateUp { // two layers in one, each of the rank that the job gives
		m.gateUpAdapter = b.FoldedAdapter(inner, m.GateUp, b.A.Hidden, 2*e.FFN, 2*l.Rank, e.Count)
	}
	if e := m.E; l.Fused.Down {
		m.downAdapter = b.FoldedAdapter(name, m.Down, e.FFN, b.A.Hidden, l.Rank, e.Count)
	}
}
