package estimator

import (
	"testing"
)

// TestFirstFailure: a job gets through at its smallest limit and above, and fails below: when it is loaded, in the
// first forward, and later; what fails is a tensor that the job asks for.
func TestFirstFailure(t *testing.T) {
	job := gpt2Job()
	job.Training.GradientAccumulation = 1
	in := Input{Job: job}
	res, err := Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	requests, err := Requests(in)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		limit int64
		fails bool
	}{
		"all that is reserved": {res.Peak.ReservedBytes, false},
		"the smallest limit":   {res.Peak.MinimumLimitBytes, false},
		"what is alive":        {res.Peak.AllocatedBytes - 64<<20, true},
		"half of it":           {res.Peak.AllocatedBytes / 2, true},
		"some of the weights":  {256 << 20, true},
	} {
		bytes, err := FirstFailure(in, c.limit)
		if err != nil || (bytes > 0) != c.fails {
			t.Errorf("%s: under %d bytes a request of %d fails, %v", name, c.limit, bytes, err)
		}
		known := bytes == 0
		for _, r := range requests {
			known = known || r.Bytes == bytes
		}
		if !known {
			t.Errorf("%s: the request of %d bytes that fails is none of the job's", name, bytes)
		}
	}
}
