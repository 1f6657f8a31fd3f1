package step

// Objective is what a trainer makes of a model in a micro-step, where that is more than the model's forward with the
// loss that it returns: several passes, models that stand beside, a loss that the trainer computes of the logits. Like
// a [Strategy] it is a comparable value that knows no state: jobs of equal recipes are replayed alike.
type Objective interface {
	// Batch allocates one micro-batch on the GPU.
	Batch(t *Tape) []T
	// Forward runs the passes on a batch, which it borrows, and returns the loss. It lets go of everything that the
	// trainer's functions let go of before backward.
	Forward(t *Tape, net Network, batch []T) T
}

// Prepares is an objective with work before the micro-steps of an optimizer step, such as writing completions.
type Prepares interface {
	// Between records it.
	Between(t *Tape, net Network)
}

// Evaluable is an objective that its trainer runs on batches of an evaluation as well: the passes and the loss of a
// training step, in evaluation mode and without a graph.
type Evaluable interface {
	Objective
	// Evaluating is the objective on batches of so many of what a micro-batch counts.
	Evaluating(microBatch int64) Objective
}

// RecordBetween records what an objective does before the micro-steps of an optimizer step, and, where it is not nil,
// the same and the loss on a batch of an evaluation.
func (t *Tape) RecordBetween(net Network, o, evaluated Prepares) *Program {
	for i := range t.spaces[0] { // training has been there
		t.spaces[0][i] = true
	}
	o.Between(t, net)
	if e, ok := evaluated.(Objective); ok {
		t.noGrad = true
		t.Runs(Running{Evaluating: true, WithoutGraph: true, Caches: t.Recipe.UseCache, Stored: t.Recipe.Stored,
			Compute: t.Recipe.Compute, Autocast: t.Recipe.Autocast})
		evaluated.Between(t, net)
		t.As(PassEvaluation, func() { t.evaluates(net, e) })
	}
	if e, ok := hooksAs[Evaluates](t.hooks); ok {
		e.EndEvaluation()
	}
	t.cut()
	return t.Prog
}

// evaluates is one batch of an evaluation as a trainer passes it.
func (t *Tape) evaluates(net Network, o Objective) {
	batch := o.Batch(t)
	loss := o.Forward(t, net, batch)
	t.Drop(loss)
	t.Drop(batch...)
}

// PassKind is what a stretch of a micro-step is for.
type PassKind uint8

// The kinds of passes: those of the model that is trained, a forward without a graph that others are measured by, the
// writing of completions, and a batch of an evaluation.
const (
	PassTraining PassKind = iota
	PassReference
	PassGeneration
	PassEvaluation
)

// Pass is how a trainer calls a model.
type Pass struct {
	// Shape is the size of the batch that is passed.
	Shape Shape
	// WithoutGraph runs under torch.no_grad, and Evaluating a model in evaluation mode.
	WithoutGraph, Evaluating bool
	// Labelled hands the labels to the model, which returns its loss.
	Labelled bool
	// Caches lets the model fill a key/value cache, which it returns.
	Caches bool
	// AdaptersOff disables the adapters.
	AdaptersOff bool
	// HiddenStates returns the residual stream before each layer, and what the last norm makes of it.
	HiddenStates bool
	// Head runs in place of the head on the last hidden states, which it borrows; the logits of the output are what it
	// returns.
	Head func(t *Tape, hidden T, w, b Weight) T
	// Embeds asks for the model without a head: it returns its last hidden states, and no loss.
	Embeds bool
	// After runs on what the model returned, which it takes over, before autocast is left.
	After func(t *Tape, outputs []T) []T
	// Beside runs another model of the same shape that stands beside the trained one.
	Beside bool
	// Unwrapped runs the model as it is, and not as accelerate wraps it: without autocast, and what comes out stays.
	Unwrapped bool
	// LastTokens asks for the logits of so many tokens at the end of each sequence; 0 is all.
	LastTokens int64
}

// Running is what of the recipe is a pass's own.
type Running struct {
	Evaluating, WithoutGraph, Caches bool
	Stored, Compute                  DType
	Autocast                         bool
}

// Runs changes the recipe to that of a pass, until who began it puts the former one back.
func (t *Tape) Runs(r Running) {
	t.Recipe.Evaluation, t.Recipe.UseCache = r.Evaluating, r.Caches
	t.Recipe.Stored, t.Recipe.Compute, t.Recipe.Autocast = r.Stored, r.Compute, r.Autocast
	if r.WithoutGraph { // a checkpointed layer without a graph is a layer
		t.Recipe.CheckpointEvery = 0
	}
}

// passing is the pass that runs.
type passing struct {
	Pass
	runs   bool
	hidden []T
}

// Output is what a model returned through accelerate's wrapper.
type Output struct {
	Loss, Logits T
	rest         []T
}

