package shell

import (
	"fmt"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// lookForStatus notes where a script looks at how its commands ended: what fails may then be dealt with.
func (r *reader) lookForStatus(file *syntax.File) {
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				switch n.Args[0].Lit() {
				case "exit", "return", "echo", "printf", "logger":
					return false
				}
			}
		case *syntax.ParamExp:
			if n.Param != nil && (n.Param.Value == "?" || n.Param.Value == "PIPESTATUS") && r.guard == "" {
				r.guard = fmt.Sprintf("line %d looks at how a command ended ($%s)", r.line(n), n.Param.Value)
			}
		}
		return true
	})
}

// trap follows what a script does when it ends or is told to.
func (r *reader) trap(st *state, args []Word, line int) {
	if len(args) < 2 || strings.HasPrefix(args[0].Text, "-") {
		return
	}
	before := len(r.script.Commands)
	if f, ok := st.functions[args[0].Text]; ok && f.body != nil {
		r.callFunction(st.branch("trap", false), args[0].Text, f, nil, nil)
	} else {
		r.evaluated(st.branch("trap", false), args[0], args[0].At)
	}
	for i := before; i < len(r.script.Commands); i++ {
		c := &r.script.Commands[i]
		if c.Why = fmt.Sprintf("trap in line %d", line); c.Runs == Surely {
			c.Runs = Maybe
		}
		if r.guard == "" && (c.Words[0].Certainty < Sure || !quiet[c.Words[0].Text]) {
			r.guard = fmt.Sprintf("the trap in line %d deals with failures", line)
		}
	}
	if args[0].Certainty < Sure && r.guard == "" {
		r.guard = fmt.Sprintf("the trap in line %d may deal with failures", line)
	}
	for _, a := range args[1:] {
		if a.Text == "DEBUG" {
			st.forgetAll(fmt.Sprintf("set by the trap in line %d", line))
		}
	}
}

// failsOnly says whether what follows || does nothing but end the script with a failure.
func failsOnly(s *syntax.Stmt) bool {
	if s.Background || s.Negated {
		return false
	}
	switch c := s.Cmd.(type) {
	case *syntax.CallExpr:
		return endsBadly(c, true)
	case *syntax.Block:
		for i, inner := range c.Stmts {
			call, ok := inner.Cmd.(*syntax.CallExpr)
			if !ok || len(call.Args) == 0 {
				return false
			}
			if i == len(c.Stmts)-1 {
				return endsBadly(call, false)
			}
			if name := call.Args[0].Lit(); name != "echo" && name != "printf" {
				return false
			}
		}
	}
	return false
}

// endsBadly is exit 1. Without a number exit says how the command before it ended; direct means that this is the one
// in front of ||.
func endsBadly(c *syntax.CallExpr, direct bool) bool {
	if len(c.Args) == 0 || c.Args[0].Lit() != "exit" {
		return false
	}
	if len(c.Args) == 1 {
		return direct
	}
	code := c.Args[1].Lit()
	return code != "" && strings.Trim(code, "0123456789") == "" && strings.Trim(code, "0") != ""
}
