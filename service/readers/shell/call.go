package shell

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// call runs a simple command: variables, then a function, a part of the shell, or a program.
func (r *reader) call(st *state, c *syntax.CallExpr, redirs []*syntax.Redirect) result {
	if len(c.Args) == 0 {
		r.redirect(st, redirs, false)
		for _, a := range c.Assigns {
			if st.end == goesOn {
				r.assign(st, a, false)
			}
		}
		return ordinary
	}
	own := st.clone()
	var given []Assign
	for _, a := range c.Assigns {
		r.assign(own, a, true)
		if a.Name != nil {
			v := own.vars[a.Name.Value]
			given = append(given, Assign{a.Name.Value, v.value})
		}
	}
	words, variants := r.fieldsEitherWay(st, c.Args)
	stdin := r.redirect(st, redirs, copies(words))
	if len(words) == 0 || r.err != nil {
		return ordinary
	}
	at := r.span(c)
	if words[0].Certainty < Sure && r.anyFunction == "" {
		r.anyFunction = fmt.Sprintf("the command in line %d is known only when the script runs, and may be a "+
			"function", at.Line)
	}
	name := words[0].Text
	if f, ok := st.functions[name]; ok && words[0].Certainty == Sure {
		return r.callFunction(st, name, f, words[1:], given)
	}
	r.mentionFunctions(st, words[1:])
	if words[0].Certainty == Sure {
		if got, done := r.builtin(st, name, words[1:], at, stdin); done {
			return got
		}
	}
	return r.program(st, words, variants, given, at, stdin)
}

// mentionFunctions notes functions whose names are given to something: it may call them.
func (r *reader) mentionFunctions(st *state, words []Word) {
	for _, w := range words {
		if _, ok := st.functions[w.Text]; ok && r.anyFunction == "" {
			r.anyFunction = fmt.Sprintf("the function %s is given to a command in line %d", w.Text, w.At.Line)
		}
	}
}

func (r *reader) callFunction(st *state, name string, f function, args []Word, given []Assign) result {
	r.functionsRun[name] = true
	if f.body == nil || r.calls == maxCalls {
		st.forgetAll(fmt.Sprintf("set by the function %s", name))
		st.doubt(fmt.Sprintf("nobody knows what the function %s does", name), false)
		return open
	}
	r.calls++
	outer, at := *st, r.at
	for _, a := range given {
		st.vars[a.Name] = variable{value: a.Value, exported: true}
	}
	hidden := localNames(f.body)
	for _, a := range given {
		hidden[a.Name] = true
	}
	before := maps.Clone(outer.vars)
	frame := &frame{function: true}
	st.frames = append(slices.Clip(st.frames), frame)
	st.args, st.argsKnown = args, true
	for _, a := range args {
		if a.Many {
			st.args, st.argsKnown, st.argsAny = nil, false, a.Reason
		}
	}
	r.at = f.at
	got := r.stmt(st, f.body)
	r.at = at
	r.calls--
	st.close(frame, frame.left, "return in the function "+name)
	st.frames, st.args, st.argsKnown, st.argsAny = outer.frames, outer.args, outer.argsKnown, outer.argsAny
	for name := range hidden {
		if v, ok := before[name]; ok {
			st.vars[name] = v
		} else {
			delete(st.vars, name)
		}
	}
	if len(frame.left) > 0 {
		return open
	}
	return got
}

// quiet are the commands that end well unless something is wrong with the machine: what follows them after && is
// what the script means to do.
var quiet = map[string]bool{
	"echo": true, "printf": true, "cd": true, "mkdir": true, "export": true, "source": true, ".": true, "module": true,
	"ml": true, "conda": true, "mamba": true,
	"micromamba": true, "pip": true, "pip3": true, "chmod": true, "rm": true, "cp": true, "mv": true, "ln": true,
	"touch": true, "date": true, "hostname": true, "nvidia-smi": true,
	"sleep": true, "ulimit": true, "set": true, "unset": true, "shift": true, "pushd": true, "popd": true, "cat": true,
	"ls": true, "tee": true, "sed": true, "tar": true, "unzip": true,
	"apt-get": true, "apt": true, "git": true, "wget": true, "curl": true, "rsync": true, "spack": true, "lscpu": true,
	"free": true, "df": true, "env": true, "which": true, "wait": true,
	"huggingface-cli": true, "hf": true, "wandb": true, "uv": true, "pwd": true, "shopt": true, "umask": true,
}

