package arch

import (
	"maps"

	"github.com/vramplan/vramplan/estimator/invalid"

	"github.com/vramplan/vramplan/estimator/step"
)

// Family is how one model_type is read, built and run. Each has a file of its own that mirrors the
// module of transformers it stands for; a new one is that file and its line in the table below.
type Family struct {
	// ModelType is what a config.json calls it; empty for families that have no file.
	ModelType string
	// Classes are the ends of the names of the classes (architectures in a config.json) that build runs, the
	// first one where the file names none; nil for causal language models.
	Classes []string
	// OwnClasses says that a decoder's classes for tokens are written in the model's file and not those of
	// modeling_layers.py: the head is called classifier there. WidensClasses says that their loss is of logits in
	// float32 all the same.
	OwnClasses, WidensClasses bool
	// Pooled are those of them that have a pooler.
	Pooled []string
	// Keys are what the checks call an architecture's numbers, by the keys that the user wrote.
	Keys FieldNames
	// Defaults are those of the configuration class, which hold where a config.json is silent.
	Defaults map[string]any
	// Ignored are keys that published files have and transformers' class does not: what they say is what it does
	// anyway, or is about parts that it does not build.
	Ignored []string
	// Read is a, of which the head of a config.json is read, with what the rest of the file says.
	Read func(c *Config, a Architecture) Architecture
	// Uncompiled says why torch.compile is not modelled for the family; empty where it is.
	Uncompiled string
	// Spelled are the configuration class's own names of what most call otherwise (plainNumbers).
	Spelled map[string]string
	// Numbers puts into a configuration what a catalog entry says in numbers of its own, and what all entries of the
	// family have in common where the class's defaults are otherwise; nil where the plain numbers say everything.
	Numbers func(p *Preset, c map[string]any)
	// PictureTokens is how many tokens a picture of so many pixels takes, or why the model does not read it; nil for
	// models that read no pictures in their sequences.
	PictureTokens func(a *Architecture, height, width int64) (tokens int64, why string)
	// UsualPictures completes what a job leaves open of the pictures of a sequence, which have room for so many tokens,
	// and says where that is from; nil where one picture of the tower's own size is what a sequence has.
	UsualPictures func(a *Architecture, p Pictures, room int64) (usual Pictures, why string)
	// Undealt says why FSDP is not modelled for the family; empty where it is.
	Undealt string
	// Planned says that its tp_plan cuts the projections of attention and MLP and nothing else; that of the head, which
	// the classes list, does not reach the model. Source: transformers/models/*/configuration_*.py
	// (base_model_tp_plan), modeling_utils.py (PreTrainedModel.post_init), 4.57.
	Planned bool
	// TrainPy says that it is trained by a train.py of its own, nanoGPT's.
	TrainPy bool
	// Logits describes what a loss is computed of for a batch; nil where the class says it.
	Logits func(batch int64) string
	// RefuseTargets refuses adapters that the family cannot have; nil where it can have all.
	RefuseTargets func(a *Architecture, pointer string, errs *invalid.List)
	// WithoutTower is transformers' class that is the text model alone of what a file with a tower holds; empty where
	// there is none.
	WithoutTower string
	// Build declares the parameters and buffers in the order of the module's children and returns the model
	// that uses them. It may be called often and must not change the architecture.
	Build func(b *Builder) step.Network
	// Settled makes of an architecture that was read what the releases that are its Software write, where that is more
	// than other layers; nil where it is not.
	Settled func(a *Architecture)
}

// FieldNames are what checks call an architecture's numbers.
type FieldNames struct{ Heads, Hidden, KV, Dim string }

// CommonKeys are the names that most configuration classes use.
var CommonKeys = FieldNames{Heads: "num_attention_heads", Hidden: "hidden_size", KV: "num_key_value_heads",
	Dim: "head_dim"}

// With are the defaults of one configuration class with those that another has otherwise.
func With(defaults, otherwise map[string]any) map[string]any {
	all := maps.Clone(defaults)
	maps.Copy(all, otherwise)
	return all
}
