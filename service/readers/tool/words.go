package tool

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator/step/optim"
)

// Bare is a table without the marks of its switches.
func Bare(table string) string { return strings.ReplaceAll(table, "=", "") }

// Set is a word of a tool with the value that it is to have, for patches.
type Set struct {
	Key, Text string
	// Or are other words for the same: the one that stands there is changed, and else Key is put in.
	Or []string
	// Not are words of releases that do not have this one.
	Not []string
	// Missing says that a value that stands there stays.
	Missing bool
	// Standing says that the word is changed where it stands, and not put in where it does not.
	Standing bool
	// Switch says that a command line takes the word alone for yes, and nothing behind it (argparse's store_true).
	Switch bool
}

// Words are a tool's own names for what a plan may change: how a field of a job document is written in the tool's
// settings, for patches; of adapters and of an object with a mode or a kind a field each. A field, or a value, that is
// not there cannot be set in this tool; no words for one that is say that the tool does so by itself.
type Words map[string]func(value any) ([]Set, bool)

// With are these words and others, which win.
func (w Words) With(others Words) Words {
	all := Words{}
	for _, words := range []Words{w, others} {
		for pointer, word := range words {
			all[pointer] = word
		}
	}
	return all
}

// CountWord is a word that takes a whole number.
func CountWord(key string, or ...string) func(any) ([]Set, bool) {
	return func(value any) ([]Set, bool) {
		n, ok := value.(int64)
		return []Set{{Key: key, Or: or, Text: fmt.Sprint(n)}}, ok
	}
}

// ChoiceWord is a word whose values have names of the tool's own.
func ChoiceWord(key string, names map[string]string) func(any) ([]Set, bool) {
	return func(value any) ([]Set, bool) {
		name, isName := value.(string)
		text, ok := names[name]
		return []Set{{Key: key, Text: text}}, isName && ok
	}
}

// SwitchWord is a word that is true or false.
func SwitchWord(key string) func(any) ([]Set, bool) {
	return func(value any) ([]Set, bool) {
		on, ok := value.(bool)
		return []Set{{Key: key, Text: fmt.Sprint(on)}}, ok
	}
}

// ValueWords are words for each of some values, "true" and "false" among them.
func ValueWords(values map[string][]Set) func(any) ([]Set, bool) {
	return func(value any) ([]Set, bool) {
		sets, ok := values[fmt.Sprint(value)]
		return sets, ok
	}
}

// ByItself are the values that the tool has without a word.
func ByItself(values ...string) func(any) ([]Set, bool) {
	return func(value any) ([]Set, bool) {
		for _, v := range values {
			if fmt.Sprint(value) == v {
				return nil, true
			}
		}
		return nil, false
	}
}

// OnOff are the words of a switch of checkpointing.
var OnOff = map[string]string{"full": "true", "none": "false"}

// HalfWords are the Trainer's two switches of autocast.
var HalfWords = ValueWords(map[string][]Set{
	"amp-bf16": {{Key: "bf16", Text: "true"}, {Key: "fp16", Text: "false", Standing: true}},
	"amp-fp16": {{Key: "fp16", Text: "true"}, {Key: "bf16", Text: "false", Standing: true}},
})

// OptimizerWord is a word that takes the Trainer's names of optimizers.
func OptimizerWord(key string) func(any) ([]Set, bool) {
	return func(value any) ([]Set, bool) {
		fields, _ := value.(map[string]any)
		name, _ := fields["name"].(string)
		implementation, _ := fields["implementation"].(string)
		row, known := optim.OptimizerOf(name, implementation)
		if !known || row.Trainer == "" || row.Name != name || fields["in_backward"] == true {
			return nil, false
		}
		return []Set{{Key: key, Text: row.Trainer}}, true
	}
}

// TargetWords are a word for the layers that adapters are put on, which takes all linear ones by a name.
func TargetWords(key, all string) func(any) ([]Set, bool) {
	return func(value any) ([]Set, bool) {
		list, _ := value.([]any)
		if len(list) != 1 || list[0] != "all-linear" {
			return nil, false
		}
		return []Set{{Key: key, Text: all}}, true
	}
}
