package compare

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
)

func card() estimator.GPU {
	return estimator.GPU{ID: "rtx-4070", UsableBytes: 11994 << 20, MemoryBytes: 12282 << 20, ComputeCapability: 89,
		Multiprocessors: 46}
}

// small is a job that takes a millisecond to estimate.
func small() estimator.Input {
	return estimator.Input{
		Job: estimator.Job{
			Model: estimator.Model{NanoGPT: &model.NanoGPT{Layers: 3, Heads: 4, Embedding: 256, BlockSize: 512,
				Vocabulary: 5000}},
			Training: estimator.Training{
				MicroBatch: 4, SequenceLength: 512, Precision: estimator.PrecisionAMPBF16,
				Optimizer: &estimator.Optimizer{Name: "adamw", Implementation: "fused"},
			},
		},
		GPUs: []estimator.GPU{card()},
	}
}

// changed is small with some changes.
func changed(change func(*estimator.Input)) estimator.Input {
	in := small()
	change(&in)
	return in
}

func llama(config string) func(*estimator.Input) {
	return func(in *estimator.Input) { in.Job.Model = estimator.Model{HFConfig: json.RawMessage(config)} }
}

const llamaConfig = `{"model_type":"llama","hidden_size":256,"intermediate_size":688,"num_hidden_layers":3,"num_attention_heads":4,"vocab_size":5000%s}`

func TestCauses(t *testing.T) {
	tests := []struct {
		name string
		a, b estimator.Input
		// causes are the pointers of each cause, separated by spaces; idle those without effect.
		causes, idle []string
		note         string
	}{
		{"the same job", small(), small(), nil, nil, "same-job"},
		{"one field", small(), changed(func(in *estimator.Input) {
			in.Job.Training.MicroBatch = 8
		}), []string{"/training/micro_batch"}, nil, ""},
		{"a field that moves nothing", small(), changed(func(in *estimator.Input) {
			in.Job.ReserveBytes = 1 << 30
		}), nil, []string{"/reserve_bytes"}, "no-difference"},
		{
			"fields of a model come first", small(),
			changed(func(in *estimator.Input) {
				in.Job.Training.MicroBatch, in.Job.Model.NanoGPT.Layers, in.Job.Model.NanoGPT.Vocabulary = 8, 4, 6000
			}),
			[]string{"/model/nanogpt/n_layer", "/model/nanogpt/vocab_size", "/training/micro_batch"}, nil, "order",
		},
		{
			"heads and width only make sense together", small(),
			changed(func(in *estimator.Input) { in.Job.Model.NanoGPT.Heads, in.Job.Model.NanoGPT.Embedding = 5, 320 }),
			[]string{"/model/nanogpt/n_head /model/nanogpt/n_embd"}, nil, "",
		},
		{"another kind of model", small(), changed(llama(strings.Replace(llamaConfig, "%s", "", 1))),
			[]string{"/model"}, nil, ""},
		{
			"keys of a config.json", changed(llama(strings.Replace(llamaConfig, "%s", "", 1))),
			changed(llama(strings.Replace(llamaConfig, "%s", `,"tie_word_embeddings":true,"a/b~c":1`, 1))),
			[]string{"/model/hf_config/tie_word_embeddings"}, []string{"/model/hf_config/a~1b~0c"}, "",
		},
		{
			"the card", small(),
			changed(func(in *estimator.Input) {
				in.GPUs = []estimator.GPU{{ID: "h100", UsableBytes: 80 << 30, ComputeCapability: 90,
					Multiprocessors: 132}}
			}),
			[]string{"/gpus"}, nil, "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, err := Make(t.Context(), tt.a, tt.b, estimator.Estimate)
			if err != nil {
				t.Fatal(err)
			}
			var causes, idle []string
			for _, x := range c.Causes {
				var pointers []string
				for _, y := range x.Changes {
					pointers = append(pointers, y.Pointer)
				}
				causes = append(causes, strings.Join(pointers, " "))
			}
			for _, x := range c.WithoutEffect {
				idle = append(idle, x.Pointer)
			}
			if diff := cmp.Diff(tt.causes, causes); diff != "" {
				t.Errorf("causes (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.idle, idle); diff != "" {
				t.Errorf("without effect (-want +got):\n%s", diff)
			}
			if tt.note != "" && (len(c.Notes) == 0 || c.Notes[0].Code != tt.note) {
				t.Errorf("notes %v, want %s first", c.Notes, tt.note)
			}
			checkSums(t, c)
		})
	}
}

type failer interface {
	Helper()
	Errorf(string, ...any)
}

