package estimator

import (
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/resolve"
)

// TestChoices: the micro-batch of multiple choice counts questions, and no answer is made up of how many answers they
// have.
func TestChoices(t *testing.T) {
	ask := func(head *model.Head) (*Result, error) {
		return Estimate(Input{Job: Job{
			Model: Model{HFConfig: []byte(`{"model_type": "bert", "num_hidden_layers": 2, "hidden_size": 64,
				"num_attention_heads": 2, "intermediate_size": 128, "vocab_size": 100,
				"architectures": ["BertForMultipleChoice"]}`), Head: head},
			Training: Training{MicroBatch: 3, SequenceLength: 16, Evaluation: &Evaluation{MicroBatch: 5}},
		}})
	}
	for _, c := range []struct {
		head *model.Head
		want string
	}{
		{nil, "/model/head/choices"},
		{&model.Head{Kind: "multiple-choice"}, "/model/head/choices"},
		{&model.Head{Kind: "classification", Choices: 4}, "/model/head/choices"},
		{&model.Head{Choices: 1 << 40}, "/model/head/choices"},
		{&model.Head{Choices: 4, Labels: 2}, "/model/head/labels"},
	} {
		if _, err := ask(c.head); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want an error of %s", c.head, err, c.want)
		}
	}
	res, err := ask(&model.Head{Choices: 4})
	if err != nil {
		t.Fatal(err)
	}
	if res.Assumed.MicroBatch != 3 {
		t.Errorf("the micro-batch is %d, want that of the job", res.Assumed.MicroBatch)
	}
	in := Input{Job: Job{Model: Model{HFConfig: []byte(`{"model_type": "bert", "architectures": ["BertForMultipleChoice"]}`),
		Head: &model.Head{Choices: 4}}, Training: Training{MicroBatch: 3, SequenceLength: 16,
		Evaluation: &Evaluation{}}}}
	r, err := resolve.Resolve(&in)
	if err != nil {
		t.Fatal(err)
	}
	if r.Shape.Batch != 12 || r.Evaluation.MicroBatch != 12 {
		t.Errorf("%d sequences in training and %d in evaluation, want 12", r.Shape.Batch, r.Evaluation.MicroBatch)
	}
}
