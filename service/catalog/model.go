package catalog

import "github.com/vramplan/vramplan/estimator/model/arch"

// Model is one model of the catalog. Values that a Catalog hands out are
// shared: they are for reading only.
type Model struct {
	arch.Preset

	// AliasNotes explains those aliases that stand for a sibling of the model.
	AliasNotes map[string]string `json:"alias_notes,omitempty"`
	// Source is where the dimensions are from, ParametersSource the count.
	Source           string `json:"source,omitempty"`
	ParametersSource string `json:"params_total_source,omitempty"`
	// ParametersCheck is "exact" where the computed count equals a published one.
	ParametersCheck string `json:"params_check,omitempty"`
	Notes           string `json:"notes,omitempty"`

	// Recording says of what a recorded model was recorded.
	Recording *Recording `json:"recording,omitempty"`

	Origin   Origin `json:"origin,omitempty"`
	Revision int64  `json:"revision,omitempty"`
}

// Recording is where a recorded model is from.
type Recording struct {
	// Name is the class or function that was recorded, Source the module that has it.
	Name   string `json:"name" validate:"max=200"`
	Source string `json:"source" validate:"max=200"`
	// Digest is the recorder's own, of all that it wrote.
	Digest string `json:"digest" validate:"max=200"`
	// Versions are the releases with which it was recorded.
	Versions map[string]string `json:"versions" validate:"max=32,dive,keys,max=200,endkeys,max=200"`
	// Precisions are the kinds that it was recorded in, Layers the number of layers that repeat, Bytes its length.
	Precisions []string `json:"precisions" validate:"max=8,dive,max=16"`
	Layers     int64    `json:"layers" validate:"gte=0,lte=9007199254740991"`
	Bytes      int64    `json:"bytes" validate:"gte=0,lte=9007199254740991"`
	// Unexpressed is what the recorder could not write down.
	Unexpressed []string `json:"unexpressed,omitempty" validate:"max=64,dive,max=1000"`
}

// AliasNote is what is to be said about reading name as this model; "" when
// the name is simply another spelling.
func (m *Model) AliasNote(name string) string { return aliasNote(m.AliasNotes, name, ModelKey) }

// Version names this state of the entry: no other state of an entry of this id has it.
func (m *Model) Version() string { return version(m.Origin, m.Revision) }