// builtin does what the shell itself does; done is false for other commands.
func (r *reader) builtin(st *state, name string, args []Word, at Span, stdin *Word) (got result, done bool) {
	live := st.end == goesOn
	line := at.Line
	text := func(i int) string {
		if i < len(args) && args[i].Certainty == Sure {
			return args[i].Text
		}
		return ""
	}
	switch name {
	case ":", "true":
		return isTrue, true
	case "false":
		return isFalse, true
	case "[":
		if n := len(args); n > 0 && text(n-1) == "]" {
			return r.test(st, args[:n-1]), true
		}
		return open, true
	case "test":
		return r.test(st, args), true
	case "echo", "printf":
		if name == "printf" && text(0) == "-v" && len(args) > 1 {
			r.setBy(st, args[1:2], "printf", line)
		}
	case "cd", "pushd", "popd":
		if live {
			st.changeDir(name, args, line)
		}
	case "exit":
		r.exit(st, args, line)
	case "exec":
		if len(args) > 0 {
			return open, false
		}
	case "return", "break", "continue":
		st.leave(name, text(0), line)
	case "set":
		if live {
			st.set(args, line)
		}
	case "shift":
		if live {
			st.shift(args, line)
		}
	case "unset":
		for _, a := range args {
			if _, isFunction := st.functions[a.Text]; isFunction && a.Certainty == Sure {
				st.functions[a.Text] = function{}
			} else if a.Certainty == Sure && syntax.ValidName(a.Text) && !st.vars[a.Text].readonly {
				st.vars[a.Text] = variable{unset: true, value: Word{Certainty: Sure}}
			} else if a.Text != "-v" && a.Text != "-f" {
				st.forgetAll(fmt.Sprintf("unset in line %d", line))
			}
		}
	case "read", "mapfile", "readarray", "getopts", "let", "wait":
		if name == "read" || name == "mapfile" || name == "readarray" {
			st.forget("REPLY", "read")
			st.forget("MAPFILE", "read")
		}
		r.setBy(st, args, name, line)
		return open, true
	case "export", "declare", "local", "readonly", "typeset": // with a command or builtin in front
		st.forgetAll(fmt.Sprintf("set by %s in line %d", name, line))
	case "source", ".":
		return r.source(st, args, at), true
	case "eval":
		return r.evaluated(st, joined(args), at), true
	case "command", "builtin":
		if len(args) > 0 && !strings.HasPrefix(args[0].Text, "-") {
			if got, done := r.builtin(st, args[0].Text, args[1:], at, stdin); done {
				return got, true
			}
		}
		return open, false
	case "trap":
		r.trap(st, args, line)
	case "alias":
		if r.guard == "" {
			r.guard = fmt.Sprintf("the alias in line %d may change what it does", line)
		}
	case "hash":
		if len(args) > 0 && strings.HasPrefix(args[0].Text, "-p") && r.guard == "" {
			r.guard = fmt.Sprintf("hash in line %d may change what it starts", line)
		}
	case "shopt", "ulimit", "umask", "jobs", "enable", "bind", "complete", "times", "disown", "type", "dirs",
		"fg", "bg", "history":
	default:
		return open, false
	}
	return ordinary, true
}

// setBy makes the names unknown that a command sets.
func (r *reader) setBy(st *state, args []Word, by string, line int) {
	if st.end != goesOn {
		return
	}
	for _, a := range args {
		name, _, _ := strings.Cut(a.Text, "=")
		name = strings.TrimRight(name, "+-*/%")
		switch {
		case a.Certainty < Sure:
			st.forgetAll(fmt.Sprintf("set by %s in line %d", by, line))
			return
		case syntax.ValidName(name):
			st.forget(name, fmt.Sprintf("set by %s in line %d", by, line))
		}
	}
	if by == "getopts" {
		st.forget("OPTARG", "set by getopts")
		st.forget("OPTIND", "set by getopts")
	}
}

func (st *state) changeDir(name string, args []Word, line int) {
	for len(args) > 0 && (args[0].Text == "--" || args[0].Text == "-P" || args[0].Text == "-L") {
		args = args[1:]
	}
	switch {
	case name == "popd" || len(args) != 1 || args[0].Text == "-":
		st.dir = unknownWord(fmt.Sprintf("nobody knows where %s in line %d leads", name, line))
	case args[0].Certainty == Unknown:
		st.dir = unknownWord(fmt.Sprintf("%s in line %d: %s", name, line, args[0].Reason))
	default:
		to := args[0]
		if !filepath.IsAbs(to.Text) {
			if st.dir.Certainty == Unknown {
				return
			}
			to.Text = filepath.Join(st.dir.Text, to.Text)
			to.Certainty = min(to.Certainty, st.dir.Certainty)
		}
		st.dir = wordOf([]Piece{{Text: filepath.Clean(to.Text), Certainty: to.Certainty, Reason: to.Reason}})
	}
}

