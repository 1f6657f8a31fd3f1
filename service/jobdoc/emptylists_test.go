package jobdoc_test

import (
	"testing"

	"github.com/vramplan/vramplan/service/jobdoc"
)

// TestEmptyListsAreNone: some generated clients send an empty list for each that was not set (openapi-generator's
// Java).
func TestEmptyListsAreNone(t *testing.T) {
	job, err := jobdoc.Decode([]byte(`{"model": {"preset": "gpt2"}, "gpus": [],
		"training": {"micro_batch": 1, "resolution": [], "kernels": []}}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(job.Training.Resolution)+len(job.Training.Kernels)+len(job.GPUs) != 0 {
		t.Errorf("%+v", job)
	}
}
