package step

// Pipelined is a strategy that gives a GPU some layers of the model, a stage or several, through which the
// micro-batches of an optimizer step go one by one. What is recorded then is the whole step, not one micro-batch.
type Pipelined interface {
	// Ends says whether the first of the GPU's stages has the embedding, and the last the head.
	Ends() (first, last bool)
	// MicroBatches is how many there are, and Turns what the GPU does with them, in order.
	MicroBatches() int64
	Turns() []Turn
	// HandsOver says that what the first of the GPU's stages returns is what the second receives, without a copy, and
	// the gradient the other way.
	HandsOver() bool
	// SendsEach says that what comes from another stage gets a tensor of its own each time, and that what a stage
	// returned goes as soon as it is sent: logits with their loss.
	SendsEach() bool
}

// Stages are what hooks do besides where micro-batches go through a stage.
type Stages interface {
	// BeforeStage goes before either way of a micro-batch through a stage. AfterStage follows the forward,
	// AfterMicroBatch the backward, and EndStage the last of these.
	BeforeStage(s Stage)
	AfterStage()
	AfterMicroBatch(s Stage)
	EndStage(s Stage)
}

// Turn is what a GPU does with one micro-batch in one of its stages, from 0.
type Turn struct {
	Chunk, Micro int64
	Way          Way
}

// Way is which way a micro-batch goes through a stage.
type Way uint8

// The ways: forward, backward, and a backward in two halves: one of what the stage received, one of its parameters.
const (
	Forward Way = iota
	Backward
	BackwardInput
	BackwardWeight
)

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
	// ends says of each node between the halves of a backward how long it is there (graphEnds).
	ends []int32
}

// running is a stage while a step is recorded.
type running struct {
	Stage
	received, gradients []T // buffers, by micro-batch; none where no other stage brings them
	flying              []inFlight
	done                int64 // micro-batches whose backward has run
	// behind and before are the GPU's other stage, where one hands over to the other.
	behind, before *running
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
	each     bool // Pipelined.SendsEach
	backward Stages
}

