package parallel

import "github.com/vramplan/vramplan/estimator/step"

// What torchtitan's apply_fsdp does with the modules around the layers: the embedding is a unit of its own, and so are the last norm and
// the head together, which stay gathered; nothing is left to the root.
// Source: torchtitan/models/llama3/infra/parallelize.py (apply_fsdp), 0.2.0.

// group is the place of a section among the groups, behind the layers.
func (f *fsdp) group(s step.Section) int { return len(f.groups) - int(step.HeadSection-s) - 1 }

// BeforeSection is the pre-forward hook of a section.
func (f *fsdp) BeforeSection(s step.Section, x step.T) step.T {
	if !f.Meta {
		return f.Tape.Hold(x)
	}
	x = f.castForward(x)
	f.unshard(f.group(s), true)
	return f.Tape.MarkInput(f.group(s), x)
}

// AfterSection is its post-forward hook; behind the head stands the root's.
func (f *fsdp) AfterSection(s step.Section, y step.T) step.T {
	if !f.Meta {
		return y
	}
	f.afterForward(f.group(s), y, s == step.HeadSection && f.KeepsRoot || s == step.InputSection && f.KeepsLayers)
	y = f.castOutput(y)
	if s == step.HeadSection {
		f.Tape.Release(f.former)
		f.former = step.None
	}
	return y
}
