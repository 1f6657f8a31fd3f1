package estimator

import (
	"cmp"
	"maps"
	"slices"

	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// litgptBitsandbytes is the bitsandbytes that litgpt 0.4 asks for.
const litgptBitsandbytes = "0.42.0"

// formerTransformers is the transformers after which the models that are not transformers' own are written.
var formerTransformers = map[string]string{"transformers": "4.57.6"}

// applyVersions takes what the job's releases do otherwise than the rest, and notes what that of named ones changed.
func (r *resolved) applyVersions() {
	r.assumeStack()
	defaults, unshown := r.defaults(), false
	software, rows := r.inReleases()
	asked := arch.Use{Attention: r.asked, Checkpoints: r.recomputes(false).CheckpointEvery > 0}
	for _, c := range rows {
		if _, named := release.Parse(r.given[c.Library]); named && r.concerns(c.ID(), asked) {
			r.changes = append(r.changes, c.What)
			unshown = unshown || !tracedWith(c)
		}
	}
	r.arch.Software = software
	r.repeatsKV = r.arch.RepeatsKV(r.attention())
	r.arch.Settle(asked)
	r.recipe = r.compose(composed{})
	r.cuda = contextOf(&software)
	traced, found := release.Traced(r.releaseOf("torch", defaults), r.releaseOf("transformers", defaults))
	eager := !r.recipe.Compile && !r.recipe.CompileBlocks && r.copies < 2
	if found && !unshown && !r.arch.StandInExperts() && traced.Proves(r.arch.Family, eager) {
		r.provenOn = traced.Name
	}
}

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
var whose = map[release.ID]func(*resolved) bool{}

// of is a change, declared, of those jobs alone of which is says so.
func of(is func(*resolved) bool, c release.ID) release.ID {
	whose[c] = is
	return c
}

// Changes whose bytes the packages below count, of jobs that only the job's document tells apart.
var (
	_ = of(func(r *resolved) bool { return r.adapted }, step.KeepsPackedInputs)
	_ = of(func(r *resolved) bool { return !r.arch.NanoGPT() }, play.KeepsGradients) // whose train.py asks for None
)

// concerns says whether a change is one for the job.
func (r *resolved) concerns(c release.ID, asked arch.Use) bool {
	is := whose[c]
	return (is == nil || is(r)) && r.arch.Concerns(c, asked)
}

// tracedWith says whether a change is in the traced releases of its library, or is one of torch or transformers, whose
// releases decide what is proven.
func tracedWith(c *release.Change) bool {
	if c.Library == "torch" || c.Library == "transformers" {
		return true
	}
	return slices.ContainsFunc(release.Stacks(), func(s release.Stack) bool {
		v, known := release.Parse(s.Releases[c.Library])
		return known && c.Holds(v)
	})
}

// assumeStack is the stack of a framework that has no transformers in it: its models are replayed as they were held
// against the former one.
func (r *software) assumeStack() {
	if r.by.rewritten == yes {
		r.stack = release.Assumed(formerTransformers)
	}
}

// softwareAhead is what the job's releases make of the model, known before the rest of the job is: what modules it has,
// which adapters are put on.
func (r *software) softwareAhead() release.Set {
	ahead := *r
	ahead.assumeStack()
	set, _ := ahead.inReleases()
	return set
}

// defaults are the releases of what a job does not name.
func (r *software) defaults() map[string]string {
	if r.by == nil || len(r.by.releases) == 0 {
		return r.stack.Releases
	}
	defaults := maps.Clone(r.stack.Releases)
	maps.Copy(defaults, r.by.releases)
	return defaults
}

// holds says whether a change is in the job's releases.
func (r *software) holds(c release.ID) bool {
	set, _ := r.inReleases()
	return set.Has(c)
}

// inReleases are the changes that are in the job's releases, or are said to be.
func (r *software) inReleases() (release.Set, []*release.Change) {
	return release.Holding(r.given, r.defaults(), r.held)
}

// releaseOf is the named release of a library, or the assumed one.
func (r *software) releaseOf(library string, defaults map[string]string) release.Version {
	v, ok := release.Parse(r.given[library])
	if !ok {
		v, _ = release.Parse(defaults[library])
	}
	return v
}

// reference is the torch whose allocations are replayed, as versions.reference says it.
func reference(s *release.Stack) string { return "torch-" + s.Releases["torch"] }

// torch is its release as it is written.
func (r *software) torch() string { return cmp.Or(r.given["torch"], r.defaults()["torch"]) }

// transformers is the release of transformers whose models are replayed.
func (r *software) transformers() string { return "transformers " + r.stack.Releases["transformers"] }
