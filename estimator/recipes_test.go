package estimator

import (
	"errors"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// events is what a job asks a heap for in two optimizer steps.
func events(t interface {
	Helper()
	Fatal(...any)
}, job Job) []int64 {
	t.Helper()
	var got tape
	if err := Replay(Input{Job: job}, &got, 2, false); err != nil {
		t.Fatal(err)
	}
	return ordered(got.events)
}

// randomJob draws a job of any family, and recipes besides that may be combined with it.
func randomJob(t *rapid.T) Job {
	job := familyJob(t)
	if l := job.Training.LoRA; l != nil && job.Training.Framework == "litgpt" {
		l.DoRA = false // which it has not
	}
	recipes := []struct {
		name string
		set  func(*Training)
	}{
		{"loss", func(u *Training) { u.Loss = randomLoss(t) }},
		{"versions", func(u *Training) {
			u.Versions = map[string]string{"torch": rapid.SampledFrom([]string{"1.10.2", "1.12", "2.0.1"}).Draw(t,
				"torch")}
		}},
		{"logits_dtype", func(u *Training) { u.LogitsDtype = "fp32" }},
		{"attention_mask", func(u *Training) { u.AttentionMask = "explicit" }},
		{"selective", func(u *Training) { u.GradientCheckpointing = &Checkpointing{Mode: "selective"} }},
		{"selective-op", func(u *Training) { u.GradientCheckpointing = &Checkpointing{Mode: "selective-op"} }},
		{"kernels", func(u *Training) {
			u.Kernels = rapid.SliceOfDistinct(rapid.SampledFrom([]string{"rmsnorm", "rope", "swiglu", "layernorm"}),
				rapid.ID).Draw(t, "kernels")
		}},
		{"optimizer", func(u *Training) { u.Optimizer = randomOptimizer(t) }},
		{"states", func(u *Training) { u.States = randomStates(t) }},
		{"distributed", func(u *Training) { u.Distributed = &Distributed{WorldSize: 2} }},
		{"sharded", func(u *Training) { randomShards(t, u) }},
		{"evaluation", func(u *Training) {
			u.Evaluation = &Evaluation{MicroBatch: rapid.Int64Range(0, 9).Draw(t, "evaluated"),
				KeepLogits: rapid.Bool().Draw(t, "keep_logits")}
		}},
	}
	for _, recipe := range recipes {
		if rapid.IntRange(0, 2).Draw(t, "other "+recipe.name) != 0 {
			continue
		}
		with := job
		recipe.set(&with.Training)
		if _, err := resolve.Resolve(&Input{Job: with}); err == nil {
			job = with
		}
	}
	return job
}

// randomShards deals a job's parameters out to several GPUs, without what is not modelled together with that.
func randomShards(t *rapid.T, u *Training) {
	d := &Distributed{Data: "fsdp", WorldSize: rapid.SampledFrom([]int64{2, 3, 4, 8, 7, 64, 1024}).Draw(t,
		"world_size")}
	d.FSDPVersion = rapid.Int64Range(0, 2).Draw(t, "fsdp_version")
	if rapid.Bool().Draw(t, "says whether to reshard") {
		d.ReshardAfterForward = new(rapid.Bool().Draw(t, "reshard_after_forward"))
	}
	if rapid.Bool().Draw(t, "says whether to accumulate whole gradients") {
		d.NoSync = new(rapid.Bool().Draw(t, "no_sync"))
	}
	u.Distributed, u.Evaluation, u.Versions = d, nil, nil
	if u.LoRA != nil && rapid.Bool().Draw(t, "adapters under FSDP") {
		u.States = nil
	} else {
		u.LoRA = nil
	}
	name := rapid.SampledFrom([]string{"foreach", "fused", "for-loop"}).Draw(t, "implementation under FSDP")
	u.Optimizer = &Optimizer{Name: "adamw", Implementation: name}
	if u.Precision == PrecisionBF16 && u.LoRA == nil && rapid.Bool().Draw(t, "wide weights") {
		u.States = &States{Weights: "fp32"}
	}
}

// shardedJob is a random job that is dealt out to several GPUs; what stands in the way of that is left out.
func shardedJob(t *rapid.T) Job {
	for range 20 {
		job := randomJob(t)
		randomShards(t, &job.Training)
		if _, err := resolve.Resolve(&Input{Job: job}); err == nil {
			return job
		}
		for _, leave := range []func(*Training){
			func(u *Training) { u.GradientCheckpointing = nil },
			func(u *Training) { u.LoRA = nil },
		} {
			if leave(&job.Training); valid(job) {
				return job
			}
		}
	}
	t.Skip("twenty jobs that cannot be sharded")
	return Job{}
}

func valid(job Job) bool {
	_, err := resolve.Resolve(&Input{Job: job})
	return err == nil
}

// randomLoss draws a loss other than the standard one.
func randomLoss(t *rapid.T) *Loss {
	l := &Loss{Kind: rapid.SampledFrom([]string{"fused", "chunked", "fused-linear"}).Draw(t, "loss")}
	if l.Kind == "chunked" {
		l.Head = rapid.SampledFrom([]string{"", "chunked", "whole"}).Draw(t, "head of the loss")
		l.Chunks = rapid.Int64Range(0, 9).Draw(t, "chunks")
		if l.Chunks == 0 {
			l.ChunkTokens = rapid.Int64Range(20, 3000).Draw(t, "chunk_tokens")
		}
	}
	return l
}

// randomOptimizer draws any optimizer that is modelled.
func randomOptimizer(t *rapid.T) *Optimizer {
	o := rapid.SampledFrom(optim.Optimizers()).Draw(t, "any optimizer")
	name := rapid.SampledFrom(append([]string{o.Name}, o.Synonyms...)).Draw(t, "name of it")
	implementation := rapid.SampledFrom(o.Implementations).Draw(t, "any implementation")
	return &Optimizer{Name: name, Implementation: implementation,
		InBackward: rapid.IntRange(0, 3).Draw(t, "in_backward") == 0}
}

// randomStates draws what is stored.
func randomStates(t *rapid.T) *States {
	one := func(name string, values ...string) string {
		return rapid.SampledFrom(append(values, "", "fp32", "bf16", "fp16")).Draw(t, name)
	}
	return &States{Weights: one("weights"), Gradients: one("gradients"), MasterWeights: one("master_weights", "none"),
		MasterGradients: one("master_gradients", "none"), Optimizer: one("moments")}
}

// refusedFor says whether a job is refused for one field alone.
func refusedFor(job Job, pointer string) bool {
	_, err := Estimate(Input{Job: job})
	wrong, ok := errors.AsType[*invalid.Error](err)
	return ok && len(wrong.Fields) == 1 && wrong.Fields[0].Pointer == pointer
}

// TestCheckpointingEveryLayerIsFull holds {"every": 1} against "full".
func TestCheckpointingEveryLayerIsFull(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		job := randomJob(t)
		job.Training.GradientCheckpointing = &Checkpointing{Mode: "full"}
		if refusedFor(job, "/training/gradient_checkpointing") {
			t.Skip("its library does not checkpoint this model")
		}
		full := events(t, job)
		job.Training.GradientCheckpointing = &Checkpointing{Every: 1}
		if diff := gocmp.Diff(full, events(t, job)); diff != "" {
			t.Fatalf("every layer differs from full:\n%.1000s", diff)
		}
	})
}

