package planner

import (
	"math"

	"github.com/vramplan/vramplan/estimator"
)

// What GPUs tell each other takes the bytes that each sends, over what its link carries:
//
//   - DistributedDataParallel sums gradients once a step, with no_sync in the micro-steps before: a ring sends each twice, less
//     a share (Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms"). Buckets travel while backward
//     computes the rest (Li et al. 2020, arXiv 2006.15704).
//   - FSDP2 gathers the parameters for forward and, where it lets go of them, again for backward, and deals out summed gradients, in
//     every micro-step. The next layer is gathered while one computes (Zhao et al. 2023, arXiv 2304.11277).
//
// NCCL reaches about 200 of the 300 GB/s of an A100's NVLink (NVIDIA/nccl-tests #149) and 28 to 35 of the 63 GB/s of an
// RTX 5090's PCI Express (NVIDIA/nccl #1639), less where cards reach each other through two processors only.

const (
	// hostGPUs is how many GPUs a host has at most; more reach each other through a network.
	hostGPUs = 8
	// network is 200 Gb/s for each GPU (a DGX A100's InfiniBand; a DGX H100 has twice as much).
	network = 25e9
)

// exchange is the time of communication that computing does not hide, in each micro-step and once a step, in seconds.
func (w workload) exchange(c card, a assumption, micro float64) (each, once float64) {
	d := w.training.Distributed
	if d == nil || w.gpus < 2 {
		return 0, 0
	}
	link := c.link
	if w.gpus > hostGPUs {
		link = math.Min(link, network)
	}
	seconds := func(bytes, copies float64) float64 { return copies * bytes * (w.gpus - 1) / w.gpus / (link * a.link) }
	switch d.Data {
	case "fsdp", "zero3":
		gathers := 2.0
		if k := d.ReshardAfterForward; k != nil && !*k {
			gathers = 1
		}
		t := seconds(w.parameters*w.gatheredBytes(), gathers) + seconds(w.trainable*w.gatheredBytes(), 1)
		return math.Max(0, t-a.overlap*micro), 0
	}
	backward := 2.0 / 3 * micro
	return 0, math.Max(0, seconds(w.trainable*w.gradientBytes(), 2)-a.overlap*backward)
}

// gatheredBytes is what FSDP sends of a parameter: in half precision where it is stored or converted so.
func (w workload) gatheredBytes() float64 {
	if w.amp() && !gathersHalf[w.training.Framework] || !w.half() {
		return 4
	}
	return 2
}

// gathersHalf are the frameworks that give FSDP the half type of autocast. Source: accelerate/utils/dataclasses.py
// 1.15, FullyShardedDataParallelPlugin.set_mixed_precision.
var gathersHalf = map[string]bool{"": true, "hf-trainer": true, "trl": true, "accelerate": true, "axolotl": true,
	"llama-factory": true, "llm-foundry": true}

// gradientBytes is what a gradient takes: the type of the weights.
func (w workload) gradientBytes() float64 {
	switch w.training.Precision {
	case estimator.PrecisionBF16, estimator.PrecisionFP16:
		return 2
	}
	return 4
}
