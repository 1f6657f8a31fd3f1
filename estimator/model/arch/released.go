package arch

import (
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// Use is what of a job, besides its model, decides whether a change of a release is one for it.
type Use struct {
	// Attention is what the job asks for, also where the library has another only.
	Attention step.Attention
	// Checkpoints says that layers are checkpointed.
	Checkpoints bool
}

// whose says of changes that are not those of all models which they are of.
var whose = map[release.ID]func(*Architecture, Use) bool{}

// Of is a change, declared, of those architectures and jobs alone of which is says so. It is called for variables of
// packages, as [release.Declare] is.
func Of(is func(*Architecture, Use) bool, c release.ID) release.ID {
	whose[c] = is
	return c
}

// Concerns says whether a change is one for the architecture, as it was read, and such a job.
func (a *Architecture) Concerns(c release.ID, by Use) bool {
	is := whose[c]
	return is == nil || is(a, by)
}

var capsWrittenOut = Of(func(a *Architecture, by Use) bool {
	return a.CapsScores && by.Attention == step.AttentionSDPA
}, release.Declare("caps-written-out", release.Change{
	Library: "transformers", After: "5.17", From: "5.23",
	What: "transformers 5.23 has no sdpa for Gemma 2, whose scores it would not bound: attention is the formula " +
		"written out where nothing is said",
	Source: "models/gemma2/modeling_gemma2.py (_supports_sdpa), 4.57.6, 5.0.0, 5.10.0, 5.14.0, 5.17.0 and 5.23.0",
	Shown:  "traces of Gemma 2 in trl's trainers",
}))

// CachesInTraining lets Gemma 2 and 3, Cohere 2 and the hybrid Granite fill a cache in training, too.
var CachesInTraining = Of(func(a *Architecture, by Use) bool {
	return a.CachesInTrainingLater && !by.Checkpoints
}, release.Declare("caches-in-training", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What: "Gemma 2 and 3, Cohere 2 and the hybrid Granite fill a cache in training in transformers 5.23",
	Source: "models/gemma3/modeling_gemma3.py (Gemma3TextModel.forward), models/cohere2/modeling_cohere2.py, " +
		"models/granitemoehybrid/modeling_granitemoehybrid.py, 4.57.6 and 5.23.0",
	Shown: "traces of Gemma 3, Cohere 2 and Granite 4",
}))

// Settle makes of the architecture, as it was read, what the releases that are its Software write for such a job.
func (a *Architecture) Settle(by Use) {
	has := a.Software.Has
	switch {
	case a.Interfaced != 0 && has(a.Interfaced):
		a.EagerOnly, a.SDPAOnly = false, false
	case a.EagerBefore != 0 && !has(a.EagerBefore), has(capsWrittenOut) && a.Concerns(capsWrittenOut, by):
		a.EagerOnly = true
	}
	if a.CachesInTrainingLater && has(CachesInTraining) {
		a.CachesInEvaluation = true
		a.UseCache = a.UseCache || !by.Checkpoints
	}
	if a.Described != nil && a.Described.Settled != nil {
		a.Described.Settled(a)
	}
}
