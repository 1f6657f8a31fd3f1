package shell

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// while runs the body as often as its condition surely holds, or once with all that it assigns unknown.
func (r *reader) while(st *state, c *syntax.WhileClause) {
	why := fmt.Sprintf("loop in line %d", r.line(c))
	f := &frame{}
	before := st.guarded
	condition := func(st *state) result {
		if st.guarded == "" {
			st.guarded = why + " asks whether it fails"
		}
		got := r.stmts(st, c.Cond)
		st.guarded = before
		return got
	}
	for n := 0; r.step(); n++ {
		got := r.quietly(func() result { return condition(st.clone()) })
		if st.end != goesOn || got.known == Sure && got.value == c.Until {
			condition(st)
			if n == 0 {
				r.skip(st, c.Do, why)
			}
			break
		}
		if got.known != Sure || n == maxLoops || endless(c) {
			r.unknownLoop(st, f, c, c.Do, why, func(in *state) { condition(in) })
			return
		}
		condition(st)
		r.body(st, f, c.Do, why)
	}
	st.close(f, f.left, why)
}

// endless is while true, of which the body is what matters.
func endless(c *syntax.WhileClause) bool {
	if len(c.Cond) != 1 {
		return false
	}
	call, ok := c.Cond[0].Cmd.(*syntax.CallExpr)
	return ok && len(call.Args) == 1 && (call.Args[0].Lit() == "true" || call.Args[0].Lit() == ":")
}

// quietly runs something without a trace in the script.
func (r *reader) quietly(do func() result) result {
	commands, writes, guard, any := len(r.script.Commands), len(r.script.Writes), r.guard, r.anyFunction
	got := do()
	r.script.Commands, r.script.Writes, r.guard, r.anyFunction = r.script.Commands[:commands], r.script.Writes[:writes],
		guard, any
	return got
}

// body runs the body of a loop once. Its commands are in doubt: what runs several times is a series of
// attempts, of which one may fail.
func (r *reader) body(st *state, f *frame, list []*syntax.Stmt, why string) {
	frames, guarded := st.frames, st.guarded
	st.frames = append(slices.Clip(frames), f)
	if st.guarded == "" {
		st.guarded = why + " goes on"
	}
	st.doubtFor(doubt{why: why, likely: true, of: f})
	r.stmts(st, list)
	again := f.again
	f.again = nil
	for _, s := range again {
		doubts := st.doubts
		switch st.end {
		case leaves:
			*st = *s
		case goesOn:
			*st = *st.merge(s, why, false, false, 0)
			st.doubts = doubts
		}
	}
	st.frames, st.guarded = frames, guarded
}

func (r *reader) forClause(st *state, c *syntax.ForClause) {
	why := fmt.Sprintf("loop in line %d", r.line(c))
	f := &frame{}
	iter, ok := c.Loop.(*syntax.WordIter)
	if !ok { // for ((…))
		if loop, ok := c.Loop.(*syntax.CStyleLoop); ok && loop.Init != nil {
			r.arithmetic(st, loop.Init)
		}
		r.unknownLoop(st, f, c, c.Do, why, nil)
		return
	}
	words := st.args
	sure := st.argsKnown
	if iter.InPos.IsValid() || c.Select {
		words = r.fields(st, iter.Items)
		sure = !c.Select
	}
	for _, w := range words {
		sure = sure && w.Certainty > Unknown && !w.Many
	}
	if !sure || len(words) > maxLoops {
		st.forget(iter.Name.Value, "set by the "+why)
		r.unknownLoop(st, f, c, c.Do, why, nil)
		st.forget(iter.Name.Value, "set by the "+why)
		return
	}
	if len(words) == 0 {
		r.skip(st, c.Do, why)
	}
	for _, w := range words {
		if !r.step() || st.end != goesOn {
			break
		}
		st.vars[iter.Name.Value] = variable{value: w, exported: st.vars[iter.Name.Value].exported}
		r.body(st, f, c.Do, why)
	}
	st.close(f, f.left, why)
}

// unknownLoop runs a body once that may run any number of times, with all that it assigns unknown. condition, where
// there is one, runs before it.
func (r *reader) unknownLoop(st *state, f *frame, n syntax.Node, list []*syntax.Stmt, why string,
	condition func(*state)) {
	reason := "assigned in the " + why
	r.forgetAssigned(st, n, reason)
	in := st.branch(why, false)
	if condition != nil {
		condition(in)
	}
	in.frames = append(in.frames, f)
	if in.guarded == "" {
		in.guarded = why + " goes on"
	}
	r.stmts(in, list)
	r.forgetAssigned(st, n, reason)
	if in.end == exits {
		st.doubt(why, false)
	}
	left := append(f.left, f.again...)
	for _, s := range left {
		r.forgetAssigned(s, n, reason)
	}
	st.close(f, left, why)
}

// mayBeBuiltin reports whether a command that is not named literally may be one of the shell's own, which can assign. A
// program with a path is none, nor is what another command prints.
func mayBeBuiltin(command *syntax.Word) bool {
	for i, part := range command.Parts {
		switch part := part.(type) {
		case *syntax.CmdSubst:
			if i == 0 {
				return false
			}
		case *syntax.Lit:
			if strings.Contains(part.Value, "/") {
				return false
			}
		}
	}
	return true
}

// forgetAssigned makes everything unknown that a part of the script may assign.
func (r *reader) forgetAssigned(st *state, n syntax.Node, reason string) {
	all := false
	syntax.Walk(n, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Assign:
			if n.Name != nil {
				st.forget(n.Name.Value, reason)
			}
		case *syntax.WordIter:
			st.forget(n.Name.Value, reason)
		case *syntax.UnaryArithm, *syntax.BinaryArithm:
			for _, name := range arithmeticNames(n) {
				st.forget(name, reason)
			}
		case *syntax.ParamExp:
			if n.Param != nil && n.Exp != nil &&
				(n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull) {
				st.forget(n.Param.Value, reason)
			}
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				return true
			}
			switch name := n.Args[0].Lit(); {
			case assigning[name]:
				for _, arg := range n.Args[1:] {
					if lit := arg.Lit(); syntax.ValidName(lit) {
						st.forget(lit, reason)
					}
				}
				all = all || name == "eval" || name == "source" || name == "." || name == "command" || name == "builtin"
			case name == "cd" || name == "pushd" || name == "popd":
				st.dir = unknownWord("the directory is " + reason)
			case name == "set" || name == "shift":
				st.args, st.argsKnown, st.argsAny = nil, false, "the arguments are "+reason
			default:
				if _, ok := st.functions[name]; ok || name == "" && mayBeBuiltin(n.Args[0]) {
					all = true
				}
			}
		}
		return true
	})
	if all {
		st.forgetAll(reason)
	}
}