// TestCheckpointingLessOftenHoldsMore compares peaks: every layer between none and all of them.
func TestCheckpointingLessOftenHoldsMore(t *testing.T) {
	job := gpt2Job()
	peak := func(c *Checkpointing) int64 {
		job.Training.GradientCheckpointing = c
		res, err := Estimate(Input{Job: job})
		if err != nil {
			t.Fatal(err)
		}
		return res.Peak.AllocatedBytes
	}
	last := peak(&Checkpointing{Mode: "full", Offload: true})
	for _, every := range []int64{1, 2, 3, 6, 12, 13} {
		now := peak(&Checkpointing{Every: every})
		if now < last {
			t.Errorf("checkpointing every %d layers holds %d, less than %d with more of it", every, now, last)
		}
		last = now
	}
	if none := peak(nil); none != last {
		t.Errorf("checkpointing every 13th of 12 layers holds %d, none %d", last, none)
	}
}

// peakWith is the peak of GPT-2 as nanoGPT trains it with another loss.
func peakWith(t *testing.T, l *Loss) int64 {
	t.Helper()
	job := gpt2Job()
	job.Training.Loss = l
	res, err := Estimate(Input{Job: job})
	if err != nil {
		t.Fatal(err)
	}
	return res.Peak.AllocatedBytes
}

// TestMoreChunksHoldLess compares the peaks of a chunked loss: more chunks never hold more, and every other loss less
// than the standard one.
func TestMoreChunksHoldLess(t *testing.T) {
	for _, head := range []string{"chunked", "whole"} {
		last := int64(1) << 60
		for _, chunks := range []int64{1, 2, 4, 8, 64} {
			now := peakWith(t, &Loss{Kind: "chunked", Head: head, Chunks: chunks})
			if now > last {
				t.Errorf("%d chunks with the head %s hold %d, fewer %d", chunks, head, now, last)
			}
			last = now
		}
	}
	standard := peakWith(t, nil)
	for _, kind := range []string{"fused", "chunked", "fused-linear"} {
		if now := peakWith(t, &Loss{Kind: kind}); now >= standard {
			t.Errorf("the loss %s holds %d, the standard one %d", kind, now, standard)
		}
	}
}

// TestChunkTokensAreChunks holds chunks of so many tokens against so many chunks.
func TestChunkTokensAreChunks(t *testing.T) {
	const tokens = 16 * 1024
	for _, chunks := range []int64{1, 2, 16} {
		a, b := peakWith(t, &Loss{Kind: "chunked", Chunks: chunks}),
			peakWith(t, &Loss{Kind: "chunked", ChunkTokens: tokens / chunks})
		if a != b {
			t.Errorf("%d chunks hold %d, chunks of %d tokens %d", chunks, a, tokens/chunks, b)
		}
	}
}
