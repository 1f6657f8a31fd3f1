package shell

import (
	"context"
	"fmt"
	"sort"

	"mvdan.cc/sh/v3/syntax"
)

// reader walks scripts. What it found is in script; its states are in the arguments of its methods.
type reader struct {
	ctx    context.Context
	err    error
	script *Script
	at     origin
	// within is Command.Within of what is read.
	within [][]Word
	// partial is Input.Partial.
	partial bool

	textBytes, bytes, steps int
	// spare is the work that went into ways of decisions, beside steps.
	spare        int
	calls        int
	lines        map[int][]int
	functionsRun map[string]bool
	anyFunction  string // why any function may run
	guard        string // how the script deals with the failure of any command
}

// result is how a command ends, as far as it matters to what follows.
type result struct {
	known  Certainty // of value
	value  bool
	normal bool // of a command that is not asked a question: it ends well unless something is wrong
}

var (
	isTrue   = result{known: Sure, value: true}
	isFalse  = result{known: Sure}
	ordinary = result{normal: true}
	open     = result{}
)

func (r *reader) fail(err error) {
	if r.err == nil {
		r.err = err
	}
}

// step counts the work and says whether to go on.
func (r *reader) step() bool {
	if r.steps++; r.steps > maxSteps {
		r.fail(&LimitError{"the commands and loops of the script"})
	}
	if r.steps%256 == 0 && r.ctx.Err() != nil {
		r.fail(r.ctx.Err())
	}
	return r.err == nil
}

func (r *reader) run(st *state, file *syntax.File) result {
	r.lookForStatus(file)
	return r.stmts(st, file.Stmts)
}

func (r *reader) stmts(st *state, list []*syntax.Stmt) result {
	last := isTrue
	for _, s := range list {
		last = r.stmt(st, s)
	}
	return last
}

func (r *reader) stmt(st *state, s *syntax.Stmt) result {
	if !r.step() || s.Cmd == nil && len(s.Redirs) == 0 {
		return open
	}
	if s.Background || s.Coprocess {
		in := st.subshell()
		r.command(in, s)
		return isTrue
	}
	if s.Negated {
		before := st.guarded
		if st.guarded == "" {
			st.guarded = fmt.Sprintf("line %d asks whether it fails", r.line(s))
		}
		got := r.command(st, s)
		st.guarded = before
		return result{known: got.known, value: !got.value}
	}
	return r.command(st, s)
}

func (r *reader) command(st *state, s *syntax.Stmt) result {
	if call, ok := s.Cmd.(*syntax.CallExpr); ok {
		return r.call(st, call, s.Redirs)
	}
	r.redirect(st, s.Redirs, false)
	switch c := s.Cmd.(type) {
	case *syntax.Block:
		return r.stmts(st, c.Stmts)
	case *syntax.Subshell:
		return r.inSubshell(st, c.Stmts)
	case *syntax.BinaryCmd:
		return r.binary(st, c)
	case *syntax.IfClause:
		r.ifClause(st, c)
	case *syntax.WhileClause:
		r.while(st, c)
	case *syntax.ForClause:
		r.forClause(st, c)
	case *syntax.CaseClause:
		r.caseClause(st, c)
	case *syntax.FuncDecl:
		if c.Name != nil && st.end == goesOn {
			f := function{body: c.Body, at: r.at}
			if _, twice := st.functions[c.Name.Value]; twice && len(st.doubts) > 0 {
				f.body = nil
			}
			st.functions[c.Name.Value] = f
			r.declared(c)
		}
		return isTrue
	case *syntax.DeclClause:
		r.declare(st, c)
		return isTrue
	case *syntax.TestClause:
		return r.testClause(st, c.X)
	case *syntax.ArithmCmd:
		return r.arithmetic(st, c.X)
	case *syntax.LetClause:
		got := open
		for _, x := range c.Exprs {
			got = r.arithmetic(st, x)
		}
		return got
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return r.stmt(st, c.Stmt)
		}
	case *syntax.CoprocClause:
		r.stmt(st.subshell(), c.Stmt)
		st.forgetAll(fmt.Sprintf("set by a coprocess in line %d", r.line(c)))
	}
	return open
}

// inSubshell runs a list whose changes to the shell are lost. Where it ends the subshell, the script goes on.
func (r *reader) inSubshell(st *state, list []*syntax.Stmt) result {
	in := st.subshell()
	got := r.stmts(in, list)
	if in.end != goesOn && st.end == goesOn {
		return result{known: Unknown}
	}
	return got
}

func (r *reader) binary(st *state, c *syntax.BinaryCmd) result {
	line := r.line(c)
	switch c.Op {
	case syntax.AndStmt:
		got := r.stmt(st, c.X)
		if got.normal || got.known == Sure && got.value {
			return r.stmt(st, c.Y)
		}
		why := fmt.Sprintf("&& in line %d", line)
		if got.known == Sure {
			r.skip(st, []*syntax.Stmt{c.Y}, why)
			return isFalse
		}
		likely := got.known == Assumed && got.value
		return r.optional(st, []*syntax.Stmt{c.Y}, why, likely, got.known == Assumed && !got.value)
	case syntax.OrStmt:
		before := st.guarded
		if st.guarded == "" && !failsOnly(c.Y) {
			st.guarded = fmt.Sprintf("|| in line %d deals with its failure", line)
		}
		got := r.stmt(st, c.X)
		st.guarded = before
		why := fmt.Sprintf("|| in line %d", line)
		if got.known == Sure && !got.value {
			return r.stmt(st, c.Y)
		}
		if got.known == Sure {
			r.skip(st, []*syntax.Stmt{c.Y}, why)
			return isTrue
		}
		return r.optional(st, []*syntax.Stmt{c.Y}, why, got.known == Assumed && !got.value, got.normal ||
			got.known == Assumed && got.value)
	}
	r.stmt(st.subshell(), c.X) // a pipe
	in := st.subshell()
	got := r.stmt(in, c.Y)
	return got
}

