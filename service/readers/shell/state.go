package shell

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// variable is what a name holds. A name that is not in a state's variables was not touched by the script.
type variable struct {
	value    Word
	list     []Word // of an array
	isList   bool
	unset    bool // for sure
	unknown  bool // nothing is known of it, not even whether it is set
	exported bool
	odd      bool // has an attribute that changes what assignments do
	readonly bool
	either   *either // what it may be, where value is not all that is known
}

// ending is how a branch of a script ends.
type ending uint8

const (
	goesOn ending = iota
	fails         // exit 1: the script fails
	exits         // exit 0
	leaves        // break, continue, return: its frame goes on
)

// doubt is a reason why a command may not run.
type doubt struct {
	why    string
	likely bool
	of     *frame // the loop or function that it lasts for; nil for the rest of the script
}

// frame is a loop or a function, with the states in which it is left early.
type frame struct {
	function bool
	left     []*state // by break and return
	again    []*state // by continue
}

// state is what a shell holds at one point of the script. Values in it are never changed in place.
type state struct {
	vars      map[string]variable
	functions map[string]function
	args      []Word
	argsKnown bool
	argsAny   string // why args are not known
	zero      Word   // $0
	dir       Word
	end       ending
	endWhy    string
	doubts    []doubt
	guarded   string
	openEnv   string
	exportAll bool
	depth     int // scripts within scripts
	frames    []*frame
	decided   *decisions
}

type function struct {
	body *syntax.Stmt
	at   origin
}

func newState(in Input) *state {
	st := &state{vars: map[string]variable{}, functions: map[string]function{}, decided: newDecisions(),
		dir: unknownWord("nobody knows where the script starts")}
	if in.Dir != "" {
		st.dir = sureWord(filepath.Clean(in.Dir))
	}
	for name, value := range in.Env {
		st.vars[name] = variable{value: sureWord(value), exported: true}
	}
	st.zero = unknownWord("$0 is where the scheduler puts the script")
	st.argsAny = "the script's arguments are not known"
	if in.Args != nil {
		st.argsKnown = true
		for _, a := range in.Args {
			st.args = append(st.args, sureWord(a))
		}
	}
	return st
}

// clone is a copy for a branch or a subshell.
func (st *state) clone() *state {
	c := *st
	c.vars, c.functions = maps.Clone(st.vars), maps.Clone(st.functions)
	c.doubts, c.frames = slices.Clip(st.doubts), slices.Clip(st.frames)
	return &c
}

// branch is a copy in which everything is doubtful.
func (st *state) branch(why string, likely bool) *state {
	c := st.clone()
	c.doubts = append(c.doubts, doubt{why: why, likely: likely})
	return c
}

// subshell is a copy that cannot leave the loops and functions around it.
func (st *state) subshell() *state {
	c := st.clone()
	c.frames = nil
	return c
}

const maxDoubts = 32

// doubt makes what follows doubtful.
func (st *state) doubt(why string, likely bool) { st.doubtFor(doubt{why: why, likely: likely}) }

func (st *state) doubtFor(d doubt) {
	if len(st.doubts) < maxDoubts && !slices.Contains(st.doubts, d) {
		st.doubts = append(st.doubts, d)
	}
}

// runs says whether what comes next runs.
func (st *state) runs() (r Runs, why string, likely bool) {
	if st.end != goesOn {
		return Never, st.endWhy, false
	}
	if len(st.doubts) == 0 {
		return Surely, "", true
	}
	for _, d := range st.doubts {
		if !d.likely {
			return Maybe, d.why, false
		}
	}
	return Maybe, st.doubts[0].why, true
}

// join makes st, which has not changed since they were made, what holds after one of two branches of it.
func (st *state) join(a, b *state, why string, likelyA, likelyB bool) {
	before := len(st.doubts)
	doubts := slices.Clip(st.doubts)
	switch {
	case a.end != goesOn && b.end != goesOn:
		if a.end == fails || a.end == exits && b.end == leaves { // the milder end, of which more may follow
			a = b
		}
		*st = *a
		return
	case a.end != goesOn:
		st.follow(b, a, before)
		return
	case b.end != goesOn:
		st.follow(a, b, before)
		return
	}
	merged := a.merge(b, why, likelyA, likelyB, st.decided.next())
	merged.doubts = doubts
	for _, s := range []*state{a, b} {
		for _, d := range s.doubts[min(len(s.doubts), before+1):] {
			d.likely = d.likely || likelyA && s != a || likelyB && s != b
			merged.doubtFor(d)
		}
	}
	*st = *merged
}

