package planner

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
	settingEffort = 0.01
	codeEffort    = 0.1
	// compileEffort is for the minutes that compilation takes, again for every new shape, and the
	// models that do not compile in one piece.
	compileEffort = 0.2
)

// lever is one change to a job other than its pair.
type lever struct {
	code  string // unique among the levers of a plan
	group string // levers of one group exclude each other
	title string
	// apply changes its own copy of the job; it must replace what a pointer points
	// to, never write through it.
	apply    func(*estimator.Input)
	changes  map[string]any
	settings []string
	// library is whose code it is.
	library string
	effort  float64
	// effect is what the lever does to training, and disturbs how far it moves the
	// result beside other levers; empty and 0 mean nothing.
	effect   string
	disturbs float64
	// gpus is the number of data-parallel GPUs that the lever puts the job on; 0 where it leaves that alone.
	gpus int64
}

func (l lever) changesTraining() bool { return l.effect != "" }

// variant is a set of levers, in the order in which they were pulled.
type variant struct {
	key    string
	levers []lever
}

// with pulls one more lever, in the place of one of the same group.
func (v variant) with(l lever) variant {
	ls := slices.DeleteFunc(slices.Clone(v.levers), func(x lever) bool { return x.group == l.group })
	return newVariant(append(ls, l)...)
}

// pulled reports whether a lever is among those of v.
func (v variant) pulled(l lever) bool {
	return slices.ContainsFunc(v.levers, func(x lever) bool { return x.code == l.code })
}

func newVariant(ls ...lever) variant {
	codes := make([]string, len(ls))
	for i, l := range ls {
		codes[i] = l.code
	}
	return variant{key: strings.Join(codes, "+"), levers: ls}
}

func (v variant) changesTraining() bool {
	for _, l := range v.levers {
		if l.changesTraining() {
			return true
		}
	}
	return false
}

// changingGroups are the groups of the levers that change training, sorted.
func (v variant) changingGroups() []string {
	var gs []string
	for _, l := range v.levers {
		if l.changesTraining() {
			gs = append(gs, l.group)
		}
	}
	slices.Sort(gs)
	return gs
}

func (v variant) effort() (sum float64) {
	for _, l := range v.levers {
		sum += l.effort
	}
	return sum
}

func (v variant) changes() map[string]any {
	all := map[string]any{}
	for _, l := range v.levers {
		for field, value := range l.changes {
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

// holds reports whether a lever of the same group is pulled already.
func (v variant) holds(group string) bool {
	for _, l := range v.levers {
		if l.group == group {
			return true
		}
	}
	return false
}

// gpus is the number of data-parallel GPUs that a lever puts the job on; 0 where none does.
func (v variant) gpus() int64 {
	for _, l := range v.levers {
		if l.gpus > 0 {
			return l.gpus
		}
	}
	return 0
}

// otherCards reports whether v runs on another card, or on more of them.
func (v variant) otherCards() bool { return v.holds("gpu") || v.holds(cardsGroup) }

// trainingLever is a lever on one field of the training object.
func trainingLever(code, group, title, field string, value any, set func(*estimator.Training)) lever {
	return lever{
		code: code, group: group, title: title, effort: settingEffort,
		apply:   func(in *estimator.Input) { set(&in.Job.Training) },
		changes: map[string]any{field: value},
	}
}
