package tool

import (
	"fmt"
	"strings"
)

// Bare is a table without the marks of its switches.
func Bare(table string) string { return strings.ReplaceAll(table, "=", "") }

// Words are a tool's own names for what a plan may change: how a field of a job document is written in the tool's
// settings, for patches. A field, or a value, that is not there cannot be set in this tool.
type Words map[string]func(value any) (key, text string, ok bool)

// CountWord is a word that takes a whole number.
func CountWord(key string) func(any) (string, string, bool) {
	return func(value any) (string, string, bool) {
		n, ok := value.(int64)
		return key, fmt.Sprint(n), ok
	}
}

// ChoiceWord is a word whose values have names of the tool's own.
func ChoiceWord(key string, names map[string]string) func(any) (string, string, bool) {
	return func(value any) (string, string, bool) {
		name, isName := value.(string)
		text, ok := names[name]
		return key, text, isName && ok
	}
}

// OnOff are the words of a switch of checkpointing.
var OnOff = map[string]string{"full": "true", "none": "false"}
