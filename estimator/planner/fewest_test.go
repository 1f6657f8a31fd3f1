package planner

import (
	"testing"

	"github.com/vramplan/vramplan/estimator"
)

// llama8B is Llama-3.1-8B in mixed precision, far too large for one card of 80 GB, at an effective batch of so many.
func llama8B(micro, accum int64) Request {
	g := rtx4070()
	g.ID, g.Name, g.MemoryBytes, g.UsableBytes, g.ComputeCapability = "h100-sxm5", "H100", 81559*mib, 81082*mib, 90
	r := Request{Input: estimator.Input{GPUs: []estimator.GPU{g}}}
	r.Input.Job.Model.HFConfig = []byte(`{"model_type": "llama", "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336,
		"num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 4096}`)
	r.Input.Job.Training = estimator.Training{MicroBatch: micro, GradientAccumulation: accum, Precision: estimator.PrecisionAMPBF16}
	return r
}

// What is said to fit on several cards fits by an estimate of its own, at the same effective batch, and on fewer cards not even one sequence does.
func TestFewestGPUs(t *testing.T) {
	r := llama8B(4, 12)
	p, err := Make(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	f := p.FewestGPUs
	if f == nil {
		t.Fatal("no number of cards is given")
	}
	verdict := func(gpus, micro int64) estimator.Verdict {
		in := r.Input
		in.Job.Training.Distributed = &estimator.Distributed{WorldSize: gpus, Data: "fsdp", FSDPVersion: 2}
		in.Job.Training.MicroBatch, in.Job.Training.GradientAccumulation = micro, p.EffectiveBatch/gpus/micro
		res, err := estimator.Estimate(in)
		if err != nil {
			t.Fatal(err)
		}
		return res.GPUs[0].Verdict
	}
	if f.MicroBatch*f.GradientAccumulation*f.GPUs != 48 || p.EffectiveBatch != 48 {
		t.Errorf("%d × %d on %d cards do not make 48", f.MicroBatch, f.GradientAccumulation, f.GPUs)
	}
	if got := verdict(f.GPUs, f.MicroBatch); got != estimator.Fits {
		t.Errorf("%d × %d on %d cards: %s", f.MicroBatch, f.GradientAccumulation, f.GPUs, got)
	}
	for gpus := int64(2); gpus < f.GPUs; gpus++ {
		if 48%gpus == 0 && verdict(gpus, 1) == estimator.Fits {
			t.Errorf("%d cards are enough, not %d", gpus, f.GPUs)
		}
	}
}

// Nobody needs several cards for a job that fits on one, or is told of another way to deal out one that is dealt out.
func TestFewestGPUsOnlyWhereNeeded(t *testing.T) {
	dealt := llama8B(1, 1)
	dealt.Input.Job.Training.Distributed = &estimator.Distributed{WorldSize: 2, Data: "fsdp"}
	for name, r := range map[string]Request{"a job that fits in pairs": story(), "a job dealt out": dealt} {
		p, err := Make(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if p.FewestGPUs != nil {
			t.Errorf("%s: %+v", name, p.FewestGPUs)
		}
	}
}
