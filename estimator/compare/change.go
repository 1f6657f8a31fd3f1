package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
)

// Change is one field in which the two jobs differ.
type Change struct {
	// Pointer is the place of the field in a job document (RFC 6901).
	Pointer string `json:"pointer"`
	// A and B are its values in the two jobs; null where the job does not have it.
	A any `json:"a"`
	B any `json:"b"`
}

// change is a Change that can be made: it moves a job from A's value to B's.
type change struct {
	Change
	apply func(*estimator.Input) error
}

// training is where the training object stands in a job document.
const training = "/training"

// maxModelFields is in how many fields two models of one kind may differ and
// still be compared field by field. With more, they are different models.
const maxModelFields = 12

// changes lists what leads from a to b: the model first, then the training
// object in the order of its fields, then where the job runs.
func changes(a, b estimator.Input) ([]change, error) {
	model, err := modelChanges(a, b)
	if err != nil {
		return nil, err
	}
	fields, err := structChanges(training, a.Job.Training, b.Job.Training,
		func(in *estimator.Input) any { return &in.Job.Training })
	if err != nil {
		return nil, err
	}
	return slices.Concat(model, fields, placeChanges(a, b)), nil
}

// modelChanges compares the models: field by field where both are described in the
// same way and differ in a few fields, or else as a whole.
func modelChanges(a, b estimator.Input) ([]change, error) {
	ma, mb := a.Job.Model, b.Job.Model
	var fields []change
	var err error
	switch {
	case reflect.DeepEqual(ma, mb) && presetID(a) == presetID(b):
		return nil, nil
	case ma.NanoGPT != nil && mb.NanoGPT != nil:
		fields, err = structChanges("/model/nanogpt", *ma.NanoGPT, *mb.NanoGPT, func(in *estimator.Input) any {
			own := *in.Job.Model.NanoGPT // the job's own object stays as it is
			in.Job.Model.NanoGPT = &own
			return &own
		})
	case ma.Dimensions != nil && mb.Dimensions != nil:
		fields, err = structChanges("/model/dimensions", *ma.Dimensions, *mb.Dimensions, func(in *estimator.Input) any {
			own := *in.Job.Model.Dimensions
			in.Job.Model.Dimensions = &own
			return &own
		})
	case len(ma.HFConfig) > 0 && len(mb.HFConfig) > 0:
		fields, err = configChanges(ma.HFConfig, mb.HFConfig)
	}
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(ma.Head, mb.Head) {
		fields = append(fields, change{Change{"/model/head", valueOf(ma.Head), valueOf(mb.Head)},
			func(in *estimator.Input) error {
				in.Job.Model.Head = mb.Head
				return nil
			}})
	}
	sameKind := ma.NanoGPT != nil == (mb.NanoGPT != nil) && ma.Dimensions != nil == (mb.Dimensions != nil) &&
		len(ma.HFConfig) > 0 == (len(mb.HFConfig) > 0) && bytes.Equal(ma.Recorded, mb.Recorded) &&
		presetID(a) == presetID(b)
	if sameKind && len(fields) <= maxModelFields {
		return fields, nil
	}
	return []change{{Change{"/model", modelName(a), modelName(b)}, func(in *estimator.Input) error {
		in.Job.Model, in.Preset = mb, b.Preset
		return nil
	}}}, nil
}

func presetID(in estimator.Input) string {
	if in.Preset == nil {
		return ""
	}
	return in.Preset.ID
}

// modelName is what a changed model is called: its preset, or how it is described.
func modelName(in estimator.Input) any {
	switch m := in.Job.Model; {
	case m.Preset != "":
		return m.Preset
	case m.NanoGPT != nil:
		return "nanogpt"
	case m.Dimensions != nil:
		return "dimensions"
	case len(m.Recorded) > 0:
		return "recorded"
	}
	return "hf_config"
}

