package arch

import "github.com/vramplan/vramplan/estimator/step"

// Whole is a model with towers for pictures or sound that is trained on text.
type Whole struct {
	// Family is its model_type.
	Family string
	// TextClass is the class of the text model alone, empty where there is none, and Auto says that it is what
	// AutoModelForCausalLM loads. Source: transformers/models/auto/modeling_auto.py, auto_factory.py, 5.23.
	TextClass string
	Auto      bool
}

// Beside is what stands beside a text model and is loaded though no batch of text runs it.
type Beside interface {
	// Modules declares it with the text model, and returns the class of both.
	Modules(b *Builder) step.Network
}

// HasTower says whether a tower is loaded, on whatever the model is trained.
func (a *Architecture) HasTower() bool { return a.Beside != nil || a.Sees() }

// Idles says whether the model may have parameters that a step does not reach.
func (a *Architecture) Idles() bool { return a.Beside != nil || a.Sees() }

// WithTowers says whether the whole that this is the text model of is trained with its towers, which have so many
// parameters.
func (a *Architecture) WithTowers() (parameters int64, with bool) {
	if a.Beside == nil {
		return 0, false
	}
	alone := *a
	alone.Beside = nil
	return a.ParameterCount() - alone.ParameterCount(), true
}

// Pictures are those of every sequence.
type Pictures struct {
	// Images is how many there are, Height and Width how many pixels each has.
	Images, Height, Width int64
	// Frozen says that the tower that looks at them is not trained.
	Frozen bool
}