// checkSums holds the causes against the difference of the two jobs.
func checkSums(t failer, c *Comparison) {
	t.Helper()
	var device int64
	moved := map[string]int64{}
	for _, x := range c.Causes {
		device += x.DifferenceBytes
		var sum int64
		for _, y := range x.Components {
			moved[y.Name] += y.DifferenceBytes
			sum += y.DifferenceBytes
		}
		if sum != x.DifferenceBytes {
			t.Errorf("%s: components give %d of %d bytes", x.Text, sum, x.DifferenceBytes)
		}
	}
	if device != c.DifferenceBytes || c.DifferenceBytes != c.B.Peak.DeviceBytes-c.A.Peak.DeviceBytes {
		t.Errorf("causes give %d, the difference is %d", device, c.DifferenceBytes)
	}
	for _, x := range c.Components {
		if moved[x.Name] != x.DifferenceBytes || x.DifferenceBytes != x.BBytes-x.ABytes {
			t.Errorf("%s: causes give %d, the difference is %d", x.Name, moved[x.Name], x.DifferenceBytes)
		}
	}
}

func TestText(t *testing.T) {
	b := changed(func(in *estimator.Input) {
		in.Job.Training.MicroBatch = 2
		in.Job.Training.Optimizer = &estimator.Optimizer{Name: "sgd"}
	})
	c, err := Make(t.Context(), small(), b, estimator.Estimate)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"micro_batch 4 → 2: -", "optimizer adamw fused → sgd: "} {
		if !strings.HasPrefix(c.Causes[i].Text, want) {
			t.Errorf("%q does not begin with %q", c.Causes[i].Text, want)
		}
	}
}

func TestRefusedJobsAreNamed(t *testing.T) {
	bad := changed(func(in *estimator.Input) { in.Job.Model.NanoGPT.Heads = 3 })
	_, err := Make(t.Context(), small(), bad, estimator.Estimate)
	refused, ok := errors.AsType[*RefusedError](err)
	if !ok || refused.Side != "b" {
		t.Fatalf("error %v, want one of job b", err)
	}
	_, err = Make(t.Context(), bad, bad, estimator.Estimate)
	if err == nil || !strings.Contains(err.Error(), "job a") || !strings.Contains(err.Error(), "job b") {
		t.Errorf("error %v names one job", err)
	}
}

func TestContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	b := changed(func(in *estimator.Input) {
		in.Job.Training.MicroBatch, in.Job.Training.SequenceLength = 2, 256
	})
	if _, err := Make(ctx, small(), b, estimator.Estimate); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func drawInput(t *rapid.T, name string) estimator.Input {
	in := small()
	tr := &in.Job.Training
	heads := rapid.Int64Range(1, 4).Draw(t, name+" heads")
	in.Job.Model.NanoGPT = &model.NanoGPT{
		Layers: rapid.Int64Range(1, 4).Draw(t, name+" layers"), Heads: heads, Embedding: 64 * heads, BlockSize: 512,
		Vocabulary: rapid.SampledFrom([]int64{65, 5000}).Draw(t, name+" vocabulary"),
	}
	tr.MicroBatch = rapid.Int64Range(1, 4).Draw(t, name+" micro")
	tr.SequenceLength = rapid.SampledFrom([]int64{64, 512}).Draw(t, name+" tokens")
	tr.GradientAccumulation = rapid.Int64Range(0, 3).Draw(t, name+" accumulation")
	tr.Precision = rapid.SampledFrom([]estimator.Precision{estimator.PrecisionAMPBF16, estimator.PrecisionFP32,
		estimator.PrecisionBF16}).Draw(t, name+" precision")
	tr.Attention = rapid.SampledFrom([]string{"", "eager"}).Draw(t, name+" attention")
	tr.Optimizer = &estimator.Optimizer{
		Name: rapid.SampledFrom([]string{"adamw", "sgd", "adafactor", "adamw-8bit"}).Draw(t,
			name+" optimizer"),
		Implementation: rapid.SampledFrom([]string{"", "fused", "bitsandbytes", "torch"}).Draw(t,
			name+" implementation"),
	}
	return in
}

// Whatever two jobs differ in, and whether or not the jobs between them make sense, the causes add up.
func TestCausesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawInput(t, "a"), drawInput(t, "b")
		c, err := Make(t.Context(), a, b, estimator.Estimate)
		if _, ok := errors.AsType[*RefusedError](err); ok {
			t.Skip("a job that makes no sense")
		}
		if err != nil {
			t.Fatal(err)
		}
		checkSums(t, c)
	})
}