// follow goes on with the branch that did not end. That what comes next runs is then doubtful, unless the other
// one fails: a script that fails is not one that does without it.
func (st *state) follow(alive, dead *state, before int) {
	own := alive.doubts[min(len(alive.doubts), before+1):]
	doubts := slices.Clip(st.doubts)
	if entered := alive.doubts[before:min(len(alive.doubts), before+1)]; dead.end != fails && len(entered) == 1 {
		d := entered[0]
		if dead.end == leaves && len(alive.frames) > 0 {
			d.of = alive.frames[len(alive.frames)-1]
		}
		own = append(slices.Clip([]doubt{d}), own...)
	}
	*st = *alive
	st.doubts = doubts
	for _, d := range own {
		st.doubtFor(d)
	}
}

// merge is what two states have in common. at is the decision between them; 0 for one that is not followed.
func (st *state) merge(b *state, why string, likelyA, likelyB bool, at int) *state {
	m := *st
	m.vars = map[string]variable{}
	for _, vars := range []map[string]variable{st.vars, b.vars} {
		for name := range vars {
			if _, done := m.vars[name]; !done {
				m.vars[name] = joinVariables(st.holds(name), b.holds(name), name, why, likelyA, likelyB, at)
			}
		}
	}
	m.functions = maps.Clone(st.functions)
	for name, f := range b.functions {
		if mine, ok := st.functions[name]; !ok || mine.body != f.body {
			m.functions[name] = function{}
		}
	}
	for name := range st.functions {
		if _, ok := b.functions[name]; !ok {
			m.functions[name] = function{}
		}
	}
	if !sameWord(st.dir, b.dir) {
		m.dir = unknownWord("the directory depends on " + why)
	}
	if !slices.EqualFunc(st.args, b.args, sameWord) || st.argsKnown != b.argsKnown {
		m.args, m.argsKnown, m.argsAny = nil, false, "the arguments depend on "+why
	}
	if m.openEnv == "" {
		m.openEnv = b.openEnv
	}
	m.exportAll = st.exportAll || b.exportAll
	return &m
}

// close ends a frame: the states in which it was left early come together with st.
func (st *state) close(f *frame, left []*state, why string) {
	doubts := slices.DeleteFunc(slices.Clone(st.doubts), func(d doubt) bool { return d.of == f })
	for _, s := range left {
		if st.end != goesOn {
			if st.end != leaves {
				doubts = s.doubts
			}
			*st = *s
		} else {
			*st = *st.merge(s, why, false, false, 0)
		}
		st.end, st.endWhy = goesOn, ""
	}
	st.doubts = doubts
}

func sameWord(a, b Word) bool { return a.Text == b.Text && a.Certainty == b.Certainty }

// lookup gives a name's variable, as far as decisions are made; one that the script did not touch is unknown.
func (st *state) lookup(name string) variable { return st.decided.of(st.holds(name)) }

// holds gives a name's variable as it is.
func (st *state) holds(name string) variable {
	if v, ok := st.vars[name]; ok {
		return v
	}
	return variable{unknown: true, value: unknownWord(fmt.Sprintf("$%s is not set by the script", name))}
}

func joinVariables(a, b variable, name, why string, likelyA, likelyB bool, at int) variable {
	if a.either == b.either && a.unset == b.unset && a.unknown == b.unknown && a.isList == b.isList &&
		sameWord(a.value, b.value) &&
		slices.EqualFunc(a.list, b.list, sameWord) {
		a.exported = a.exported || b.exported
		return a
	}
	v := variable{unknown: true, exported: a.exported || b.exported, odd: a.odd || b.odd}
	reason := fmt.Sprintf("$%s depends on %s", name, why)
	if a.value.Certainty > Unknown && b.value.Certainty > Unknown && !a.isList && !b.isList {
		reason = fmt.Sprintf("$%s is %q or %q, by %s", name, clip(a.value.Text), clip(b.value.Text), why)
	}
	v.value = unknownWord(reason)
	for _, side := range []struct {
		v      variable
		likely bool
	}{{a, likelyA}, {b, likelyB}} {
		if side.likely && !side.v.isList && !side.v.unset && !side.v.unknown {
			v.unknown, v.value = false, doubtful(side.v.value, Assumed, reason)
		}
	}
	v.choose(at, a, b)
	return v
}

// doubtful lowers the certainty of a word.
func doubtful(w Word, to Certainty, reason string) Word {
	pieces := slices.Clone(w.Pieces)
	for i := range pieces {
		if pieces[i].Certainty > to {
			pieces[i].Certainty, pieces[i].Reason = to, reason
		}
	}
	if len(pieces) == 0 {
		pieces = []Piece{{Certainty: to, Reason: reason}}
	}
	return wordOf(pieces)
}

// forget makes a name unknown.
func (st *state) forget(name, reason string) {
	v := st.vars[name]
	st.vars[name] = variable{unknown: true, value: unknownWord("$" + name + " is " + reason), exported: v.exported,
		odd: v.odd, readonly: v.readonly}
}

// forgetAll makes all names unknown.
func (st *state) forgetAll(reason string) {
	for name := range st.vars {
		st.forget(name, reason)
	}
	st.openEnv = reason
}

func clip(s string) string {
	if len(s) > 60 {
		return s[:60] + "…"
	}
	return s
}
