package estimator

import (
	"encoding/json"
	"errors"
	"slices"
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
)

// zeroJob is a small model under DeepSpeed.
func zeroJob(data, words string) Job {
	return Job{
		Model: Model{NanoGPT: &model.NanoGPT{Layers: 7, Heads: 4, Embedding: 256, BlockSize: 128, Vocabulary: 20000}},
		Training: Training{
			Framework: "deepspeed", MicroBatch: 2, Precision: PrecisionBF16,
			Optimizer:   &Optimizer{Name: "adamw", Implementation: "fused"},
			Distributed: &Distributed{WorldSize: 8, Data: data, DeepSpeed: json.RawMessage(words)},
		},
	}
}

// steady is what stays between two steps.
func steady(res *Result) int64 {
	for _, p := range res.Phases {
		if p.Name == "steady" {
			return p.AllocatedBytes
		}
	}
	return 0
}

// TestZeROLess: stages 1 and 2 keep the weights and an eighth of masters and moments in float32, stage 3 an eighth of
// all.
func TestZeROLess(t *testing.T) {
	states := map[string]int64{}
	for _, data := range []string{"zero1", "zero2", "zero3"} {
		res := mustEstimate(t, Input{Job: zeroJob(data, `{"reduce_bucket_size": 65536}`)})
		n := res.Model.Parameters
		if got := component(res, "optimizer_state").Bytes; got < 12*n/8 || got > 12*n/8+64<<10 {
			t.Errorf("%s: %d bytes of optimizer state for an eighth of %d parameters", data, got, n)
		}
		if !slices.ContainsFunc(res.Notes, func(n Note) bool { return n.Code == "sharded" }) {
			t.Errorf("%s: no note says how the job is dealt out", data)
		}
		states[data] = steady(res)
		for _, p := range res.Phases {
			if p.Name == "load" && data != "zero3" && p.AllocatedBytes < 4*n {
				t.Errorf("%s: loading takes %d bytes; the flat weights beside the model are %d", data, p.AllocatedBytes,
					4*n)
			}
		}
	}
	if states["zero2"] != states["zero1"] || states["zero3"] >= states["zero2"] {
		t.Errorf("between steps there are %v", states)
	}
}

// TestZeROBucket: reduce_bucket_size is there in backward, twice where communication overlaps.
func TestZeROBucket(t *testing.T) {
	of := func(words string) int64 {
		return mustEstimate(t, Input{Job: zeroJob("zero2", words)}).Peak.AllocatedBytes
	}
	const elements = 50_000_000
	one, two := of(`{"reduce_bucket_size": 5e7}`), of(`{"reduce_bucket_size": 5e7, "overlap_comm": true}`)
	if got := two - one; got < 2*elements || got > 2*elements+1<<20 {
		t.Errorf("a second bucket takes %d bytes, want %d", got, 2*elements)
	}
	if auto := of(`{"reduce_bucket_size": "auto"}`); auto >= one {
		t.Errorf("auto takes %d bytes, 5e7 elements %d", auto, one)
	}
}

// TestZeROOnOneGPU is DeepSpeed's engine on one GPU: it holds masters beside weights in half.
func TestZeROOnOneGPU(t *testing.T) {
	job := zeroJob("zero2", "")
	job.Training.Distributed.WorldSize = 1
	res := mustEstimate(t, Input{Job: job})
	if got, want := component(res, "optimizer_state").Bytes, 12*res.Model.Parameters; got < want {
		t.Errorf("%d bytes of optimizer state, want at least %d", got, want)
	}
}

// TestZeROOffloads: nothing of the optimizer is on the GPU, and the bounds are wider.
func TestZeROOffloads(t *testing.T) {
	for _, data := range []string{"zero2", "zero3"} {
		res := mustEstimate(t,
			Input{Job: zeroJob(data, `{"offload_optimizer": {"device": "cpu", "pin_memory": true}}`)})
		if got := component(res, "optimizer_state").Bytes; got != 0 {
			t.Errorf("%s: %d bytes of optimizer state", data, got)
		}
		if !slices.ContainsFunc(res.Doubts, func(d DoubtSource) bool { return d.Source == "offload" }) {
			t.Errorf("%s: no doubt about offloading", data)
		}
	}
}

