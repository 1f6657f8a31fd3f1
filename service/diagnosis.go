package service

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/diagnose"
	"github.com/vramplan/vramplan/service/workplace"
)

// Diagnosis explains a text that a run left behind when it ran out of memory.
type Diagnosis struct {
	Versions estimator.Versions `json:"versions"`
	// Kind is what sort of text it is.
	Kind diagnose.Kind `json:"kind"`
	// Class, Certainty and Summary are those of the first failure, the one that the others follow from.
	Class     diagnose.Class     `json:"class"`
	Certainty diagnose.Certainty `json:"certainty"`
	Summary   string             `json:"summary"`
	// Text is what was read, and Causes what each failure of it is put down to, in the same order.
	Text   *diagnose.Text   `json:"text"`
	Causes []diagnose.Cause `json:"causes"`
	// Held is what a memory snapshot had allocated, by the replay's names where the job is known.
	Held *diagnose.Held `json:"held,omitempty"`
	// Questions are what would tell more.
	Questions []diagnose.Question `json:"questions,omitempty"`
	// Plan is what fits, where the job is known and a smaller one could help.
	Plan  *planner.Plan    `json:"plan,omitempty"`
	Notes []estimator.Note `json:"notes,omitempty"`
}

// DiagnosisRequest is a text and, where it is known, the job that left it behind.
type DiagnosisRequest struct {
	Text string
	Job  *estimator.Job
	// Snapshot is a memory snapshot in base64; without a text its sums are explained.
	Snapshot string
	// Held is what a memory snapshot had allocated, nil where there is none.
	Held *diagnose.Allocations
}

// Diagnose explains why a run ran out of memory. The text is neither kept nor logged. Errors are those of Estimate,
// with pointers below /job.
func (s *Service) Diagnose(ctx context.Context, request DiagnosisRequest) (*Diagnosis, error) {
	if held := request.Held; held != nil {
		var errs invalid.List
		if request.Snapshot != "" {
			errs.Add("/held", "conflict", "snapshot says it: give one of them")
		}
		if !held.Whole() {
			errs.Add("/held/blocks", "out_of_range", "all blocks together take more than allocated_bytes, %d bytes",
				held.AllocatedBytes)
		}
		if err := errs.Err(); err != nil {
			return nil, err
		}
	}
	if request.Snapshot != "" {
		dump, err := s.readSnapshot(ctx, request.Snapshot)
		if err != nil {
			return nil, err
		}
		request.Held, request.Text = &dump.Held, cmp.Or(request.Text, dump.Text)
	}
	return workplace.Do(ctx, s.place, workplace.Long, func(ctx context.Context) (*Diagnosis, error) {
		return s.diagnose(ctx, request)
	})
}

func (s *Service) diagnose(ctx context.Context, request DiagnosisRequest) (*Diagnosis, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	text := diagnose.Read(request.Text)
	var known diagnose.Job
	var job *estimator.Job
	d := &Diagnosis{Kind: text.Kind(), Text: text}
	var result *estimator.Result
	var err error
	if request.Job != nil {
		onCard := withCard(*request.Job, text)
		job = &onCard
		result, err = s.Estimate(ctx, onCard, EstimateOptions{Tensors: request.Held != nil})
		switch {
		case unsupported(err):
			d.Notes = append(d.Notes,
				estimator.Note{Code: "job-not-modelled",
					Text: "The job is not replayed, so its tensors are not known: " + atJob(err).Error()})
			d.Versions, job = s.versions(), nil
		case err != nil:
			return nil, atJob(err)
		default:
			d.Versions = result.Versions
			if known, err = s.jobOf(ctx, onCard, result, text.LimitBytes()); err != nil {
				return nil, atJob(err)
			}
		}
	} else {
		d.Versions = s.versions()
	}
	var models []diagnose.Candidate
	if request.Job == nil {
		list, err := s.current().Models()
		if err != nil {
			return nil, unreadable(err)
		}
		models = text.InModels(sizesOf(list))
	}
	if request.Held != nil {
		d.Held = request.Held.Explain(&known, result)
	}
	d.Causes = text.Explain(known, models)
	first := &d.Causes[0]
	d.Class, d.Certainty, d.Summary = first.Class, first.Certainty, first.Summary
	d.Questions = text.Questions(first, known)
	if job != nil && len(job.GPUs) > 0 && first.Plannable() {
		plan, err := s.Plan(ctx, PlanRequest{Job: *job}, PlanOptions{})
		if err != nil {
			return nil, atJob(err)
		}
		d.Plan = plan
	}
	return d, nil
}

