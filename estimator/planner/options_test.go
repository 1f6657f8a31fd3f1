package planner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
)

func TestNothingFits(t *testing.T) {
	r := story()
	r.Input.GPUs[0].UsableBytes = 3000 * mib
	p := mustMake(t, r, storyFake())
	if p.Recommended != nil || p.Safest != nil || p.LargestMicroBatch != 0 {
		t.Errorf("recommended %v, safest %v, largest %d on a card that is too small", p.Recommended, p.Safest,
			p.LargestMicroBatch)
	}
	if note := noteOf(p, "floor"); !strings.Contains(note, "weights 2.44 GiB") {
		t.Errorf("floor note %q does not say what holds the memory", note)
	}
	first := p.Options[0]
	if first.Verdict != estimator.Fits || first.ChangesTraining || first.Changes["loss"] != "fused-linear" {
		t.Errorf("first way out is %+v, want the fused loss, which fits by itself", first)
	}
}

// A job at its smallest pair that does not fit has no way out by staying as it is.
func TestWhatDoesNotFitIsNoOption(t *testing.T) {
	r := story()
	r.Input.GPUs[0].UsableBytes = 3000 * mib
	r.Input.Job.Training.MicroBatch, r.Input.Job.Training.GradientAccumulation = 1, 512
	p := mustMake(t, r, storyFake())
	if p.Today == nil || p.Today.Verdict != estimator.DoesNotFit {
		t.Fatalf("today is %+v, want a job that does not fit", p.Today)
	}
	for _, o := range p.Options {
		if len(o.Changes) == 0 {
			t.Errorf("%q is an option that changes nothing", o.Title)
		}
	}
}

func TestCombinationOfLevers(t *testing.T) {
	r := story()
	r.Input.GPUs[0].UsableBytes = 2750 * mib // needs both the fused loss and checkpointing
	p := mustMake(t, r, storyFake())
	first := p.Options[0]
	if first.Verdict != estimator.Fits || first.Changes["loss"] != "fused-linear" ||
		first.Changes["gradient_checkpointing"] != "full" {
		t.Errorf("first way out is %+v", first)
	}

	r.Input.GPUs[0].UsableBytes = 2100 * mib // only with less optimizer state besides
	p = mustMake(t, r, storyFake())
	i := slices.IndexFunc(p.Options, func(o document.Option) bool { return o.Verdict == estimator.Fits })
	if i < 0 {
		t.Fatalf("no way out:\n%s", p.Text())
	}
	out := p.Options[i]
	if !out.ChangesTraining || out.Changes["optimizer"] == nil ||
		out.Recommendation != "least change that fits; changes training" {
		t.Errorf("the way out is %+v, want one that says that it changes training", out)
	}

	r.Input.GPUs[0].UsableBytes = 100 * mib
	p = mustMake(t, r, storyFake())
	if noteOf(p, "nothing-fits") == "" {
		t.Error("no note that nothing fits")
	}
	for _, o := range p.Options {
		if o.Verdict == estimator.Fits {
			t.Errorf("%q is said to fit in 100 MiB", o.Title)
		}
	}
}

func TestJobThatFits(t *testing.T) {
	r := story()
	r.Input.Job.Training.MicroBatch, r.Input.Job.Training.GradientAccumulation = 2, 256
	p := mustMake(t, r, storyFake())
	if noteOf(p, "today-fits") == "" {
		t.Error("no note that the job fits")
	}
	first := p.Options[0]
	if first.Title != "Raise the micro-batch" || first.MicroBatch != 8 || *first.SavesBytes >= 0 ||
		first.RelativeStepTime.Expected >= 1 {
		t.Errorf("first option is %+v, want a larger micro-batch that uses more memory and less time", first)
	}
	for _, o := range p.Options {
		if o.ChangesTraining {
			t.Errorf("%q changes training although the job fits", o.Title)
		}
	}
}

