package decode

import (
	"bytes"
	"regexp"
	"strings"
)

// statement is a logical line of Python: what is between brackets or behind a backslash belongs to the line where it
// began.
type statement struct {
	start, end int
	indent     int
	// conditional is set where something decides at run time whether the line runs, or how often.
	conditional bool
	// class is the class whose body the line is in; local is set within a function.
	class string
	local bool
}

// mask is a Python text whose strings and comments are blank, in the same places: what is left is structure.
func mask(b []byte) []byte {
	m := bytes.Clone(b)
	for i := 0; i < len(b); {
		switch c := b[i]; {
		case c == '#':
			for i < len(b) && b[i] != '\n' {
				m[i], i = ' ', i+1
			}
		case c == '"' || c == '\'':
			i = maskString(b, m, i)
		default:
			i++
		}
	}
	return m
}

// maskString blanks the inside of the string that begins at i, and returns where it is over.
func maskString(b, m []byte, i int) int {
	quote := b[i : i+1]
	if i+2 < len(b) && b[i+1] == b[i] && b[i+2] == b[i] {
		quote = b[i : i+3]
	}
	for i += len(quote); i < len(b); i++ {
		switch {
		case bytes.HasPrefix(b[i:], quote):
			return i + len(quote)
		case b[i] == '\\' && i+1 < len(b):
			m[i] = ' '
			if i++; b[i] != '\n' {
				m[i] = ' '
			}
		case b[i] == '\n' && len(quote) == 1:
			return i // not closed on its line: no Python, but the rest may be
		case b[i] != '\n':
			m[i] = ' '
		case len(quote) == 3:
			m[i] = ' ' // a line end within a string ends no statement
		}
	}
	return i
}

var blockHeader = regexp.MustCompile(`^(?:async\s+)?(if|elif|else|for|while|try|except|finally|with|def|class|match|case)\b`)

// statements splits a masked text into logical lines, and says what encloses each.
func statements(masked []byte) []statement {
	type block struct {
		indent             int
		conditional, local bool
		class              string
	}
	var out []statement
	var open []block
	for at := 0; at < len(masked); {
		end := logicalEnd(masked, at)
		line := masked[at:end]
		indent := 0
		for indent < len(line) && (line[indent] == ' ' || line[indent] == '\t') {
			indent++
		}
		code := strings.TrimSpace(string(line))
		if code == "" {
			at = end + 1
			continue
		}
		for len(open) > 0 && open[len(open)-1].indent >= indent {
			open = open[:len(open)-1]
		}
		s := statement{start: at + indent, end: end, indent: indent}
		for _, b := range open {
			s.conditional = s.conditional || b.conditional
			s.local = s.local || b.local
			if s.class = ""; b.class != "" {
				s.class = b.class
			}
		}
		out = append(out, s)
		if m := blockHeader.FindStringSubmatch(code); m != nil {
			b := block{indent: indent}
			switch m[1] {
			case "def":
				b.local = true
			case "class":
				b.class = strings.TrimLeft(code[len("class"):], " \t")
				if i := strings.IndexAny(b.class, "(:"); i >= 0 {
					b.class = b.class[:i]
				}
			case "with", "try":
			case "if":
				b.conditional = !strings.Contains(code, "__name__")
			default:
				b.conditional = true
			}
			open = append(open, b)
		}
		if len(out) >= maxPythonLines {
			break
		}
		at = end + 1
	}
	return out
}

// maxPythonLines is the most logical lines that are read of a program.
const maxPythonLines = 20000

// logicalEnd is where the logical line that begins at i is over: its line end, or the text's.
func logicalEnd(masked []byte, i int) int {
	depth := 0
	for ; i < len(masked); i++ {
		switch masked[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth = max(0, depth-1)
		case '\\':
			if i+1 < len(masked) && masked[i+1] == '\n' {
				i++
			}
		case '\n':
			if depth == 0 {
				return i
			}
		}
	}
	return i
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
