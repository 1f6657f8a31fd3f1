package estimator

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/resolve"
)

// TestVersionsChangeTheReplay holds each known change to its size: tensors of N·V elements, or a copy of the
// parameters.
func TestVersionsChangeTheReplay(t *testing.T) {
	job := Job{
		Model: Model{
			HFConfig: []byte(
				`{"model_type":"llama","hidden_size":256,"intermediate_size":512,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":50000}`,
			),
		},
		Training: Training{MicroBatch: 4, SequenceLength: 1024, Precision: PrecisionBF16,
			Optimizer: &Optimizer{Name: "adamw", Implementation: "foreach"}},
	}
	with := func(versions map[string]string) *Result {
		j := job
		j.Training.Versions = versions
		return mustEstimate(t, Input{Job: j})
	}
	now, logits := with(formerStack), int64(4*1024*50000)
	for name, c := range map[string]struct {
		versions map[string]string
		// more than now, whose 12 N·V bytes in backward outlast the 10 N·V of forward; with the copy forward takes 14
		// or 12
		loss int64
	}{
		"either decides":           {map[string]string{"transformers": "4.57.6"}, 0},
		"a copy to shift":          {map[string]string{"transformers": "4.48.1"}, 2 * logits},
		"float32 logits from 4.45": {map[string]string{"transformers": "4.45.2"}, 0},
	} {
		got := phase(with(c.versions), "loss") - phase(now, "loss")
		if off := got - c.loss; off > logits/20 || off < -logits/20 {
			t.Errorf("%s: %+d bytes in the loss, want about %+d", name, got, c.loss)
		}
	}
	weights := component(now, "weights").Bytes
	if more := phase(with(map[string]string{"torch": "2.0.1"}), "optimizer") - phase(now, "optimizer"); more < weights*99/100 ||
		more > weights*101/100 {
		t.Errorf("foreach Adam of torch 2.0 takes %d bytes more, want another copy of the parameters, %d", more,
			weights)
	}
	old := with(map[string]string{"cuda": "11.3", "torch": "1.12"})
	if old.Peak.DeviceBytes-old.Peak.ReservedBytes < 1000<<20 {
		t.Errorf("a context that loads all kernels takes %s only", Bytes(old.Peak.DeviceBytes-old.Peak.ReservedBytes))
	}
	if now.Peak.HighBytes-now.Peak.DeviceBytes >= old.Peak.HighBytes-old.Peak.DeviceBytes {
		t.Error("other versions have to widen the bounds")
	}
}

// TestFormerTorch holds what releases before 2.0 did to their sizes on BERT with its attention written out: one more
// tensor of scores a layer, and gradients that live through the next forward.
func TestFormerTorch(t *testing.T) {
	job := Job{
		Model: Model{
			HFConfig: []byte(
				`{"model_type":"bert","hidden_size":256,"intermediate_size":512,"num_hidden_layers":6,"num_attention_heads":4,"vocab_size":2000,"architectures":["BertForSequenceClassification"]}`,
			),
		},
		Training: Training{MicroBatch: 4, SequenceLength: 512, Precision: PrecisionFP32, Attention: "eager"},
	}
	with := func(versions map[string]string) *Result {
		j := job
		j.Training.Versions = versions
		return mustEstimate(t, Input{Job: j})
	}
	scores := int64(4 * 4 * 512 * 512 * 4) // of one layer
	now := with(formerStack)
	gradients := component(now, "weights").Bytes
	for name, c := range map[string]struct {
		versions map[string]string
		more     int64
	}{
		"torch 2.0":                  {map[string]string{"torch": "2.0.1"}, 0},
		"torch 1.11":                 {map[string]string{"torch": "1.11"}, gradients},
		"torch 1.10":                 {map[string]string{"torch": "1.10.2"}, gradients + 6*scores},
		"transformers of early 2022": {map[string]string{"transformers": "4.16"}, gradients + 6*scores},
		"transformers with torch":    {map[string]string{"transformers": "4.16", "torch": "1.11"}, gradients},
	} {
		got := phase(with(c.versions), "forward") - phase(now, "forward")
		if off := got - c.more; off > scores/2 || off < -scores/2 {
			t.Errorf("%s: the forward takes %d bytes more, want about %d", name, got, c.more)
		}
	}
}

func phase(r *Result, name string) int64 {
	for _, p := range r.Phases {
		if p.Name == name {
			return p.AllocatedBytes
		}
	}
	return 0
}

