package estimator

import (
	"github.com/vramplan/vramplan/estimator/invalid"
)

// InvalidJobError lists everything that is wrong with a job, sorted by pointer.
type InvalidJobError = invalid.Error

// FieldError is one thing that is wrong with a job document.
type FieldError = invalid.Field
