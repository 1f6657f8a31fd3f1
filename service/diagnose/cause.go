package diagnose

import (
	"slices"
	"strconv"
	"strings"
)

// Certainty is how far a cause is told.
type Certainty string

// The degrees of certainty.
const (
	// Exact: the tensor or the holder is named, and nothing else fits.
	Exact Certainty = "exact"
	// OneOf: one of the candidates that are listed.
	OneOf Certainty = "one-of"
	// ClassOnly: the sort of cause is told, not the tensor.
	ClassOnly Certainty = "class-only"
	// Likely: nothing in the text proves it, and texts like it are nearly always so; the evidence says why.
	Likely Certainty = "likely"
	// Untold: the text does not say it.
	Untold Certainty = "unknown"
)

// Candidate is a tensor that may be what was asked for.
type Candidate struct {
	// What it is, and how its size comes about in the job's own numbers.
	What  string `json:"what"`
	How   string `json:"how,omitempty"`
	Bytes int64  `json:"bytes"`
	Class Class  `json:"class"`
	// Phase is where in the step, where it is known.
	Phase string `json:"phase,omitempty"`
	// Model is the model of the catalog that has a tensor of this size, where no job was given.
	Model string `json:"model,omitempty"`

	// models is how many models of the catalog have such a tensor, and last the one that was counted last.
	models int
	last   string
}

// Cause is what one failure is put down to.
type Cause struct {
	Class      Class       `json:"class"`
	Certainty  Certainty   `json:"certainty"`
	Summary    string      `json:"summary"`
	Accounting *Accounting `json:"accounting,omitempty"`
	Candidates []Candidate `json:"candidates,omitempty"`
	// Evidence is what the cause is read off, with lines of the text.
	Evidence []string `json:"evidence,omitempty"`
	// Notes is what else the reader should know.
	Notes []string `json:"notes,omitempty"`
	// Actions help, the likeliest first; Useless looks like a help and is none.
	Actions []Advice `json:"actions,omitempty"`
	Useless []Advice `json:"will_not_help,omitempty"`
}

// Job is what is known of the job that failed, from its replay. The zero value knows nothing.
type Job struct {
	// Known says that there is a job.
	Known bool
	// FloorBytes is what it holds however small its micro-batch is, AllocatedBytes the most that it allocates.
	FloorBytes, AllocatedBytes int64
	// WeightsBytes is its weights alone.
	WeightsBytes int64
	// Played says that the job was played within what the message says the card leaves it, and FailsAtBytes is the
	// first request that could not be served then; 0 where the job gets through.
	Played       bool
	FailsAtBytes int64
	// Tensors are those that it asks for in one piece.
	Tensors []Candidate
}

// cause puts one failure down to something.
func (m *Message) cause(all []line, job *Job, models []Candidate) Cause {
	a := m.accounting()
	c := Cause{Class: ClassUnknown, Certainty: Untold}
	if a.TotalBytes != nil {
		c.Accounting = &a
	}
	clue := strongest(clues(all, m.Line))
	compiled := compiledRequest(all, m.Line)
	window, sized := m.Requests()
	if sized {
		c.Candidates = fitting(job.Tensors, window)
	}

	class, why := m.byAccounting(a)
	switch {
	case class == ClassLimit && m.Backend == "mps" && generates(clue, job, all):
		c.settle(ClassInference, Likely, "an Apple GPU, and no word of the text is about training: what "+
			"is left of such "+
			"runs is nearly always a picture or a text that is generated")
		c.Evidence = append(c.Evidence, why)
	case class != "":
		c.settle(class, m.certainty(class), why)
	case m.Kind != KindAllocator:
		m.outside(&c, clue, all)
	case compiled != nil:
		c.byCompiled(compiled)
	case clue != nil:
		c.byClue(clue)
	case m.loading(a, job):
		c.settle(ClassWeightsLoad, Exact, formatBytes(*a.AllocatedBytes)+" are allocated, and the weights alone take "+
			formatBytes(job.WeightsBytes)+": nothing is trained yet")
	case len(c.Candidates) > 0:
		c.byCandidates()
	case sized && m.flat(a):
		c.settle(ClassWeightsFlat, ClassOnly, "as much is asked for in one piece as is allocated already ("+
			formatBytes(*m.RequestedBytes)+"): a copy of everything")
	case sized && a.TotalBytes != nil && *m.RequestedBytes > *a.TotalBytes/10*9:
		m.huge(&c, a)
	case sized && !job.Known:
		m.bySize(&c, within(models, window))
	}
	m.floor(&c, a, job)
	c.leak(all, m.Line)
	m.remark(&c, a, job, all)
	c.advise()
	m.apple(&c)
	return c
}

