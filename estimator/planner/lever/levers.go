package lever

import (
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

// What a lever costs the user beside time, as a share of the step time in the
// ranking: one per cent for a setting, more where code has to change or another
// library has to be installed.
const (
	SettingEffort = 0.01
	codeEffort    = 0.1
	// compileEffort is for the minutes that compilation takes, again for every new shape, and the
	// models that do not compile in one piece.
	compileEffort = 0.2
)

// Lever is one change to a job other than its pair.
type Lever struct {
	Code  string // unique among the levers of a plan
	Group string // levers of one group exclude each other
	Title string
	// Apply changes its own copy of the job; it must replace what a pointer points
	// to, never write through it.
	Apply    func(*estimator.Input)
	Changes  map[string]any
	Settings []string
	// Library is whose code it is.
	Library string
	Effort  float64
	// Effect is what the lever does to training, and disturbs how far it moves the
	// result beside other levers; empty and 0 mean nothing.
	Effect   string
	Disturbs float64
	// GPUs is the number of data-parallel GPUs that the lever puts the job on; 0 where it leaves that alone.
	GPUs int64
}

func (l Lever) changesTraining() bool { return l.Effect != "" }

// Variant is a set of levers, in the order in which they were pulled.
type Variant struct {
	Key    string
	Levers []Lever
}

// With pulls one more lever, in the place of one of the same group.
func (v Variant) With(l Lever) Variant {
	ls := slices.DeleteFunc(slices.Clone(v.Levers), func(x Lever) bool { return x.Group == l.Group })
	return NewVariant(append(ls, l)...)
}

// Pulled reports whether a lever is among those of v.
func (v Variant) Pulled(l Lever) bool {
	return slices.ContainsFunc(v.Levers, func(x Lever) bool { return x.Code == l.Code })
}

// NewVariant is a set of levers.
func NewVariant(ls ...Lever) Variant {
	codes := make([]string, len(ls))
	for i, l := range ls {
		codes[i] = l.Code
	}
	return Variant{Key: strings.Join(codes, "+"), Levers: ls}
}

// ChangesTraining reports whether one of them gives another result of training.
func (v Variant) ChangesTraining() bool {
	for _, l := range v.Levers {
		if l.changesTraining() {
			return true
		}
	}
	return false
}

// ChangingGroups are the groups of the levers that change training, sorted.
func (v Variant) ChangingGroups() []string {
	var gs []string
	for _, l := range v.Levers {
		if l.changesTraining() {
			gs = append(gs, l.Group)
		}
	}
	slices.Sort(gs)
	return gs
}

// Effort is what they cost the user beside time.
func (v Variant) Effort() (sum float64) {
	for _, l := range v.Levers {
		sum += l.Effort
	}
	return sum
}

// Changes are the fields of the job that they change, each with its new value.
func (v Variant) Changes() map[string]any {
	all := map[string]any{}
	for _, l := range v.Levers {
		for field, value := range l.Changes {
			former, nested := all[field].(map[string]any)
			if more, is := value.(map[string]any); is && nested { // fields of the objective, by several levers
				value = maps.Clone(former)
				maps.Copy(value.(map[string]any), more)
			}
			all[field] = value
		}
	}
	return all
}

// Holds reports whether a lever of the same group is pulled already.
func (v Variant) Holds(group string) bool {
	for _, l := range v.Levers {
		if l.Group == group {
			return true
		}
	}
	return false
}

// GPUs is the number of data-parallel GPUs that a lever puts the job on; 0 where none does.
func (v Variant) GPUs() int64 {
	for _, l := range v.Levers {
		if l.GPUs > 0 {
			return l.GPUs
		}
	}
	return 0
}

// OtherCards reports whether v runs on another card, or on more of them.
func (v Variant) OtherCards() bool { return v.Holds("gpu") || v.Holds(CardsGroup) }

// trainingLever is a lever on one field of the training object.
func trainingLever(code, group, title, field string, value any, set func(*estimator.Training)) Lever {
	return Lever{
		Code: code, Group: group, Title: title, Effort: SettingEffort,
		Apply:   func(in *estimator.Input) { set(&in.Job.Training) },
		Changes: map[string]any{field: value},
	}
}
