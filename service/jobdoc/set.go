package jobdoc

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// outside are the fields of documents that lie outside "training".
var outside = map[string]bool{"model": true, "training": true, "gpus": true, "reserve_bytes": true, "display": true,
	"confidence": true, "effective_batch": true}

// PathOf is the path of a field that somebody names in a line: model and gpu are short, and what has no beginning of a
// document is a field of "training".
func PathOf(field string) string {
	first, _, _ := strings.Cut(field, ".")
	switch {
	case field == "model":
		return "model.preset"
	case field == "gpu":
		return "gpus"
	case outside[first]:
		return field
	}
	return "training." + field
}

// fieldPath is a path that means the same to sjson, which also knows wildcards, and numbers for the elements of lists,
// of which it would make any number.
var fieldPath = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]{0,60}(?:\.[A-Za-z_][A-Za-z0-9_-]{0,60}){0,7}$`)

// shortOf are the options that may be a word or an object, with the field of the object that the word stands for.
var shortOf = map[string]string{"training.optimizer": "name", "training.loss": "kind",
	"training.gradient_checkpointing": "mode", "training.objective": "kind", "training.compile": "model"}

// Set puts one field into a document, which has to be an object: micro_batch is 8, or optimizer.implementation is
// fused. A value that is JSON is taken as JSON, anything else as a string. What the document says besides stays,
// whether it can be read or not. The error says what is wrong with the field's name.
func Set(document []byte, field, value string) ([]byte, error) {
	shown := field
	if len(shown) > 80 {
		shown = shown[:80] + "…"
	}
	if !fieldPath.MatchString(field) {
		return nil, fmt.Errorf("%q is not the name of a field", shown)
	}
	path := PathOf(field)
	if path == "training" {
		return nil, fmt.Errorf("training is an object; give its fields, such as micro_batch=8")
	}
	if name := shortOf[path]; name != "" && gjson.GetBytes(document, path).IsObject() &&
		!strings.HasPrefix(value, "{") {
		path += "." + name // after optimizer.implementation=fused, optimizer=adamw is its name
	}
	var v any = value
	if json.Valid([]byte(value)) && !strings.HasPrefix(path, "training.versions.") { // of which 2.9 is one
		v = json.RawMessage(value)
	}
	if path == "gpus" && !strings.HasPrefix(value, "[") {
		v = strings.Split(value, ",")
	}
	document, err := Open(document, path)
	if err != nil {
		return nil, err
	}
	for i, c := range path { // a field cannot go into something that is not an object
		if parent := gjson.GetBytes(document, path[:i]); c == '.' && parent.Exists() && !parent.IsObject() {
			if document, err = sjson.SetRawBytes(document, path[:i], []byte("{}")); err != nil {
				return nil, fmt.Errorf("%s: %w", shown, err)
			}
		}
	}
	changed, err := sjson.SetBytes(document, path, v)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, err)
	}
	return changed, nil
}

// Open makes objects of the options above a path that a document gives in their short form, such as "adamw" for an
// optimizer, so that a field can be put into them.
func Open(document []byte, path string) ([]byte, error) {
	for i, c := range path {
		if c != '.' {
			continue
		}
		whole := objectOf(path[:i], gjson.GetBytes(document, path[:i]))
		if whole == nil {
			continue
		}
		opened, err := sjson.SetBytes(document, path[:i], whole)
		if err != nil {
			return nil, fmt.Errorf("set %s: %w", path[:i], err)
		}
		document = opened
	}
	return document, nil
}

// objectOf is the object that an option in its short form means; nil of anything else.
func objectOf(path string, short gjson.Result) map[string]any {
	name := shortOf[path]
	switch {
	case path == "training.dropout" && short.Type == gjson.Number:
		return map[string]any{"hidden": short.Num, "attention": short.Num}
	case path == "training.compile" && short.IsBool():
		return map[string]any{"model": short.Bool(), "loss": short.Bool()}
	case name != "" && short.Type == gjson.String:
		return map[string]any{name: short.Str}
	}
	return nil
}