// optional runs a list that may be passed by.
func (r *reader) optional(st *state, list []*syntax.Stmt, why string, likely, unlikely bool) result {
	taken, passed := st.branch(why, likely), st.branch(why, unlikely)
	r.stmts(taken, list)
	st.join(taken, passed, why, likely, unlikely)
	if taken.end == fails { // only the way without it goes on
		return ordinary
	}
	return open
}

// skip shows what is there without any effect.
func (r *reader) skip(st *state, list []*syntax.Stmt, why string) {
	in := st.subshell()
	if in.end == goesOn {
		in.end, in.endWhy = exits, why+" is decided the other way"
	}
	r.stmts(in, list)
}

func (r *reader) ifClause(st *state, c *syntax.IfClause) {
	if !r.step() {
		return
	}
	line := r.line(c)
	before := st.guarded
	if st.guarded == "" {
		st.guarded = fmt.Sprintf("if in line %d asks whether it fails", line)
	}
	got := r.stmts(st, c.Cond)
	st.guarded = before
	why := fmt.Sprintf("if in line %d", line)
	otherwise := func(st *state) {
		switch {
		case c.Else == nil:
		case len(c.Else.Cond) == 0: // else
			r.stmts(st, c.Else.Then)
		default:
			r.ifClause(st, c.Else)
		}
	}
	if got.known == Sure {
		if got.value {
			r.stmts(st, c.Then)
			if c.Else != nil {
				r.skipElse(st, c.Else, why)
			}
		} else {
			r.skip(st, c.Then, why)
			otherwise(st)
		}
		return
	}
	likely, unlikely := got.known == Assumed && got.value, got.known == Assumed && !got.value
	a, b := st.branch(why, likely), st.branch(why, unlikely)
	r.stmts(a, c.Then)
	otherwise(b)
	st.join(a, b, why, likely, unlikely)
}

func (r *reader) skipElse(st *state, c *syntax.IfClause, why string) {
	for ; c != nil; c = c.Else {
		r.skip(st, c.Then, why)
	}
}

func (r *reader) caseClause(st *state, c *syntax.CaseClause) {
	w := r.word(st, c.Word)
	r.caseItems(st, w, c.Items, fmt.Sprintf("case in line %d", r.line(c)), 0)
}

// maxArms is how many branches of a case are kept apart by those before them. Each of more may run after any other.
const maxArms = 64

func (r *reader) caseItems(st *state, w Word, items []*syntax.CaseItem, why string, arms int) {
	if len(items) == 0 || !r.step() {
		return
	}
	item, rest := items[0], items[1:]
	if item.Op != syntax.Break || arms == maxArms { // ;& and ;;& go on with the next
		for _, i := range items {
			r.optional(st, i.Stmts, why, false, false)
		}
		return
	}
	got := r.matches(st, w, item.Patterns)
	switch {
	case got.known == Sure && got.value:
		r.stmts(st, item.Stmts)
		for _, i := range rest {
			r.skip(st, i.Stmts, why)
		}
	case got.known == Sure:
		r.skip(st, item.Stmts, why)
		r.caseItems(st, w, rest, why, arms)
	default:
		likely, unlikely := got.known == Assumed && got.value, got.known == Assumed && !got.value
		a, b := st.branch(why, likely), st.branch(why, unlikely)
		r.stmts(a, item.Stmts)
		r.caseItems(b, w, rest, why, arms+1)
		st.join(a, b, why, likely, unlikely)
	}
}

// declared notes where functions are, to show those that nobody calls.
func (r *reader) declared(f *syntax.FuncDecl) {
	if _, ok := r.functionsRun[f.Name.Value]; !ok {
		r.functionsRun[f.Name.Value] = false
	}
}

// uncalled shows the bodies of functions that were never called.
func (r *reader) uncalled(st *state) {
	var names []string
	for name, ran := range r.functionsRun {
		if !ran && st.functions[name].body != nil {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	for _, name := range names {
		in := st.subshell()
		in.end, in.doubts = goesOn, nil
		why := fmt.Sprintf("nothing calls the function %s", name)
		if r.anyFunction != "" {
			in.doubt(r.anyFunction, false)
		} else {
			in.end, in.endWhy = exits, why
		}
		in.args, in.argsKnown, in.argsAny = nil, false, why
		r.at = st.functions[name].at
		in.forgetAll("anything when " + name + " is called")
		r.stmt(in, st.functions[name].body)
	}
}

// guardAll marks all commands where the script looks at how they ended.
func (r *reader) guardAll() {
	for i := range r.script.Commands {
		if c := &r.script.Commands[i]; c.Guarded == "" {
			c.Guarded = r.guard
		}
	}
}