// Run calls net on a batch as accelerate wraps it: under autocast, what comes out made float32. The loss is none where
// the pass is not labelled. Sources: accelerate/accelerator.py (prepare_model), utils/operations.py (convert_to_fp32),
// 1.15.
func (t *Tape) Run(net Network, batch []T, p Pass) Output {
	recipe, shape, noGrad, layers := t.Recipe, t.Shape, t.noGrad, t.layersRun
	p.WithoutGraph, p.Evaluating = p.WithoutGraph || noGrad, p.Evaluating || recipe.Evaluation
	t.Shape, t.noGrad, t.layersRun = p.Shape, p.WithoutGraph, 0
	runs := Running{Evaluating: p.Evaluating, WithoutGraph: p.WithoutGraph, Caches: p.Caches, Stored: recipe.Stored,
		Compute: recipe.Compute, Autocast: recipe.Autocast}
	if c, beside := net.(Companion); beside {
		runs.Stored = c.Stored
	} else if p.WithoutGraph && t.Another != nil {
		net = t.Another()
	}
	if _, deals := recipe.Spread().(Deals); deals && p.Beside { // trl wraps it, and not accelerate
		p.Unwrapped = true
	}
	if p.Unwrapped {
		runs.Autocast, runs.Compute = false, runs.Stored
	}
	t.Runs(runs)
	t.pass = passing{Pass: p, runs: true}
	t.beginPass(net, p)
	seen := t.hooks.BeforeForward(batch)
	t.EnterAutocast()
	loss, outputs := net.Forward(t, seen)
	if p.After != nil {
		outputs = p.After(t, outputs)
	}
	loss = t.hooks.AfterForward(loss, outputs)
	t.Drop(seen...)
	t.ExitAutocast()
	if h, ok := hooksAs[Passes](t.hooks); ok {
		h.EndPass()
	}
	hidden := t.pass.hidden
	t.pass = passing{}
	if t.Recipe.Autocast {
		loss, hidden = t.floatAll(loss, outputs, hidden)
	}
	t.Recipe, t.Shape, t.noGrad, t.layersRun = recipe, shape, noGrad, layers
	if !p.Labelled {
		loss = NoTensor
	}
	return Output{Loss: loss, Logits: outputs[0], rest: append(outputs[1:], hidden...)}
}

// beginPass tells hooks whose model runs.
func (t *Tape) beginPass(net Network, p Pass) {
	h, ok := hooksAs[Passes](t.hooks)
	if !ok {
		return
	}
	if c, is := net.(Companion); is {
		h.BeginPass(true, c.First, c.Parameters)
		return
	}
	h.BeginPass(p.Beside, 0, t.Parameters)
}

// Generating runs f while completions are written by the model as it is within what wraps it.
func (t *Tape) Generating(f func()) {
	t.As(PassGeneration, func() {
		h, ok := hooksAs[Generates](t.hooks)
		if !ok {
			f()
			return
		}
		h.BeginGeneration()
		f()
		h.EndGeneration()
	})
}

// Embeds says that the pass that runs asks for hidden states alone.
func (t *Tape) Embeds() bool { return t.pass.Embeds }

// AdaptersOff says that the adapters are disabled in the pass that runs.
func (t *Tape) AdaptersOff() bool { return t.pass.AdaptersOff }

// turnTo ends a stretch of one kind and begins one of another.
func (t *Tape) turnTo(kind PassKind) {
	if t.kind != kind {
		t.cut()
		t.kind = kind
	}
}

// As runs f as a stretch of another kind.
func (t *Tape) As(kind PassKind, f func()) {
	old := t.kind
	t.turnTo(kind)
	f()
	t.turnTo(old)
}

// DropOutput says that the output goes out of scope; the loss, which is a variable of its own, stays.
func (t *Tape) DropOutput(o Output) {
	t.Drop(o.Logits)
	t.Drop(o.rest...)
}

// capture keeps the residual stream before a layer for those who asked for all hidden states.
// Source: transformers/utils/generic.py (check_model_inputs), 4.57.
func (t *Tape) captureHidden(x T) {
	if t.pass.HiddenStates {
		t.pass.hidden = append(t.pass.hidden, t.Hold(x))
	}
}

// floatAll makes float32 copies of what a model returned; the originals go when all are made.
func (t *Tape) floatAll(loss T, outputs, hidden []T) (T, []T) {
	former := append([]T(nil), outputs...)
	for _, x := range former {
		t.Hold(x)
	}
	loss = t.floatOutputs(loss, outputs)
	wide := t.floatHidden(hidden)
	t.Drop(former...)
	t.Drop(hidden...)
	return loss, wide
}

// floatHidden makes float32 copies of half-precision hidden states. A copy counts as its original does: once for every
// layer that it stands for.
func (t *Tape) floatHidden(hidden []T) []T {
	wide := make([]T, len(hidden))
	for i, x := range hidden {
		if x.dtype == F32 {
			wide[i] = t.Hold(x)
			continue
		}
		wide[i] = t.fresh(x.numel, F32, LabelCast)
		if from, to := t.storages[x.storage].slot, t.storages[wide[i].storage].slot; from != None && to != None {
			t.Prog.Slots[to].Unit = t.Prog.Slots[from].Unit
		}
	}
	return wide
}

// lastTokens is hidden[:, -n:, :], which a product copies: it has no rows that follow each other.
func (t *Tape) lastTokens(x T, n int64) T {
	tokens := t.Shape.Tokens
	if n <= 0 || n >= tokens {
		return t.Hold(x)
	}
	part := t.Hold(x)
	part.numel = x.numel / tokens * n
	part = t.op(x).alloc(0, x.bytes(), LabelInputGradient).send(0, 0).out(part, 0)
	if t.autocast && x.dtype != t.Recipe.Compute { // which lays the rows side by side
		return part
	}
	y := t.fresh(part.numel, part.dtype, LabelContiguous)
	y = t.op(part).pass(0, 0).out(y, 0)
	t.Drop(part)
	return y
}
