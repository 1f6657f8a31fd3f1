package step

// Pipelined is a strategy that gives a GPU some layers of the model, a stage or several, through which the
// micro-batches of an optimizer step go one by one. What is recorded then is the whole step, not one micro-batch.
type Pipelined interface {
	// Ends says whether the first of the GPU's stages has the embedding, and the last the head.
	Ends() (first, last bool)
	// MicroBatches is how many there are, and Turns what the GPU does with them, in order.
	MicroBatches() int64
	Turns() []Turn
}

// Stages are what hooks do besides where micro-batches go through a stage.
type Stages interface {
	// AfterStage follows the forward of a micro-batch, AfterMicroBatch its backward, and EndStage the last of these.
	AfterStage()
	AfterMicroBatch()
	EndStage(s Stage)
}

// Turn is the forward or the backward of one micro-batch in one of the GPU's stages, from 0.
type Turn struct {
	Chunk, Micro int64
	Backward     bool
}

// Stage is one of a GPU's: the layers [From, To) of those that it has, and the model's ends.
type Stage struct {
	From, To    int
	First, Last bool
}

// Staged is a network that can be run stage by stage.
type Staged interface {
	Network
	// Stages are those of the GPU, in the order of the model.
	Stages() []Stage
	// Run is the forward of one of them on x, which it borrows: ids in the first stage, what the stage before returned
	// in others. It returns the logits in the last.
	Run(t *Tape, s Stage, x T) T
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

// running is a stage while a step is recorded.
type running struct {
	Stage
	received, gradients []T // buffers, by micro-batch; none where no other stage brings them
	flying              []inFlight
	done                int64 // micro-batches whose backward has run
}

// schedule is an optimizer step of a GPU's stages while it is recorded.
type schedule struct {
	t      *Tape
	net    Staged
	batch  []T
	count  int64 // of micro-batches
	logits int64 // the bytes of all of them
	until  []int32
	// output is what the loop over the turns still has of the last forward, where a GPU has several stages.
	output   T
	several  bool
	backward Stages
}

// pipelined records an optimizer step of a GPU's stages: buffers for what all micro-batches bring and for their
// gradients, made once; the turns; and behind the last stage the logits of all micro-batches put together, since the
// schedule returns them. These, and the gradients that go to the stage before, are there until the next step begins.
// Sources: torch/distributed/pipelining/stage.py (_prepare_forward_infra, forward_one_chunk, backward_one_chunk,
// clear_runtime_states), schedules.py (PipelineScheduleMulti._step_microbatches, _merge_outputs), torch 2.9.
func (t *Tape) pipelined(net Staged, p Pipelined) *Program {
	s := schedule{t: t, net: net, batch: net.Batch(t), count: p.MicroBatches(), output: T{storage: None}}
	t.Prog.Prologue = len(t.Prog.Events)
	t.segStart = t.Prog.Prologue
	firstSlot := int32(len(t.Prog.Slots) - len(s.batch))
	for _, x := range s.batch {
		t.storages[x.storage].previous = true
	}
	t.eachUse = true
	s.backward, _ = hooksAs[Stages](t.hooks)
	stages := make([]running, len(net.Stages()))
	s.several = len(stages) > 1
	for i, stage := range net.Stages() {
		stages[i] = running{Stage: stage, received: t.buffers(net, s.count, !stage.First),
			gradients: t.buffers(net, s.count, !stage.Last), flying: make([]inFlight, s.count)}
	}
	for range s.count { // events that free what the step before has left
		for _, stage := range stages {
			for _, leaves := range [...]bool{stage.Last, !stage.First} {
				if leaves {
					s.until = append(s.until, int32(len(t.Prog.Events)))
					t.Prog.Events = append(t.Prog.Events, Event{0, FreePrev})
				}
			}
		}
	}
	for _, turn := range p.Turns() {
		if turn.Backward {
			s.runBackward(&stages[turn.Chunk], turn.Micro)
		} else {
			s.runForward(&stages[turn.Chunk], turn.Micro)
		}
	}
	t.Drop(s.output)
	if s.logits > 0 {
		t.Release(t.Alloc(s.logits, LogitsAndLoss, LabelMergedLogits))
	}
	t.backward = true
	t.fetch(firstSlot, len(s.batch))
	for _, x := range s.batch {
		t.Drop(x)
	}
	t.cut()
	t.backward = false
	return t.Prog
}

// stays says that x is there until the next step begins.
func (s *schedule) stays(x T) {
	s.t.Prog.Events[s.until[0]].Slot = s.t.storages[x.storage].slot
	s.until = s.until[1:]
	s.t.Hold(x)
}

func (s *schedule) runForward(stage *running, micro int64) {
	t, f := s.t, &stage.flying[micro]
	t.layersRun = int64(stage.From)
	f.first, f.input = int32(len(t.nodes)), None
	x := s.batch[0]
	x.numel /= s.count
	if !stage.First {
		x = stage.received[micro]
		f.input = f.first
		t.nodes = append(t.nodes, node{layer: None, unit: -1, grad: [3]int32{None, None, None}})
		x.edge = edgeTo(f.input, 0)
		f.first++
	}
	f.output = s.net.Run(t, stage.Stage, x)
	if s.backward != nil {
		s.backward.AfterStage()
	}
	if s.several {
		t.Drop(s.output)
		s.output = t.Hold(f.output)
	}
	if stage.Last {
		s.logits += f.output.bytes()
		s.stays(f.output)
		targets := s.batch[1]
		targets.numel /= s.count
		f.loss = s.net.Loss(t, f.output, targets)
	}
	f.last = int32(len(t.nodes))
	t.cut()
}

func (s *schedule) runBackward(stage *running, micro int64) {
	t, f := s.t, &stage.flying[micro]
	t.backward = true
	stage.done++
	s.stageBackward(stage, micro)
	if !stage.First {
		s.stays(T{storage: t.nodes[f.input].grad[0]})
		t.Release(t.nodes[f.input].grad[0])
	}
	t.backward = false
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
func (s *schedule) stageBackward(stage *running, micro int64) {
	t, f := s.t, &stage.flying[micro]
	seed := T{storage: None}
	if stage.Last {
		seed = t.fresh(1, f.loss.dtype, LabelLoss)
		t.Hold(seed)
		t.deliver(f.loss.edge, seed.storage)
	} else {
		t.Hold(stage.gradients[micro])
		t.deliver(f.output.edge, stage.gradients[micro].storage)
	}
	t.backwardRange(f.first, f.last)
	t.enter(-1)
	if s.backward != nil {
		s.backward.AfterMicroBatch()
	}
	t.Drop(seed)
	if stage.done == s.count {
		if s.backward != nil {
			s.backward.EndStage(stage.Stage)
		}
	}
	if stage.Last {
		t.Drop(f.loss)
	}
	t.Drop(f.output)
	t.cut()
}
