package service

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/recording"
	"github.com/vramplan/vramplan/service/catalog"
)

// maxRecordedBytes is what the recordings of a catalog may have together: every replica holds all of them, and every
// change of the catalog reads them.
const maxRecordedBytes = 16 << 20

// readRecording reads the recording of an entry, and leaves it without spaces; nil where there is none.
func readRecording(p *model.Preset, wrong *invalid.List) *catalog.Recording {
	if p.Recorded == nil {
		return nil
	}
	if p.Hidden != 0 || p.Heads != 0 || p.Family != "" && p.Family != recordings.FamilyRecorded {
		wrong.Add("/recorded", "conflict", "is given together with dimensions; accepted: one of them")
	}
	r, err := recording.Read(p.Recorded)
	if err != nil {
		at := "/recorded"
		if e, ok := errors.AsType[*recording.Error](err); ok {
			at, err = at+e.Pointer, e.Err
		}
		wrong.Add(at, "invalid_recording", "%s", err)
		return nil
	}
	if bytes.Contains(p.Recorded, []byte(`\u0000`)) {
		wrong.Add("/recorded", "out_of_range", "has control characters; accepted: printable text")
	}
	var short bytes.Buffer
	if err := json.Compact(&short, p.Recorded); err == nil {
		p.Recorded = short.Bytes()
	}
	made := &catalog.Recording{Name: r.Name, Source: r.Source, Digest: r.Digest, Versions: r.Versions,
		Layers: r.Layers, Bytes: int64(len(p.Recorded)), Unexpressed: r.Unexpressed}
	for name := range r.Programs {
		made.Precisions = append(made.Precisions, name)
	}
	slices.Sort(made.Precisions)
	return made
}

// recordedTrial makes the smallest step of a recording that it has a program for.
func recordedTrial(p *model.Preset, t *estimator.Training) {
	r, err := recording.Read(p.Recorded)
	if err != nil {
		return // said already
	}
	if r.Sequence == 0 && r.VariesInLength() {
		t.SequenceLength = 8
	}
	switch {
	case r.Programs["amp"] != nil:
		t.Precision = estimator.PrecisionAMPBF16
	case r.Programs["half"] != nil:
		t.Precision = estimator.PrecisionBF16
	case r.Programs["fp32"] != nil:
		t.Precision = estimator.PrecisionFP32
	default:
		t.Precision, t.States = estimator.PrecisionAMPBF16, &estimator.States{Weights: "bf16"}
	}
}

// roomFor refuses a recording that the catalog has no room for beside those of other entries.
func roomFor(now *catalog.Contents, c *CatalogChange) error {
	if c.Model == nil || c.Model.Recorded == nil {
		return nil
	}
	total := len(c.Model.Recorded)
	for i := range now.Models {
		if now.Models[i].ID != c.ID {
			total += len(now.Models[i].Recorded)
		}
	}
	if total > maxRecordedBytes {
		return failed(CodeConflict, "the recordings of the catalog would have %d bytes together; accepted: up to %d. "+
			"DELETE one that is not needed, or send the recording in the job", total, maxRecordedBytes)
	}
	return nil
}

// recordedID is the id in {"id": …}, where that stands in the place of a recording.
func recordedID(text json.RawMessage) (id string, is bool) {
	const most = 1000
	if len(text) == 0 || len(text) > most {
		return "", false
	}
	var ref struct {
		ID *string `json:"id"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if d.Decode(&ref) != nil || ref.ID == nil {
		return "", false
	}
	return *ref.ID, true
}

// resolveRecorded puts the recording of a catalog's entry in the place of its id.
func (r *resolved) resolveRecorded() error {
	id, is := recordedID(r.input.Job.Model.Recorded)
	if !is {
		return nil
	}
	r.input.Job.Model.Recorded, r.input.Job.Model.Preset = nil, id
	m, err := r.catalog.Model(id)
	if unknown, ok := errors.AsType[*catalog.UnknownError](err); ok {
		r.unknown.Add("/model/recorded/id", "unknown_model", "%s", unknown.Error())
		return nil
	}
	if err != nil {
		return unreadable(err)
	}
	if m.Recorded == nil {
		r.unknown.Add("/model/recorded/id", "unknown_model", "%q is no recording but a model of the catalog; name it "+
			"as model.preset", m.ID)
		return nil
	}
	r.input.Job.Model.Preset, r.input.Preset = m.ID, &m.Preset
	return nil
}
