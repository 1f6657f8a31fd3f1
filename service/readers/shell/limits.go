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
	if what := beyond(text); what != "" {
		return nil, &LimitError{what}
	}
	words := withoutPlaceholders(text)
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(words), name)
	if err != nil {
		return nil, &SyntaxError{err}
	}
	restore(file, words, text)
	if within == nil {
		r.script.Sources = append(r.script.Sources, Source{name, text})
		within = &origin{source: len(r.script.Sources) - 1}
	}
	r.at = *within
	return file, nil
}

// beyond says what of a script is more than a person writes, before a parser that calls itself for every level reads
// it: brackets that nest, and words that may, which are counted and not matched, since only the parser knows which do.
// It is "" where nothing is.
func beyond(script []byte) string {
	open := 0
	for _, c := range script {
		switch c {
		case '(', '{', '[':
			open++
		case ')', '}', ']':
			open = max(0, open-1)
		}
		if open > maxBrackets {
			return "nested brackets"
		}
	}
	for _, word := range []struct {
		text, what string
		most       int
	}{
		{"`", "the number of backquotes", 2 * maxBrackets}, {"if ", "the number of branches", 10 * maxBrackets},
		{"do", "the number of loops", 10 * maxBrackets}, {"!", "the number of !", 20 * maxBrackets},
		{"time ", "the number of time", maxBrackets},
	} {
		if bytes.Count(script, []byte(word.text)) > word.most {
			return word.what
		}
	}
	return ""
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
