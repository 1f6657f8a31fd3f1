package shell

import (
	"slices"

	"mvdan.cc/sh/v3/syntax"
)

// maxWays is how many values of one variable, and how many words of one command, are kept apart. Beyond it they are
// not known.
const maxWays = 8

// maxSpare is the most work that goes into ways, in steps and in words of lists: a small part of what a script may cost
// itself. Beyond it what a decision changes is not known.
const maxSpare = 30000

// either is what a variable holds after a decision that only the environment knows: one of two variables, each of which
// may again be either. Variables of one decision are decided together.
type either struct {
	at   int
	of   [2]variable
	ways int
}

// decisions are those of a script that only the environment knows: branches, and whether a variable of its is set.
type decisions struct {
	count int
	// named are those about variables of the environment.
	named map[string]int
	// made are those that are taken for decided, and met those that an expansion asked for and that are not.
	made   map[int]int
	met    []int
	asking bool
}

func newDecisions() *decisions { return &decisions{named: map[string]int{}, made: map[int]int{}} }

// next numbers a decision.
func (d *decisions) next() int { d.count++; return d.count }

// isSet is the decision whether the environment has a variable; made is false where it is open.
func (d *decisions) isSet(name string) (set, made bool) {
	at, ok := d.named[name]
	if !ok {
		at = d.next()
		d.named[name] = at
	}
	way, made := d.decided(at)
	return way == 1, made
}

func (d *decisions) decided(at int) (way int, made bool) {
	if way, made = d.made[at]; !made && d.asking && !slices.Contains(d.met, at) {
		d.met = append(d.met, at)
	}
	return way, made
}

// of is what a variable holds as far as its decisions are made.
func (d *decisions) of(v variable) variable {
	for v.either != nil {
		way, made := d.decided(v.either.at)
		if !made {
			return v
		}
		exported := v.exported
		v = v.either.of[way]
		v.exported = exported
	}
	return v
}

// ways is how many values a variable may have; one that is not known in any way has more than are kept apart.
func (v variable) ways() int {
	switch {
	case v.either != nil:
		return v.either.ways
	case v.unknown || v.odd || v.readonly:
		return maxWays + 1
	}
	return 1
}

// choose makes v one that is either a or b.
func (v *variable) choose(at int, a, b variable) {
	if n := a.ways() + b.ways(); at != 0 && n <= maxWays && !v.odd {
		v.either = &either{at: at, of: [2]variable{a, b}, ways: n}
	}
}

// pure reports whether an expansion has no effect, so that it can be done twice.
func pure(n syntax.Node) bool {
	ok := true
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			ok = false
		case *syntax.ParamExp:
			ok = ok && (n.Exp == nil || n.Exp.Op != syntax.AssignUnset && n.Exp.Op != syntax.AssignUnsetOrNull)
		case *syntax.UnaryArithm, *syntax.BinaryArithm:
			ok = ok && len(arithmeticNames(n)) == 0
		}
		return ok
	})
	return ok
}

// asked does an expansion, and gives the first decision that it asked for and that is open; 0 where there is none.
func (r *reader) asked(st *state, expand func()) int {
	d := st.decided
	before, asking := d.met, d.asking
	d.met, d.asking = nil, true
	expand()
	at := 0
	if len(d.met) > 0 {
		at = d.met[0]
	}
	d.met, d.asking = before, asking
	return at
}

// decide does something for both ways that a decision may go. It is not counted as work of the script: a script that is
// read whole is so with ways, too.
func (r *reader) decide(st *state, at int, do func(way int)) {
	steps, bytes := r.steps, r.bytes
	for way := range 2 {
		st.decided.made[at] = way
		do(way)
	}
	delete(st.decided.made, at)
	r.spare += r.steps - steps + (r.bytes-bytes)/16
	r.steps, r.bytes = steps, bytes
}

// eitherWay is a variable that an expansion works out: for each way of the decisions that the expansion asks for.
func (r *reader) eitherWay(st *state, expand func() variable, depth int) variable {
	var v variable
	at := r.asked(st, func() { v = expand() })
	if at == 0 {
		return v
	}
	if 1<<depth >= maxWays || r.spare > maxSpare {
		v.unknown = true
		return v
	}
	var of [2]variable
	r.decide(st, at, func(way int) {
		of[way] = r.eitherWay(st, expand, depth+1)
		r.spare += len(of[way].list) + len(of[way].value.Pieces)
	})
	v.choose(at, of[0], of[1])
	return v
}

// fieldsEitherWay are the words of a command, and those for each way of the decisions that they ask for; none where
// they ask for none, or for too many.
func (r *reader) fieldsEitherWay(st *state, args []*syntax.Word) (words []Word, variants [][]Word) {
	at := r.asked(st, func() { words = r.fields(st, args) })
	if at == 0 || slices.ContainsFunc(args, func(w *syntax.Word) bool { return !pure(w) }) {
		return words, nil
	}
	variants, ok := r.variants(st, args, at, 0)
	if !ok {
		return words, nil
	}
	return words, variants
}

func (r *reader) variants(st *state, args []*syntax.Word, at, depth int) (all [][]Word, ok bool) {
	if 1<<depth >= maxWays || r.spare > maxSpare {
		return nil, false
	}
	ok = true
	r.decide(st, at, func(int) {
		var words []Word
		next := r.asked(st, func() { words = r.fields(st, args) })
		if next == 0 {
			all = append(all, words)
			return
		}
		deeper, fine := r.variants(st, args, next, depth+1)
		all, ok = append(all, deeper...), ok && fine
	})
	return all, ok
}
