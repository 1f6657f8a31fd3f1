package parallel

import "github.com/vramplan/vramplan/estimator/step"

// What fully_shard does in a stage of a pipeline: the schedule tells it neither to let go of parameters nor to sum
// gradients before the last backward, behind which it runs for every module what otherwise follows its backward.
// Source: torch/distributed/pipelining/stage.py (backward_maybe_with_nosync), torch 2.9.

// BeforeStage says which stage runs.
func (f *fsdp) BeforeStage(s step.Stage) { f.stage = s }

// AfterStage is the post-forward hook of the root, where no section has run it.
func (f *fsdp) AfterStage() {
	f.Tape.Release(f.former)
	f.former = step.None
}

// AfterMicroBatch runs the post-backward hooks of a stage that no gradient of an input has run.
func (f *fsdp) AfterMicroBatch(s step.Stage) {
	for _, k := range f.ofStage(s) {
		f.AfterBackward(k)
		f.groups[k].summed = false
	}
}

// accumulate brings the whole gradients of a group to the type that they are summed in, and adds them to those of the
// micro-batches before. Source: _fsdp_param.py (to_accumulated_grad_if_needed,
// accumulate_unsharded_grad_if_needed), torch 2.9.
func (f *fsdp) accumulate(g *shardGroup) {
	t := f.Tape
	for _, p := range f.withGradients(g) {
		w := &f.parameters[p]
		if f.Reduced == w.Dtype {
			continue
		}
		if f.sums[p] == step.None {
			f.sums[p] = t.Alloc(t.Bytes(f.grads[p])/w.Dtype.Size()*f.Reduced.Size(), step.Gradients, step.LabelGradient)
		}
		t.Release(f.grads[p])
		f.grads[p] = step.None
	}
}

// ownRows copies this GPU's rows out of gradients that have more. Source: _fsdp_param.py (_get_grad_inner_tensor).
func (f *fsdp) ownRows(g *shardGroup) {
	t := f.Tape
	for _, p := range f.withGradients(g) {
		own := f.parameters[p].Numel * f.Reduced.Size()
		if t.Bytes(f.grads[p]) <= own {
			continue
		}
		rows := t.Alloc(own, step.Gradients, step.LabelGradient)
		t.Release(f.grads[p])
		f.grads[p] = rows
	}
}

// ofStage are the groups of a stage, in the order of its modules.
func (f *fsdp) ofStage(s step.Stage) []int {
	order := []int{0}
	if f.Apart && s.First {
		order = append(order, f.group(step.InputSection))
	}
	for k := s.From; k < s.To; k++ {
		order = append(order, k+1)
		if inside := f.inner[k+1]; inside > 0 {
			order = append(order, inside)
		}
	}
	if f.Apart && s.Last {
		order = append(order, f.group(step.HeadSection))
	}
	return order
}

// EndStage sums the gradients of all micro-batches over the GPUs.
func (f *fsdp) EndStage(s step.Stage) {
	for _, k := range f.ofStage(s) {
		for _, p := range f.groups[k].params {
			if f.sums[p] != step.None {
				f.Tape.Release(f.grads[p]) // of a backward in two halves, the second of which runs no hooks
				f.grads[p], f.sums[p] = f.sums[p], step.None
			}
		}
		f.ownRows(&f.groups[k])
		f.reduce(&f.groups[k])
	}
	f.Tape.Release(f.input)
	f.input = step.None
}
