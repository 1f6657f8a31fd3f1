package shell

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// nested follows a command that runs a script: bash FILE, bash -c TEXT, ./FILE, bash <<EOF.
func (r *reader) nested(st *state, c *Command) result {
	words, by := c.Unwrap()
	if len(words) == 0 || words[0].Certainty < Sure {
		return open
	}
	outside := r.within
	defer func() { r.within = outside }()
	r.within = append(slices.Clip(r.within), by...)
	name := path.Base(words[0].Text)
	switch name {
	case "bash", "sh", "dash", "ksh", "zsh":
		return r.shellProgram(st, words[1:], c)
	case "python", "python3":
		return open
	}
	if strings.HasSuffix(name, ".sh") && strings.Contains(words[0].Text, "/") {
		return r.scriptFile(st, words[0], words[1:], c)
	}
	return open
}

// shellProgram reads the options of bash.
func (r *reader) shellProgram(st *state, args []Word, c *Command) result {
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case w.Certainty < Sure:
			r.script.Commands[c.Index].unread("%s", w.Reason)
			return open
		case w.Text == "-o" || w.Text == "+o" || w.Text == "--rcfile" || w.Text == "--init-file" || w.Text == "-O" ||
			w.Text == "+O":
			i++
		case strings.HasPrefix(w.Text, "--"):
		case strings.HasPrefix(w.Text, "-") && strings.Contains(w.Text, "n"): // it reads commands and runs none
			return ordinary
		case strings.HasPrefix(w.Text, "-") && len(w.Text) > 1:
			if !strings.Contains(w.Text, "c") {
				continue
			}
			if i+1 == len(args) {
				return open
			}
			in := r.inner(st, args[min(i+3, len(args)):])
			return r.evaluated(in, args[i+1], c.At)
		default:
			return r.scriptFile(st, w, args[i+1:], c)
		}
	}
	if c.Stdin == nil {
		return open
	}
	return r.evaluated(r.inner(st, nil), *c.Stdin, c.At)
}

// inner is the state of a shell that a shell starts: it has what is exported.
func (r *reader) inner(st *state, args []Word) *state {
	in := st.subshell()
	for name, v := range in.vars {
		if !v.exported {
			delete(in.vars, name)
		}
	}
	in.functions, in.args, in.argsKnown = map[string]function{}, args, true
	for _, a := range args {
		if a.Many {
			in.args, in.argsKnown, in.argsAny = nil, false, a.Reason
		}
	}
	return in
}

// unread marks a command as one that runs a script which was not read.
func (c *Command) unread(format string, args ...any) {
	if c.Unread == "" {
		c.Unread = fmt.Sprintf(format, args...)
	}
}

// scriptFile follows a script in a file.
func (r *reader) scriptFile(st *state, name Word, args []Word, c *Command) result {
	file, text, err := r.openFor(st, name, len(r.script.Writes))
	if err != nil {
		r.script.Commands[c.Index].unread("%s: %v", clip(name.Text), err)
		return open
	}
	in := r.inner(st, args)
	in.zero = sureWord(file)
	return r.inFile(in, name.Text, text, func(err error) {
		r.script.Commands[c.Index].unread("%s: %v", clip(name.Text), err)
	})
}

// source runs a script in this shell.
func (r *reader) source(st *state, args []Word, at Span) result {
	if len(args) == 0 || st.end != goesOn {
		return open
	}
	_, text, err := r.openFor(st, args[0], len(r.script.Writes))
	reason := fmt.Sprintf("set by what line %d sources (%s)", at.Line, clip(args[0].Text))
	if err != nil || len(args) > 1 {
		if !setsUp(args[0].Text) {
			st.forgetAll(reason)
		}
		return ordinary
	}
	f := &frame{function: true}
	frames := st.frames
	st.frames = append(frames[:len(frames):len(frames)], f)
	r.inFile(st, args[0].Text, text, func(error) { st.forgetAll(reason) })
	st.close(f, f.left, "return in "+clip(args[0].Text))
	st.frames = frames
	return ordinary
}

