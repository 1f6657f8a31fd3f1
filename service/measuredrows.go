package service

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service/catalog"
)

// replays holds observations against the built-in constants of this estimator, with one catalog.
type replays struct {
	service *Service
	catalog *catalog.Catalog
	// known are the jobs that were replayed already: runs of the same job share a replay. nil stands for a job that is
	// not answered.
	known map[string]*calibration.Row
	// dear are the jobs that took too long.
	dear map[string]bool
	// budget ends when no time is left for replays.
	budget context.Context
}

func (s *Service) newReplays(budget context.Context) *replays {
	return &replays{service: s, catalog: s.current(), known: map[string]*calibration.Row{}, dear: map[string]bool{},
		budget: budget}
}

// errDear says that a replay takes longer, or more memory, than one of a fit may.
var errDear = errors.New("the replay takes too much")

// rows are an observation as a fit takes it: none where its job is not answered, or nothing was measured that is
// fitted. A run belongs to the release of PyTorch that it ran with, whatever its job named. Where the job named none,
// it also stands for jobs that name none: that row is the last.
func (x *replays) rows(o *Observation) ([]calibration.Row, error) {
	asked, ran := releaseOf(o.Job.Training.Versions), releaseOf(o.Versions)
	if ran == calibration.Unnamed || ran == asked {
		return x.row(nil, o, o.Job)
	}
	job := o.Job
	job.Training.Versions = maps.Clone(job.Training.Versions)
	if job.Training.Versions == nil {
		job.Training.Versions = map[string]string{}
	}
	job.Training.Versions["torch"] = ran
	list, err := x.row(nil, o, job)
	if err != nil || asked != calibration.Unnamed {
		return list, err
	}
	list, err = x.row(list, o, o.Job)
	if len(list) == 2 {
		list[0].Job, list[1].ReleaseOnly = list[1].Job, true // one job, in two groups
	}
	return list, err
}

// releaseOf is the release of PyTorch among versions, as groups of a calibration name it.
func releaseOf(versions map[string]string) string {
	var job estimator.Job
	job.Training.Versions = versions
	return estimator.CalibrationKey(&job, "", nil).Torch
}

// row adds an observation of a job to a list, unless the job is not answered.
func (x *replays) row(list []calibration.Row, o *Observation, job estimator.Job) ([]calibration.Row, error) {
	job.Confidence = 0 // the default, which widths are counted in
	r, err := resolve(x.catalog, job)
	if err != nil {
		return nil, err
	}
	if r.unknown.Err() != nil || len(r.input.GPUs) != 1 {
		return list, nil
	}
	name, err := jobDigest(&r.input)
	if err != nil {
		return nil, err
	}
	replayed, ok := x.known[name]
	if !ok {
		if x.dear[name] {
			return nil, errDear
		}
		replayed, err = x.replay(r, name)
		if x.dear[name] = errors.Is(err, errDear) || errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, context.Canceled); x.dear[name] {
			return nil, errDear
		}
		if err != nil {
			return nil, err
		}
		x.known[name] = replayed
	}
	if replayed == nil {
		return list, nil
	}
	row, m, card := *replayed, o.Measured, &r.input.GPUs[0]
	row.ID, row.Source = o.ID, o.By.KeyID+"/"+o.Source
	switch {
	case !m.OutOfMemory:
		row.Reserved, row.Device = m.ReservedBytes, m.DeviceBytes
	case m.DeviceBytes > 0 || m.ReservedBytes > 0 || m.AllocatedBytes > 0:
		row.AtLeast = max(m.DeviceBytes, m.ReservedBytes, m.AllocatedBytes)
	default:
		// nobody knows what else was on the card: at least that was not enough
		row.AtLeast = card.UsableBytes - job.ReserveBytes
	}
	if row.Reserved <= 0 && row.Device <= 0 && row.AtLeast <= 0 {
		return list, nil
	}
	return append(list, row), nil
}

// replay is what is the same for all runs of a job; nil where it is not answered.
func (x *replays) replay(r *resolved, name string) (*calibration.Row, error) {
	one, cancel := context.WithTimeout(x.budget, dearReplay)
	defer cancel()
	result, err := inTurn(one, x.service, x.service.place.LastTurn(one), r.input, x.service.estimate)
	if wrong, refused := errors.AsType[*invalid.Error](err); refused {
		if slices.ContainsFunc(wrong.Fields, func(f invalid.Field) bool { return f.Code == tooLarge }) {
			return nil, errDear
		}
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	key := estimator.CalibrationKey(&r.input.Job, result.Model.Family, &r.input.GPUs[0])
	return &calibration.Row{Job: name, Key: key, Base: estimator.CalibrationBase(&result.Peak)}, nil
}

// jobDigest names a job on a card, however it was spelt.
func jobDigest(in *estimator.Input) (string, error) {
	job := in.Job
	job.GPUs, job.Confidence, job.ReserveBytes = nil, 0, 0
	text, err := json.Marshal(job)
	if err != nil {
		return "", fmt.Errorf("name a job: %w", err)
	}
	sum := sha256.Sum256(append(text, in.GPUs[0].ID...))
	return hex.EncodeToString(sum[:16]), nil
}
