package service

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
)

// TestBudget: what never fits is refused with the number, what fits later waits, and ordinary jobs do not wait for large ones.
func TestBudget(t *testing.T) {
	b := newBudget(64 << 20)
	_, err := b.admit(t.Context(), estimator.Cost{Bytes: 49 << 20}, false)
	if wrong, ok := errors.AsType[*invalid.Error](err); !ok || !strings.Contains(wrong.Error(), "49 MiB") || !strings.Contains(wrong.Error(), "48 MiB") {
		t.Fatalf("%v", err)
	}
	release, err := b.admit(t.Context(), estimator.Cost{Bytes: 40 << 20}, false)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, err := b.admit(short, estimator.Cost{Bytes: 9 << 20}, false); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a second large job: %v", err)
	}
	small, err := b.admit(t.Context(), estimator.Cost{Bytes: 3 << 20}, false)
	if err != nil {
		t.Fatal(err)
	}
	small()
	release()
	if release, err = b.admit(t.Context(), estimator.Cost{Bytes: 9 << 20}, false); err != nil {
		t.Fatal(err)
	}
	release()
}

// TestEverythingIsBooked: estimates, plans and comparisons ask the budget before they record anything.
func TestEverythingIsBooked(t *testing.T) {
	s := New(EmbeddedCatalog(), WithReplayMemory(1<<20), WithCache(0)) // less than anything takes
	job := estimator.Job{Model: estimator.Model{Preset: "openai-community/gpt2"}, Training: estimator.Training{MicroBatch: 1}, GPUs: []estimator.GPURef{{Name: "a100-sxm4-80gb"}}}
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
	job := estimator.Job{Model: estimator.Model{Preset: "openai-community/gpt2"}, Training: estimator.Training{MicroBatch: 1}}
	if _, err := s.Estimate(ctx, job, EstimateOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