// withCard is the job on the card that the text speaks of, where the job names none.
func withCard(job estimator.Job, text *diagnose.Text) estimator.Job {
	if len(job.GPUs) > 0 || len(text.Messages) == 0 || text.Messages[0].TotalBytes == nil {
		return job
	}
	job.GPUs = []estimator.GPURef{{Name: "the card of the message", MemoryBytes: *text.Messages[0].TotalBytes}}
	return job
}

// versions are those of an answer without a job.
func (s *Service) versions() estimator.Versions {
	return estimator.Versions{Estimator: estimator.Version, Reference: estimator.Reference(),
		Catalog: s.current().Revision(), Calibration: estimator.Calibration}
}

// unsupported says whether a job was understood and is of a kind that is not replayed.
func unsupported(err error) bool {
	wrong, ok := errors.AsType[*invalid.Error](err)
	return ok && !slices.ContainsFunc(wrong.Fields, func(f invalid.Field) bool { return f.Code != "unsupported" })
}

// jobOf is what the replay of a job knows: its tensors, its floor and its largest moment.
func (s *Service) jobOf(ctx context.Context, job estimator.Job, result *estimator.Result,
	limitBytes int64) (diagnose.Job, error) {
	r, err := s.resolve(ctx, s.current(), job)
	if err != nil {
		return diagnose.Job{}, err
	}
	requests, err := paced(ctx, s, r.input, estimator.Requests)
	if err := r.problems(err); err != nil {
		return diagnose.Job{}, err
	}
	known := diagnose.Job{Known: true, AllocatedBytes: result.Peak.AllocatedBytes}
	for _, c := range result.Components {
		if c.Name == "weights" {
			known.WeightsBytes = c.Bytes
		}
	}
	for _, t := range requests {
		known.Tensors = append(known.Tensors, diagnose.Candidate{What: t.Name, How: t.Text, Bytes: t.Bytes,
			Class: diagnose.ClassOf(t.Component, t.Name, t.Phase), Phase: t.Phase})
	}
	if limitBytes > 0 {
		known.FailsAtBytes, err = paced(ctx, s, r.input, func(in estimator.Input) (int64, error) {
			return estimator.FirstFailure(in, limitBytes)
		})
		if err != nil && !errors.Is(err, estimator.ErrNotPlayed) {
			return diagnose.Job{}, err
		}
		known.Played = err == nil
	}
	least := job
	least.GPUs = nil
	least.Training.MicroBatch, least.Training.GradientAccumulation = 1, 1
	if least.Training.SequenceLength == 0 || least.Training.SequenceLength > floorTokens {
		least.Training.SequenceLength = floorTokens
	}
	floor, err := s.Estimate(ctx, least, EstimateOptions{})
	if _, refused := errors.AsType[*invalid.Error](err); refused {
		return known, nil // no such short sequence in this model: the floor is not known
	}
	if err != nil {
		return diagnose.Job{}, err
	}
	known.FloorBytes = floor.Peak.AllocatedBytes
	return known, nil
}

// floorTokens is the sequence with which a job's floor is asked for: so short that its activations do not count.
const floorTokens = 16

// sizesOf are the models of a catalog as texts without a job are compared with them.
func sizesOf(list []catalog.Model) []diagnose.Model {
	var out []diagnose.Model
	for i := range list {
		m := &list[i]
		out = append(out, diagnose.Model{Name: m.ID, Parameters: m.ParametersTotal, Layers: m.Layers, Hidden: m.Hidden,
			FFN:   m.FFN,
			Heads: m.Heads, Vocabulary: m.Vocabulary})
	}
	return out
}

// atJob moves the pointers of what is wrong with a job to where it stands in a request.
func atJob(err error) error {
	wrong, ok := errors.AsType[*invalid.Error](err)
	if !ok {
		return err
	}
	var all invalid.List
	for _, f := range wrong.Fields {
		f.Pointer = "/job" + f.Pointer
		all.Append(f)
	}
	return all.Err()
}
