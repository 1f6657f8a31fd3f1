package submission

import (
	"bufio"
	"bytes"
	"strings"

	"github.com/vramplan/vramplan/service/jobdoc"
)

// marker begins a line that declares the job, or a part of it.
const marker = "#VRAMPLAN"

// directives reads the lines of a script that begin with #VRAMPLAN: either a job
// document over any number of them, or key=value pairs such as
//
//	#VRAMPLAN model=gpt2 micro_batch=16 optimizer.implementation=fused gpus=rtx-4070
//
// A key without a known beginning is a field of "training". A value that is JSON is
// taken as JSON, anything else as a string. It returns nil where there are no such lines.
func directives(script []byte) ([]byte, error) {
	var lines []string
	for line := range splitLines(script) {
		rest, ok := strings.CutPrefix(line, marker)
		if !ok || rest != "" && rest[0] != ' ' && rest[0] != '\t' {
			continue
		}
		if rest = strings.TrimSpace(rest); rest != "" {
			lines = append(lines, rest)
		}
	}
	if len(lines) == 0 {
		return nil, nil
	}
	if strings.HasPrefix(lines[0], "{") {
		return []byte(strings.Join(lines, "\n")), nil
	}
	document := []byte("{}")
	for _, line := range lines {
		for _, word := range fields(line) {
			key, value, ok := strings.Cut(word, "=")
			if !ok || key == "" {
				return nil, unclear("%s: %q is not key=value", marker, clip(word))
			}
			var err error
			if document, err = jobdoc.Set(document, key, value); err != nil {
				return nil, unclear("%s: %v", marker, err)
			}
		}
	}
	return document, nil
}

// splitLines yields the lines of a text without their ends.
func splitLines(text []byte) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, MaxFileBytes+1)
		for lines.Scan() {
			if !yield(strings.TrimRight(lines.Text(), "\r")) {
				return
			}
		}
	}
}

// fields splits a line into words; quotes hold words with spaces together.
func fields(line string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	begun := false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, begun = c, true
		case c == ' ' || c == '\t':
			if begun || word.Len() > 0 {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
		}
	}
	if begun || word.Len() > 0 {
		words = append(words, word.String())
	}
	return words
}

// clip shortens what a user wrote before it is shown.
func clip(s string) string {
	if len(s) > 80 {
		return s[:80] + "…"
	}
	return s
}
