package submission

import (
	"bytes"
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The most of a script that is looked at for commands. Real batch scripts are a
// hundredth of it; deep nesting costs a parser stack.
const (
	maxShellBytes = 64 << 10
	maxCommands   = 256
	maxWords      = 4096
)

// command is one command of a script, with the words that could be told. A word that
// depends on something else than assignments of plain values is unknown.
type command struct{ words []word }

type word struct {
	text  string
	known bool
}

// commands lists the simple commands of a shell script in the order of the text, with
// variables filled in where the script itself gives them a plain value. A script in another
// language, or with a syntax error, has none.
func commands(script []byte) []command {
	if len(script) > maxShellBytes || !isShell(script) || deep(script) {
		return nil
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(script), "")
	if err != nil {
		return nil
	}
	w := walker{values: map[string]word{}}
	syntax.Walk(file, w.visit)
	return w.found
}

// deep says whether brackets nest further than in any script that a person writes.
func deep(script []byte) bool {
	const limit = 200
	open := 0
	for _, c := range script {
		switch c {
		case '(', '{', '[':
			open++
		case ')', '}', ']':
			open = max(0, open-1)
		}
		if open > limit {
			return true
		}
	}
	return bytes.Count(script, []byte("`")) > 2*limit || bytes.Count(script, []byte("if ")) > 10*limit
}

// isShell looks at the first line: bash and its relatives, or no interpreter at all.
func isShell(script []byte) bool {
	first, _, _ := bytes.Cut(script, []byte("\n"))
	interpreter, ok := bytes.CutPrefix(first, []byte("#!"))
	if !ok {
		return true
	}
	for _, w := range strings.Fields(string(interpreter)) {
		switch path.Base(w) {
		case "sh", "bash", "dash", "ksh", "zsh":
			return true
		}
	}
	return false
}

type walker struct {
	values map[string]word
	words  int
	found  []command
}

func (w *walker) visit(n syntax.Node) bool {
	switch n := n.(type) {
	case *syntax.IfClause, *syntax.WhileClause, *syntax.ForClause, *syntax.CaseClause, *syntax.FuncDecl, *syntax.Subshell:
		// Whatever is assigned in there may or may not hold afterwards.
		syntax.Walk(n, func(inner syntax.Node) bool {
			switch inner := inner.(type) {
			case *syntax.Assign:
				if inner.Name != nil {
					w.values[inner.Name.Value] = word{}
				}
			case *syntax.WordIter:
				w.values[inner.Name.Value] = word{}
			}
			return true
		})
	case *syntax.DeclClause: // export A=1
		for _, a := range n.Args {
			w.assign(a)
		}
	case *syntax.CallExpr:
		if len(n.Args) == 0 {
			for _, a := range n.Assigns {
				w.assign(a)
			}
			return true
		}
		if len(w.found) == maxCommands {
			return false
		}
		var c command
		for _, arg := range n.Args {
			if w.words++; w.words > maxWords {
				break
			}
			c.words = append(c.words, w.value(arg)...)
		}
		w.found = append(w.found, c)
	}
	return true
}

// assign notes NAME=value. A name that is assigned twice has the later value, unless
// the earlier place was conditional.
func (w *walker) assign(a *syntax.Assign) {
	if a.Name == nil {
		return
	}
	value := word{}
	if _, doubtful := w.values[a.Name.Value]; a.Array == nil && !a.Append && a.Index == nil && (!doubtful || w.values[a.Name.Value].known) {
		if a.Value == nil {
			value = word{known: !a.Naked}
		} else if parts := w.value(a.Value); len(parts) == 1 {
			value = parts[0]
		}
	}
	w.values[a.Name.Value] = value
}

// value is the text of a word. A variable outside quotes that holds several words
// becomes several, as in a shell.
func (w *walker) value(arg *syntax.Word) []word {
	if v, ok := w.bareVariable(arg); ok && v.known {
		var list []word
		for _, part := range strings.Fields(v.text) {
			list = append(list, word{part, true})
		}
		return list
	}
	text, known := w.parts(arg.Parts)
	return []word{{text, known}}
}

func (w *walker) bareVariable(arg *syntax.Word) (word, bool) {
	if len(arg.Parts) != 1 {
		return word{}, false
	}
	p, ok := arg.Parts[0].(*syntax.ParamExp)
	if !ok || !plainParameter(p) {
		return word{}, false
	}
	v, ok := w.values[p.Param.Value]
	return v, ok
}

// parts puts a word together. What cannot be told leaves it unknown, with the text around it.
func (w *walker) parts(parts []syntax.WordPart) (text string, known bool) {
	var b strings.Builder
	known = true
	for _, p := range parts {
		switch p := p.(type) {
		case *syntax.Lit:
			b.WriteString(unescape(p.Value))
		case *syntax.SglQuoted:
			b.WriteString(p.Value)
			known = known && !p.Dollar
		case *syntax.DblQuoted:
			inner, ok := w.parts(p.Parts)
			b.WriteString(inner)
			known = known && ok
		case *syntax.ParamExp:
			v := w.values[paramName(p)]
			b.WriteString(v.text)
			known = known && v.known && plainParameter(p)
		default:
			known = false
		}
		if b.Len() > maxShellBytes {
			return "", false
		}
	}
	return b.String(), known
}

func paramName(p *syntax.ParamExp) string {
	if p.Param == nil {
		return ""
	}
	return p.Param.Value
}

// plainParameter is $NAME or ${NAME}, without any of the shell's operators.
func plainParameter(p *syntax.ParamExp) bool {
	return p.Param != nil && !p.Excl && !p.Length && !p.Width && p.Index == nil && p.Slice == nil && p.Repl == nil && p.Exp == nil && p.Names == 0
}

func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
			if s[i] == '\n' {
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
