// Package setting holds what configuration files and command lines say, with the place where each value stands:
// [Value], [Origin] and [Settings]. Decoders make them of text, and readers look values up by the words of a tool.
package setting

import (
	"fmt"
	"strconv"
	"strings"
)

// Kind says where a value comes from.
type Kind string

// The kinds of origins.
const (
	// File is a line of a configuration file.
	File Kind = "file"
	// Argument is a word of a command line.
	Argument Kind = "argument"
	// Environment is a variable that a script sets.
	Environment Kind = "environment"
	// Default is what the tool takes where nobody says anything; Ref names its release, file and line.
	Default Kind = "default"
	// Derived is worked out of other values; How says so.
	Derived Kind = "derived"
	// Said is what the user told vramplan.
	Said Kind = "said"
)

// Span is a stretch of a file: bytes Start to End (without End), and the line where it begins, from 1.
// The zero Span is nowhere.
type Span struct {
	File       string
	Start, End int
	Line       int
}

// Known reports whether the span is a place in a file.
func (s Span) Known() bool { return s.File != "" && s.Line > 0 }

// Where is the place for people; "" where it is nowhere.
func (s Span) Where() string {
	if !s.Known() {
		return ""
	}
	return fmt.Sprintf("%s:%d", s.File, s.Line)
}

// Origin says where a value comes from.
type Origin struct {
	Kind Kind
	// Key is the user's word for it: per_device_train_batch_size.
	Key string
	// At is where the value stands, without its quotes.
	At Span
	// Use is the word of a command line, with its quotes, that gives the value; nowhere for what no command line gives.
	Use Span
	// Shared says that the word of Use gives other words too: $ARGS.
	Shared bool
	// Through are the names of the variables by which the value came to Use from where it stands, with blanks between.
	Through string
	// Ref is the release, file and line of a default.
	Ref string
	// How says in words how a value was derived.
	How string
}

// Value is one setting's value. Any is nil, bool, int64, float64, string, []any or map[string]any.
type Value struct {
	Any  any
	Text string
	// Unknown says why the value cannot be told; empty where it can.
	Unknown string
	// Assumed says on what the value rests where the environment may say otherwise; empty where nothing can.
	Assumed string
	Origin  Origin
}

// Given reports whether there is a value that is not null.
func (v Value) Given() bool { return v.Unknown != "" || v.Any != nil }

// Int is the value as a whole number, where it is one: 8, "8", 8.0, 1_000.
func (v Value) Int() (int64, bool) {
	switch x := v.Any.(type) {
	case int64:
		return x, true
	case float64:
		if x == float64(int64(x)) && x < 1<<53 && x > -1<<53 {
			return int64(x), true
		}
	case string:
		s := strings.ReplaceAll(strings.TrimSpace(x), "_", "")
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n, true
		}
		if f, err := strconv.ParseFloat(s, 64); err == nil {
			return Value{Any: f}.Int()
		}
	}
	return 0, false
}

// On reports whether a switch is on, and known.
func (v Value) On() bool {
	on, ok := v.Bool()
	return ok && on && v.Unknown == ""
}

// Off reports whether a value says no, nothing or none.
func (v Value) Off() bool {
	if v.Unknown != "" {
		return false
	}
	switch x := v.Any.(type) {
	case nil:
		return true
	case bool:
		return !x
	case int64:
		return x == 0
	case float64:
		return x == 0
	case []any:
		return len(x) == 0
	case map[string]any:
		return len(x) == 0
	case string:
		switch strings.ToLower(strings.TrimSpace(x)) {
		case "", "false", "none", "null", "no", "0", "off", "[]", "disabled":
			return true
		}
	}
	return false
}

// Float is the value as a number, where it is one.
func (v Value) Float() (float64, bool) {
	switch x := v.Any.(type) {
	case int64:
		return float64(x), true
	case float64:
		return x, true
	case string:
		f, err := strconv.ParseFloat(strings.TrimSpace(x), 64)
		return f, err == nil
	}
	return 0, false
}

// Bool is the value as a truth value, where it is one. Strings are read as argparse types and YAML 1.1 have them.
func (v Value) Bool() (on, ok bool) {
	switch x := v.Any.(type) {
	case bool:
		return x, true
	case int64:
		return x == 1, x == 0 || x == 1
	case string:
		switch strings.ToLower(strings.TrimSpace(x)) {
		case "true", "yes", "on", "t", "y", "1":
			return true, true
		case "false", "no", "off", "f", "n", "0":
			return false, true
		}
	}
	return false, false
}

// String is the value as a word; numbers and truth values as they were written.
func (v Value) String() string {
	if s, ok := v.Any.(string); ok {
		return s
	}
	return v.Text
}

// Strings is the value as a list of words: a list, or a word that commas or blanks divide.
func (v Value) Strings() []string {
	var out []string
	switch x := v.Any.(type) {
	case []any:
		for _, e := range x {
			if s, ok := e.(string); ok {
				out = append(out, s)
			}
		}
	case string:
		out = strings.FieldsFunc(strings.Trim(x, "[]"), func(r rune) bool {
			return r == ',' || r == ' ' || r == '"' || r == '\''
		})
	}
	return out
}

// Scalar types one plain scalar as YAML 1.1 does in PyYAML: yes, on and off are truth values, 1_000 is a number, and
// 2e-5 is a string since it has no point.
func Scalar(s string) any {
	switch s {
	case "", "~", "null", "Null", "NULL":
		return nil
	case "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON":
		return true
	case "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF":
		return false
	}
	if c := s[0]; c != '-' && c != '+' && c != '.' && (c < '0' || c > '9') {
		return s
	}
	digits := strings.ReplaceAll(s, "_", "")
	if n, err := strconv.ParseInt(digits, 0, 64); err == nil && !leadingZero(digits) {
		return n
	}
	if strings.ContainsRune(digits, '.') && !strings.ContainsAny(digits, "xXpP") {
		if i := strings.IndexAny(digits, "eE"); i >= 0 &&
			(i+1 >= len(digits) || digits[i+1] != '+' && digits[i+1] != '-') {
			return s // PyYAML wants a sign in the exponent
		}
		if f, err := strconv.ParseFloat(digits, 64); err == nil {
			return f
		}
	}
	return s
}

// leadingZero finds 010, which YAML 1.1 reads as an octal number: no setting means that, and 08 is a word anyway.
func leadingZero(s string) bool {
	s = strings.TrimLeft(s, "+-")
	return len(s) > 1 && s[0] == '0' && s[1] >= '0' && s[1] <= '9'
}
