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
	// CodeOverloaded: there is too much to do now.
	CodeOverloaded Code = "overloaded"

	// CodeUnauthorized: a key is needed, and none that is valid was given.
	CodeUnauthorized Code = "unauthorized"
	// CodeForbidden: the key may not do this.
	CodeForbidden Code = "forbidden"
	// CodeConflict: the state of the catalog does not allow the change.
	CodeConflict Code = "conflict"
	// CodeKeyReused: the idempotency key belongs to another request.
	CodeKeyReused Code = "idempotency_key_reused"
	// CodeCalibration: a request names a calibration that cannot answer it.
	CodeCalibration Code = "unknown_calibration"
	// CodePreconditionRequired: a change has to say what it knows of the entry.
	CodePreconditionRequired Code = "precondition_required"
	// CodePreconditionFailed: the entry is not what the client thought.
	CodePreconditionFailed Code = "precondition_failed"
)

// failed makes an Error that has no cause.
func failed(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

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

// AlteredError is a store's error of something that is not what was stored: somebody changed it in the database, or the
// disk did. It is not used.
type AlteredError struct{ What string }

func (e *AlteredError) Error() string {
	return e.What + " was altered in the database and is not used; vramplan verify says what else was"
}
