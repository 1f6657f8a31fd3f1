package planner

import (
	"errors"
	"math"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
	"github.com/vramplan/vramplan/estimator/planner/samples"
	"github.com/vramplan/vramplan/estimator/planner/steptime"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// stepOf is how long an optimizer step of the story takes under a reading.
func stepOf(micro int64, a steptime.Assumption) float64 {
	in := samples.Story()
	w := steptime.Workload{Shape: traits.ShapeOf(in, 0), Training: in.Job.Training, Micro: float64(micro),
		Accum:    float64(512 / micro),
		Sequence: 1024, Parameters: 124373760, Trainable: 124373760, GPUs: 1}
	return w.PerToken(steptime.CardOf(samples.RTX4070(), estimator.PrecisionAMPBF16), a) * w.Tokens()
}

// timedStep is a measured step of the story at 512 sequences.
func timedStep(micro int64, seconds float64) MeasuredStep {
	return MeasuredStep{MicroBatch: micro, GradientAccumulation: 512 / micro, Seconds: seconds}
}

// pairTime is the relative step time of a pair.
func pairTime(t *testing.T, p *document.Plan, micro int64) float64 {
	t.Helper()
	x, ok := pairOf(p, pairing.At(micro, 512/micro))
	if !ok {
		t.Fatalf("no pair with a micro-batch of %d", micro)
	}
	return x.RelativeStepTime
}

// On a host that takes 60 µs for a launch and a card that reaches 45 % of its peak, small micro-batches wait for the
// host. Two measured steps tell both.
func TestMeasuredStepsMoveTheModel(t *testing.T) {
	slow := steptime.Expected
	slow.Gemm, slow.Launch = 0.45, 60e-6
	r := story()
	before := mustMake(t, r, storyFake())
	if before.StepTimeBasis != "model" || noteOf(before, "measured-steps") != "" {
		t.Errorf("basis %q without a measured step", before.StepTimeBasis)
	}
	r.MeasuredSteps = []MeasuredStep{{Seconds: stepOf(16, slow)}, timedStep(1, stepOf(1, slow))}
	p := mustMake(t, r, storyFake())
	if p.StepTimeBasis != "calibrated" || noteOf(p, "measured-steps") == "" {
		t.Fatalf("basis %q, notes %v", p.StepTimeBasis, p.Notes)
	}
	for _, micro := range []int64{1, 2, 4, 8, 32} {
		want := stepOf(micro, slow) / stepOf(16, slow)
		if got := pairTime(t, p, micro); math.Abs(got/want-1) > 0.02 {
			t.Errorf("%d × %d takes %.3f of the time, the host and card make it %.3f", micro, 512/micro, got, want)
		}
	}
	if math.Abs(pairTime(t, before, 1)/pairTime(t, p, 1)-1) < 0.1 {
		t.Error("the measured steps change nothing")
	}
	for i, o := range p.Options {
		want := "calibrated"
		if o.DataParallelGPUs > 1 {
			want = "model"
		}
		if o.RelativeStepTime.Basis != want {
			t.Errorf("%q has the basis %q, want %q", o.Title, o.RelativeStepTime.Basis, want)
		}
		if o.MicroBatch == 1 || o.MicroBatch == 2 {
			w := o.RelativeStepTime
			if old := before.Options[i].RelativeStepTime; o.Title == before.Options[i].Title &&
				w.High/w.Low > old.High/old.Low {
				t.Errorf("%q is between %.3f and %.3f, and was between %.3f and %.3f", o.Title, w.Low, w.High, old.Low,
					old.High)
			}
		}
	}
}

// What no setting of the model explains is not used, and said.
func TestMeasuredStepsThatDoNotFit(t *testing.T) {
	r := story()
	plain := mustMake(t, r, storyFake())
	r.MeasuredSteps = []MeasuredStep{{Seconds: 3600}}
	p := mustMake(t, r, storyFake())
	if p.StepTimeBasis != "model" || noteOf(p, "measured-steps-unused") == "" || pairTime(t, p, 2) != pairTime(t, plain,
		2) {
		t.Errorf("basis %q, notes %v", p.StepTimeBasis, p.Notes)
	}
}

func TestMeasuredStepsThatSayTooLittle(t *testing.T) {
	r := story()
	r.Input.Job.Training.MicroBatch, r.EffectiveBatch = 0, 512
	r.MeasuredSteps = []MeasuredStep{{GradientAccumulation: 32, Seconds: 9}, timedStep(8, 9), timedStep(8, math.NaN())}
	_, err := MakeWith(t.Context(), r, storyFake().estimate)
	wrong, ok := errors.AsType[*invalid.Error](err)
	if !ok || len(wrong.Fields) != 2 || wrong.Fields[0].Pointer != "/measured_steps/0/micro_batch" ||
		wrong.Fields[1].Pointer != "/measured_steps/2/step_time_seconds" {
		t.Errorf("error %v", err)
	}
}
