package arch

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// sdpa is the default where a family of transformers has it. Families that had it when they came are not here, nor is
// Falcon, whose class called torch's kernel itself before.
var (
	lacksSDPA436 = Of(written("bart", "gpt_bigcode", "llama", "whisper"),
		release.Declare("lacks-sdpa-before-4.36", release.Change{
			Library: "transformers", To: "4.36",
			What:   "transformers before 4.36 has no sdpa for bart, gpt_bigcode, llama and whisper: " + writtenOut,
			Source: supportsSDPA + "4.35.2 and 4.36.2", Shown: sourceAlone,
		}))
	lacksSDPA437 = Of(written("mistral", "mixtral"),
		release.Declare("lacks-sdpa-before-4.37", release.Change{
			Library: "transformers", To: "4.37",
			What:   "transformers before 4.37 has no sdpa for mistral and mixtral: " + writtenOut,
			Source: supportsSDPA + "4.36.2 and 4.37.2", Shown: sourceAlone,
		}))
	lacksSDPA439 = Of(written("phi", "stablelm"),
		release.Declare("lacks-sdpa-before-4.39", release.Change{
			Library: "transformers", To: "4.39",
			What:   "transformers before 4.39 has no sdpa for phi and stablelm: " + writtenOut,
			Source: supportsSDPA + "4.38.2 and 4.39.3", Shown: sourceAlone,
		}))
	lacksSDPA441 = Of(written("bert", "vit"),
		release.Declare("lacks-sdpa-before-4.41", release.Change{
			Library: "transformers", To: "4.41",
			What:   "transformers before 4.41 has no sdpa for bert and vit: " + writtenOut,
			Source: supportsSDPA + "4.40.2 and 4.41.2", Shown: sourceAlone,
		}))
	lacksSDPA442 = Of(written("gpt2", "gpt_neox"),
		release.Declare("lacks-sdpa-before-4.42", release.Change{
			Library: "transformers", To: "4.42",
			What:   "transformers before 4.42 has no sdpa for gpt2 and gpt_neox: " + writtenOut,
			Source: supportsSDPA + "4.41.2 and 4.42.4", Shown: sourceAlone,
		}))
	lacksSDPA443 = Of(written("clip"),
		release.Declare("lacks-sdpa-before-4.43", release.Change{
			Library: "transformers", To: "4.43",
			What:   "transformers before 4.43 has no sdpa for clip: " + writtenOut,
			Source: supportsSDPA + "4.42.4 and 4.43.4", Shown: sourceAlone,
		}))
	lacksSDPA445 = Of(written("albert", "camembert", "mbart", "phi3", "roberta", "xlm-roberta"),
		release.Declare("lacks-sdpa-before-4.45", release.Change{
			Library: "transformers", To: "4.45",
			What: "transformers before 4.45 has no sdpa for albert, camembert, mbart, phi3, roberta and xlm-roberta: " +
				writtenOut,
			Source: supportsSDPA + "4.44.2 and 4.45.2", Shown: sourceAlone,
		}))
	lacksSDPA446 = Of(written("distilbert", "opt"),
		release.Declare("lacks-sdpa-before-4.46", release.Change{
			Library: "transformers", To: "4.46",
			What:   "transformers before 4.46 has no sdpa for distilbert and opt: " + writtenOut,
			Source: supportsSDPA + "4.45.2 and 4.46.3", Shown: sourceAlone,
		}))
)

// lacksSDPA are all of them.
var lacksSDPA = []release.ID{lacksSDPA436, lacksSDPA437, lacksSDPA439, lacksSDPA441, lacksSDPA442, lacksSDPA443,
	lacksSDPA445, lacksSDPA446}

const (
	writtenOut   = "attention is the formula written out where nothing is said"
	supportsSDPA = "models/*/modeling_*.py (_supports_sdpa), "
	sourceAlone  = "the source alone"
)

// written says of families that the job would have sdpa in them.
func written(families ...string) func(*Architecture, Use) bool {
	return func(a *Architecture, by Use) bool {
		return by.Attention == step.AttentionSDPA && a.transformers() && slices.Contains(families, a.Family)
	}
}

// transformers says whether the model is one of transformers' own classes.
func (a *Architecture) transformers() bool {
	return a.Written == nil && !a.NanoGPT() && !a.Generic
}

// LacksSDPA says that what a job runs with has no sdpa for the model, so that attention is the written-out formula
// where nothing is said.
func (a *Architecture) LacksSDPA(software *release.Set) bool {
	return slices.ContainsFunc(lacksSDPA, func(c release.ID) bool {
		return software.Has(c) && a.Concerns(c, Use{Attention: step.AttentionSDPA})
	})
}