// pipelined records an optimizer step of a GPU's stages: buffers for what all micro-batches bring and for their
// gradients, made once; the turns; and behind the last stage the logits of all micro-batches put together, since the
// schedule returns them. These, and the gradients that go to the stage before, are there until the next step begins.
// Sources: torch/distributed/pipelining/stage.py (_prepare_forward_infra, forward_one_chunk, backward_one_chunk,
// clear_runtime_states), schedules.py (PipelineScheduleMulti._step_microbatches, _merge_outputs), torch 2.9.
func (t *Tape) pipelined(net Staged, p Pipelined) *Program {
	s := schedule{t: t, net: net, batch: net.Batch(t), count: p.MicroBatches(), output: T{storage: None},
		each: p.SendsEach()}
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
		into, out := p.HandsOver() && i == 1, p.HandsOver() && i == 0
		stages[i] = running{Stage: stage, received: t.buffers(net, s.count, !stage.First && !into && !s.each),
			gradients: t.buffers(net, s.count, !stage.Last && !out && !s.each), flying: make([]inFlight, s.count)}
		if s.each {
			stages[i].received, stages[i].gradients = make([]T, s.count), make([]T, s.count)
		}
		if into {
			stages[0].behind, stages[1].before = &stages[1], &stages[0]
			stages[1].received, stages[0].gradients = make([]T, s.count), make([]T, s.count)
		}
	}
	for range s.count { // events that free what the step before has left
		for _, stage := range stages {
			for _, leaves := range [...]bool{stage.Last, !stage.First && stage.before == nil} {
				if leaves && !s.each {
					s.until = append(s.until, int32(len(t.Prog.Events)))
					t.Prog.Events = append(t.Prog.Events, Event{0, FreePrev})
				}
			}
		}
	}
	for _, turn := range p.Turns() {
		stage := &stages[turn.Chunk]
		switch turn.Way {
		case Forward:
			s.runForward(stage, turn.Micro)
		case Backward:
			s.runBackward(stage, turn.Micro)
		case BackwardInput:
			s.runInputHalf(stage, turn.Micro)
		case BackwardWeight:
			s.runWeightHalf(stage, turn.Micro)
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
	if !stage.First && s.each {
		stage.received[micro] = s.sent()
	}
	if !stage.First {
		x = stage.received[micro]
		f.input = f.first
		t.nodes = append(t.nodes, node{layer: None, unit: -1, grad: [3]int32{None, None, None}})
		x.edge = edgeTo(f.input, 0)
		f.first++
	}
	if s.backward != nil {
		s.backward.BeforeStage(stage.Stage)
	}
	f.output = s.net.Run(t, stage.Stage, x)
	if s.backward != nil {
		s.backward.AfterStage()
	}
	if s.each {
		s.sendsOn(stage, f)
		return
	}
	if s.several {
		t.Drop(s.output)
		s.output = t.Hold(f.output)
	}
	if stage.behind != nil {
		stage.behind.received[micro] = s.handedOver(f.output)
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

// sent is a tensor of its own for what another stage sends.
func (s *schedule) sent() T {
	x := s.t.collective(s.t.Shape.N()*s.net.Width(), s.t.Recipe.Stored)
	s.t.Prog.Slots[s.t.storages[x.storage].slot].Label = LabelStageBuffer
	return x
}

// sendsOn lets go of what a stage has returned, and of the logits when their loss is there. Source:
// megatron/core/pipeline_parallel/schedules.py (deallocate_output_tensor, forward_step), Megatron-LM 0.14.
func (s *schedule) sendsOn(stage *running, f *inFlight) {
	t := s.t
	if stage.Last {
		targets := s.batch[1]
		targets.numel /= s.count
		f.loss = s.net.Loss(t, f.output, targets)
	}
	t.Drop(f.output)
	f.output.storage = None
	f.last = int32(len(t.nodes))
	t.cut()
}

func (s *schedule) runBackward(stage *running, micro int64) {
	t := s.t
	t.backward = true
	stage.done++
	s.stageBackward(stage, micro)
	s.returns(stage, micro)
	t.backward = false
}

// returns keeps the gradient of what the stage received, which goes to the stage before.
func (s *schedule) returns(stage *running, micro int64) {
	if stage.First {
		return
	}
	gradient := T{storage: s.t.nodes[stage.flying[micro].input].grad[0], edge: noEdge}
	if s.each {
		s.t.Drop(gradient)
		s.t.Drop(stage.received[micro])
		return
	}
	if stage.before != nil {
		stage.before.gradients[micro] = s.handedOver(gradient)
	} else {
		s.stays(gradient)
	}
	s.t.Drop(gradient)
}

// handedOver is x where another of the GPU's stages receives it: in the place of what it received in the step before.
func (s *schedule) handedOver(x T) T {
	x.edge = noEdge
	s.t.freePrevious(x)
	return s.t.Hold(x)
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
	if s.backward != nil {
		s.backward.BeforeStage(stage.Stage)
	}
	seed := s.seed(stage, micro)
	t.backwardRange(f.first, f.last)
	t.enter(-1)
	if s.backward != nil {
		s.backward.AfterMicroBatch(stage.Stage)
	}
	t.Drop(seed)
	s.endStage(stage)
	if stage.Last {
		t.Drop(f.loss)
	}
	t.Drop(f.output)
	t.cut()
}

// seed is the gradient that a backward begins with: of the loss, or what the stage behind has sent, which stays.
func (s *schedule) seed(stage *running, micro int64) T {
	t, f := s.t, &stage.flying[micro]
	if !stage.Last && s.each {
		gradient := s.sent()
		t.Hold(gradient)
		t.deliver(f.output.edge, gradient.storage)
		return gradient
	}
	if !stage.Last {
		t.Hold(stage.gradients[micro])
		t.deliver(f.output.edge, stage.gradients[micro].storage)
		return T{storage: None}
	}
	seed := t.fresh(1, f.loss.dtype, LabelLoss)
	t.Hold(seed)
	t.deliver(f.loss.edge, seed.storage)
	return seed
}

// endStage sums what has to be summed over GPUs, behind the last micro-batch.
func (s *schedule) endStage(stage *running) {
	if stage.done == s.count && s.backward != nil {
		s.backward.EndStage(stage.Stage)
	}
}