// apple says what the limit of an Apple GPU is: its memory is that of the machine, and the messages of training and of
// generating are alike.
func (m *Message) apple(c *Cause) {
	if m.Backend != "mps" || c.Class != ClassLimit && c.Class != ClassInference {
		return
	}
	limit := Advice{"mps-limit", "Close what else takes the machine's memory, or raise the limit with " +
		"PYTORCH_MPS_HIGH_WATERMARK_RATIO, as far as the machine has memory to lend."}
	if c.Class == ClassInference {
		c.Actions = append(slices.Clone(c.Actions), limit)
		c.Notes = append(c.Notes, "What failed is the limit that PyTorch keeps on an Apple GPU (MPS), whose memory is "+
			"the machine's. If it was training, give the job or the traceback.")
		return
	}
	c.Summary = "the limit that PyTorch keeps on an Apple GPU (MPS), whose memory is the machine's"
	c.Actions = []Advice{
		limit,
		{"smaller", "Take a smaller model type, fewer or shorter sequences or a smaller picture at once."}}
	c.Notes = append(c.Notes, "Whether it trained or generated, this message does not say.")
}

func (c *Cause) settle(class Class, how Certainty, why string) {
	c.Class, c.Certainty = class, how
	c.Evidence = append(c.Evidence, why)
}

// byClue takes the class of a line, and of the candidates those that agree with it.
func (c *Cause) byClue(k *clue) {
	c.settle(k.sign.class, ClassOnly, "line "+itoa(int64(k.line))+" "+k.sign.what+": "+k.text)
	var agree []Candidate
	for _, t := range c.Candidates {
		if t.Class == k.sign.class || akin(t.Class, k.sign.class) {
			agree = append(agree, t)
		}
	}
	switch {
	case len(agree) > 0:
		c.Candidates = agree
		c.Certainty = OneOf
		if len(agree) == 1 && agree[0].Class == k.sign.class {
			c.Certainty = Exact
		}
	case len(c.Candidates) > 0 && k.sign.class == ClassAttentionScores && attentionCall.MatchString(k.text):
		// which kernel ran the line does not say, and no scores of the job have this size
		c.byCandidates()
	}
}

// byCompiled takes what a line of a compiled graph allocates: its shape stands there.
func (c *Cause) byCompiled(k *compiledLine) {
	c.settle(k.class, Likely, "line "+itoa(int64(k.line))+" allocates "+k.shape+", "+formatBytes(k.bytes)+
		", in a graph that torch.compile made: "+k.text)
	var agree []Candidate
	for _, t := range c.Candidates {
		if t.Bytes == k.bytes {
			agree = append(agree, t)
		}
	}
	if len(agree) > 0 {
		c.Candidates = agree
		c.byCandidates()
	}
}

// akin says whether a tensor of class t is what a line of class k works on.
func akin(t, k Class) bool {
	switch k {
	case ClassOptimizerTemporary:
		// a temporary is as large as the state that it is of
		return t == ClassOptimizerTemporary || t == ClassOptimizerState
	case ClassOptimizerState:
		return t == ClassOptimizerState || t == ClassOptimizerTemporary || t == ClassWeightsLoad || t == ClassGradients
	case ClassWeightsLoad, ClassResume:
		return t == ClassWeightsLoad
	}
	return false
}

// byCandidates takes the class of the tensors of the job that have the size.
func (c *Cause) byCandidates() {
	class := c.Candidates[0].Class
	for _, t := range c.Candidates[1:] {
		if t.Class != class {
			c.settle(class, OneOf, "several tensors of the job have the size that was asked for")
			return
		}
	}
	if len(c.Candidates) == 1 {
		c.settle(class, Exact, "one tensor of the job has the size that was asked for")
		return
	}
	c.settle(class, OneOf, "tensors of the job have the size that was asked for, all of one sort")
}

// loading says whether no more is allocated than the job's weights, so that it still loads them.
func (m *Message) loading(a Accounting, job *Job) bool {
	return job.WeightsBytes > 0 && a.AllocatedBytes != nil && *a.AllocatedBytes >= gib &&
		*a.AllocatedBytes < job.WeightsBytes && a.TotalBytes != nil
}

