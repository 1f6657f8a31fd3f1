package arch

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/step"
)

// saves says whether a copy of the module of this name, or of the head for classes that it is part of, is trained in
// full. Source: peft/utils/other.py (_set_trainable), 0.21.
func (b *Builder) saves(name string) bool {
	if b.A.LoRA == nil {
		return false
	}
	for _, end := range b.A.LoRA.Saved {
		if strings.HasSuffix(name, end) || insideHead(name, end) {
			if b.saved != nil {
				b.saved[end] = true
			}
			return true
		}
	}
	return false
}

// insideHead says whether name is a layer of a head for classes that is a module of several, and saved names that head.
// Of other modules of several layers no trace has shown what peft copies; they are refused.
func insideHead(name, saved string) bool {
	return saved == otherScore && strings.HasPrefix(name, saved+".")
}

// tear notes that name, a layer of a head that is trained in full, is to get an adapter, which peft would copy with
// it.
func (b *Builder) tear(name string) {
	for _, end := range b.A.LoRA.Saved {
		if b.torn != nil && insideHead(name, end) {
			b.torn[end] = true
		}
	}
}

// Trained is w itself or the copy of it that peft's ModulesToSaveWrapper trains, for which w stays.
func (b *Builder) Trained(name string, w step.Weight) step.Weight {
	if !w.Exists() || !b.saves(name) {
		return w
	}
	p := b.P.List[w.Index]
	p.Frozen = false
	if b.A.LoRA.Base != step.NotQuantised {
		p.Loading = step.Copied
	}
	w.Index = b.Declare(p)
	return w
}

// otherScore is what some models call their head for classes: peft saves it and score of every model that gives
// classes, whichever it has. Source: peft/peft_model.py (PeftModelForSequenceClassification.__init__), 0.21.
const otherScore = "classifier"

// checkSaved refuses modules to save that the model does not have.
func (a *Architecture) checkSaved(b *Builder, pointer string, errs *invalid.List) {
	for i, name := range a.LoRA.Saved {
		if !b.saved[name] && !(a.Scored && name == otherScore) {
			errs.Add(fmt.Sprintf("%s/%d", pointer, i), "unknown_value",
				"no parameter of the model belongs to a module called %.100s", name)
		}
		if b.torn[name] {
			errs.Add(fmt.Sprintf("%s/%d", pointer, i), "conflict", "modules inside %.100s get adapters; a module that "+
				"is trained in full with adapters inside is not modelled", name)
		}
	}
}
