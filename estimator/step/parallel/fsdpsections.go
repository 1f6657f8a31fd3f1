package parallel

import "github.com/vramplan/vramplan/estimator/step"

// What torchtitan and accelerate do with the modules around the layers: the embedding is a unit of its own, and so are
// the last norm and the head together, which stay gathered; nothing is left to the root. Accelerate makes one unit of
// all three where the head is tied to the embedding: the root of such a model stands for that, until its backward,
// which begins with the logits. Sources: torchtitan/models/llama3/infra/parallelize.py (apply_fsdp), 0.2.0;
// accelerate/utils/fsdp_utils.py (fsdp2_prepare_model), 1.15.

// group is the place of a section among the groups, behind the layers.
func (f *fsdp) group(s step.Section) int { return len(f.groups) - int(step.HeadSection-s) - 1 }

// apart says that a section is a unit of its own.
func (f *fsdp) apart(s step.Section) bool { return f.Apart && len(f.groups[f.group(s)].params) > 0 }

// BeforeSection is the pre-forward hook of a section.
func (f *fsdp) BeforeSection(s step.Section, x step.T) step.T {
	if !f.apart(s) {
		return f.Tape.Hold(x)
	}
	x = f.castForward(x)
	f.unshard(f.group(s), true)
	if s == step.InputSection {
		f.askAhead(f.group(s))
	}
	return f.Tape.MarkInput(f.group(s), x)
}

// AfterSection is its post-forward hook.
func (f *fsdp) AfterSection(s step.Section, y step.T) step.T {
	switch {
	case f.apart(s):
		f.afterForward(f.group(s), y, s == step.HeadSection && f.KeepsRoot || s == step.InputSection && f.KeepsLayers)
	case f.Apart && s == step.HeadSection:
		f.afterForward(0, y, f.KeepsRoot)
		f.rootDone = true
	default:
		return y
	}
	y = f.castOutput(y)
	if s == step.HeadSection && f.Meta { // behind torchtitan's head stands the root's
		f.Tape.Release(f.former)
		f.former = step.None
	}
	return y
}
