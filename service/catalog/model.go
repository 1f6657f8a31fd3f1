package catalog

import "github.com/vramplan/vramplan/estimator/model"

// Model is one model of the catalog. Values that a Catalog hands out are
// shared: they are for reading only.
type Model struct {
	model.Preset

	// AliasNotes explains those aliases that stand for a sibling of the model.
	AliasNotes map[string]string `json:"alias_notes,omitempty"`
	// Source is where the dimensions are from, ParametersSource the count.
	Source           string `json:"source,omitempty"`
	ParametersSource string `json:"params_total_source,omitempty"`
	// ParametersCheck is "exact" where the computed count equals a published one.
	ParametersCheck string `json:"params_check,omitempty"`
	Notes           string `json:"notes,omitempty"`

	Origin   Origin `json:"origin,omitempty"`
	Revision int64  `json:"revision,omitempty"`
}

// AliasNote is what is to be said about reading name as this model; "" when
// the name is simply another spelling.
func (m *Model) AliasNote(name string) string { return aliasNote(m.AliasNotes, name, ModelKey) }

// Version names this state of the entry: no other state of an entry of this id has it.
func (m *Model) Version() string { return version(m.Origin, m.Revision) }
