package service

import (
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/catalog"
)

// Events are what the first steps of a job ask PyTorch's allocator for, in order; names are looked up in c. The error
// is an *estimator.InvalidJobError that lists everything wrong with the job, or an *Error.
func Events(c *catalog.Catalog, job estimator.Job, steps int) ([]estimator.Event, error) {
	r, err := resolve(c, job)
	if err != nil {
		return nil, err
	}
	events, err := estimator.Events(r.input, steps)
	return events, r.problems(err)
}
