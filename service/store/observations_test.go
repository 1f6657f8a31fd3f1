package store_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// run is an observation with something in every field.
func run(id, gpu, key string) service.StoredObservation {
	var job estimator.Job
	job.Model.Preset, job.Training.MicroBatch, job.GPUs = "gpt2", 2, []estimator.GPURef{{Name: gpu}}
	return service.StoredObservation{
		Observation: service.Observation{ID: id, At: time.Date(2026, 11, 22, 10, 0, 0, 123e6, time.UTC), By: ci,
			GPU: gpu, Model: "gpt2", Family: "gpt2", Torch: "2.9.1",
			Job: job, Measured: jobdoc.Measured{AllocatedBytes: 1 << 40, OutOfMemory: true},
			Predicted: service.Prediction{DeviceBytes: 7, Verdict: estimator.Fits},
			Versions:  map[string]string{"torch": "2.9.1"}, Source: "te'st", Note: "zoë $1", Quarantined: "too far"},
		IdempotencyKey: key, Digest: "digest of " + id,
	}
}

func TestObservations(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		list := []service.StoredObservation{run("obs-1", "a100", ""), run("obs-2", "t4", "key"),
			run("obs-3", "a100", "")}
		if _, err := s.AddObservations(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			filter service.ObservationFilter
			want   string
		}{
			{service.ObservationFilter{Limit: 10}, "obs-3 obs-2 obs-1"},
			{service.ObservationFilter{Limit: 2}, "obs-3 obs-2"},
			{service.ObservationFilter{Limit: 2, Before: "obs-2"}, "obs-1"},
			{service.ObservationFilter{Limit: 10, GPU: "a100"}, "obs-3 obs-1"},
			{service.ObservationFilter{Limit: 10, GPU: "a100", Family: "bert"}, ""},
		} {
			got, _, err := s.Observations(t.Context(), c.filter)
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, o := range got {
				ids = append(ids, o.ID)
			}
			if got := strings.Join(ids, " "); got != c.want {
				t.Errorf("%+v: %s, want %s", c.filter, got, c.want)
			}
		}
		got, _, err := s.Observations(t.Context(), service.ObservationFilter{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(list[2].Observation, got[0]); diff != "" {
			t.Errorf("(-stored +read):\n%s", diff)
		}

		// An idempotency key stands for one observation of one API key, also within a batch.
		again := []service.StoredObservation{run("obs-4", "t4", "key"), run("obs-5", "t4", "other"),
			run("obs-6", "t4", "other"), run("obs-7", "t4", "key")}
		again[3].By.KeyID = "somebody"
		stored, err := s.AddObservations(t.Context(), again)
		if err != nil {
			t.Fatal(err)
		}
		var what []string
		for _, o := range stored {
			what = append(what, fmt.Sprintf("%s %v %s", o.ID, o.Known, o.Digest))
		}
		want := "obs-2 true digest of obs-2; obs-5 false digest of obs-5; obs-5 true digest of obs-5; obs-7 " +
			"false digest of obs-7"
		if got := strings.Join(what, "; "); got != want {
			t.Errorf("%s, want %s", got, want)
		}

		// All or none.
		if _, err := s.AddObservations(t.Context(), []service.StoredObservation{run("obs-8", "t4", ""),
			run("obs-1", "t4", "")}); err == nil {
			t.Error("an id was used twice")
		}
		if got, _, err := s.Observations(t.Context(), service.ObservationFilter{Limit: 10}); err != nil ||
			len(got) != 5 {
			t.Errorf("%d observations, %v", len(got), err)
		}
	})
}

// Pages end by bytes, one observation at least; what is deleted is gone, the oldest first.
func TestObservationsGo(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		s := migrated(t, name)
		var all []service.StoredObservation
		for i := range 5 {
			all = append(all, run(fmt.Sprintf("obs-%d", i), "t4", ""))
		}
		if _, err := s.AddObservations(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if mark, err := s.ObservationMark(t.Context()); err != nil ||
			mark != (service.ObservationMark{Count: 5, Newest: "obs-4"}) {
			t.Errorf("%+v, %v", mark, err)
		}
		page, more, err := s.Observations(t.Context(), service.ObservationFilter{Limit: 5, MaxBytes: 1,
			WithoutJobs: true})
		if err != nil || len(page) != 1 || !more || page[0].ID != "obs-4" || page[0].Job.Training.MicroBatch != 0 {
			t.Errorf("%+v, %v, %v", page, more, err)
		}
		for i, want := range []bool{true, false} {
			if deleted, err := s.DeleteObservation(t.Context(), "obs-2"); err != nil || deleted != want {
				t.Errorf("deletion %d: %v, %v", i, deleted, err)
			}
		}
		if n, err := s.DropObservations(t.Context(), "obs-4", 2); err != nil || n != 2 {
			t.Errorf("%d dropped, %v", n, err)
		}
		if left, more, err := s.Observations(t.Context(), service.ObservationFilter{Limit: 5}); err != nil || more ||
			len(left) != 2 || left[1].ID != "obs-3" {
			t.Errorf("%+v, %v, %v", left, more, err)
		}
	})
}

// Clients that send the same request at once store it once.
func TestConcurrentObservations(t *testing.T) {
	onEach(t, func(t *testing.T, name string) {
		migrated(t, name)
		var wait sync.WaitGroup
		for i := range 6 {
			s := open(t, name)
			wait.Go(func() {
				stored, err := s.AddObservations(t.Context(),
					[]service.StoredObservation{run(fmt.Sprintf("obs-%d", i), "t4", "key"),
						run(fmt.Sprintf("own-%d", i), "t4", "")})
				if err != nil || stored[0].ID == "" {
					t.Errorf("%+v, %v", stored, err)
				}
			})
		}
		wait.Wait()
		if got, _, err := open(t, name).Observations(t.Context(), service.ObservationFilter{Limit: 100}); err != nil ||
			len(got) != 7 {
			t.Errorf("%d observations, %v", len(got), err)
		}
	})
}
