package step

import "github.com/vramplan/vramplan/estimator/release"

// backwardRange runs the nodes [from, to) as autograd's engine does: of the nodes
// whose gradients have all arrived, the one created last runs first, and since a
// gradient only flows to older nodes that is simply from the newest to the oldest.
// Source: torch/csrc/autograd/engine.cpp (ReadyQueue, compareNodeTask), torch 2.9.
func (t *Tape) backwardRange(from, to int32) {
	for i := to - 1; i >= from; i-- {
		if !t.nodes[i].reached {
			continue
		}
		t.enter(t.nodes[i].unit)
		t.enterExpert(t.nodes[i].expert, t.nodes[i].expert > 0)
		hooked := t.nodes[i].hooked
		if hooked {
			t.hooks.BeforeBackward(i)
		}
		t.run(i)
		if hooked && t.uses != nil {
			t.uses.AfterNode(i)
		}
	}
}

type delivery struct {
	e edge
	s int32
	// bytes is the size of a gradient that was recorded: asStored where it has as many as its memory, 0 where that is
	// not told.
	bytes int64
	// view: it is a view of what holds its memory, and never added to in place.
	view bool
	// late: through a node of its own, before which the gradients that are complete go.
	late bool
}

// asStored says that a gradient is as large as its memory.
const asStored = -1

// run executes the backward of node i: its own allocations, then the release of
// what it was given and what it had saved, then the hand-over of the gradients.
func (t *Tape) run(i int32) {
	n := &t.nodes[i]
	if n.checkpoint {
		t.runCheckpoint(i)
		return
	}
	if n.leaf {
		t.keepGradient(i)
		return
	}
	if n.layer != None && n.nSaved > 0 && !t.layers[n.layer].rebuilt {
		t.rebuild(n.layer)
		n = &t.nodes[i]
		t.enterExpert(n.expert, n.expert > 0)
	}
	oldPart := t.part
	t.part = n.part
	var room [8]delivery
	sends := room[:0]
	for k := n.first; k < n.last; k++ {
		a := &t.acts[k]
		if t.half != wholeBackward && !t.inHalf(n, *a) {
			continue
		}
		switch a.verb {
		case actAlloc:
			t.regs[a.reg] = t.Alloc(a.bytes, t.component(), a.label)
		case actFree:
			t.Release(t.regs[a.reg])
		case actSend:
			sends = append(sends, delivery{e: n.edgeAt(a.edge), s: t.regs[a.reg], bytes: a.bytes})
		case actSendView:
			sends = append(sends, delivery{e: n.edgeAt(a.edge), s: t.regs[a.reg], view: true, late: true})
		case actSendMarked, actSendAgain:
			if a.verb == actSendAgain {
				t.retain(t.regs[a.reg])
			}
			sends = append(sends, delivery{e: n.edgeAt(a.edge), s: t.regs[a.reg], bytes: a.bytes,
				view: a.verb == actSendMarked})
		case actPass, actPassView, actPassPart:
			grad := n.gradAt(a.reg)
			if *grad == None { // of an output that no gradient came back to
				*grad = t.Alloc(0, t.component(), LabelInputGradient)
			}
			t.retain(*grad)
			if a.verb == actPassPart {
				t.storages[*grad].part = true
			}
			sends = append(sends, delivery{e: n.edgeAt(a.edge), s: *grad, bytes: a.bytes,
				view: a.verb == actPassView || n.viewed(a.reg)})
		case actPassOrMake:
			grad := n.gradAt(a.reg)
			if *grad == None || t.storages[*grad].slot == None {
				sends = append(sends, delivery{e: n.edgeAt(a.edge), s: t.Alloc(a.bytes, t.component(), a.label)})
				continue
			}
			t.retain(*grad)
			sends = append(sends, delivery{e: n.edgeAt(a.edge), s: *grad, view: n.viewed(a.reg)})
		case actSendSaved:
			s := *n.savedAt(a.reg)
			t.retain(s)
			sends = append(sends, delivery{e: n.edgeAt(a.edge), s: s})
		case actWorkspace:
			t.workspace()
		case actValidate:
			// Tensors that checkpointing made again belong to the operation's backward alone and end with it.
			if n.layer != None {
				t.releaseSaved(n)
			}
		case actAddInPlace:
			bytes := a.bytes
			if e := n.in[0]; e >= 0 && *t.nodes[e.node()].gradAt(e.out()) != None {
				bytes = 0
			}
			t.regs[0] = t.Alloc(bytes, t.component(), a.label)
		case actForget:
			s := n.savedAt(a.reg)
			t.Release(*s)
			*s = None
		case actAfterBackward:
			t.hooks.AfterBackward(int(a.bytes))
		case actPostpone:
			t.postpone(n, a)
		case actAllocLogits:
			t.regs[a.reg] = t.Alloc(a.bytes, LogitsAndLoss, a.label)
		}
	}
	if n.collects {
		left := t.pieces[:0]
		for _, p := range t.pieces {
			if p.of == i {
				t.Release(p.gradient)
			} else {
				left = append(left, p)
			}
		}
		t.pieces = left
	}
	kept := false
	if t.half == inputHalf {
		_, kept = t.withParameter(i)
	}
	if !kept {
		n.views = [2]uint64{}
		for k := uint8(0); k < n.nOut; k++ {
			grad := n.gradAt(k)
			t.Release(*grad)
			*grad = None
		}
	}
	if t.half != inputHalf {
		t.releaseSaved(n)
	}
	t.uncapture(i)
	t.part = oldPart
	for k := range sends {
		if sends[k].late {
			t.accumulate()
		}
		t.hand(sends[k])
	}
	t.accumulate()
}

