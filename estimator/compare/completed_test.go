package compare

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
)

// drawSaid is a job that says some of its fields, of a framework or of none.
func drawSaid(t *rapid.T, name string) estimator.Input {
	in := drawInput(t, name)
	tr := &in.Job.Training
	if rapid.Bool().Draw(t, name+" without optimizer") {
		tr.Optimizer = nil
	}
	if rapid.Bool().Draw(t, name+" without precision") {
		tr.Precision = ""
	}
	tr.Framework = rapid.SampledFrom([]string{"", "nanogpt", "hf-trainer", "pytorch", "llama-factory", "axolotl",
		"lightning"}).Draw(t, name+" framework")
	if tr.Framework != "" && tr.Framework != "nanogpt" && tr.Framework != "pytorch" {
		in.Job.Model = estimator.Model{HFConfig: json.RawMessage(strings.Replace(llamaConfig, "%s", "", 1))}
	}
	if rapid.Bool().Draw(t, name+" checkpointed") {
		tr.GradientCheckpointing = &estimator.Checkpointing{Mode: "full"}
	}
	return in
}

// drawLike is a job like another one: it says more of what that was taken for, less of it, or one field otherwise.
func drawLike(t *rapid.T, a estimator.Input, taken *estimator.Training) estimator.Input {
	b := a
	from, to := reflect.ValueOf(*taken), reflect.ValueOf(&b.Job.Training).Elem()
	for i := range from.NumField() {
		if rapid.IntRange(0, 3).Draw(t, "says "+from.Type().Field(i).Name) == 0 {
			to.Field(i).Set(from.Field(i))
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "otherwise") {
	case 0:
		b.Job.Training.MicroBatch++
	case 1:
		b.Job.Training.Framework = "hf-trainer"
	case 2:
		b.Job.Training.Optimizer = nil
	case 3:
		b.Job.Training.Precision = ""
	}
	return b
}

// Two jobs that are taken for the same take the same, and of two that are not every field in which they differ is
// named, whether a document says it or a default does.
func TestComparisonsNameWhatDiffers(t *testing.T) {
	same, differ := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		a := drawSaid(t, "a")
		taken, err := estimator.Judge(a)
		if err != nil {
			return
		}
		b := drawLike(t, a, taken.Assumed.Training)
		if rapid.IntRange(0, 3).Draw(t, "another") == 0 {
			b = drawSaid(t, "b")
		}
		other, err := estimator.Judge(b)
		if err != nil {
			return
		}
		c, err := Make(t.Context(), a, b, estimator.Estimate)
		if _, ok := errors.AsType[*RefusedError](err); ok {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		checkSums(t, c)
		var diverging []Change
		differing(training, completed(taken), completed(other), &diverging)
		oneModel := reflect.DeepEqual(a.Job.Model, b.Job.Model)
		isSame := slices.ContainsFunc(c.Notes, func(n estimator.Note) bool { return n.Code == "same-job" })
		if one := len(diverging) == 0 && oneModel; one != isSame {
			t.Fatalf("taken for the same: %v, said: %v", one, isSame)
		}
		if isSame {
			same++
			if !reflect.DeepEqual(c.A.Peak, c.B.Peak) || len(c.Causes) > 0 {
				t.Fatalf("taken for the same, with other bytes: %+v, %+v, %+v", c.A.Peak, c.B.Peak, c.Causes)
			}
			return
		}
		differ++
		named := slices.Clone(c.WithoutEffect)
		for _, x := range c.Causes {
			named = append(append(named, x.Changes...), x.Follows...)
		}
		for _, x := range diverging {
			if !slices.ContainsFunc(named, func(y Change) bool {
				return x.Pointer == y.Pointer || strings.HasPrefix(x.Pointer, y.Pointer+"/")
			}) {
				t.Fatalf("%s is not named: %+v", x, c)
			}
		}
	})
	t.Logf("%d pairs are the same job, %d are not", same, differ)
	if same+differ > 50 && (same == 0 || differ == 0) {
		t.Error("only one kind of pairs was drawn")
	}
}

// A default that another framework has is a field in which two jobs differ, though neither document says it.
func TestFollowingFieldsAreNamed(t *testing.T) {
	config := llama(strings.Replace(llamaConfig, "%s", "", 1))
	a, b := changed(config), changed(config)
	a.Job.Training.Optimizer, b.Job.Training.Optimizer = nil, nil
	a.Job.Training.Framework, b.Job.Training.Framework = "pytorch", "hf-trainer"
	c, err := Make(t.Context(), a, b, estimator.Estimate)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Causes) != 1 || c.Causes[0].Changes[0].Pointer != "/training/framework" ||
		!slices.ContainsFunc(c.Causes[0].Follows, func(x Change) bool {
			return x.Pointer == "/training/hold_logits" && x.A == true && x.B == false
		}) {
		t.Errorf("%+v", c.Causes)
	}
	if text := c.Causes[0].Text; !strings.Contains(text, "hold_logits true → false") {
		t.Errorf("%q", text)
	}
}

// What a document leaves out is shown as what it was taken for, and what both mean is no difference.
func TestWhatIsLeftOutIsShown(t *testing.T) {
	left := changed(func(in *estimator.Input) { in.Job.Training.Precision = "" })
	for _, tt := range []struct {
		b     estimator.Precision
		note  string
		moves bool
	}{{estimator.PrecisionAMPBF16, "same-job", false}, {estimator.PrecisionFP32, "", true}} {
		said := changed(func(in *estimator.Input) { in.Job.Training.Precision = tt.b })
		c, err := Make(t.Context(), left, said, estimator.Estimate)
		if err != nil {
			t.Fatal(err)
		}
		if isSame := len(c.Notes) > 0 && c.Notes[0].Code == "same-job"; isSame != (tt.note != "") {
			t.Errorf("%s: notes %v", tt.b, c.Notes)
		}
		list := c.WithoutEffect
		if tt.moves {
			list = c.Causes[0].Changes
		}
		if len(list) != 1 || list[0].Pointer != "/training/precision" || list[0].A != "amp-bf16" {
			t.Errorf("%s: %+v", tt.b, list)
		}
	}
}