// TestEveryFrameworkTakesEveryFamily asks for each pair, since a framework with modules of its own writes some families
// otherwise. What is learnt is the same whoever writes the layers; litgpt alone ties Gemma's head to nothing.
func TestEveryFrameworkTakesEveryFamily(t *testing.T) {
	for _, family := range model.Families() {
		job := gpt2Job()
		job.Training.MicroBatch, job.Training.SequenceLength = 1, 64
		job.Training.Versions = formerStack // by which litgpt's models are replayed, and which ties fewer heads
		job.Model = Model{HFConfig: fmt.Appendf(nil,
			`{"model_type":%q,"num_hidden_layers":4,"n_layer":4,"num_layers":4}`, family)}
		want, err := Judge(Input{Job: job, LeastOnly: true}) // parameters are counted without an allocator
		if err != nil {
			continue // not without more of its config.json
		}
		for _, name := range resolve.FrameworkNames() {
			job.Training.Framework = name
			job.Training.GradientCheckpointing = &Checkpointing{Mode: "none"} // which some models do not take
			got, err := Judge(Input{Job: job, LeastOnly: true})
			if name == "diffusers" { // whose scripts train pipelines alone
				if err == nil {
					t.Errorf("%s by diffusers is answered", family)
				}
				continue
			}
			if err != nil {
				t.Errorf("%s by %s: %v", family, name, err)
				continue
			}
			learnt := want.Model.TrainableParameters
			if name == "litgpt" && family == "gemma" {
				const vocabulary, hidden = 256000, 3072 // GemmaConfig's
				learnt += vocabulary * hidden
			}
			if got.Model.TrainableParameters != learnt {
				t.Errorf("%s by %s: %d parameters learn, %d without a framework", family, name,
					got.Model.TrainableParameters, learnt)
			}
		}
	}
}

// TestEveryFrameworkAnswers asks for each framework of the job document.
func TestEveryFrameworkAnswers(t *testing.T) {
	for _, name := range resolve.FrameworkNames() {
		job := gpt2Job()
		job.Model = Model{HFConfig: []byte(`{"model_type":"gpt2","n_layer":2}`)}
		job.Training.Framework = name
		if name == "diffusers" { // whose scripts train pipelines alone
			continue
		}
		res := mustEstimate(t, Input{Job: job})
		held, noted := false, false
		for _, n := range res.Notes {
			held = held || n.Code == "held-logits"
			noted = noted || n.Code == "framework-modules" && strings.HasPrefix(n.Text, name)
		}
		if held != (frameworks.Frameworks[name].Output != frameworks.Goes) ||
			noted != (frameworks.Frameworks[name].OwnModules == frameworks.Yes) {
			t.Errorf("%s: held %v, own modules noted %v", name, held, noted)
		}
	}
}

// TestTracedStacks says that releases which were traced do not widen the bounds, and that others, or families that were
// not traced with them, do.
func TestTracedStacks(t *testing.T) {
	width := func(config string, versions map[string]string) int64 {
		p := mustEstimate(t, Input{Job: Job{Model: Model{HFConfig: []byte(config)},
			Training: Training{MicroBatch: 2, SequenceLength: 128, Precision: PrecisionBF16, Versions: versions}}}).Peak
		return p.HighBytes - p.DeviceBytes
	}
	const llama = `{"model_type":"llama","hidden_size":256,"intermediate_size":512,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":5000}`
	const mpt = `{"model_type":"mpt","d_model":256,"n_layers":2,"n_heads":4,"vocab_size":5000,"max_seq_len":2048}`
	today := map[string]string{"torch": "2.15.0", "transformers": "5.23.0"}
	if now, then := width(llama, nil), width(llama, today); then != now {
		t.Errorf("high_bytes is %d above for today's releases, %d for the reference, which they are", then, now)
	}
	if now, then := width(llama, nil), width(llama, formerStack); then > now*101/100 {
		t.Errorf("high_bytes is %d above for traced releases, %d for the reference", then, now)
	}
	if traced, other := width(llama, today), width(llama, map[string]string{"torch": "2.12", "transformers": "5.23.0"}); other <= traced {
		t.Errorf("releases that were not traced together widen nothing: %d, %d", other, traced)
	}
	if traced, other := width(mpt, formerStack), width(mpt, today); other <= traced {
		t.Errorf("a family that was not traced with these releases widens nothing: %d, %d", other, traced)
	}
}

// TestScaledBeforeFloat32 holds what transformers 4.45 makes of logits that a family scales: the scaled ones are made
// float32, so that nothing as wide is scaled in float32. Read off a trace of transformers 4.45.2.
func TestScaledBeforeFloat32(t *testing.T) {
	for _, family := range []string{"granite", "cohere"} {
		job := Job{Training: Training{MicroBatch: 2, SequenceLength: 200, Precision: PrecisionBF16,
			Versions: map[string]string{"transformers": "4.45.2", "torch": "2.9.1"}}}
		job.Model.HFConfig = []byte(`{"model_type": "` + family + `", "hidden_size": 256, "intermediate_size": 688,
			"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "vocab_size": 5000,
			"max_position_embeddings": 512}`)
		events, err := Events(Input{Job: job}, 1)
		if err != nil {
			t.Fatal(err)
		}
		const half, wide = 2 * 200 * 5000 * 2, 2 * 200 * 5000 * 4
		var got []int64
		for _, e := range events {
			if strings.Contains(e.What, "logits") &&
				(max(e.Bytes, -e.Bytes) == half || max(e.Bytes, -e.Bytes) == wide) {
				got = append(got, e.Bytes)
			}
		}
		want := []int64{half, half, -half, wide, -half}
		if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
			t.Errorf("%s: the first events as wide as the logits are %v, not %v", family, got[:min(8, len(got))], want)
		}
	}
}
