// Package invalid collects everything that is wrong with a job document, so that a
// user learns of all of it at once.
package invalid

import (
	"fmt"
	"sort"
	"strings"
)

// Field is one thing that is wrong with a job document.
type Field struct {
	// Pointer is the JSON pointer (RFC 6901) of the field, such as /training/micro_batch.
	Pointer string `json:"pointer"`
	// Code is stable and for programs: required, out_of_range, unknown_value,
	// unknown_field, duplicate_field, wrong_type, conflict, not_divisible,
	// too_large, unsupported, unknown_gpu, unknown_model.
	Code string `json:"code"`
	// Detail says what was given and what is accepted.
	Detail string `json:"detail"`
}

// Error lists everything that is wrong with a job, sorted by pointer.
type Error struct {
	Fields []Field
}

func (e *Error) Error() string {
	parts := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		parts[i] = f.Pointer + ": " + f.Detail
	}
	return "the job is not valid: " + strings.Join(parts, "; ")
}

// List collects field errors.
type List struct{ fields []Field }

// Add notes one wrong field; format and args make its detail.
func (v *List) Add(pointer, code, format string, args ...any) {
	v.fields = append(v.fields, Field{Pointer: pointer, Code: code, Detail: fmt.Sprintf(format, args...)})
}

// Amend adds to what is said of a field that was noted with a code.
func (v *List) Amend(pointer, code, more string) {
	for i := range v.fields {
		if f := &v.fields[i]; f.Pointer == pointer && f.Code == code {
			f.Detail += "; " + more
		}
	}
}

// Append takes over errors that were found elsewhere.
func (v *List) Append(fields ...Field) { v.fields = append(v.fields, fields...) }

// Err is nil when nothing was added, and an *Error otherwise.
func (v *List) Err() error {
	if len(v.fields) == 0 {
		return nil
	}
	sort.SliceStable(v.fields, func(i, j int) bool { return v.fields[i].Pointer < v.fields[j].Pointer })
	return &Error{Fields: v.fields}
}
