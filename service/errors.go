package service

import (
	"errors"
	"fmt"
)

// Code says what kind of failure an Error is; front ends map it to a status.
type Code string

// The codes. What is wrong with a job is not among them: that is an
// *estimator.InvalidJobError.
const (
	CodeNotFound    Code = "not_found"
	CodeUnavailable Code = "unavailable"
	CodeInternal    Code = "internal"
)

// Error is a failure that is not the job's.
type Error struct {
	Code Code
	// Message is for users.
	Message string
	// Suggestions are ids that may have been meant, for CodeNotFound.
	Suggestions []string
	// Err is the cause, for logs; it may be nil.
	Err error
}

func (e *Error) Error() string {
	if e.Err == nil {
		return e.Message
	}
	return fmt.Sprintf("%s: %v", e.Message, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }

// ErrorCode is the code of the first Error in err's chain, and CodeInternal for
// an error that has none.
func ErrorCode(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