// TestZeRORefused names what is not modelled, and what is wrong.
func TestZeRORefused(t *testing.T) {
	const at = "/training/distributed/deepspeed"
	for _, tt := range []struct {
		data, words, pointer string
	}{
		{"zero3", `{"zero_hpz_partition_size": 8}`, at + "/zero_hpz_partition_size"},
		{"zero3", `{"zero_quantized_weights": true}`, at + "/zero_quantized_weights"},
		{"zero2", `{"mics_shard_size": 4}`, at + "/mics_shard_size"},
		{"zero2", `{"reduce_bucket_size": "many"}`, at + "/reduce_bucket_size"},
		{"zero2", `{"reduce_bucket_size": 0}`, at + "/reduce_bucket_size"},
		{"zero2", `{"overlap_comm": 3}`, at + "/overlap_comm"},
		{"zero2", `{"offload_optimizer": {"device": "cpu", "ratio": 0.5}}`, at + "/offload_optimizer/ratio"},
		{"zero2", `[]`, at},
		{"zero2", `{"offload_param": {"device": "cpu"}}`, "/training/distributed/offload_parameters"},
		{"ddp", `{"stage": 2}`, at},
	} {
		_, err := Estimate(Input{Job: zeroJob(tt.data, tt.words)})
		wrong, ok := errors.AsType[*invalid.Error](err)
		if !ok || !slices.ContainsFunc(wrong.Fields, func(f invalid.Field) bool { return f.Pointer == tt.pointer }) {
			t.Errorf("%s %s: %v, want %s", tt.data, tt.words, err, tt.pointer)
		}
	}
}

// TestHybridSharding: a group of eight holds what eight GPUs hold, however many groups there are.
func TestHybridSharding(t *testing.T) {
	of := func(world, group int64) *Result {
		job := zeroJob("fsdp", "")
		job.Training.Framework, job.Training.Distributed = "pytorch",
			&Distributed{WorldSize: world, Data: "fsdp", FSDPVersion: 2, ShardGroup: group}
		return mustEstimate(t, Input{Job: job})
	}
	if eight, hybrid := of(8, 0), of(64, 8); eight.Peak.AllocatedBytes != hybrid.Peak.AllocatedBytes {
		t.Errorf("eight GPUs allocate %d bytes each, 64 in groups of eight %d", eight.Peak.AllocatedBytes,
			hybrid.Peak.AllocatedBytes)
	}
	job := zeroJob("fsdp", "")
	job.Training.Framework, job.Training.Distributed = "pytorch",
		&Distributed{WorldSize: 10, Data: "fsdp", FSDPVersion: 2, ShardGroup: 4}
	if _, err := Estimate(Input{Job: job}); err == nil {
		t.Error("ten GPUs in groups of four are no error")
	}
}

// TestZeROLoadYields: a card that holds the steps and not twice the weights is not too small, since the flat weights
// are then made elsewhere.
func TestZeROLoadYields(t *testing.T) {
	job := zeroJob("zero2", `{"reduce_bucket_size": 65536}`)
	job.Model.NanoGPT.Layers, job.Model.NanoGPT.Embedding = 40, 1024
	job.Training.Distributed.WorldSize = 64
	job.Training.MicroBatch, job.Training.GradientCheckpointing = 1, &Checkpointing{Mode: "full"}
	res := mustEstimate(t, Input{Job: job})
	n := res.Model.Parameters
	if res.Peak.AllocatedBytes >= 4*n || res.Peak.MinimumLimitBytes >= 4*n {
		t.Errorf("%d bytes allocated, %d at least, and loading takes %d", res.Peak.AllocatedBytes,
			res.Peak.MinimumLimitBytes, 4*n)
	}
}
