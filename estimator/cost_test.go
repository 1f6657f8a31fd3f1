package estimator

import (
	"testing"

	"pgregory.net/rapid"
)

// TestCostBounds holds the bound that is told from the document against what random jobs of all families take: every
// request that is played, every event that is recorded, and the storage of all lists.
func TestCostBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SampledFrom([]func(*rapid.T) Job{randomJob, shardedJob, validMixture}).Draw(t, "kind")
		in := Input{Job: draw(t)}
		for range rapid.IntRange(0, 2).Draw(t, "cards") {
			card := tracedGPUs[rapid.SampledFrom([]string{"a100-sxm4-80gb", "h100-sxm5", "rtx-4070", "t4"}).Draw(t,
				"card")]
			card.UsableBytes = rapid.Int64Range(1<<28, 20<<30).Draw(t, "usable")
			in.GPUs = append(in.GPUs, card)
		}
		if _, err := CostOf(in); err != nil {
			t.Skip(err)
		}
		heldToBound(t, in)
	})
}

// heldToBound answers a job and returns what that took and the bound that was told from the document, which must
// not be exceeded.
func heldToBound(t rapid.TB, in Input) (took, bound Cost) {
	t.Helper()
	bound, err := CostOf(in)
	if err != nil {
		t.Fatal(err)
	}
	in.Took = &took
	if _, err := Estimate(in); err != nil {
		t.Fatal(err)
	}
	if took.Requests > bound.Requests || took.Bytes > bound.Bytes {
		t.Errorf("%+v took %+v, the bound is %+v", in.Job.Training, took, bound)
	}
	return took, bound
}

// TestCostIsTight: the bound is not more than so many times what real jobs take.
func TestCostIsTight(t *testing.T) {
	adapters := mixtureJob(64, 1024, 64)
	adapters.Training.LoRA = &LoRA{Rank: 8, TargetModules: []string{"all-linear"}}
	grouped := deepSeekJob()
	grouped.Training.Versions = nil // of today's releases, whose experts run in groups
	for name, c := range map[string]struct {
		job             Job
		requests, bytes float64
	}{
		"GPT-2": {gpt2Job(), 500, 12}, "Llama 80": {llama70BJob(), 30, 8}, "DeepSeek V3": {deepSeekJob(), 150, 16},
		"DeepSeek V3 in groups": {grouped, 30, 4},
		"small experts":         {mixtureJob(64, 1024, 64), 60, 8}, "adapters": {adapters, 40, 8},
	} {
		t.Run(name, func(t *testing.T) {
			took, bound := heldToBound(t, Input{Job: c.job})
			requests, bytes := float64(bound.Requests)/float64(took.Requests), float64(bound.Bytes)/float64(took.Bytes)
			t.Logf("took %+v, bound %+v: %.1f and %.1f times", took, bound, requests, bytes)
			if requests > c.requests || bytes > c.bytes {
				t.Errorf("%.1f times the requests and %.1f times the bytes", requests, bytes)
			}
		})
	}
}

// TestCostOfTextEncodersThatLeave: they are recorded and played besides, before training.
func TestCostOfTextEncodersThatLeave(t *testing.T) {
	heldToBound(t, diffusionJob(t, `{"preset": "stable-diffusion-3-medium"}`, `{"micro_batch": 1, "resolution": 512,
		"objective": {"kind": "diffusion"}, "lora": {"rank": 4}}`))
}

// TestCostOfFusedLinearLoss: Liger divides the rows by how much wider the vocabulary is than the head, so that a narrow
// model's loss may take a chunk for each row.
func TestCostOfFusedLinearLoss(t *testing.T) {
	for _, narrow := range []string{
		`{"model_type":"opt","hidden_size":16,"word_embed_proj_dim":16,"ffn_dim":32,"num_hidden_layers":2,
			"num_attention_heads":2,"vocab_size":60000,"max_position_embeddings":4096}`,
		`{"model_type":"opt","hidden_size":256,"word_embed_proj_dim":16,"ffn_dim":32,"num_hidden_layers":2,
			"num_attention_heads":2,"vocab_size":60000,"max_position_embeddings":4096}`,
	} {
		for _, precision := range []Precision{PrecisionAMPBF16, PrecisionFP32} {
			job := Job{Model: Model{HFConfig: []byte(narrow)}, Training: Training{MicroBatch: 8, SequenceLength: 1000,
				GradientAccumulation: 3, Precision: precision, Loss: &Loss{Kind: "fused-linear"}}}
			took, _ := heldToBound(t, Input{Job: job})
			if took.Requests < 50_000 {
				t.Errorf("only %d requests: the rows are not divided", took.Requests)
			}
		}
	}
}
