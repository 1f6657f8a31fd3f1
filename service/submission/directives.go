package submission

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// marker begins a line that declares the job, or a part of it.
const marker = "#VRAMPLAN"

// topLevel are the fields of a job document that lie outside "training".
var topLevel = map[string]bool{"model": true, "training": true, "gpus": true, "reserve_bytes": true, "confidence": true,
	"effective_batch": true}

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
			if document, err = set(document, key, value); err != nil {
				return nil, err
			}
		}
	}
	return document, nil
}

// fieldPath is a path that means the same to sjson, which also knows wildcards, and numbers for
// the elements of lists, of which it would make any number.
var fieldPath = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,60}(?:\.[A-Za-z_][A-Za-z0-9_-]{0,60}){0,7}$`)

// set puts one pair into a document.
func set(document []byte, key, value string) ([]byte, error) {
	if !fieldPath.MatchString(key) {
		return nil, unclear("%s: %q is not the name of a field", marker, clip(key))
	}
	path := key
	switch first, rest, _ := strings.Cut(key, "."); {
	case key == "model":
		path = "model.preset"
	case key == "gpu":
		path = "gpus"
	case topLevel[first]:
		if first == "training" && rest == "" {
			return nil, unclear("%s: training is an object; give its fields, such as micro_batch=8", marker)
		}
	default:
		path = "training." + key
	}
	if path == "training.optimizer" || path == "training.loss" || path == "training.gradient_checkpointing" {
		path = short(document, path, value)
	}
	var v any = value
	if json.Valid([]byte(value)) {
		v = json.RawMessage(value)
	}
	if path == "gpus" && !strings.HasPrefix(value, "[") {
		v = strings.Split(value, ",")
	}
	for i, c := range path { // a field cannot go into something that is not an object
		if c == '.' {
			if parent := gjson.GetBytes(document, path[:i]); parent.Exists() && !parent.IsObject() {
				document, _ = sjson.SetBytes(document, path[:i], objectOf(path[:i], parent))
			}
		}
	}
	changed, err := sjson.SetBytes(document, path, v)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", marker, clip(key), err)
	}
	return changed, nil
}

// short keeps the other fields of an option that may be a word or an object: after
// optimizer.implementation=fused, optimizer=adamw is its name.
func short(document []byte, path, value string) string {
	if !gjson.GetBytes(document, path).IsObject() || strings.HasPrefix(value, "{") {
		return path
	}
	return path + "." + wordField(path)
}

// wordField is the field of such an object that the word stands for.
func wordField(path string) string {
	switch path {
	case "training.optimizer":
		return "name"
	case "training.loss":
		return "kind"
	}
	return "mode"
}

// objectOf makes an object of an option that was given as a word.
func objectOf(path string, word gjson.Result) map[string]any {
	if word.Type != gjson.String {
		return map[string]any{}
	}
	return map[string]any{wordField(path): word.Str}
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
