package answer

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/job"
)

// A field of the training that nobody thought of would decide bytes without being said: every one has a row, which
// fills it or says what its absence means, and no row is of a field that is not there.
func TestEveryFieldIsCompleted(t *testing.T) {
	var fields []string
	var walk func(at string, of reflect.Type)
	walk = func(at string, of reflect.Type) {
		for i := range of.NumField() {
			f := of.Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() == reflect.Struct && inner.PkgPath() == reflect.TypeFor[job.Training]().PkgPath() &&
				name != "teacher" && name != "fp8" && name != "states" {
				walk(at+name+".", inner)
				continue
			}
			fields = append(fields, at+name)
		}
	}
	walk("", reflect.TypeFor[job.Training]())
	var rows []string
	for _, c := range completions {
		rows = append(rows, c.field)
		if (c.fill == nil) == (c.absent == "") {
			t.Errorf("%s: a row either fills its field or says what its absence means", c.field)
		}
	}
	for _, f := range fields {
		if !slices.Contains(rows, f) {
			t.Errorf("training.%s has no row: what is it taken for where a job leaves it out?", f)
		}
	}
	for _, r := range rows {
		if !slices.Contains(fields, r) {
			t.Errorf("there is no training.%s, which has a row", r)
		}
	}
}

// What is completed is not the job's own.
func TestCompletingLeavesTheJobAlone(t *testing.T) {
	c := &completing{t: &job.Training{Objective: &job.Objective{}, Optimizer: &job.Optimizer{},
		GradientCheckpointing: &job.Checkpointing{}, Loss: &job.Loss{}, Dropout: &job.Dropout{}, LoRA: &job.LoRA{},
		Distributed: &job.Distributed{}, Evaluation: &job.Evaluation{}}}
	own := *c.t
	c.own()
	before, after := reflect.ValueOf(own), reflect.ValueOf(*c.t)
	for i := range before.NumField() {
		if f := before.Field(i); f.Kind() == reflect.Pointer && !f.IsNil() && f.Pointer() == after.Field(i).Pointer() {
			t.Errorf("%s is shared", before.Type().Field(i).Name)
		}
	}
	if text, _ := json.Marshal(c.t); len(text) < 10 {
		t.Errorf("what is left of the training is %s", text)
	}
}
