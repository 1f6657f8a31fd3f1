package step

// Pipelined is a strategy that gives a GPU some layers of the model, a stage, through which the micro-batches of an
// optimizer step go one by one. What is recorded then is the whole step, not one micro-batch.
type Pipelined interface {
	// Ends says whether the stage has the first and the last layer.
	Ends() (first, last bool)
	// MicroBatches is how many there are, and Turns what the stage does with them, in order.
	MicroBatches() int64
	Turns() []Turn
}

// Stages are what hooks do besides where micro-batches go through a stage.
type Stages interface {
	// AfterStage follows the forward of a micro-batch, AfterMicroBatch its backward. EndBackward follows the last.
	AfterStage()
	AfterMicroBatch()
}

// Turn is the forward or the backward of one micro-batch.
type Turn struct {
	Micro    int64
	Backward bool
}

// Staged is a network that can be run stage by stage.
type Staged interface {
	Network
	// Run is the forward of what the GPU has of the model on x, which it borrows: ids in the first stage, what the
	// stage before returned in others. It returns the logits in the last.
	Run(t *Tape, x T) T
	// Loss is the loss of logits, which it borrows.
	Loss(t *Tape, logits, targets T) T
	// Width is how many elements a token has between stages.
	Width() int64
}

// MicroBatches is how many micro-batches a batch on the GPU is of.
func (t *Tape) MicroBatches() int64 {
	if p, ok := t.Recipe.Spread().(Pipelined); ok {
		return p.MicroBatches()
	}
	return 1
}

// inFlight is a micro-batch between its forward and its backward.
type inFlight struct {
	first, last int32 // its nodes
	input       int32 // the node that collects the gradient of what the stage received
	output      T
	loss        T
}

// pipelined records an optimizer step of a stage: buffers for what all micro-batches bring and for their gradients,
// made once; the turns; and on the last stage the logits of all micro-batches put together, since the schedule returns
// them. These, and the gradients that go to the stage before, are there until the next step begins. Sources:
// torch/distributed/pipelining/stage.py (_prepare_forward_infra, forward_one_chunk, backward_one_chunk,
// clear_runtime_states), schedules.py (_merge_outputs), torch 2.9.
func (t *Tape) pipelined(net Staged, p Pipelined) *Program {
	first, last := p.Ends()
	count := p.MicroBatches()
	batch := net.Batch(t)
	t.Prog.Prologue = len(t.Prog.Events)
	t.segStart = t.Prog.Prologue
	firstSlot := int32(len(t.Prog.Slots) - len(batch))
	for _, x := range batch {
		t.storages[x.storage].previous = true
	}
	t.eachUse = true
	received, gradients := t.buffers(net, count, !first), t.buffers(net, count, !last)
	var until []int32 // events that free what the step before has left
	for range count {
		for _, leaves := range [...]bool{last, !first} {
			if leaves {
				until = append(until, int32(len(t.Prog.Events)))
				t.Prog.Events = append(t.Prog.Events, Event{0, FreePrev})
			}
		}
	}
	stages, staged := hooksAs[Stages](t.hooks)
	stays := func(x T) { // x is there until the next step begins
		t.Prog.Events[until[0]].Slot = t.storages[x.storage].slot
		until = until[1:]
		t.Hold(x)
	}

	flying := make([]inFlight, count)
	logits, done := int64(0), int64(0)
	for _, turn := range p.Turns() {
		f := &flying[turn.Micro]
		if turn.Backward {
			t.backward = true
			done++
			t.stageBackward(f, gradients, turn.Micro, done == count)
			if !first {
				stays(T{storage: t.nodes[f.input].grad[0]})
				t.Release(t.nodes[f.input].grad[0])
			}
			t.backward = false
			continue
		}
		t.layersRun = 0
		f.first, f.input = int32(len(t.nodes)), None
		x := batch[0]
		x.numel /= count
		if !first {
			x = received[turn.Micro]
			f.input = f.first
			t.nodes = append(t.nodes, node{layer: None, unit: -1, grad: [3]int32{None, None, None}})
			x.edge = edgeTo(f.input, 0)
			f.first++
		}
		f.output = net.Run(t, x)
		if staged {
			stages.AfterStage()
		}
		if last {
			logits += f.output.bytes()
			stays(f.output)
			targets := batch[1]
			targets.numel /= count
			f.loss = net.Loss(t, f.output, targets)
		}
		f.last = int32(len(t.nodes))
		t.cut()
	}
	if last {
		t.Release(t.Alloc(logits, LogitsAndLoss, LabelMergedLogits))
	}
	t.backward = true
	t.fetch(firstSlot, len(batch))
	for _, x := range batch {
		t.Drop(x)
	}
	t.cut()
	t.backward = false
	return t.Prog
}

// buffers are what count micro-batches come in, where they come from another stage. They are made once.
func (t *Tape) buffers(net Staged, count int64, wanted bool) []T {
	if !wanted {
		return nil
	}
	d := t.Recipe.Stored
	all := make([]T, count)
	for i := range all {
		numel := t.Shape.N() * net.Width()
		t.storages = append(t.storages,
			storage{refs: 1, slot: t.slot(AllocOnce, numel*d.Size(), Communication, LabelStageBuffer)})
		all[i] = T{storage: int32(len(t.storages) - 1), edge: noEdge, form: plain(d), numel: numel}
	}
	return all
}

// stageBackward is the backward of one micro-batch, of its loss or from the gradient of what the stage returned.
// The last one sums what has to be summed over GPUs.
func (t *Tape) stageBackward(f *inFlight, gradients []T, micro int64, last bool) {
	seed := T{storage: None}
	if gradients == nil {
		seed = t.fresh(1, f.loss.dtype, LabelLoss)
		t.Hold(seed)
		t.deliver(f.loss.edge, seed.storage)
	} else {
		t.Hold(gradients[micro])
		t.deliver(f.output.edge, gradients[micro].storage)
	}
	t.backwardRange(f.first, f.last)
	t.enter(-1)
	if h, ok := hooksAs[Stages](t.hooks); ok {
		h.AfterMicroBatch()
	}
	t.Drop(seed)
	if last {
		t.hooks.EndBackward()
	}
	if gradients == nil {
		t.Drop(f.loss)
	}
	t.Drop(f.output)
	t.cut()
}
