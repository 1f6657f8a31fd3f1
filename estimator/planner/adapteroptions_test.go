package planner

import (
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/samples"
)

// published is a full training of a published model with some 440 million parameters on a card of the given size.
func published(usable int64) Request {
	var in estimator.Input
	in.Job.Model.HFConfig = []byte(`{"model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 8,
		"num_attention_heads": 16, "intermediate_size": 5632, "vocab_size": 8000, "max_position_embeddings": 4096}`)
	in.Job.Training = estimator.Training{MicroBatch: 2, SequenceLength: 1024, GradientAccumulation: 4}
	g := samples.RTX4070()
	g.UsableBytes = usable
	in.GPUs = []estimator.GPU{g}
	return Request{Input: in}
}

// Where nothing leaves training alone, LoRA and QLoRA stand in the table, with what makes them fit.
func TestAdaptersAreOfferedWhereNothingElseFits(t *testing.T) {
	for _, brief := range []bool{false, true} {
		r := published(3000 * mib)
		r.Brief = brief
		p, err := Make(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		offered := map[bool]bool{} // by whether the base is packed
		for _, o := range p.Options {
			if l, ok := o.Changes["lora"].(estimator.LoRA); ok && o.Verdict == estimator.Fits {
				offered[l.BasePrecision == "nf4"] = true
			}
			if !o.ChangesTraining && o.Verdict == estimator.Fits && !strings.Contains(o.Recommendation, "GPU") {
				t.Errorf("brief %v: %q fits", brief, o.Title)
			}
		}
		if !offered[false] || !offered[true] {
			t.Errorf("brief %v: offered %v\n%s", brief, offered, p.Text())
		}
	}
}

// Full checkpointing at the pair that runs is a row where it makes the job fit, beside the faster pair that it makes
// possible.
func TestCheckpointingAtTheOwnPairIsARow(t *testing.T) {
	p, err := Make(t.Context(), published(9830*mib))
	if err != nil {
		t.Fatal(err)
	}
	if p.Today.Verdict == estimator.Fits {
		t.Fatalf("the job fits: %d bytes", p.Today.DeviceBytes)
	}
	if !slices.ContainsFunc(p.Options, func(o document.Option) bool {
		return o.MicroBatch == 2 && o.GradientAccumulation == 4 && len(o.Changes) == 1 &&
			o.Changes["gradient_checkpointing"] == "full" && o.Verdict == estimator.Fits
	}) {
		t.Errorf("no row\n%s", p.Text())
	}
}

// What a setting that is to save memory holds more of is said, where it takes more.
func TestWhatTakesMoreSaysWhy(t *testing.T) {
	r := published(3000 * mib)
	r.Input.Job.Training.MicroBatch = 8
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	note := ""
	for _, n := range p.Notes {
		if n.Code == "takes-more" && strings.Contains(n.Text, "QLoRA") {
			note = n.Text
		}
	}
	for _, part := range []string{"QLoRA takes", "more is held of: ", "activations", "less of: weights"} {
		if !strings.Contains(note, part) {
			t.Errorf("%q lacks %q\n%s", note, part, p.WideText())
		}
	}
}

// An estimate whose allocator reserves much besides promises that a plan tells what expandable_segments would do, and
// the plan does.
func TestPlanTellsOfExpandableSegments(t *testing.T) {
	r := story()
	promised := 0
	for _, micro := range []int64{1, 2, 3, 5, 8} {
		r.Input.Job.Training.MicroBatch, r.Input.Job.Training.GradientAccumulation = micro, 1
		result, err := estimator.Estimate(r.Input)
		if err != nil {
			t.Fatal(err)
		}
		p, err := Make(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		promises := slices.ContainsFunc(result.Notes, func(n estimator.Note) bool { return n.Code == "fragmentation" })
		if told := noteOf(p, "expandable-segments") != ""; told != promises {
			t.Errorf("micro-batch %d: promised %v, told %v", micro, promises, told)
		}
		if promises {
			promised++
		}
	}
	if promised == 0 {
		t.Error("no estimate promises anything")
	}
}
