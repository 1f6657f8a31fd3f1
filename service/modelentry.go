package service

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/workplace"
)

// ModelEntry is a model as a user enters it. What is read from the catalog can be sent back
// with changes: origin and revision are accepted and ignored.
type ModelEntry struct {
	arch.Preset
	AliasNotes map[string]string `json:"alias_notes,omitempty" validate:"max=64,dive,keys,max=200,endkeys,max=500"`
	// Source is where the dimensions are from, ParametersSource the count.
	Source           string `json:"source,omitempty" validate:"omitempty,max=1000"`
	ParametersSource string `json:"params_total_source,omitempty" validate:"omitempty,max=1000"`
	// ParametersCheck is ignored: the service compares params_total with its own count.
	ParametersCheck string `json:"params_check,omitempty" validate:"omitempty,max=64"`
	Notes           string `json:"notes,omitempty" validate:"omitempty,max=4000"`

	// Recording is ignored: the service reads it off recorded.
	Recording *catalog.Recording `json:"recording,omitempty"`
	// Origin is ignored.
	Origin string `json:"origin,omitempty" validate:"omitempty,max=32"`
	// Revision is ignored.
	Revision int64 `json:"revision,omitempty" validate:"gte=0"`
}

// modelID is an organisation and a name, or a name alone.
var modelID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)?$`)

// PutModel creates or replaces a model, as PutGPU does a card. A model that the estimator
// cannot replay is refused with the estimator's reasons.
func (s *Service) PutModel(ctx context.Context, by Author, id string, e ModelEntry,
	known Precondition) (*catalog.Model, bool, error) {
	m, err := s.newModel(ctx, id, e)
	if err != nil {
		return nil, false, err
	}
	change := CatalogChange{Kind: ModelEntryKind, ID: id, Model: m, By: by}
	revision, created, err := s.put(ctx, change, known, m.Aliases)
	m.Revision = revision
	return m, created, err
}

// newModel checks what tags cannot say, and makes the catalog's entry.
func (s *Service) newModel(ctx context.Context, id string, e ModelEntry) (*catalog.Model, error) {
	var wrong invalid.List
	checkID(&wrong, modelID, id, e.ID)
	if len(id) > 200 {
		wrong.Add("", "too_large", "the id has %d characters; accepted: up to 200", len(id))
	}
	text := textOf(&wrong)
	for _, f := range []struct{ pointer, value string }{
		{"/family", e.Family}, {"/kind", e.Kind}, {"/mlp", e.MLP}, {"/norm", e.Norm}, {"/position", e.Position},
		{"/qk_norm", e.QKNorm},
		{"/source", e.Source}, {"/params_total_source", e.ParametersSource}, {"/notes", e.Notes},
	} {
		text(f.pointer, f.value)
	}
	checkAliases(&wrong, e.Aliases, e.AliasNotes)
	recording := readRecording(&e.Preset, &wrong)
	m := &catalog.Model{Preset: e.Preset, AliasNotes: e.AliasNotes, Source: e.Source,
		ParametersSource: e.ParametersSource, Notes: e.Notes, Origin: catalog.User}
	// readers of a model get a list, which may be empty
	m.ID, m.Aliases = id, append([]string{}, distinct(e.Aliases)...)
	if m.Recording = recording; recording != nil {
		m.Family, m.Kind, m.Layers = recordings.FamilyRecorded, recordings.FamilyRecorded, recording.Layers
	}
	if describe(&m.Preset, &wrong); wrong.Err() != nil {
		return nil, wrong.Err()
	}
	if m.KVHeads == 0 {
		m.KVHeads = m.Heads
	}
	if m.HeadDim == 0 && m.Heads > 0 {
		m.HeadDim = m.Hidden / m.Heads
	}
	if m.FFN == 0 {
		m.FFN = 4 * m.Hidden
	}
	parameters, err := workplace.Do(ctx, s.place, workplace.Long, func(ctx context.Context) (int64, error) {
		return s.trial(ctx, &m.Preset)
	})
	if err != nil {
		return nil, err
	}
	m.ParametersCheck = "exact"
	switch {
	case m.ParametersTotal == 0:
		m.ParametersTotal, m.ParametersCheck = parameters, "computed"
	case m.ParametersTotal != parameters:
		m.ParametersCheck = fmt.Sprintf("differs: %d by the dimensions", parameters)
	}
	return m, nil
}

// maxConfigBytes is what the config.json of an entry may have: every replica holds all of them.
const maxConfigBytes = 64 << 10

// describe completes an entry from its config.json or its nanoGPT numbers.
func describe(p *model.Preset, wrong *invalid.List) {
	if p.HFConfig != nil {
		var short bytes.Buffer
		if err := json.Compact(&short, p.HFConfig); err == nil {
			p.HFConfig = short.Bytes()
		}
		switch {
		case p.Recorded != nil:
			wrong.Add("/hf_config", "conflict", "is given together with recorded; accepted: one of them")
			return
		case len(p.HFConfig) > maxConfigBytes:
			wrong.Add("/hf_config", "too_large", "has %d bytes; accepted: up to %d", len(p.HFConfig), maxConfigBytes)
			return
		case bytes.Contains(p.HFConfig, []byte(`\u0000`)):
			wrong.Add("/hf_config", "out_of_range", "has control characters; accepted: printable text")
			return
		}
	}
	model.Describe(p, "", wrong)
}

// trial replays the smallest step of a model, and returns its parameters.
func (s *Service) trial(ctx context.Context, p *model.Preset) (parameters int64, err error) {
	defer func() {
		// What makes the replay fail in a way that it did not foresee must not get into the catalog.
		if cause := recover(); cause != nil {
			var wrong invalid.List
			wrong.Add("", "unsupported", "a model with these numbers cannot be replayed")
			err = wrong.Err()
		}
	}()
	var job estimator.Job
	job.Model.Preset, job.Training.MicroBatch = p.ID, 1
	if p.Recorded != nil {
		recordedTrial(p, &job.Training)
	}
	result, err := paced(ctx, s, estimator.Input{Job: job, Preset: p}, s.estimate)
	if err == nil {
		return result.Model.Parameters, nil
	}
	found, ok := errors.AsType[*invalid.Error](err)
	if !ok {
		return 0, err
	}
	var wrong invalid.List
	for _, f := range found.Fields {
		own, ok := strings.CutPrefix(f.Pointer, "/model/preset")
		if !ok {
			own, f.Detail = "", strings.TrimPrefix(f.Pointer, "/")+": "+f.Detail // of the job that was tried
		}
		wrong.Add(own, f.Code, "%s", f.Detail)
	}
	return 0, wrong.Err()
}
