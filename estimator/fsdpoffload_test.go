package estimator

import (
	"errors"
	"slices"
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// TestOffloadedShards takes the parts off the GPU: nothing of the optimizer is left on it, the answer says so, and the
// job needs less.
func TestOffloadedShards(t *testing.T) {
	for _, version := range []int64{1, 2} {
		job := shardedNanoGPT(4)
		job.Training.Distributed.FSDPVersion = version
		here := mustEstimate(t, Input{Job: job})
		job.Training.Distributed.OffloadParameters = true
		away := mustEstimate(t, Input{Job: job})
		if got := component(away, "optimizer_state").Bytes; got != 0 {
			t.Errorf("FSDP%d: %d bytes of the optimizer's state are on the GPU", version, got)
		}
		if away.Peak.AllocatedBytes >= here.Peak.AllocatedBytes {
			t.Errorf("FSDP%d: %d bytes with the parts on the CPU, no less than %d", version, away.Peak.AllocatedBytes,
				here.Peak.AllocatedBytes)
		}
		if !slices.ContainsFunc(away.Notes, func(n Note) bool { return n.Code == "offloaded-shards" }) {
			t.Errorf("FSDP%d: no note says what is where", version)
		}
		both := job
		d := *job.Training.Distributed
		d.OffloadOptimizer = true
		both.Training.Distributed = &d
		if got := mustEstimate(t, Input{Job: both}).Peak; got.DeviceBytes != away.Peak.DeviceBytes {
			t.Errorf("FSDP%d: the optimizer named besides gives %d bytes, not %d", version, got.DeviceBytes,
				away.Peak.DeviceBytes)
		}
	}
}

// TestOffloadedShardsRefused names what was not seen with parts on the CPU.
func TestOffloadedShardsRefused(t *testing.T) {
	for _, c := range []struct {
		name, pointer string
		change        func(*Training)
	}{
		{"the optimizer alone", "/training/distributed/offload_optimizer", func(u *Training) {
			u.Distributed.OffloadParameters, u.Distributed.OffloadOptimizer = false, true
		}},
		{"copies", "/training/distributed/offload_parameters", func(u *Training) { u.Distributed.Data = "ddp" }},
		{"compiled", "/training/distributed/offload_parameters", func(u *Training) { u.Compile = &Compile{Model: true} }},
	} {
		job := shardedNanoGPT(4)
		job.Training.Distributed.OffloadParameters = true
		c.change(&job.Training)
		_, err := Estimate(Input{Job: job})
		wrong, ok := errors.AsType[*invalid.Error](err)
		if !ok || !slices.ContainsFunc(wrong.Fields, func(f invalid.Field) bool { return f.Pointer == c.pointer }) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
