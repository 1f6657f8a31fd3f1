package decode

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/python"
)

// statement is one of Python's, or the head of one that others belong to.
type statement struct {
	start, end int
	indent     int
	// conditional is set where something decides at run time whether it runs, or how often.
	conditional bool
	// class is the class whose body it is in; local is set within a function.
	class string
	local bool
}

// blockHeader begins a statement that others belong to.
var blockHeader = regexp.MustCompile(`^(?:async\s+)?(if|elif|else|for|while|try|except|finally|with|def|class|match|case)\b`)

// maxPythonStatements is the most that is read of a program.
const maxPythonStatements = 20000

// statements are those of a program in their order, each with what encloses it: of a compound one its head.
func statements(module *python.Node, masked []byte) []statement {
	var out []statement
	var visit func(list []*python.Node, in statement)
	block := func(list []*python.Node, in statement) {
		in.class = ""
		visit(list, in)
	}
	visit = func(list []*python.Node, in statement) {
		for _, n := range list {
			if len(out) >= maxPythonStatements {
				return
			}
			s := in
			s.start, s.end = n.Start, n.End
			s.indent = n.Start - 1 - bytes.LastIndexByte(masked[:n.Start], '\n')
			body := n.List("body")
			if n.Is("Match") {
				body = n.List("cases")
			}
			if len(body) > 0 {
				for s.end = body[0].Start; s.end > s.start && bytes.IndexByte([]byte(" \t\r\n"), masked[s.end-1]) >= 0; {
					s.end--
				}
			}
			out = append(out, s)
			in := in
			switch n.Kind {
			case "FunctionDef", "AsyncFunctionDef":
				in.local = true
				block(body, in)
			case "ClassDef":
				in.class = n.Name
				visit(body, in)
			case "With", "AsyncWith", "Try", "TryStar":
				block(body, in)
			case "If":
				own := bytes.Contains(masked[s.start:s.end], []byte("__name__"))
				into := in
				into.conditional = into.conditional || !own
				block(body, into)
			default:
				in.conditional = true
				block(body, in)
			}
			in.conditional = true
			for _, h := range n.List("handlers") {
				visit([]*python.Node{h}, in)
			}
			block(n.List("orelse"), in)
			block(n.List("finalbody"), in)
		}
	}
	visit(module.List("body"), statement{})
	return out
}

// closing is the place of the bracket that closes the one at i, or -1.
func closing(masked []byte, i int) int {
	depth := 0
	for ; i < len(masked); i++ {
		switch masked[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// arguments are the stretches between the commas of a call whose brackets are at open and end.
func arguments(masked []byte, open, end int) [][2]int {
	var out [][2]int
	depth, from := 0, open+1
	for i := open + 1; i <= end; i++ {
		switch c := masked[i]; {
		case c == '(' || c == '[' || c == '{':
			depth++
		case i == end || c == ',' && depth == 0:
			if strings.TrimSpace(string(masked[from:i])) != "" {
				out = append(out, [2]int{from, i})
			}
			from = i + 1
		case c == ')' || c == ']' || c == '}':
			depth--
		}
	}
	return out
}
