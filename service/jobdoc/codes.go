package jobdoc

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// The codes of field errors that this package makes. They are stable.
const (
	CodeMalformed      = "malformed_json"
	CodeTooDeep        = "too_deep"
	CodeUnknownField   = "unknown_field"
	CodeDuplicateField = "duplicate_field"

	CodeWrongType    = "wrong_type"
	CodeOutOfRange   = "out_of_range"
	CodeUnknownValue = "unknown_value"
	CodeRequired     = "required"
	CodeConflict     = "conflict"
	CodeTooLarge     = "too_large"
)

// Malformed says whether err is about the document's form (it is not JSON, or
// has unknown or repeated fields) rather than only about its values. HTTP
// answers 400 to the first and 422 to the second.
func Malformed(err *invalid.Error) bool {
	return slices.ContainsFunc(err.Fields, func(f invalid.Field) bool {
		switch f.Code {
		case CodeMalformed, CodeTooDeep, CodeUnknownField, CodeDuplicateField:
			return true
		}
		return false
	})
}