// setsUp knows scripts that set up an environment of programs and do not touch a user's variables.
func setsUp(name string) bool {
	for _, end := range []string{"/activate", "/conda.sh", "/.bashrc", "/.bash_profile", "/.profile", "/modules.sh",
		"/init/bash", "/init/sh", "/lmod.sh", "/etc/profile", "/setup-env.sh", "/setvars.sh", "/init/profile"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return name == "activate"
}

func (r *reader) inFile(st *state, name string, text []byte, otherwise func(error)) result {
	if st.depth == maxDepth {
		otherwise(errors.New("too many scripts within scripts"))
		return open
	}
	at := r.at
	defer func() { r.at = at }()
	file, err := r.parse(name, text, nil)
	if err != nil {
		r.limit(err)
		otherwise(err)
		return open
	}
	st.depth++
	got := r.run(st, file)
	st.depth--
	return got
}

// limit ends everything where a text is too long.
func (r *reader) limit(err error) {
	if limit := (*LimitError)(nil); errors.As(err, &limit) {
		r.fail(err)
	}
}

// evaluated runs a text that is a word: that of eval, bash -c or a here-document.
func (r *reader) evaluated(st *state, w Word, at Span) result {
	if w.Certainty < Sure || st.depth == maxDepth {
		if r.partial && st.depth < maxDepth {
			r.partly(st, w, at)
		}
		st.forgetAll(fmt.Sprintf("set by a text in line %d that is known only when it runs", at.Line))
		if n := len(r.script.Commands); n > 0 && r.script.Commands[n-1].At == at {
			r.script.Commands[n-1].unread("line %d runs a text: %s", at.Line, w.Reason)
		}
		if r.guard == "" {
			r.guard = fmt.Sprintf("line %d runs a text that is known only when the script runs", at.Line)
		}
		return open
	}
	within := origin{within: &at}
	if !w.At.IsZero() && len(w.Pieces) == 1 && w.At.End-w.At.Start == len(w.Text) {
		within = origin{source: w.At.Source, base: w.At.Start}
	}
	before := r.at
	defer func() { r.at = before }()
	file, err := r.parse("", []byte(w.Text), &within)
	if err != nil {
		r.limit(err)
		st.forgetAll(fmt.Sprintf("set by a text in line %d that cannot be read", at.Line))
		return open
	}
	st.depth++
	got := r.run(st, file)
	st.depth--
	return got
}

// partName begins the names of the variables that stand for the parts of a text that are not known.
const partName = "__vramplan_part_"

// partly reads the commands of a text of which parts are not known: a variable stands for each of them.
func (r *reader) partly(st *state, w Word, at Span) {
	var text strings.Builder
	in := st.subshell()
	for i, p := range w.Pieces {
		if p.Certainty == Sure {
			text.WriteString(p.Text)
			continue
		}
		name := fmt.Sprintf("%s%d", partName, i)
		p.split = false
		in.vars[name] = variable{value: wordOf([]Piece{p})}
		text.WriteString("${" + name + "}")
	}
	before, first := r.at, len(r.script.Commands)
	defer func() { r.at = before }()
	file, err := r.parse("", []byte(text.String()), &origin{within: &at})
	if err != nil {
		r.limit(err)
		return
	}
	in.depth++
	r.run(in, file)
	for i := first; i < len(r.script.Commands); i++ {
		words := r.script.Commands[i].Words
		for j := range words {
			if strings.Contains(words[j].Text, "{"+partName) { // within single quotes
				words[j] = unknownWord(w.Reason)
			}
		}
	}
}

var errNoFiles = errors.New("no files are looked at")

// openFor reads a file as the script would find it after a number of writes.
func (r *reader) openFor(st *state, name Word, writes int) (string, []byte, error) {
	switch {
	case name.Certainty < Sure:
		return "", nil, errors.New(name.Reason)
	case !filepath.IsAbs(name.Text) && st.dir.Certainty < Sure:
		return "", nil, errors.New(st.dir.Reason)
	}
	file := name.Text
	if !filepath.IsAbs(file) {
		file = filepath.Join(st.dir.Text, file)
	}
	text, err := r.script.at(file, writes)
	return file, text, err
}

// mentions says whether a program's text has a name in it.
func (s *Script) mentions(program []byte, name string) bool {
	if len(program) == 0 {
		return false
	}
	key := mention{&program[0], len(program), name}
	found, looked := s.mentioned[key]
	if !looked {
		if s.mentioned == nil {
			s.mentioned = map[mention]bool{}
		}
		found = bytes.Contains(program, []byte(name))
		s.mentioned[key] = found
	}
	return found
}

// at is the text of a file after a number of writes.
func (s *Script) at(file string, writes int) ([]byte, error) {
	file = filepath.Clean(file)
	for i := writes - 1; i >= 0; i-- {
		w := &s.Writes[i]
		if w.Program != nil && !s.mentions(w.Program, filepath.Base(file)) {
			continue
		}
		if w.Name != "" && w.Name != file && !strings.HasPrefix(file, w.Name+"/") {
			continue
		}
		if w.Runs == Never {
			continue
		}
		if w.Text != nil && w.Text.Certainty == Sure && w.Runs == Surely && w.Name == file {
			if w.written == nil {
				w.written = []byte(w.Text.Text)
			}
			return w.written, nil
		}
		return nil, &RewrittenError{Name: file, By: *w}
	}
	if s.readFile == nil {
		return nil, errNoFiles
	}
	text, err := s.readFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return text, err
}
