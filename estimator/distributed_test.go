package estimator

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/resolve/strategies"
)

func dataParallelJob(gpus int64) Job {
	job := Job{
		Model: Model{NanoGPT: &model.NanoGPT{Layers: 3, Heads: 4, Embedding: 512, BlockSize: 128, Vocabulary: 20000}},
		Training: Training{
			MicroBatch: 2, GradientAccumulation: 2, Precision: PrecisionAMPBF16,
			Optimizer: &Optimizer{Name: "adamw", Implementation: "fused"},
		},
	}
	if gpus > 0 {
		job.Training.Distributed = &Distributed{WorldSize: gpus}
	}
	return job
}

// TestDataParallel wraps a traced job in DistributedDataParallel: a run of its first step with PyTorch 2.9.1 allocated
// 79,691,776 bytes more than the same without it, 78,985,216 of them for the one bucket of all gradients, which lies in
// a segment of whole 2 MiB.
func TestDataParallel(t *testing.T) {
	for _, gpus := range []int64{0, 1} {
		if got := component(mustEstimate(t, Input{Job: dataParallelJob(gpus)}), "communication"); got.Bytes != 0 ||
			got.How != "one GPU" {
			t.Errorf("%d GPUs: communication takes %d bytes (%s)", gpus, got.Bytes, got.How)
		}
	}
	alone := mustEstimate(t, Input{Job: dataParallelJob(0)})
	for _, c := range []struct{ gpus, nccl int64 }{{2, 358_612_992}, {4, 411_041_792}, {64, 411_041_792}} {
		res := mustEstimate(t, Input{Job: dataParallelJob(c.gpus)})
		const gradients = 78_985_216
		if got := component(res, "communication").Bytes - c.nccl; got < gradients || got > gradients+8*512 {
			t.Errorf("%d GPUs: buckets of %d bytes, the gradients have %d", c.gpus, got, gradients)
		}
		if got := component(res, "cuda_context").Bytes; got != component(alone, "cuda_context").Bytes {
			t.Errorf("%d GPUs: the context takes %d bytes", c.gpus, got)
		}
		if res.Peak.HighBytes-res.Peak.DeviceBytes <= alone.Peak.HighBytes-alone.Peak.DeviceBytes {
			t.Errorf("%d GPUs: the bounds are no wider than for one", c.gpus)
		}
		if !slices.ContainsFunc(res.Notes, func(n Note) bool { return n.Code == "data-parallel" }) {
			t.Errorf("%d GPUs: no note", c.gpus)
		}
	}
}

// TestFirstStepUnderDataParallel counts what wrapping the traced job allocates: the parameters flattened once to be
// broadcast, then one bucket, and from the second step on buckets of about 25 MiB.
func TestFirstStepUnderDataParallel(t *testing.T) {
	const gradients = 78_985_216
	count := func(job Job, steps int) (flat, buckets int) {
		var heap tape
		if err := Replay(Input{Job: job}, &heap, steps, true); err != nil {
			t.Fatal(err)
		}
		for _, e := range heap.events {
			switch {
			case e == gradients:
				flat++
			case e >= 25<<20 && e < 45<<20 && e != 40_960_000: // not the embedding
				buckets++
			}
		}
		return flat, buckets
	}
	one, _ := count(dataParallelJob(0), 2)
	if flat, _ := count(dataParallelJob(2), 1); flat-one != 2 {
		t.Errorf("%d tensors of all gradients in the first step, the trace has two", flat-one)
	}
	_, before := count(dataParallelJob(2), 1)
	if _, after := count(dataParallelJob(2), 2); after-before != 2 {
		t.Errorf("%d buckets of about 25 MiB in the second step, want two: one of three layers' gradients, one of the "+
			"rest with the embedding", after-before)
	}
}

