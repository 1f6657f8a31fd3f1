package arch

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// sdpaFrom are the releases of transformers by which families came to have sdpa, which is the default where a family
// has it, with the last ones read that had none. Families that had it when they came are not here, nor is Falcon, whose
// class called torch's kernel itself before.
var sdpaFrom = []struct {
	release, read string
	families      []string
}{
	{"4.36", "4.35.2 and 4.36.2", []string{"bart", "gpt_bigcode", "llama", "whisper"}},
	{"4.37", "4.36.2 and 4.37.2", []string{"mistral", "mixtral"}},
	{"4.39", "4.38.2 and 4.39.3", []string{"phi", "stablelm"}},
	{"4.41", "4.40.2 and 4.41.2", []string{"bert", "vit"}},
	{"4.42", "4.41.2 and 4.42.4", []string{"gpt2", "gpt_neox"}},
	{"4.43", "4.42.4 and 4.43.4", []string{"clip"}},
	{"4.45", "4.44.2 and 4.45.2", []string{"albert", "camembert", "mbart", "phi3", "roberta", "xlm-roberta"}},
	{"4.46", "4.45.2 and 4.46.3", []string{"distilbert", "opt"}},
}

// lacksSDPA are the changes before which attention is written out where nothing is said.
var lacksSDPA = func() (all []release.ID) {
	for _, row := range sdpaFrom {
		last := len(row.families) - 1
		names := row.families[last]
		if last > 0 {
			names = strings.Join(row.families[:last], ", ") + " and " + names
		}
		all = append(all, Of(func(a *Architecture, by Use) bool {
			return by.Attention == step.AttentionSDPA && a.transformers() && slices.Contains(row.families, a.Family)
		}, release.Declare(release.Switch("lacks-sdpa-before-"+row.release), release.Change{
			Library: "transformers", To: row.release,
			What: "transformers before " + row.release + " has no sdpa for " + names +
				": attention is the formula written out where nothing is said",
			Source: "models/*/modeling_*.py (_supports_sdpa), " + row.read, Shown: "the source alone",
		})))
	}
	return all
}()

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