func (t *Tape) releaseSaved(n *node) {
	for k := uint8(0); k < n.nSaved; k++ {
		t.Release(*n.savedAt(k))
	}
	t.lastReleased(n)
	n.nSaved = 0
}

// releaseUnreached lets go of what the operations from node on saved that no gradient came back to.
func (t *Tape) releaseUnreached(from int32) {
	for i := from; i < int32(len(t.nodes)); i++ {
		if n := &t.nodes[i]; !n.reached && !n.checkpoint {
			t.releaseSaved(n)
		}
	}
}

// deliver gives storage s, a gradient, to where e points.
func (t *Tape) deliver(e edge, s int32) { t.hand(delivery{e: e, s: s}) }

// hand is deliver for a gradient of which more is known.
func (t *Tape) hand(d delivery) {
	e, s := d.e, d.s
	if e == noEdge {
		t.Release(s)
		return
	}
	if p, ok := e.param(); ok {
		ps := &t.params[p]
		ps.graded = true
		from := t.Mark()
		if ps.summed && ps.grad != None { // d has what came before in it
			t.Release(ps.grad)
			ps.grad = None
		}
		ps.grad, ps.viewed = t.sum(ps.grad, ps.viewed, d)
		if t.gradientStream != 0 {
			t.moveAside(from, t.gradientStream)
		}
		ps.uses--
		if t.catchUp(e) {
			return
		}
		if ps.uses == 0 || t.eachUse {
			t.pending = append(t.pending, p)
		}
		return
	}
	n := &t.nodes[e.node()]
	n.reached = true
	if n.collects {
		t.pieces = append(t.pieces, piece{e.node(), s})
		return
	}
	grad := n.gradAt(e.out())
	sum, view := t.sum(*grad, n.viewed(e.out()) || n.apart, d)
	*grad = sum
	n.view(e.out(), view)
	if n.awaits > 0 {
		if n.awaits--; n.awaits == 0 {
			*grad = t.copied(*grad)
		}
	}
}

// sum adds the gradient that d hands on to what has arrived before: in place when nobody else refers to it and it is
// not held through a view, as viewed says, else into a new tensor. It says the same of the sum.
// Source: torch/csrc/autograd/input_buffer.cpp (accumulate, can_accumulate_inplace), torch 2.9.
func (t *Tape) sum(old int32, viewed bool, d delivery) (sum int32, view bool) {
	s, bytes := d.s, d.bytes
	if old == None {
		return s, d.view
	}
	if t.storages[old].slot == None { // nothing was made for it
		t.Release(old)
		return s, d.view
	}
	if t.storages[old].refs == 1 && !viewed || t.graph.sumsInPlace() {
		t.Release(s)
		return old, viewed
	}
	of := old
	if bytes == asStored && t.storages[s].slot != None {
		of = s
	}
	if bytes <= 0 {
		bytes = t.Prog.Slots[t.storages[of].slot].Bytes
	}
	fresh := t.Alloc(bytes, t.component(), LabelGradientSum)
	t.Release(old)
	t.Release(s)
	return fresh, false
}