// outside is a failure outside the allocator: its message has no sizes.
func (m *Message) outside(c *Cause, k *clue, all []line) {
	const none = "the message has no sizes: it does not come from PyTorch's allocator, and what failed " +
		"is outside PyTorch"
	switch m.Kind {
	case KindNCCL:
		c.settle(ClassNCCL, ClassOnly, "NCCL asked the driver itself, outside PyTorch's allocator; the "+
			"message has no sizes")
	case KindHost:
		c.settle(ClassHost, ClassOnly, "the machine ran out of memory, not the card")
	case KindServing:
		c.settle(ClassInference, ClassOnly, "vLLM found no room for its cache of keys and values beside "+
			"the weights and "+
			"what others hold of the card")
		c.Notes = append(c.Notes, "Beside a trainer on the same card its share is "+
			"gpu_memory_utilization: what it takes, "+
			"training does not have.")
	case KindKernel:
		c.settle(ClassKernel, ClassOnly, "the message speaks of what a kernel takes inside a multiprocessor")
	case KindFault:
		c.settle(ClassNone, ClassOnly, "an address or an index out of range, not a shortage of memory: run once with "+
			"CUDA_LAUNCH_BLOCKING=1 to see where, and look for ids beyond the vocabulary or the positions")
	case KindCUBLAS:
		if inRun(all, m.Line) {
			c.settle(ClassContext, ClassOnly, "cublas or cudnn asked for a handle or a workspace in the middle of a "+
				"run: the card was full; "+none)
			return
		}
		c.Class, c.Certainty = ClassUnknown, Untold
		c.Evidence = append(c.Evidence, "cublas or cudnn could not make its handle; "+none)
		c.Notes = append(c.Notes, "This is not only memory: a build of PyTorch for another CUDA, or an index out of "+
			"range in a kernel before, fail in the same words. Look at nvidia-smi, and run once with "+
			"CUDA_LAUNCH_BLOCKING=1.")
	case KindCUDA:
		switch {
		case k != nil && k.sign.class == ClassContext || k == nil && strings.Contains(m.Text, "Random"):
			c.settle(ClassContext, ClassOnly, none)
		case k != nil:
			c.settle(k.sign.class, ClassOnly, "line "+itoa(int64(k.line))+" "+k.sign.what+"; "+none)
		default:
			c.Class, c.Certainty = ClassUnknown, Untold
			c.Evidence = append(c.Evidence, none)
		}
	default:
		if k != nil {
			c.byClue(k)
		}
	}
}

// remark adds what else can be read off.
func (m *Message) remark(c *Cause, a Accounting, job *Job, all []line) {
	if a.SharesHostMemory {
		c.Notes = append(c.Notes, "More is allocated than the card has: Windows lends memory of the "+
			"machine, which is slow.")
	}
	if full := m.fullCard(a); full != "" {
		c.Notes = append(c.Notes, full)
	}
	if m.Kind == KindAllocator && m.RequestedBytes == nil {
		c.Notes = append(c.Notes,
			"The message is cut off: no sizes are left of it. Paste it whole, with the traceback.")
	}
	if a.UnallocatedBytes != nil && a.AllocatedBytes != nil && c.Class != ClassFragmentation &&
		*a.UnallocatedBytes*20 < *a.AllocatedBytes {
		c.Notes = append(c.Notes, "It is not fragmentation: "+formatBytes(*a.UnallocatedBytes)+
			" are reserved and unallocated.")
	}
	if job.Known && a.AllocatedBytes != nil && job.AllocatedBytes > 0 &&
		float64(*a.AllocatedBytes) > 1.1*float64(job.AllocatedBytes) &&
		(c.Class == ClassUnknown || c.Certainty == OneOf) {
		c.Notes = append(c.Notes, "This job allocates at most "+formatBytes(job.AllocatedBytes)+", and "+
			formatBytes(*a.AllocatedBytes)+
			" were: something is kept from one step to the next, or the run is not this job.")
		if c.Class == ClassUnknown {
			c.Class, c.Certainty = ClassHeld, ClassOnly
		}
	}
	if c.Class == ClassUnknown && inBackward(all, m.Line) {
		c.Notes = append(c.Notes, "It failed in backward, whose largest requests are the gradients of the logits and "+
			"of the layers' activations.")
	}
	window, sized := m.Requests()
	switch {
	case !job.Played || !sized:
	case job.FailsAtBytes == 0:
		c.Notes = append(c.Notes, "Replayed within what the message says the card leaves it, the job gets through: "+
			"the run holds more than this job, or its software is not that of the replay.")
	case window.Contains(job.FailsAtBytes):
		c.Evidence = append(c.Evidence, "replayed within what the card leaves it, the job fails at a request "+
			"of that size too")
	}
	if job.FloorBytes > 0 {
		c.Notes = append(c.Notes, "The floor of the job, with the smallest batch: "+formatBytes(job.FloorBytes)+
			" allocated.")
	}
	if m.NoFigure {
		c.Notes = append(c.Notes, "What it prints for this process or its limit is no figure: it stands for a value "+
			"that nobody knows.")
	}
	for _, p := range m.Processes {
		if p.ThisProcess {
			c.Notes = append(c.Notes, "Process "+itoa(int64(p.PID))+
				" is this process: it holds what PyTorch allocated and a context. A container does not "+
				"see its own number.")
		}
	}
}

// advise adds what helps and what does not.
func (c *Cause) advise() {
	of := accounts[c.Class]
	c.Actions, c.Useless = of.helps, of.useless
	c.Summary = of.what
	if len(c.Candidates) > 0 && (c.Certainty == Exact || c.Certainty == OneOf) && c.Candidates[0].Class == c.Class {
		c.Summary = c.Candidates[0].What
		if c.Candidates[0].How != "" {
			c.Summary += " (" + c.Candidates[0].How + ")"
		}
	}
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
