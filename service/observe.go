package service

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// Observation is a run as it was measured, beside what was predicted for it.
type Observation struct {
	ID string    `json:"id" example:"obs-019abc3f1c80k7q2mzx4ab"`
	At time.Time `json:"at" example:"2026-11-22T10:00:00Z"`
	By Author    `json:"by"`
	// GPU, Family and Torch are what accuracy is grouped by; Torch is empty where nobody said.
	GPU    string `json:"gpu" example:"rtx-4070"`
	Model  string `json:"model" example:"nanogpt/train_gpt2"`
	Family string `json:"family" example:"nanogpt"`
	Torch  string `json:"torch,omitempty" example:"2.9.1"`

	Job       estimator.Job     `json:"job"`
	Measured  jobdoc.Measured   `json:"measured"`
	Predicted Prediction        `json:"predicted"`
	Versions  map[string]string `json:"versions,omitempty"`
	Source    string            `json:"source,omitempty"`
	Note      string            `json:"note,omitempty"`
	// Quarantined says why the observation is left out of accuracy; empty where it is not.
	Quarantined string `json:"quarantined,omitempty"`
}

// Prediction is what the service said of the job when the observation came in.
type Prediction struct {
	Versions       estimator.Versions `json:"versions"`
	AllocatedBytes int64              `json:"allocated_bytes"`
	ReservedBytes  int64              `json:"reserved_bytes"`
	DeviceBytes    int64              `json:"device_bytes"`
	LowBytes       int64              `json:"low_bytes"`
	HighBytes      int64              `json:"high_bytes"`
	Verdict        estimator.Verdict  `json:"verdict"`
}

// StoredObservation is an observation as a store keeps it.
type StoredObservation struct {
	Observation
	// IdempotencyKey is the client's; empty where it gave none.
	IdempotencyKey string
	// Digest is that of what was sent.
	Digest string
	// Known says that it was there already.
	Known bool
}

// ObservationFilter selects observations; its zero value selects all.
type ObservationFilter struct {
	GPU, Family string
	// Before leaves out the observation of this id and newer ones.
	Before string
	// Limit is how many are wanted at most, MaxBytes how many bytes of documents, one observation at least; 0 is no
	// bound.
	Limit    int
	MaxBytes int
	// WithoutJobs leaves jobs and versions of software out.
	WithoutJobs bool
}

// Sent is one observation of a request.
type Sent struct {
	Document       jobdoc.Observation
	IdempotencyKey string
}

// Observed is what became of one observation of a request: Observation or Err.
type Observed struct {
	Observation *Observation
	// Known says that it was stored before, under the same idempotency key.
	Known bool
	Err   error
}

// Observe stores what runs were measured to take, with what is predicted for them now. A
// document that cannot be accepted does not keep the others from being stored.
func (s *Service) Observe(ctx context.Context, by Author, list []Sent) ([]Observed, error) {
	if s.store == nil {
		return nil, noDatabase()
	}
	results := make([]Observed, len(list))
	var good []StoredObservation
	var places []int
	for i := range list {
		o, err := s.observation(ctx, by, &list[i])
		if err != nil {
			if code := ErrorCode(err); code == CodeUnavailable {
				return nil, err
			}
			results[i].Err = err
			continue
		}
		good, places = append(good, *o), append(places, i)
	}
	if len(good) == 0 {
		return results, nil
	}
	if err := s.roomFor(ctx, len(good)); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	stored, err := s.store.AddObservations(ctx, good)
	if err != nil {
		return nil, storeError(err, "the database did not confirm the observations: send them again with the "+
			"same Idempotency-Key")
	}
	for n, i := range places {
		o := &stored[n]
		if o.Digest != good[n].Digest {
			results[i].Err = failed(CodeKeyReused, "the Idempotency-Key %.100q belongs to another observation",
				o.IdempotencyKey)
			continue
		}
		results[i] = Observed{Observation: &o.Observation, Known: o.Known}
	}
	return results, nil
}

