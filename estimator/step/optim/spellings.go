package optim

import (
	"slices"
	"strings"
)

// Spelled is an optimizer as another tool writes it: the name and the implementation that a job document has for it.
type Spelled struct{ Name, Implementation string }

// TrainerWords are the values of the Trainer's --optim that mean an optimizer of the table, and what is written for
// them where it is not looked at so closely (adamw, lion, paged_adamw). Source: transformers/training_args.py
// (OptimizerNames), 4.57.6 and 5.23.0.
func TrainerWords() map[string]Spelled { return spelled((*Optimizer).trainerWords) }

func (o *Optimizer) trainerWords() []string {
	if o.Trainer == "" {
		return o.TrainerReads
	}
	return append([]string{o.Trainer}, o.TrainerReads...)
}

// ClassPaths are the classes by which a configuration names an optimizer of the table, as Python imports them.
func ClassPaths() map[string]Spelled {
	return spelled(func(o *Optimizer) []string { return o.Classes })
}

func spelled(words func(*Optimizer) []string) map[string]Spelled {
	all := map[string]Spelled{}
	for i := range optimizers {
		for _, word := range words(&optimizers[i]) {
			all[word] = optimizers[i].meant(word)
		}
	}
	return all
}

// meant is what a spelling means: the row, or the synonym whose class it is, by its first implementation that has a
// name.
func (o *Optimizer) meant(word string) Spelled {
	s := Spelled{Name: o.Name}
	if name := nameOfClass(word); slices.Contains(o.Synonyms, name) {
		s.Name = name
	}
	for _, i := range o.Implementations {
		if i != "" {
			s.Implementation = i
			break
		}
	}
	return s
}

// ClassPath is the class that is the optimizer, or the synonym of that name, as Python imports it; empty where none is
// known.
func (o *Optimizer) ClassPath(name string) string {
	for _, class := range o.Classes {
		if nameOfClass(class) == name {
			return class
		}
	}
	if len(o.Classes) == 0 {
		return ""
	}
	return o.Classes[0]
}

func nameOfClass(path string) string {
	return strings.ToLower(path[strings.LastIndexByte(path, '.')+1:])
}

// LeastStateBytes is what it keeps for a parameter at the least, in allocated memory and whatever types a job names.
func (o *Optimizer) LeastStateBytes() int64 {
	if o.QuantisedMoments > 0 {
		return o.QuantisedMoments
	}
	const half = 2 // no state has a type of fewer bytes
	return int64(o.Moments) * half
}
