package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers"
)

// FileJob is the one job that files of other tools describe.
type FileJob struct {
	service  *Service
	reading  jobdoc.Reading
	document json.RawMessage
	// beside is what the request says beside the files.
	beside json.RawMessage
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
	return &FileJob{service: s, reading: r, document: read.Document}, nil
}

// Over lays the fields of a request over the job's document: gpus, effective_batch and whatever else is said beside the
// files.
func (f *FileJob) Over(request []byte) ([]byte, error) {
	f.beside = slices.Clone(request)
	return layOver(f.document, request)
}

func layOver(document, request []byte) ([]byte, error) {
	document, err := slices.Clone(document), error(nil)
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
	read, err := f.service.readFiles(ctx, ReadingWork{Reading: f.reading, Plan: plan, Beside: f.beside})
	if err != nil {
		return nil, err
	}
	own := *plan
	own.Patch = read.Patch
	return &own, nil
}

// Patching is a plan of the job that files of other tools describe, to be said in those files.
type Patching struct {
	Catalog *catalog.Catalog
	Source  readers.Source
	Job     *readers.Job
	Plan    *planner.Plan
	// Over lays what was said beside the files over a job document of theirs.
	Over func(document []byte) ([]byte, error)
}

// Patch turns the first option that fits, and that the files can say, into a change of them. It is nil where the job
// fits as it is; one without a diff and without a command says what was left out and why, and which words a person has
// to change.
func (p *Patching) Patch(ctx context.Context) (*planner.Patch, error) {
	if p.Plan.Today != nil && p.Plan.Today.Verdict == estimator.Fits {
		return nil, nil
	}
	patch := &planner.Patch{}
	for _, o := range p.Plan.Options {
		if o.Verdict != estimator.Fits {
			continue
		}
		changes, ok := pointersOf(o.Changes)
		if !ok {
			patch.LeftOut = append(patch.LeftOut, o.Title+" (it changes more than settings of the files)")
			continue
		}
		planned, err := p.planned(o.Changes)
		if err != nil {
			return nil, err
		}
		var bytes int64
		made, err := readers.PatchTo(ctx, p.Source, p.Job, changes, func(j *readers.Job) (why string) {
			why, bytes = p.unlike(j, planned)
			return why
		})
		if refused, is := errors.AsType[*readers.InexpressibleError](err); is {
			patch.LeftOut = append(patch.LeftOut, fmt.Sprintf("%s (%v)", o.Title, err))
			if patch.Words == nil && len(refused.Words) > 0 {
				patch.Option, patch.DeviceBytes, patch.Words = o.Title, o.DeviceBytes, refused.Words
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		patch.Option, patch.DeviceBytes, patch.Words = o.Title, cmp.Or(bytes, o.DeviceBytes), nil
		patch.Diff, patch.Command = made.Diff, made.Command
		break
	}
	return patch, nil
}

// planned is the document of an option: the job that was planned, with what the option changes.
func (p *Patching) planned(changes map[string]any) ([]byte, error) {
	document, err := p.Job.PlanDocument()
	if err == nil {
		document, err = p.Over(document)
	}
	for field, value := range changes {
		if err == nil {
			document, err = sjson.SetBytes(document, "training."+gjson.Escape(field), value)
		}
	}
	return document, err
}

// unlike says in what a job of the changed files is not the one that was planned: both are taken for the same in every
// field that decides bytes, or one differs. What neither the files nor the plan say, the tool decides, and reading says
// more of it than the plan knew: then the job has to fit as it was read, and bytes are what it takes.
func (p *Patching) unlike(j *readers.Job, planned []byte) (why string, bytes int64) {
	document, err := j.PlanDocument()
	if err == nil {
		document, err = p.Over(document)
	}
	if err != nil {
		return err.Error(), 0
	}
	read, got := p.taken(document)
	_, want := p.taken(planned)
	switch {
	case got == nil:
		return "the changed files describe no job that can be estimated", 0
	case want == nil:
		return "the planned job cannot be told from the files", 0
	}
	var list []difference
	differing("", got, want, &list)
	for _, d := range list {
		if read == nil || gjson.GetBytes(planned, strings.ReplaceAll(d.pointer[1:], "/", ".")).Exists() {
			return d.String(), 0
		}
	}
	if len(list) == 0 {
		return "", 0
	}
	answer, err := estimator.Judge(read.input)
	if err != nil || len(answer.GPUs) == 0 || answer.GPUs[0].Verdict != estimator.Fits {
		return list[0].String(), 0
	}
	return "", answer.Peak.DeviceBytes
}

// difference is a field in which what was read is not what was planned.
type difference struct {
	pointer   string
	got, want any
}

func (d difference) String() string {
	word := func(v any) string {
		if v == nil {
			return "nothing"
		}
		text, _ := json.Marshal(v)
		return fmt.Sprintf("%.60s", text)
	}
	return fmt.Sprintf("the changed files mean %s in %s, and %s is planned", word(d.got), d.pointer, word(d.want))
}

// differing lists the fields in which two values differ.
func differing(at string, got, want any, list *[]difference) {
	a, isA := got.(map[string]any)
	b, isB := want.(map[string]any)
	if !isA || !isB {
		if !reflect.DeepEqual(got, want) {
			*list = append(*list, difference{at, got, want})
		}
		return
	}
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	for _, key := range slices.Compact(keys) {
		differing(at+"/"+key, a[key], b[key], list)
	}
}

// taken is what a document is taken for, as plain values; where that cannot be told here, as of a model that a user
// made, what it says, and no job.
func (p *Patching) taken(document []byte) (r *resolved, plain any) {
	request, err := jobdoc.DecodePlan(document)
	if err != nil {
		return nil, nil
	}
	job := request.Job
	if r, err = resolve(p.Catalog, job); err == nil && r.problems(nil) == nil {
		if job, err = estimator.Taken(r.input); err != nil {
			return nil, nil
		}
	} else {
		r = nil
	}
	text, err := json.Marshal(job)
	if err != nil || json.Unmarshal(text, &plain) != nil {
		return nil, nil
	}
	return r, plain
}

// pointersOf turns an option's changes into fields by their pointers. ok is false where something else than the
// training's own settings changes.
func pointersOf(changes map[string]any) (map[string]any, bool) {
	out := map[string]any{}
	for key, value := range changes {
		switch key {
		case "model", "gpus", "distributed":
			return nil, false
		}
		pointer := "/training/" + key
		if inner, ok := value.(map[string]any); ok && key == "evaluation" && len(inner) == 1 &&
			inner["micro_batch"] != nil {
			pointer, value = pointer+"/micro_batch", inner["micro_batch"]
		}
		out[pointer] = value
	}
	return out, len(out) > 0
}