func TestLeverThatFreesMemoryElsewhereSaysSo(t *testing.T) {
	r := story()
	r.Input.Job.Training.Optimizer.Implementation = "foreach"
	p := mustMake(t, r, storyFake())
	i := slices.IndexFunc(p.Options, func(o document.Option) bool {
		return o.Changes["optimizer"] == estimator.Optimizer{Name: "adamw", Implementation: "fused"}
	})
	if i < 0 {
		t.Fatalf("the fused optimizer is not listed:\n%s", p.Text())
	}
	if o := p.Options[i]; *o.SavesBytes != 0 ||
		!strings.HasPrefix(o.Recommendation, "saves nothing: the peak is in the backward phase") {
		t.Errorf("saves %d, %q", *o.SavesBytes, o.Recommendation)
	}
}

func TestLeverThatDoesNothingIsLeftOut(t *testing.T) {
	r := story()
	r.Input.Job.Training.Framework, r.Input.Job.Training.Optimizer = "hf-trainer", nil
	p := mustMake(t, r, storyFake())
	for _, o := range p.Options {
		if o.Changes["optimizer"] == (estimator.Optimizer{Name: "adamw", Implementation: "fused"}) {
			t.Errorf("%q changes no byte in any phase, and is listed", o.Title)
		}
	}
}

func TestLeversThatTheEstimatorRefusesAreLeftOut(t *testing.T) {
	p := mustMake(t, story(), storyFake())
	for _, o := range p.Options {
		if o.Changes["loss"] == "chunked" {
			t.Errorf("%q is offered, which the estimator does not model", o.Title)
		}
	}
}

func TestLeversWriteThroughNoPointer(t *testing.T) {
	r := story()
	before, err := json.Marshal(r.Input.Job)
	if err != nil {
		t.Fatal(err)
	}
	r.Input.GPUs[0].UsableBytes = 2100 * mib
	mustMake(t, r, storyFake())
	after, err := json.Marshal(r.Input.Job)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("the plan changed the job:\n%s", diff)
	}
}

func TestChangesGiveTheStatedBytes(t *testing.T) {
	for _, usable := range []int64{2100, 2750, 3000, 6000, 11994} {
		r := story()
		r.Input.GPUs[0].UsableBytes = usable * mib
		checkChanges(t, r, mustMake(t, r, storyFake()), storyFake().estimate)
	}
}

// fataler is a *testing.T or a *rapid.T.
type fataler interface {
	Helper()
	Errorf(string, ...any)
	Fatalf(string, ...any)
}

// checkChanges puts the changes of each option into the job document, as a user
// does, and wants the bytes that the option states.
func checkChanges(t fataler, r Request, p *document.Plan, estimate asking.Estimator) {
	t.Helper()
	for _, o := range p.Options {
		in := r.Input
		in.GPUs = in.GPUs[:1]
		var job map[string]any
		remarshal(t, in.Job, &job)
		for field, value := range o.Changes {
			switch field {
			case "model":
				job[field] = value
			case "gpus":
				in.GPUs = nil
				for _, g := range r.Catalog {
					if g.ID == value.([]string)[0] {
						in.GPUs = append(in.GPUs, g)
					}
				}
			default:
				job["training"].(map[string]any)[field] = value
			}
		}
		in.Job = estimator.Job{}
		remarshal(t, job, &in.Job)
		got, err := estimate(in)
		if err != nil {
			t.Fatalf("%s: %v", o.Title, err)
		}
		if a := got.Peak; a.DeviceBytes != o.DeviceBytes || a.LowBytes != o.LowBytes || a.HighBytes != o.HighBytes ||
			got.GPUs[0].Verdict != o.Verdict {
			t.Errorf("%s: changes %v give %d–%d–%d bytes, %s; the option says %d–%d–%d, %s",
				o.Title, o.Changes, a.LowBytes, a.DeviceBytes, a.HighBytes, got.GPUs[0].Verdict, o.LowBytes,
				o.DeviceBytes, o.HighBytes, o.Verdict)
		}
	}
}

func remarshal(t fataler, from, to any) {
	t.Helper()
	b, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		t.Fatalf("%v", err)
	}
}