// exit ends the script or the subshell. That it fails has to be written there.
func (r *reader) exit(st *state, args []Word, line int) {
	if st.end != goesOn {
		return
	}
	st.end, st.endWhy = exits, fmt.Sprintf("the script ends in line %d", line)
	if len(args) == 1 && args[0].Certainty == Sure {
		if n, err := strconv.Atoi(args[0].Text); err == nil && n%256 != 0 {
			st.end = fails
		}
	}
}

// leave is break, continue or return.
func (st *state) leave(name, levels string, line int) {
	if st.end != goesOn {
		return
	}
	n, err := strconv.Atoi(levels)
	if err != nil || n < 1 || name == "return" {
		n = 1
	}
	st.endWhy = fmt.Sprintf("%s in line %d", name, line)
	for i := len(st.frames) - 1; i >= 0; i-- {
		f := st.frames[i]
		if f.function != (name == "return") {
			if f.function {
				break
			}
			continue
		}
		if n--; n > 0 && i > 0 && !st.frames[i-1].function {
			continue
		}
		out := st.clone()
		out.frames, out.endWhy = slices.Clip(st.frames[:i]), ""
		if name == "continue" {
			f.again = append(f.again, out)
		} else {
			f.left = append(f.left, out)
		}
		st.end = leaves
		return
	}
	st.end = exits // in a sourced script, or a subshell within a loop
}

// set is set -- words, and the options of the shell.
func (st *state) set(args []Word, line int) {
	for i, a := range args {
		switch {
		case a.Certainty < Sure:
			st.args, st.argsKnown, st.argsAny = nil, false, fmt.Sprintf("the arguments are set in line %d", line)
			return
		case a.Text == "--" || !strings.HasPrefix(a.Text, "-") && !strings.HasPrefix(a.Text, "+"):
			if a.Text == "--" {
				i++
			}
			st.args, st.argsKnown = slices.Clone(args[i:]), true
			for _, w := range st.args {
				if w.Many {
					st.args, st.argsKnown, st.argsAny = nil, false, w.Reason
				}
			}
			return
		case a.Text == "-o" || a.Text == "+o":
			if i+1 < len(args) && args[i+1].Text == "allexport" {
				st.exportAll = a.Text == "-o"
			}
			if i+1 < len(args) && args[i+1].Text == "noexec" {
				st.doubt(fmt.Sprintf("set -n in line %d", line), false)
			}
			return
		case strings.HasPrefix(a.Text, "-") && strings.HasSuffix(a.Text, "o") && len(a.Text) > 2: // set -euo pipefail
			st.flags(a.Text, line)
			return
		default:
			st.flags(a.Text, line)
		}
	}
}

func (st *state) flags(word string, line int) {
	if strings.HasPrefix(word, "+") && strings.Contains(word, "e") && st.guarded == "" {
		st.guarded = fmt.Sprintf("set +e in line %d lets it fail", line)
	} else if strings.Contains(word, "e") && strings.HasPrefix(st.guarded, "set +e") {
		st.guarded = ""
	}
	if strings.Contains(word, "a") {
		st.exportAll = word[0] == '-'
	}
	if strings.Contains(word, "n") && word[0] == '-' {
		st.doubt(fmt.Sprintf("set -n in line %d", line), false)
	}
}

func (st *state) shift(args []Word, line int) {
	n := 1
	if len(args) > 0 {
		var err error
		if n, err = strconv.Atoi(args[0].Text); err != nil || args[0].Certainty < Sure {
			n = -1
		}
	}
	if !st.argsKnown || n < 0 {
		st.args, st.argsKnown, st.argsAny = nil, false, fmt.Sprintf("the arguments are shifted in line %d", line)
		return
	}
	if n <= len(st.args) {
		st.args = st.args[n:]
	}
}

// program shows a command that runs a program, and follows it where that is a script.
func (r *reader) program(st *state, words []Word, variants [][]Word, given []Assign, at Span, stdin *Word) result {
	if len(r.script.Commands) == maxCommands {
		r.fail(&LimitError{"the number of commands"})
		return open
	}
	c := Command{
		Index: len(r.script.Commands), Words: words, Variants: variants,
		Env: st.environment(given), OpenEnv: st.openEnv,
		At:      at,
		Guarded: st.guarded, Dir: st.dir, Within: r.within, Stdin: stdin, writes: len(r.script.Writes),
	}
	c.Runs, c.Why, c.Likely = st.runs()
	r.script.Commands = append(r.script.Commands, c)
	got := r.nested(st, &c)
	c = r.script.Commands[c.Index]
	r.wrote(st, &c)
	if words[0].Text == "exec" && words[0].Certainty == Sure && st.end == goesOn {
		st.end, st.endWhy = exits, fmt.Sprintf("exec in line %d", at.Line)
	}
	if quiet[path.Base(words[0].Text)] && words[0].Certainty == Sure {
		return ordinary
	}
	return got
}
