package resolved

import (
	"cmp"
	"maps"
	"slices"

	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// FormerTRL says that trl's trainers are those before they were written anew.
func (r *Software) FormerTRL() bool {
	anew, _ := release.Parse("1.0")
	return r.TRLRelease().Before(anew)
}

// ReferenceName is what the model is for that preferences are measured by.
const ReferenceName = "reference"

// TRLVersion is the same as it is written.
func (r *Software) TRLVersion() string { return cmp.Or(r.Given["trl"], r.Defaults()["trl"]) }

// TRLRelease is the release of trl whose trainers are replayed.
func (r *Software) TRLRelease() release.Version { return r.ReleaseOf("trl", r.Defaults()) }

// FusesTRLHead is trl's loss whose head is computed in tiles.
var FusesTRLHead = Of(func(r *Job) bool {
	return r.Objective != nil
}, release.Declare("fuses-trl-head", release.Change{
	Library: "trl", After: "1.13", From: "1.15",
	What: "trl from 1.15 on computes log-probabilities in SFTTrainer, DPOTrainer and " +
		"GRPOTrainer without logits",
	Source: "trainer/utils.py (add_fused_lm_head), 1.16.0",
	Shown:  "traces of SFTTrainer and DPOTrainer with trl 1.16",
}))

// FormerTransformers is the transformers after which the models that are not transformers' own are written.
var FormerTransformers = map[string]string{"transformers": "4.57.6"}

// attentionOf is the attention that an architecture has, of those the one that is asked for.
func attentionOf(a *model.Architecture, asked step.Attention) step.Attention {
	switch {
	case a.EagerOnly:
		return step.AttentionEager
	case a.SDPAOnly:
		return step.AttentionSDPA
	}
	return asked
}

// whose says of changes that are not those of all jobs which they are of.
var whose = map[release.ID]func(*Job) bool{}

// Of is a change, declared, of those jobs alone of which is says so.
func Of(is func(*Job) bool, c release.ID) release.ID {
	whose[c] = is
	return c
}

// Changes whose bytes the packages below count, of jobs that only the job's document tells apart.
var (
	_ = Of(func(r *Job) bool { return r.Adapted }, step.KeepsPackedInputs)
	_ = Of(func(r *Job) bool { return !r.Arch.NanoGPT() }, play.KeepsGradients) // whose train.py asks for None
)

// Concerns says whether a change is one for the job.
func (r *Job) Concerns(c release.ID, asked arch.Use) bool {
	is := whose[c]
	return (is == nil || is(r)) && r.Arch.Concerns(c, asked)
}

// TracedWith says whether a change is in the traced releases of its library, or is one of torch or transformers, whose
// releases decide what is proven.
func TracedWith(c *release.Change) bool {
	if c.Library == "torch" || c.Library == "transformers" {
		return true
	}
	return slices.ContainsFunc(release.Stacks(), func(s release.Stack) bool {
		v, known := release.Parse(s.Releases[c.Library])
		return known && c.Holds(v)
	})
}

// AssumeStack is the stack of a framework that has no transformers in it: its models are replayed as they were held
// against the former one.
func (r *Software) AssumeStack() {
	if r.By.Rewritten == frameworks.Yes {
		r.Stack = release.Assumed(FormerTransformers)
	}
}

// SoftwareAhead is what the job's releases make of the model, known before the rest of the job is: what modules it has,
// which adapters are put on.
func (r *Software) SoftwareAhead() release.Set {
	ahead := *r
	ahead.AssumeStack()
	set, _ := ahead.InReleases()
	return set
}

// Defaults are the releases of what a job does not name.
func (r *Software) Defaults() map[string]string {
	if r.By == nil || len(r.By.Releases) == 0 {
		return r.Stack.Releases
	}
	defaults := maps.Clone(r.Stack.Releases)
	maps.Copy(defaults, r.By.Releases)
	return defaults
}

// Holds says whether a change is in the job's releases.
func (r *Software) Holds(c release.ID) bool {
	set, _ := r.InReleases()
	return set.Has(c)
}

// InReleases are the changes that are in the job's releases, or are said to be.
func (r *Software) InReleases() (release.Set, []*release.Change) {
	return release.Holding(r.Given, r.Defaults(), r.Held)
}

// ReleaseOf is the named release of a library, or the assumed one.
func (r *Software) ReleaseOf(library string, defaults map[string]string) release.Version {
	v, ok := release.Parse(r.Given[library])
	if !ok {
		v, _ = release.Parse(defaults[library])
	}
	return v
}

// Reference is the torch whose allocations are replayed, as versions.reference says it.
func Reference(s *release.Stack) string { return "torch-" + s.Releases["torch"] }

// Torch is its release as it is written.
func (r *Software) Torch() string { return cmp.Or(r.Given["torch"], r.Defaults()["torch"]) }

// Transformers is the release of transformers whose models are replayed.
func (r *Software) Transformers() string { return "transformers " + r.Stack.Releases["transformers"] }