// structChanges lists the fields of T, by their JSON names, in which two values differ. target gives
// the object of a job that a change writes to.
func structChanges[T estimator.Training | model.NanoGPT | model.Dimensions](at string, a, b T,
	target func(*estimator.Input) any) ([]change, error) {
	va, vb := reflect.ValueOf(a), reflect.ValueOf(b)
	var out []change
	for i := range va.NumField() {
		name, _, _ := strings.Cut(va.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		fa, fb := va.Field(i), vb.Field(i)
		if reflect.DeepEqual(fa.Interface(), fb.Interface()) {
			continue
		}
		out = append(out, change{
			Change{at + "/" + name, given(fa), given(fb)},
			func(in *estimator.Input) error {
				reflect.ValueOf(target(in)).Elem().Field(i).Set(fb)
				return nil
			},
		})
	}
	return out, nil
}

// given is the value of an optional field, nil where it is not given: the zero value means so.
func given(v reflect.Value) any {
	if v.IsZero() {
		return nil
	}
	return v.Interface()
}

func valueOf[T any](v *T) any {
	if v == nil {
		return nil
	}
	return v
}

// configChanges lists the top-level keys in which two config.json files differ.
func configChanges(a, b json.RawMessage) ([]change, error) {
	var fa, fb map[string]json.RawMessage
	if err := json.Unmarshal(a, &fa); err != nil {
		return nil, fmt.Errorf("reading the first job's config: %w", err)
	}
	if err := json.Unmarshal(b, &fb); err != nil {
		return nil, fmt.Errorf("reading the second job's config: %w", err)
	}
	keys := slices.Collect(maps.Keys(fa))
	for key := range fb {
		if _, ok := fa[key]; !ok {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var out []change
	for _, key := range keys {
		va, vb := fa[key], fb[key]
		if bytes.Equal(compacted(va), compacted(vb)) {
			continue
		}
		out = append(out, change{
			Change{"/model/hf_config/" + escape(key), raw(va), raw(vb)},
			func(in *estimator.Input) error { return setKey(in, key, vb) },
		})
	}
	return out, nil
}

// setKey gives the job's config another value for one key; nil takes the key out.
func setKey(in *estimator.Input, key string, value json.RawMessage) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(in.Job.Model.HFConfig, &fields); err != nil {
		return fmt.Errorf("reading the job's config: %w", err)
	}
	if value == nil {
		delete(fields, key)
	} else {
		fields[key] = value
	}
	config, err := json.Marshal(fields)
	if err != nil {
		return fmt.Errorf("writing the job's config: %w", err)
	}
	in.Job.Model.HFConfig = config
	return nil
}

func raw(v json.RawMessage) any {
	if v == nil {
		return nil
	}
	return v
}

func compacted(v json.RawMessage) []byte {
	var b bytes.Buffer
	if json.Compact(&b, v) != nil {
		return v // absent
	}
	return b.Bytes()
}

// escape is a key as a part of a JSON pointer.
func escape(key string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(key) }

// placeChanges compare the first cards, which decide kernels and workspaces, and what else is on them.
func placeChanges(a, b estimator.Input) []change {
	var out []change
	ga, gb := firstGPU(a), firstGPU(b)
	if ga != gb {
		out = append(out, change{Change{"/gpus", gpuName(ga), gpuName(gb)}, func(in *estimator.Input) error {
			in.GPUs = b.GPUs
			return nil
		}})
	}
	if a.Job.ReserveBytes != b.Job.ReserveBytes {
		out = append(out, change{Change{"/reserve_bytes", a.Job.ReserveBytes, b.Job.ReserveBytes},
			func(in *estimator.Input) error {
				in.Job.ReserveBytes = b.Job.ReserveBytes
				return nil
			}})
	}
	if a.Job.Confidence != b.Job.Confidence {
		out = append(out, change{Change{"/confidence", positive(a.Job.Confidence), positive(b.Job.Confidence)},
			func(in *estimator.Input) error {
				in.Job.Confidence = b.Job.Confidence
				return nil
			}})
	}
	return out
}

func firstGPU(in estimator.Input) estimator.GPU {
	if len(in.GPUs) == 0 {
		return estimator.GPU{}
	}
	return in.GPUs[0]
}

func gpuName(g estimator.GPU) any {
	if g == (estimator.GPU{}) {
		return nil
	}
	return g.ID
}

func positive(x float64) any {
	if x == 0 {
		return nil
	}
	return x
}