// accumulate runs the AccumulateGrad nodes that have become ready; they go before
// all others.
func (t *Tape) accumulate() {
	for _, p := range t.pending {
		s := t.params[p].grad
		t.params[p].grad, t.params[p].viewed = None, false
		if t.graphs > 0 {
			if t.params[p].born { // added in place to the one of a graph before
				t.Release(s)
				continue
			}
			t.params[p].born = true
		}
		if t.Recipe.UpdatesInBackward {
			t.updateNow(p, s)
			continue
		}
		t.Prog.Ready = append(t.Prog.Ready, p)
		if t.half == weightHalf {
			t.assign(p, s)
			continue
		}
		t.hooks.GradientReady(p, s)
	}
	t.pending = t.pending[:0]
}

// enter closes the running segment of events and opens that of another layer unit.
func (t *Tape) enter(unit int32) {
	if unit == t.unit {
		return
	}
	t.cut()
	t.unit = unit
	t.look()
}

func (t *Tape) cut() {
	t.endRun()
	end := len(t.Prog.Events)
	if end > t.segStart {
		t.Prog.Segments = append(t.Prog.Segments, Segment{t.segStart, end, t.unit, t.backward, t.kind})
	}
	t.segStart = end
}

// workspace is taken by every matrix product: cuBLAS gets a buffer for each handle
// and stream, and backward runs in a thread, and so with a handle, of its own.
// Source: aten/src/ATen/cuda/CublasHandlePool.cpp, torch 2.9.
func (t *Tape) workspace() { t.scratch(workspaceBLAS, t.Recipe.WorkspaceBytes) }

// workspaceLt is what cuBLASLt, which adds the bias in the same kernel, gets besides.
func (t *Tape) workspaceLt() { t.scratch(workspaceLt, t.Recipe.LtWorkspaceBytes) }

// ReturnsWorkspace gives cuBLAS's workspace back after each product instead of keeping one for each thread.
var ReturnsWorkspace = release.Declare("returns-workspace", release.Change{
	Library: "torch", After: "2.14", From: "2.15",
	What: "torch 2.15 gives cuBLAS's workspace back after each product (TORCH_CUBLAS_WORKSPACE_CACHE), and " +
		"a product with a bias takes cuBLASLt's alone",
	Source: "aten/src/ATen/cuda/CublasHandlePool.cpp, 2.9.1 and 2.15.0", Shown: "traces of nanoGPT and GPT-2",
})

// unifiesWorkspaces lets cuBLASLt, which adds the bias of a product, work where cuBLAS does.
var unifiesWorkspaces = release.Declare("unifies-workspaces", release.Change{
	Library: "torch", After: "2.10", From: "2.12",
	What: "cuBLASLt of torch 2.12 works in cuBLAS's workspace where a product has a bias, and has none of its own " +
		"(TORCH_CUBLASLT_UNIFIED_WORKSPACE)",
	Source: "aten/src/ATen/cuda/CUDABlas.cpp, as traces of 2.10.0, 2.12.0 and 2.14.0 name it",
	Shown:  "traces of GPT-2, Qwen2, Phi, OPT, BERT, ViT and Whisper, whose layers have biases",
})

// productSpace is what a product takes, in the same kernel with a bias where it is told so. cuBLASLt took a workspace
// besides cuBLAS's, then worked in that, and now takes its own alone.
func (t *Tape) productSpace(withBias bool) {
	software := &t.Recipe.Software
	if !withBias || !software.Has(ReturnsWorkspace) || t.Recipe.LtWorkspaceBytes == 0 {
		t.workspace()
	}
	if withBias && (software.Has(ReturnsWorkspace) || !software.Has(unifiesWorkspaces)) {
		t.workspaceLt()
	}
}

// scratch is a workspace that stays or, later, is there during the product alone.
func (t *Tape) scratch(kind int, bytes int64) {
	if t.Recipe.Software.Has(ReturnsWorkspace) {
		t.Release(t.Alloc(bytes, Temporaries, LabelWorkspace))
		return
	}
	t.once(kind, bytes)
}

// What is allocated once in the life of the process, for each thread that needs it.
const (
	workspaceBLAS = iota
	workspaceLt
	scalerScale
	scalerGrowth
	onceKinds
)

func (t *Tape) once(kind int, bytes int64) {
	thread := 0
	if t.backward {
		thread = 1
	}
	if bytes == 0 || t.stopped || t.spaces[thread][kind] {
		return
	}
	t.spaces[thread][kind] = true
	s := &t.Prog.Slots[t.slot(AllocOnce, bytes, Temporaries, LabelWorkspace)]
	s.Part, s.Unit, s.Expert = 0, -1, 0
}
