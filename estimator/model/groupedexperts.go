package model

import "github.com/vramplan/vramplan/estimator/step"

// groupedBlock is a mixture whose experts are two tensors for all of them: MixtralSparseMoeBlock,
// Qwen2MoeSparseMoeBlock, Qwen3MoeSparseMoeBlock and OlmoeSparseMoeBlock (transformers 5.23), as the experts'
// implementation grouped_mm runs them, which is the default.
type groupedBlock struct {
	a            *Architecture
	e            *experts
	path         string // of the block, "mlp" where empty
	gate         router
	gateUp, down step.Weight
	// gateUpAdapter and downAdapter are on them; nil without.
	gateUpAdapter, downAdapter *foldedAdapter
	// project is both projections of the experts where they are not activate's: what they make, and what a variable
	// holds of them to the end.
	project func(t *step.Tape, input, sorted, ends step.T) (output, held step.T)

	shared     gatedMLP
	sharedGate linear
}

func (e *experts) buildGrouped(b *builder) *groupedBlock {
	m := &groupedBlock{a: b.a, e: e}
	if e.ExpertsFirst {
		m.declareExperts(b)
	}
	m.gate = b.router("mlp.gate", e.Count, nil)
	if !e.ExpertsFirst {
		m.declareExperts(b)
	}
	if e.SharedFFN > 0 {
		m.shared = buildGatedMLP(b, "mlp.shared_expert", e.SharedFFN, false).onMatrices()
		m.sharedGate = b.linear("mlp.shared_expert_gate", b.a.Hidden, 1, false)
		m.sharedGate.matrix = true
	}
	return m
}

// declareExperts lists the two tensors of all experts.
func (m *groupedBlock) declareExperts(b *builder) {
	name, gateUp, down := "mlp.experts", "mlp.experts.gate_up_proj", "mlp.experts.down_proj"
	if m.path != "" { // joining names for every layer shows in the time of an estimate
		name = m.path + ".experts"
		gateUp, down = name+".gate_up_proj", name+".down_proj"
	}
	m.gateUp = b.parameter(gateUp, m.e.Count*2*m.e.FFN, b.a.Hidden)
	m.down = b.parameter(down, m.e.Count*b.a.Hidden, m.e.FFN)
	b.stacked(m.gateUp, m.e.Count)
	b.stacked(m.down, m.e.Count)
	b.expertAdapters(m, name)
}

// forward returns the experts' weighted sum. The router's logits go with the block.
func (m *groupedBlock) forward(t *step.Tape, x step.T) (y, _ step.T) {
	x = t.View(t.Hold(x)) // view(-1, hidden_dim)
	var shared step.T
	if m.e.SharedFFN > 0 {
		shared = m.shared.forward(t, m.a, x)
	}
	gate := m.gate.adapter.open(t)
	rows := t.View(t.Hold(x)) // reshape, which is a view even of what has that shape
	logits := m.gate.linear(t, gate, rows, step.LabelLinear)
	t.Drop(rows)
	weights, chosen := m.route(t, logits)
	gate.close(t)
	y = m.mix(t, x, weights, chosen)
	if m.e.SharedFFN > 0 {
		logit := m.sharedGate.forward(t, x)
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
func (m *groupedBlock) route(t *step.Tape, logits step.T) (weights, chosen step.T) {
	var probabilities step.T
	if m.e.WideWeights { // router_logits.float() goes in
		wide := t.Float(logits, step.LabelRouting)
		probabilities = t.Softmax(wide, step.LabelRouting)
		t.Drop(wide)
	} else {
		probabilities = t.SoftmaxFloat(logits, step.LabelRouting, step.LabelRouting)
	}
	top, chosen := t.TopK(probabilities, m.e.Count, m.e.TopK)
	if m.e.Normalise {
		sum := t.SumRowsKept(top, m.e.TopK)
		top = t.DivideInPlace(top, sum)
		t.Drop(sum)
	}
	defer t.Drop(probabilities)
	if m.e.WideWeights {
		return top, chosen
	}
	weights = t.Cast(top, logits.Dtype(), step.LabelRouting)
	t.Drop(top)
	return weights, chosen
}

// activate is _apply_gate. It takes over both.
func (m *groupedBlock) activate(t *step.Tape, both step.T) step.T {
	gate, up := t.Chunk2(both)
	t.Drop(both)
	act := activation(t, m.a.Activation, gate)
	product := t.Mul(act, up, false, step.LabelActivation)
	t.Drop(act, gate, up)
	return product
}

// mix is grouped_mm_experts_forward: the tokens, once for each expert that they chose, are sorted by expert.
// Source: transformers/integrations/moe.py (grouped_mm_experts_forward), 5.23.
func (m *groupedBlock) mix(t *step.Tape, x, weights, chosen step.T) step.T {
	d, rows := m.a.Hidden, chosen.Numel()
	down := m.downAdapter.open(t) // the wrapper of the second tensor is around that of the first
	gateUp := m.gateUpAdapter.open(t)
	sorted, order := t.Sort(rows)
	tokens := t.RoutingTensor(rows, step.I64)
	input := t.GatherRows(x, d, tokens)
	t.Drop(tokens)
	weight := t.GatherRows(weights, 1, order)
	narrow, counts := t.Counts(rows), t.Counts(m.e.Count)
	ends := t.CumulativeCounts(m.e.Count)
	filled := func(x step.T) step.T { return x }
	if t.Recipe.Software.FillsIdleRows {
		idle := t.RoutingTensor(rows, step.Bool)
		defer t.Drop(idle)
		filled = func(x step.T) step.T { return t.FillInPlace(x, idle) }
	}
	input = filled(input)

	var output, bias step.T
	if m.project == nil {
		product := m.activate(t, t.ExpertsProductOf(input, gateUp.parameter(t, m.gateUp), m.gateUp, m.e.Count, ends,
			step.LabelActivation))
		output = t.ExpertsProductOf(product, down.parameter(t, m.down), m.down, m.e.Count, ends, step.LabelExpertOutput)
		t.Drop(product)
	} else {
		output, bias = m.project(t, input, sorted, ends)
		defer t.Drop(bias)
	}
	weighted := filled(t.Mul(output, weight, true, step.LabelExpertOutput))

	places := t.RoutingTensor(rows, step.I64)
	t.Drop(t.RoutingTensor(rows, step.I64))
	back := t.GatherRows(weighted, d, places)
	t.Drop(weighted)
	sum := t.SumOfChosen(back, m.e.TopK, step.LabelExpertOutput)
	y := t.Cast(sum, x.Dtype(), step.LabelExpertOutput)
	t.Drop(sum, back, places, output, ends, counts, narrow, weight, input, order, sorted)
	gateUp.close(t)
	down.close(t)
	return y
}

// expertAdapters declares the adapters of the two tensors of all experts, below the module name.
func (b *builder) expertAdapters(m *groupedBlock, name string) {
	l := b.a.LoRA
	if l == nil {
		return
	}
	inner := name // the wrapper of the tensor that stands first is inside that of the second
	if l.fused.gateUp && l.fused.down {
		inner = name + ".base_layer"
	}
	if e := m.e; l.fused.gateUp { // two layers in one, each of the rank that the job gives
		m.gateUpAdapter = b.foldedAdapter(inner, m.gateUp, b.a.Hidden, 2*e.FFN, 2*l.Rank, e.Count)
	}
	if e := m.e; l.fused.down {
		m.downAdapter = b.foldedAdapter(name, m.down, e.FFN, b.a.Hidden, l.Rank, e.Count)
	}
}
