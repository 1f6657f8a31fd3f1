package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// FoundModel is the configuration of a model that the catalog does not have.
type FoundModel struct {
	// Name is what it is called where it was found.
	Name string
	// Config is the object in its config.json.
	Config json.RawMessage
	// From says in words where it was found.
	From string
}

// ModelFinder looks for a model that the catalog does not have. An error says where it looked and what to do next; both
// are nil where nobody looked.
type ModelFinder func(ctx context.Context, name string) (*FoundModel, error)

// WithModelFinder has models looked for that the catalog does not have. A finder may be called by several goroutines.
func WithModelFinder(find ModelFinder) Option { return func(o *options) { o.find = find } }

// resolve looks up every name of a job, and elsewhere the model that the catalog does not have.
func (s *Service) resolve(ctx context.Context, c *catalog.Catalog, job estimator.Job) (*resolved, error) {
	name := job.Model.Preset
	if s.find == nil || name == "" || c.HasModel(name) {
		return resolve(c, job)
	}
	found, missed := s.find(ctx, name)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if found != nil {
		found.Config, missed = readable(found)
	}
	if found == nil || missed != nil {
		r, err := resolve(c, job)
		if err == nil && missed != nil {
			r.unknown.Amend("/model/preset", "unknown_model", missed.Error())
		}
		return r, err
	}
	job.Model.Preset, job.Model.HFConfig = "", found.Config
	r, err := resolve(c, job)
	if err != nil {
		return nil, err
	}
	r.found = found
	r.notes = append(r.notes, estimator.Note{Code: "model-found", Text: fmt.Sprintf("The catalog has no %s: it is read from "+
		"%s.", found.Name, found.From)})
	return r, nil
}

// readable is a configuration as a job document has it, under the name by which it was found, which is what
// from_pretrained puts there (transformers, configuration_utils.py). The reader of documents refuses what is nested too
// deep, or says a key twice.
func readable(m *FoundModel) (json.RawMessage, error) {
	wrong := func(why string) error { return fmt.Errorf("%s cannot be read: %s", m.From, why) }
	config, ok := jobdoc.Configuration(m.Config)
	if !ok {
		return nil, wrong("it is no JSON document")
	}
	var keys map[string]json.RawMessage
	if json.Unmarshal(config, &keys) != nil || keys == nil {
		return nil, wrong("it is no JSON object")
	}
	document, err := json.Marshal(map[string]any{"model": map[string]any{"hf_config": config}})
	if err != nil {
		return nil, wrong(err.Error())
	}
	if _, err := jobdoc.Decode(document); err != nil {
		if fields, is := errors.AsType[*invalid.Error](err); is {
			for _, f := range fields.Fields {
				if strings.HasPrefix(f.Pointer, "/model") {
					return nil, wrong(f.Detail)
				}
			}
		} else {
			return nil, wrong(err.Error())
		}
	}
	if keys["_name_or_path"], err = json.Marshal(m.Name); err != nil {
		return nil, wrong(err.Error())
	}
	return json.Marshal(keys)
}

// ofFound are errors of a configuration that was found, as who gave its name knows them.
func (r *resolved) ofFound(err error) error {
	wrong, ok := errors.AsType[*invalid.Error](err)
	if r.found == nil || !ok {
		return err
	}
	fields := slices.Clone(wrong.Fields)
	for i := range fields {
		f := &fields[i]
		key, inside := strings.CutPrefix(f.Pointer, "/model/hf_config")
		if !inside {
			continue
		}
		if key = strings.TrimPrefix(key, "/"); key != "" {
			key = ", key " + key
		}
		f.Pointer, f.Detail = "/model/preset", fmt.Sprintf("%s%s: %s", r.found.From, key, f.Detail)
	}
	var all invalid.List
	all.Append(fields...)
	return all.Err()
}
