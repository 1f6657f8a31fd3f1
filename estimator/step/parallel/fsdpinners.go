package parallel

import "github.com/vramplan/vramplan/estimator/step"

// What torchtitan does with experts that GPUs share: they are a unit inside their layer, dealt out over the GPUs that
// have the same experts, and every layer is told which units to ask for ahead, since the exchange of rows waits for the
// GPU. Source: torchtitan/models/llama4/infra/parallelize.py (apply_fsdp), 0.2.0.

// world is over how many GPUs the parameters of a group are dealt out.
func (f *fsdp) world(g *shardGroup) int64 {
	if g.inside {
		return f.InnerWorld
	}
	return f.World
}

// worldOf is that of parameter p.
func (s Sharding) worldOf(p *step.Parameter) int64 {
	if p.Inner {
		return s.InnerWorld
	}
	return s.World
}

// askAhead asks for what a layer, or the embedding, is told to in forward: the next layer with the unit inside it, and
// behind the last the head. The embedding asks for the layer alone.
func (f *fsdp) askAhead(k int) {
	input := k >= len(f.inner)
	if f.InnerWorld == 0 || input && k != f.group(step.InputSection) {
		return
	}
	first, end := 1, len(f.inner)
	if f.Staged { // a stage knows its own layers
		first, end = f.stage.From+1, f.stage.To+1
	}
	next := k + 1
	if input {
		next = first
	}
	switch {
	case next < end:
		f.allGather(next)
		if inside := f.inner[next]; inside > 0 && next > first {
			f.allGather(inside)
		}
	case !input && (!f.Staged || f.stage.Last):
		f.allGather(f.group(step.HeadSection))
	}
}

// askBehind asks for what group k is told to in backward, and says whether it is told anything: the layer before with
// the unit inside it, and before the first the embedding. The head asks for the last layer alone.
func (f *fsdp) askBehind(k int) bool {
	if f.InnerWorld == 0 {
		return false
	}
	layers := len(f.inner) - 1
	switch {
	case k == f.group(step.HeadSection):
		f.allGather(layers)
	case k > layers:
		return false
	case k == 1:
		f.allGather(f.group(step.InputSection))
	default:
		f.allGather(k - 1)
		if inside := f.inner[k-1]; inside > 0 {
			f.allGather(inside)
		}
	}
	return true
}

// castWhole makes the parameters of a unit that nobody shares of those that are stored, one by one. Source:
// _fsdp_param_group.py (FSDPParamGroup.wait_for_unshard), torch 2.9.
func (f *fsdp) castWhole(g *shardGroup, forward bool) {
	t, last := f.Tape, step.None
	f.freeFormer(forward)
	for _, p := range g.params {
		w := &f.parameters[p]
		if bytes := w.Numel * w.Dtype.Size(); w.Dtype != f.stored(w) {
			cast := t.Alloc(bytes, step.Communication, step.LabelGatherInput)
			t.Release(last)
			last = cast
		}
		g.whole = append(g.whole, t.Alloc(w.Numel*w.Dtype.Size(), step.Weights, step.LabelGathered))
	}
	if forward {
		t.Release(f.former)
		f.former = step.None
	}
	t.Release(last)
}

// BeforeInner is the pre-forward hook of the unit inside a layer.
func (f *fsdp) BeforeInner(layer int, x step.T) step.T {
	k := f.inner[layer]
	x = f.castForward(x)
	f.unshard(k, true)
	return f.Tape.MarkInput(k, x)
}

// endInner lets go of the buffer that the unit inside a layer came in when the layer ends. The next layer does it when
// its own parameters are copied out, and nothing is asked for until then; but the buffer was asked for by the layer
// before, and the replay repeats layers on the grounds that nothing lives longer than into the next.
func (f *fsdp) endInner(unit int) {
	if f.InnerWorld > 0 && f.inner[unit] > 0 {
		f.Tape.Release(f.former)
		f.former = step.None
	}
}

// AfterInner is its post-forward hook. Where its layer runs again, it is taken for the root of a forward of its own,
// which lets go of the last gathered buffer; see AfterRerun.
func (f *fsdp) AfterInner(layer int, y step.T) step.T {
	f.afterForward(f.inner[layer], y, f.KeepsLayers)
	y = f.castOutput(y)
	if f.Tape.Reruns() {
		f.Tape.Release(f.former)
		f.former = step.None
	}
	return y
}
