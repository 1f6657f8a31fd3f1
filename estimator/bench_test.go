package estimator

import (
	"testing"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/session"
)

// gpt2Job is nanoGPT 124M as its train.py runs it, with micro-batches of 16.
func gpt2Job() Job {
	return Job{
		Model: Model{NanoGPT: &model.NanoGPT{Layers: 12, Heads: 12, Embedding: 768, BlockSize: 1024,
			Vocabulary: 50304}},
		Training: Training{MicroBatch: 16, SequenceLength: 1024, GradientAccumulation: 32, Precision: PrecisionAMPBF16,
			Optimizer: &Optimizer{Name: "adamw", Implementation: "fused"}},
	}
}

// llama70BJob is an 80-layer Llama.
func llama70BJob() Job {
	return Job{
		Model: Model{HFConfig: []byte(`{"model_type":"llama","hidden_size":8192,"intermediate_size":28672,"num_hidden_layers":80,"num_attention_heads":64,"num_key_value_heads":8,"vocab_size":128256,"max_position_embeddings":8192}`)},
		Training: Training{MicroBatch: 1, SequenceLength: 4096, GradientAccumulation: 8, Precision: PrecisionBF16,
			Optimizer: &Optimizer{Name: "adamw"}},
	}
}

// components is an estimate without the allocator: the ledger alone.
func ledgerOnly(b *testing.B, job Job) {
	in := Input{Job: job}
	b.ReportAllocs()
	for b.Loop() {
		r, err := resolve.Resolve(&in)
		if err != nil {
			b.Fatal(err)
		}
		w := replay.LentWorkspace()
		s := session.PlayerOf(r, &in, nil).Session(w, session.Hardware(r.Recipe, nil), false)
		if s.Account(false, false).Peak.Bytes == 0 {
			b.Fatal("no peak")
		}
		w.PutBack()
	}
}

func whole(b *testing.B, job Job) {
	in := Input{Job: job, GPUs: []GPU{{ID: "rtx-4070", UsableBytes: 11994 << 20, ComputeCapability: 89,
		Multiprocessors: 46}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Estimate(in); err != nil {
			b.Fatal(err)
		}
	}
}

func reservedOnly(b *testing.B, job Job) {
	in := Input{Job: job}
	r, err := resolve.Resolve(&in)
	if err != nil {
		b.Fatal(err)
	}
	w := &replay.Workspace{Allocator: memory.NewAllocator(memory.Settings{})}
	session.PlayerOf(r, &in, nil).Session(w, session.Hardware(r.Recipe, nil), false)
	b.ReportAllocs()
	for b.Loop() {
		w.Play(replay.Steps(&w.Session), memory.Settings{}, 0)
	}
}

func BenchmarkComponentsGPT2(b *testing.B)    { ledgerOnly(b, gpt2Job()) }
func BenchmarkComponentsLlama80(b *testing.B) { ledgerOnly(b, llama70BJob()) }
func BenchmarkReservedGPT2(b *testing.B)      { reservedOnly(b, gpt2Job()) }
func BenchmarkReservedLlama80(b *testing.B)   { reservedOnly(b, llama70BJob()) }
func BenchmarkEstimateGPT2(b *testing.B)      { whole(b, gpt2Job()) }
func BenchmarkEstimateLlama80(b *testing.B)   { whole(b, llama70BJob()) }

// BenchmarkEstimateMixtures are the jobs of which some layers are played, and no search for the smallest limit is made.
func BenchmarkEstimateMixtures(b *testing.B) {
	adapters := mixtureJob(64, 1024, 64)
	adapters.Training.LoRA = &LoRA{Rank: 8, TargetModules: []string{"all-linear"}}
	b.Run("DeepSeekV3", func(b *testing.B) { whole(b, deepSeekJob()) })
	b.Run("SmallExperts", func(b *testing.B) { whole(b, mixtureJob(64, 1024, 64)) })
	b.Run("SmallExpertsLoRA", func(b *testing.B) { whole(b, adapters) })
}

// BenchmarkEstimateCalibratedGPT2 is BenchmarkEstimateGPT2 with a calibration that has a group for the job.
func BenchmarkEstimateCalibratedGPT2(b *testing.B) {
	in := Input{Job: gpt2Job(),
		GPUs:        []GPU{{ID: "rtx-4070", UsableBytes: 11994 << 20, ComputeCapability: 89, Multiprocessors: 46}},
		Calibration: calibrated(b, fitted4070)}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Estimate(in); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkCorrection is the look-up of a group and what follows from it.
func BenchmarkCorrection(b *testing.B) {
	c, key := calibrated(b, fitted4070), fitted4070.Key
	base := memory.BaseOf(9<<30, 10<<30, 9<<30, memory.ContextLazy, doubt.Order.Doubt)
	key.ComputeCapability = 89
	b.ReportAllocs()
	for b.Loop() {
		if base.Bounded(c.For(key).Correction(base.Reserved, 0.95), 0.95).Device == 0 {
			b.Fatal("no figure")
		}
	}
}
