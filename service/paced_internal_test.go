package service

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/workplace"
)

// TestEverythingIsBooked: estimates, plans and comparisons ask the budget before they record anything.
func TestEverythingIsBooked(t *testing.T) {
	// less than anything takes
	s := New(EmbeddedCatalog(), WithLimits(workplace.Limits{ReplayBytes: 1 << 20}), WithCache(0))
	job := estimator.Job{Model: estimator.Model{Preset: "openai-community/gpt2"},
		Training: estimator.Training{MicroBatch: 1}, GPUs: []estimator.GPURef{{Name: "a100-sxm4-80gb"}}}
	for name, ask := range map[string]func() error{
		"estimate": func() error { _, err := s.Estimate(t.Context(), job, EstimateOptions{}); return err },
		"plan":     func() error { _, err := s.Plan(t.Context(), PlanRequest{Job: job}, PlanOptions{}); return err },
		"compare":  func() error { _, err := s.Compare(t.Context(), job, job, CompareOptions{}); return err },
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), "of the service's memory") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestStopsWithItsContext: the context of an estimate reaches the replay.
func TestStopsWithItsContext(t *testing.T) {
	s := New(EmbeddedCatalog(), WithCache(0))
	ctx, cancel := context.WithCancel(t.Context())
	s.estimate = func(in estimator.Input) (*estimator.Result, error) {
		cancel()
		return estimator.Estimate(in)
	}
	job := estimator.Job{Model: estimator.Model{Preset: "openai-community/gpt2"},
		Training: estimator.Training{MicroBatch: 1}}
	if _, err := s.Estimate(ctx, job, EstimateOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestFitsAreBooked: what an answer would be refused for is too dear for a fit.
func TestFitsAreBooked(t *testing.T) {
	s := New(EmbeddedCatalog(), WithLimits(workplace.Limits{ReplayBytes: 1 << 20}))
	job := estimator.Job{Model: estimator.Model{Preset: "openai-community/gpt2"},
		Training: estimator.Training{MicroBatch: 1}, GPUs: []estimator.GPURef{{Name: "a100-sxm4-80gb"}}}
	o := &Observation{Job: job}
	o.Measured.ReservedBytes = 4 << 30
	for range 2 { // the second time it is known
		if rows, err := s.newReplays(t.Context()).rows(o); !errors.Is(err, errDear) || len(rows) != 0 {
			t.Errorf("%d rows, %v", len(rows), err)
		}
	}
}

// TestDiagnosesAreBooked: a diagnosis asks for more than an estimate of its job, and all of it is booked.
func TestDiagnosesAreBooked(t *testing.T) {
	job := estimator.Job{Model: estimator.Model{Preset: "openai-community/gpt2"},
		Training: estimator.Training{MicroBatch: 1}, GPUs: []estimator.GPURef{{Name: "t4"}}}
	const text = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 500.00 MiB. GPU 0 has a total " +
		"capacity of 14.58 GiB of which 100.00 MiB is free. Including non-PyTorch memory, this process has 14.40 GiB " +
		"memory in use. Of the allocated memory 14.00 GiB is allocated by PyTorch, and 100.00 MiB is reserved by " +
		"PyTorch but unallocated."
	var booked int
	s := New(EmbeddedCatalog(), WithCache(0), WithCost(func(estimator.Cost) { booked++ }))
	if _, err := s.Diagnose(t.Context(), DiagnosisRequest{Text: text, Job: &job}); err != nil {
		t.Fatal(err)
	}
	if booked < 4 { // the job, its requests, its first failure and its floor
		t.Errorf("%d were booked", booked)
	}
}
