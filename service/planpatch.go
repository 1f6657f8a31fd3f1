package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers"
)

// FileJob is the one job that files of other tools describe.
type FileJob struct {
	service  *Service
	reading  jobdoc.Reading
	document json.RawMessage
}

// FileJob reads the one job of a reading. What the files leave open, and several jobs, are an *[invalid.Error] about
// /reading.
func (s *Service) FileJob(ctx context.Context, r jobdoc.Reading) (*FileJob, error) {
	read, err := s.readFiles(ctx, ReadingWork{Reading: r})
	if err != nil {
		return nil, err
	}
	answer := read.Answer
	const pointer = "/reading"
	var errs invalid.List
	switch {
	case len(answer.Jobs) == 0:
		for _, r := range answer.Refusals {
			errs.Add(pointer, "unsupported", "%s", r.String())
		}
	case len(answer.Jobs) > 1:
		errs.Add(pointer, "conflict", "the files describe %d jobs: name the file of one of them in read",
			len(answer.Jobs))
	default:
		for _, q := range answer.Open() {
			errs.Add(pointer, "required", "%s %s; answer it in known.set, known.gpus or known.ignore", q.Ask, q.Why)
		}
	}
	if err := errs.Err(); err != nil {
		return nil, err
	}
	return &FileJob{s, r, read.Document}, nil
}

// Over lays the fields of a request over the job's document: gpus, effective_batch and whatever else is said beside the
// files.
func (f *FileJob) Over(request []byte) ([]byte, error) {
	document, err := slices.Clone(f.document), error(nil)
	gjson.ParseBytes(request).ForEach(func(key, value gjson.Result) bool {
		if key.String() != "reading" {
			document, err = sjson.SetRawBytes(document, gjson.Escape(key.String()), []byte(value.Raw))
		}
		return err == nil
	})
	if err != nil {
		return nil, fmt.Errorf("lay the request over the files: %w", err)
	}
	return document, nil
}

// Within is a request with the job's document in one of its fields, in place of the files.
func (f *FileJob) Within(request []byte, field string) ([]byte, error) {
	out, err := sjson.DeleteBytes(request, "reading")
	if err == nil {
		out, err = sjson.SetRawBytes(out, field, f.document)
	}
	if err != nil {
		return nil, fmt.Errorf("put the job of the files into the request: %w", err)
	}
	return out, nil
}

// WithPatch is the plan with the first way out that the files can say; the plan itself stays as it is, since others
// share it.
func (f *FileJob) WithPatch(ctx context.Context, plan *planner.Plan) (*planner.Plan, error) {
	read, err := f.service.readFiles(ctx, ReadingWork{Reading: f.reading, Plan: plan})
	if err != nil {
		return nil, err
	}
	own := *plan
	own.Patch = read.Patch
	return &own, nil
}

// PatchOf turns the first option of a plan that fits, and that the files can say, into a change of them. It is nil
// where the job fits as it is; one without a diff and without a command says what was left out, and why.
func PatchOf(ctx context.Context, source readers.Source, job *readers.Job, plan *planner.Plan) (*planner.Patch, error) {
	if plan.Today != nil && plan.Today.Verdict == estimator.Fits {
		return nil, nil
	}
	patch := &planner.Patch{}
	for _, o := range plan.Options {
		if o.Verdict != estimator.Fits {
			continue
		}
		changes, ok := pointersOf(o.Changes)
		if !ok {
			patch.LeftOut = append(patch.LeftOut, o.Title+" (it changes more than settings of the files)")
			continue
		}
		p, err := readers.MakePatch(ctx, source, job, changes)
		if errors.Is(err, readers.ErrNotExpressible) {
			patch.LeftOut = append(patch.LeftOut, fmt.Sprintf("%s (%v)", o.Title, err))
			continue
		}
		if err != nil {
			return nil, err
		}
		patch.Option, patch.DeviceBytes, patch.Diff, patch.Command = o.Title, o.DeviceBytes, p.Diff, p.Command
		break
	}
	return patch, nil
}

// pointersOf turns an option's changes into fields by their pointers, with whole numbers as such. ok is false where
// something else than the training's own settings changes.
func pointersOf(changes map[string]any) (map[string]any, bool) {
	out := map[string]any{}
	for key, value := range changes {
		switch key {
		case "model", "gpus", "distributed", "lora":
			return nil, false
		}
		pointer := "/training/" + key
		if inner, ok := value.(map[string]any); ok && key == "evaluation" && len(inner) == 1 &&
			inner["micro_batch"] != nil {
			pointer, value = pointer+"/micro_batch", inner["micro_batch"]
		}
		switch n := value.(type) {
		case float64:
			if n == math.Trunc(n) {
				value = int64(n)
			}
		case int:
			value = int64(n)
		case json.Number:
			if i, err := n.Int64(); err == nil {
				value = i
			}
		}
		out[pointer] = value
	}
	return out, len(out) > 0
}
