package model

import "github.com/vramplan/vramplan/estimator/step"

// What only a family's own files understand of an architecture (Architecture.own) says what the rest has to know of it
// by these.
type (
	// bidirectional says whether a kernel of attention is told that every token sees all others.
	bidirectional interface{ bidirectional() bool }
	// encoding says whether it is a text encoder of BERT's kind.
	encoding interface{ encodes() bool }
	// withExperts has a mixture of experts, nil where there is none; grouped says whether later releases run it as
	// grouped products, as far as that is replayed.
	withExperts interface {
		mixed() (e *experts, grouped bool)
	}
	// uneven says whether the experts of a layer are not alike.
	uneven interface {
		unevenExperts(s *step.Software) bool
	}
	// turning says how many elements of a head are turned by rotary positions.
	turning interface{ rotaryWidth() int64 }
	// seer reads pictures among its tokens: it is a text model with a tower.
	seer interface{ textFamily() *family }
)

// Encoder says whether the model is a text encoder of BERT's kind, in which every token sees all others.
func (a *Architecture) Encoder() bool {
	own, ok := a.own.(encoding)
	return ok && own.encodes()
}

// rotaryWidth is how many elements of a head are turned.
func (a *Architecture) rotaryWidth() int64 {
	if own, ok := a.own.(turning); ok {
		return own.rotaryWidth()
	}
	return a.HeadDim
}

// Sees says whether the model reads pictures among its tokens.
func (a *Architecture) Sees() bool {
	_, sees := a.own.(seer)
	return sees
}

// uncompiledSeeing is why models that see are not compiled here.
const uncompiledSeeing = "torch.compile is not modelled for models that read pictures; leave compile out"