func TestWhatIsSplitIsRefused(t *testing.T) {
	yes := true
	tests := []struct {
		name   string
		change func(*Training)
		want   []string
	}{
		{"sharded", func(u *Training) { u.Distributed.Data = "fsdp" }, nil},
		{"sharded by DeepSpeed", func(u *Training) { u.Distributed.Data = "zero3" }, nil},
		{"sharded by FSDP1", func(u *Training) { u.Distributed.Data, u.Distributed.FSDPVersion = "fsdp", 1 }, nil},
		{"sharded with what is not modelled", func(u *Training) {
			u.Distributed.Data, u.Compile, u.Evaluation = "fsdp", &Compile{Model: true}, &Evaluation{}
			u.Optimizer = &Optimizer{Name: "adamw-8bit"}
		}, []string{"/training/compile", "/training/evaluation", "/training/optimizer/name"}},
		{"tensor and pipeline parallel", func(u *Training) {
			u.Distributed.TensorParallel, u.Distributed.PipelineParallel = 2, 4
		},
			[]string{"/training/distributed/pipeline_parallel", "/training/distributed/tensor_parallel"}},
		{"an own engine", func(u *Training) {
			u.Framework = "deepspeed"
		}, []string{"/training/distributed/world_size"}},
		{"compiled", func(u *Training) { u.Compile = &Compile{Model: true} }, nil},
		{"sharded and compiled", func(u *Training) {
			u.Distributed.Data, u.Compile = "fsdp", &Compile{Loss: true}
		}, []string{"/training/compile"}},
		{"sharded and compiled with attention written out", func(u *Training) {
			u.Framework, u.Attention = "torchtitan", "eager"
			u.Distributed.Data, u.Compile = "fsdp", &Compile{Model: true}
		}, []string{"/training/compile"}},
		{"too many", func(u *Training) {
			u.Distributed.WorldSize = 1 << 21
		}, []string{"/training/distributed/world_size"}},
		{"no_sync", func(u *Training) { u.Distributed.NoSync = &yes }, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			job := dataParallelJob(8)
			tt.change(&job.Training)
			_, err := Estimate(Input{Job: job})
			if got := refusedPointers(err); !slices.Equal(got, tt.want) {
				t.Errorf("refused %q, want %q", got, tt.want)
			}
		})
	}
}

// TestOnlyAdaptersAreReduced holds the buckets of a job with adapters to the adapters.
func TestOnlyAdaptersAreReduced(t *testing.T) {
	job := dataParallelJob(2)
	job.Model = Model{HFConfig: []byte(`{"model_type":"llama","hidden_size":256,"intermediate_size":688,"num_hidden_layers":2,"num_attention_heads":4,"vocab_size":5000}`)}
	job.Training.LoRA = &LoRA{Rank: 8, TargetModules: Targets{"q_proj", "v_proj"}}
	res := mustEstimate(t, Input{Job: job})
	want := 4 * res.Model.TrainableParameters
	if got := component(res, "communication").Bytes - strategies.NcclTwo.Bytes; got < want || got > want+4*512 {
		t.Errorf("buckets of %d bytes for adapters of %d", got, want)
	}
}

// refusedPointers are the fields that an answer was refused for.
func refusedPointers(err error) []string {
	wrong, ok := errors.AsType[*invalid.Error](err)
	if !ok {
		return nil
	}
	var pointers []string
	for _, f := range wrong.Fields {
		pointers = append(pointers, f.Pointer)
	}
	return pointers
}

// TestReadyTwiceIsSaid: a job that DistributedDataParallel ends in an error is named, and one that says what helps is
// not.
func TestReadyTwiceIsSaid(t *testing.T) {
	yes, no := true, false
	for _, c := range []struct {
		name   string
		change func(*Training)
		want   bool
	}{
		{"adapters under the Trainer", func(*Training) {}, true},
		{"another loop", func(u *Training) { u.Framework = "pytorch" }, false},
		{"checkpoints that are not reentrant", func(u *Training) { u.GradientCheckpointing.Reentrant = &no }, false},
		{"nothing looked for", func(u *Training) { u.Distributed.FindUnusedParameters = &no }, false},
		{"a whole model", func(u *Training) { u.LoRA = nil }, false},
		{"a whole model, and looking", func(u *Training) {
			u.LoRA, u.Distributed.FindUnusedParameters = nil, &yes
		}, true},
		{"no checkpoints", func(u *Training) { u.GradientCheckpointing = nil }, false},
		{"one GPU", func(u *Training) { u.Distributed = nil }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := Job{Model: Model{HFConfig: []byte(`{"model_type":"llama","num_hidden_layers":2}`)},
				Training: Training{MicroBatch: 1, SequenceLength: 64}}
			u := &job.Training
			u.Framework, u.Versions = "hf-trainer", maps.Clone(formerStack)
			u.LoRA = &LoRA{Rank: 8, TargetModules: []string{"q_proj"}}
			u.GradientCheckpointing = &Checkpointing{Mode: "full"}
			u.Distributed = &Distributed{WorldSize: 4, Data: "ddp"}
			c.change(u)
			res := mustEstimate(t, Input{Job: job})
			if got := slices.ContainsFunc(res.Notes, func(n Note) bool { return n.Code == "ready-twice" }); got != c.want {
				t.Errorf("said: %v, want %v", got, c.want)
			}
		})
	}
}