// observation checks one document and predicts what it measures.
func (s *Service) observation(ctx context.Context, by Author, sent *Sent) (*StoredObservation, error) {
	d := &sent.Document
	wrong := checkMeasured(d)
	job := d.Job
	prediction, err := s.Estimate(ctx, job, EstimateOptions{})
	if found, ok := errors.AsType[*invalid.Error](err); ok {
		for _, f := range found.Fields {
			wrong.Add("/job"+f.Pointer, f.Code, "%s", f.Detail)
		}
	} else if err != nil {
		return nil, err
	}
	if err := wrong.Err(); err != nil {
		return nil, err
	}
	canonical, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("encode the observation: %w", err)
	}
	sum := sha256.Sum256(canonical)
	at := s.now().UTC()
	p := prediction.Peak
	o := &StoredObservation{
		Observation: Observation{
			ID: fmt.Sprintf("obs-%012x%s", at.UnixMilli(), strings.ToLower(rand.Text()[:10])), At: at, By: by,
			GPU: prediction.GPUs[0].GPU, Model: prediction.Model.Name, Family: prediction.Model.Family,
			Torch: torchOf(d),
			Job:   job, Measured: d.Measured, Versions: d.Versions, Source: d.Source, Note: d.Note,
			Predicted: Prediction{prediction.Versions, p.AllocatedBytes, p.ReservedBytes, p.DeviceBytes, p.LowBytes,
				p.HighBytes, prediction.GPUs[0].Verdict},
		},
		IdempotencyKey: sent.IdempotencyKey,
		Digest:         hex.EncodeToString(sum[:]),
	}
	o.Quarantined = quarantine(&o.Observation)
	return o, nil
}

func checkMeasured(d *jobdoc.Observation) *invalid.List {
	var wrong invalid.List
	text := textOf(&wrong)
	text("/source", d.Source)
	text("/note", d.Note)
	for name, version := range d.Versions {
		text("/versions", name, version)
	}
	if n := len(d.Job.GPUs); n != 1 || d.Job.GPUs[0].Name == wholeCatalog {
		wrong.Add("/job/gpus", "required", "names the one card that was measured on")
	} else {
		text("/job/gpus/0", d.Job.GPUs[0].Name)
	}
	m := d.Measured
	given := slices.DeleteFunc([]figure{{"allocated_bytes", m.AllocatedBytes}, {"reserved_bytes", m.ReservedBytes},
		{"device_bytes", m.DeviceBytes}},
		func(f figure) bool { return f.bytes == 0 })
	if len(given) == 0 && !m.OutOfMemory {
		wrong.Add("/measured", "required", "at least one of allocated_bytes, reserved_bytes and device_bytes, or "+
			"out_of_memory, is required")
	}
	for i := 1; i < len(given); i++ {
		if given[i].bytes < given[i-1].bytes {
			wrong.Add("/measured/"+given[i].name, "conflict", "%d is less than %s, %d, which is a part of it",
				given[i].bytes, given[i-1].name, given[i-1].bytes)
		}
	}
	return &wrong
}

type figure struct {
	name  string
	bytes int64
}

// torchOf is the release of PyTorch that ran.
func torchOf(d *jobdoc.Observation) string {
	if v := d.Versions["torch"]; v != "" {
		return v
	}
	return d.Job.Training.Versions["torch"]
}

// quarantineFactor is how far a figure may be from its prediction before something else than
// memory is thought to differ: another job, another unit. The published runs that the
// replay was checked with lie within a factor of 1.6.
const quarantineFactor = 2

// quarantine says what makes an observation look like that of another job.
func quarantine(o *Observation) string {
	if o.Measured.OutOfMemory {
		return "" // its figures are where it stopped
	}
	for _, f := range []struct {
		name                string
		measured, predicted int64
	}{
		{"allocated_bytes", o.Measured.AllocatedBytes, o.Predicted.AllocatedBytes},
		{"reserved_bytes", o.Measured.ReservedBytes, o.Predicted.ReservedBytes},
		{"device_bytes", o.Measured.DeviceBytes, o.Predicted.DeviceBytes},
	} {
		if f.measured > 0 && (f.measured > quarantineFactor*f.predicted || f.predicted > quarantineFactor*f.measured) {
			return fmt.Sprintf("%s is %d, and %d was predicted: more than a factor of %d apart", f.name, f.measured,
				f.predicted, quarantineFactor)
		}
	}
	return ""
}

// byID lets any name of the card do.
func (s *Service) byID(f ObservationFilter) ObservationFilter {
	if f.GPU != "" {
		if g, err := s.current().GPU(f.GPU); err == nil {
			f.GPU = g.ID
		}
	}
	return f
}

// Observations lists observations, the newest first; more says that there may be older ones.
func (s *Service) Observations(ctx context.Context, f ObservationFilter) (list []Observation, more bool, err error) {
	if s.store == nil {
		return nil, false, noDatabase()
	}
	f = s.byID(f)
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	list, more, err = s.store.Observations(ctx, f)
	if err != nil {
		return nil, false, storeError(err, "the observations could not be read")
	}
	return list, more, nil
}
