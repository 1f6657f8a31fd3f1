package model

import (
	"github.com/vramplan/vramplan/estimator/invalid"
	"maps"

	"github.com/vramplan/vramplan/estimator/step"
)

// family is how one model_type is read, built and run. Each has a file of its own that mirrors the
// module of transformers it stands for; a new one is that file and its line in the table below.
type family struct {
	// modelType is what a config.json calls it; empty for families that have no file.
	modelType string
	// classes are the ends of the names of the classes (architectures in a config.json) that build runs, the
	// first one where the file names none; nil for causal language models.
	classes []string
	// pooled are those of them that have a pooler.
	pooled []string
	// keys are what the checks call an architecture's numbers, by the keys that the user wrote.
	keys fieldNames
	// defaults are those of the configuration class, which hold where a config.json is silent.
	defaults map[string]any
	// ignored are keys that published files have and transformers' class does not: what they say is what it does
	// anyway, or is about parts that it does not build.
	ignored []string
	// read fills in the architecture from a config.json.
	read func(c *config, a *Architecture)
	// uncompiled says why torch.compile is not modelled for the family; empty where it is.
	uncompiled string
	// spelled are the configuration class's own names of what most call otherwise (plainNumbers).
	spelled map[string]string
	// numbers puts into a configuration what a catalog entry says in numbers of its own, and what all entries of the
	// family have in common where the class's defaults are otherwise; nil where the plain numbers say everything.
	numbers func(p *Preset, c map[string]any)
	// pictureTokens is how many tokens a picture of so many pixels takes, or why the model does not read it; nil for
	// models that read no pictures in their sequences.
	pictureTokens func(a *Architecture, height, width int64) (tokens int64, why string)
	// usualPictures completes what a job leaves open of the pictures of a sequence, which have room for so many tokens,
	// and says where that is from; nil where one picture of the tower's own size is what a sequence has.
	usualPictures func(a *Architecture, p Pictures, room int64) (usual Pictures, why string)
	// undealt says why FSDP is not modelled for the family; empty where it is.
	undealt string
	// planned says that its tp_plan cuts the projections of attention and MLP and nothing else; that of the head, which
	// the classes list, does not reach the model. Source: transformers/models/*/configuration_*.py
	// (base_model_tp_plan), modeling_utils.py (PreTrainedModel.post_init), 4.57.
	planned bool
	// trainPy says that it is trained by a train.py of its own, nanoGPT's.
	trainPy bool
	// logits describes what a loss is computed of for a batch; nil where the class says it.
	logits func(batch int64) string
	// refuseTargets refuses adapters that the family cannot have; nil where it can have all.
	refuseTargets func(a *Architecture, pointer string, errs *invalid.List)
	// withoutTower is transformers' class that is the text model alone of what a file with a tower holds; empty where
	// there is none.
	withoutTower string
	// build declares the parameters and buffers in the order of the module's children and returns the model
	// that uses them. It may be called often and must not change the architecture.
	build func(b *builder) step.Network
}

type fieldNames struct{ heads, hidden, kv, dim string }

// The names that most configuration classes use.
var commonKeys = fieldNames{heads: "num_attention_heads", hidden: "hidden_size", kv: "num_key_value_heads",
	dim: "head_dim"}

// with are the defaults of one configuration class with those that another has otherwise.
func with(defaults, otherwise map[string]any) map[string]any {
	all := maps.Clone(defaults)
	maps.Copy(all, otherwise)
	return all
}
