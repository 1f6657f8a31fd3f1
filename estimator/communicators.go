package estimator

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/memory"
)

// What NCCL takes outside PyTorch's allocator for one communicator over two GPUs and over more, as NVIDIA's planner for
// inference assumes (ai-dynamo/aiconfigurator, systems/*.yaml at 095f58a5, measured on 2, 4 and 8 GPUs of one host). No
// published training run states it by itself; the bounds say so: communicators are made when they are first used, and
// channels grow with the links of a host.
var (
	ncclTwo  = memory.Context{Bytes: 358_612_992, Low: 0, High: 1 << 30}
	ncclMore = memory.Context{Bytes: 411_041_792, Low: 0, High: 1 << 30}
)

// What raises the upper bound, and nothing else: these are reports of single hosts, and releases of NCCL differ.
const (
	// furtherCommunicatorBytes is what each communicator beside the first may take: one that had reduced took 1.6 GB of
	// a card and three 6 GB. It grows with the channels, and beyond two hosts not with their number. Source:
	// NVIDIA/nccl issues 864 and 986 (2023), of unnamed cards and releases.
	furtherCommunicatorBytes = 2_200_000_000
	// allToAllBytes is what the first all-to-all of eight H100 of a host added, 4.34 GB from 1.06: 32 channels to every
	// other GPU, with buffers of 2 and of 10 MiB. Source: NVIDIA/nccl issue 1685 (2025).
	allToAllBytes = 3_280_000_000
)

// communicators is how many groups of GPUs the GPU of a job speaks in: one for every way in which they share it.
// Source: torch/distributed/device_mesh.py (_init_process_groups), 2.9.
func communicators(t *Training) int64 {
	m := t.Mesh()
	n := int64(0)
	for _, gpus := range [...]int64{m.Tensor, m.Context, m.Pipeline, m.Shard, m.Data * m.Context / m.Shard} {
		if gpus > 1 {
			n++
		}
	}
	if t.Distributed.ExpertParallel > 1 { // those that share experts, and those that have the same
		n += 2
	}
	return max(n, 1)
}

// ncclOf is what NCCL takes on a GPU of a job.
func ncclOf(t *Training) memory.Context {
	c := ncclMore
	if t.Distributed.WorldSize == 2 {
		c = ncclTwo
	}
	c.High += (communicators(t) - 1) * furtherCommunicatorBytes
	if d := t.Distributed; d.ExpertParallel > 1 ||
		t.Mesh().Context > 1 && rotations[strings.ToLower(d.ContextParallelKind)] {
		c.High += allToAllBytes
	}
	return c
}
