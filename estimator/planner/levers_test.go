package planner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/samples"
)

// An evaluation pass that holds the peak is made smaller, and training is left alone.
func TestEvaluationHoldsThePeak(t *testing.T) {
	r := story()
	r.Input.Job.Training.MicroBatch, r.Input.Job.Training.GradientAccumulation = 4, 1
	r.Input.Job.Training.Evaluation = &estimator.Evaluation{MicroBatch: 64, KeepLogits: true}
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if p.Today.Verdict == estimator.Fits {
		t.Fatalf("the evaluation is meant not to fit: %+v", p.Today)
	}
	o := p.Options[0]
	if _, ok := o.Changes["evaluation"]; !ok || o.Verdict != estimator.Fits || o.ChangesTraining {
		t.Errorf("the first option is %q with %v, %s", o.Title, o.Changes, o.Verdict)
	}
}

// What does not fit in any way as it is can be fine-tuned with adapters.
func TestAdaptersMakeRoom(t *testing.T) {
	r := story()
	r.Input.Job.Model = estimator.Model{HFConfig: json.RawMessage(samples.TinyLlama)}
	r.Input.Job.Training = estimator.Training{MicroBatch: 4, SequenceLength: 512, GradientAccumulation: 4,
		Precision: estimator.PrecisionBF16}
	r.Input.GPUs[0].UsableBytes = 720 * mib
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(p.Options, func(o document.Option) bool { return o.Verdict == estimator.Fits })
	if i < 0 {
		t.Fatalf("nothing fits:\n%s", p.Text())
	}
	if o := p.Options[i]; o.Changes["lora"] == nil || !o.ChangesTraining ||
		!strings.Contains(o.TrainingEffect, "only adapters are trained") {
		t.Errorf("the first option that fits is %q: %s", o.Title, o.TrainingEffect)
	}
}
