package arch

import (
	"github.com/vramplan/vramplan/estimator/release"
)

// What only a family's own files understand of an architecture (Architecture.own) says what the rest has to know of it
// by these.
type (
	// bidirectional says whether a kernel of attention is told that every token sees all others.
	bidirectional interface{ Bidirectional() bool }
	// encoding says whether it is a text encoder of BERT's kind.
	encoding interface{ Encodes() bool }
	// withExperts has a mixture of experts, nil where there is none; grouped says whether later releases run it as
	// grouped products, as far as that is replayed.
	withExperts interface {
		Mixture() (e *Experts, grouped bool)
	}
	// uneven says whether the experts of a layer are not alike.
	uneven interface {
		UnevenExperts(s *release.Set) bool
	}
	// turning says how many elements of a head are turned by rotary positions.
	turning interface{ RotaryWidth() int64 }
	// seer reads pictures among its tokens: it is a text model with a tower.
	seer interface{ TextFamily() *Family }
)

// Encoder says whether the model is a text encoder of BERT's kind, in which every token sees all others.
func (a *Architecture) Encoder() bool {
	own, ok := a.Own.(encoding)
	return ok && own.Encodes()
}

// RotaryWidth is how many elements of a head are turned.
func (a *Architecture) RotaryWidth() int64 {
	if own, ok := a.Own.(turning); ok {
		return own.RotaryWidth()
	}
	return a.HeadDim
}

// Sees says whether the model reads pictures among its tokens.
func (a *Architecture) Sees() bool {
	_, sees := a.Own.(seer)
	return sees
}

// UncompiledSeeing is why models that see are not compiled here.
const UncompiledSeeing = "torch.compile is not modelled for models that read pictures; leave compile out"
