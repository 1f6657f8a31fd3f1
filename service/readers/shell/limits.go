package shell

import (
	"bytes"
	"path"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The most of a script that is looked at. Real batch scripts are a hundredth of it; deep
// nesting costs a parser stack.
const (
	maxTextBytes  = 256 << 10 // of all sources together
	maxValueBytes = 64 << 10
	maxBytes      = 8 << 20 // of all words that were put together
	maxCommands   = 1024
	maxWords      = 4096 // of one command or list
	maxSteps      = 50000
	maxDepth      = 5 // scripts within scripts
	maxCalls      = 16
	maxPieces     = 64
	maxLoops      = 256
	maxBrackets   = 200
)

// parse reads a text into a syntax tree. within is the span in which the text stands, for texts within texts.
func (r *reader) parse(name string, text []byte, within *origin) (*syntax.File, error) {
	if r.textBytes += len(text); r.textBytes > maxTextBytes {
		return nil, &LimitError{"the script's length"}
	}
	if !isShell(text) {
		return nil, ErrNotShell
	}
	if deep(text) {
		return nil, &LimitError{"nested brackets"}
	}
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(text), name)
	if err != nil {
		return nil, &SyntaxError{err}
	}
	if within == nil {
		r.script.Sources = append(r.script.Sources, Source{name, text})
		within = &origin{source: len(r.script.Sources) - 1}
	}
	r.at = *within
	return file, nil
}

// deep says whether brackets nest further than in any script that a person writes.
func deep(script []byte) bool {
	open := 0
	for _, c := range script {
		switch c {
		case '(', '{', '[':
			open++
		case ')', '}', ']':
			open = max(0, open-1)
		}
		if open > maxBrackets {
			return true
		}
	}
	count := func(word string) int { return bytes.Count(script, []byte(word)) }
	return count("`") > 2*maxBrackets || count("if ") > 10*maxBrackets || count("do") > 10*maxBrackets ||
		count("!") > 20*maxBrackets || count("time ") > maxBrackets
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
