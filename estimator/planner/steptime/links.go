package steptime

import (
	"math"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/traits"
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

// Several GPUs of a host that belong to the same ring share all its adapters: a ring over hosts sends each part once
// through each host, whose adapters carry it together. So a group with k members in each host reaches k times one
// adapter, up to the link within the host (NVIDIA/nccl-tests doc/PERFORMANCE.md: bus bandwidth is that of the slowest
// link).

const (
	// HostGPUs is how many GPUs a host has where nobody says; more reach each other through a network.
	HostGPUs = 8
	// network is 200 Gb/s for each GPU (a DGX A100's InfiniBand), where the card says nothing better.
	network = 25e9
)

// networkOf is what the network carries for each GPU, each way, in the hosts that NVIDIA sells with a card: 8 × 200
// Gb/s in a DGX A100, 8 × 400 in a DGX H100, H200 and B200, 8 × 800 in a DGX B300, 4 × 100 for eight in a DGX-1
// (NVIDIA's data sheets). Of cards in PCI Express slots nothing is known.
func networkOf(g estimator.GPU) float64 {
	if g.LinkBytesPerSecond < 100e9 {
		return network
	}
	switch c := g.ComputeCapability; {
	case c >= 103:
		return 100e9
	case c >= 90:
		return 50e9
	case c == 70:
		return 6.25e9
	}
	return network
}

// exchanged is the time of communication that computing does not hide, in seconds: in each micro-step of the whole
// depth, and once in an optimizer step.
type exchanged struct{ each, once float64 }

// exchange is what the GPUs of a job tell each other beside what computing of one micro-step hides.
func (w Workload) exchange(c Card, a Assumption, micro float64) exchanged {
	var x exchanged
	x.each = w.exchangedInLayers(c, a)
	d := w.Training.Distributed
	sharers := w.GPUs * w.over(w.Context)
	if d == nil || sharers < 2 {
		return x
	}
	group := sharers
	if d.Data == "fsdp" && d.ShardGroup > 0 {
		group = math.Min(float64(d.ShardGroup)*w.over(w.Context), sharers)
	}
	// Neighbours share layers, then sequences, then what FSDP deals out; copies are furthest apart. Those that share
	// experts are neighbours, too, and GPUs that share layers have other experts, each of them whole.
	apart := w.over(w.Tensor) * w.over(w.Context)
	stages, experts := w.over(w.Stages), w.over(w.Experts)
	share := 1 / (w.over(w.Tensor) * stages)
	// What is dealt out: everything over the group and, where GPUs share experts, those over the ones that have the
	// same.
	dealt := func(total, bytes float64) (rest, same float64) {
		if experts == 1 {
			return total * bytes, 0
		}
		same = w.expertParameters() * bytes / experts
		return total*bytes - same*experts, same
	}
	seconds := func(bytes, copies, members, apart float64) float64 {
		if members < 2 {
			return 0
		}
		return copies * bytes * (members - 1) / members / (w.reach(c, members, apart) * a.link)
	}
	apart /= w.over(w.Context)
	backward := 2.0 / 3 * micro
	switch d.Data {
	case "fsdp", traits.ZeRO3:
		gathers := 2.0
		if k := d.ReshardAfterForward; k != nil && !*k || w.Stages > 1 {
			gathers = 1
		}
		rest, same := dealt(w.Parameters, w.gatheredBytes())
		restSums, sameSums := dealt(w.Trainable, w.reducedBytes())
		alike := group * w.over(w.Tensor) / experts // GPUs that have the same experts
		t := seconds(rest*share, gathers, group, apart) + seconds(same/stages, gathers, alike, experts) +
			seconds(restSums*share, 1, group, apart) + seconds(sameSums/stages, 1, alike, experts) +
			seconds(w.Trainable*w.reducedBytes()*share/group, 2, sharers/group, apart*group)
		if w.Stages > 1 { // gathered once for all micro-batches, and summed after the last
			x.once += t
			return x
		}
		x.each += math.Max(0, t-a.overlap*micro)
	case "zero2":
		t := seconds(w.Trainable*w.gradientBytes()*share, 1, group, apart)
		x.each += math.Max(0, t-a.overlap*backward)
		x.once += seconds(w.Parameters*w.gradientBytes()*share, 1, group, apart)
	default:
		x.once += math.Max(0, seconds(w.Trainable*w.gradientBytes()*share, 2, group, apart)-a.overlap*backward)
	}
	return x
}

// exchangedInLayers is what GPUs that share layers, sequences or experts, and stages, tell each other in one
// micro-step. It waits for the computation before and holds up that behind.
//
//   - Tensor parallelism gathers tokens before attention and before the MLP and deals out sums behind each, t·h elements
//     a GPU and time, and the same in backward (Korthikanti et al. 2022, arXiv 2205.05198, section 4.2).
//   - Context parallelism sends keys and values around, and in backward their gradients too (Liu et al. 2023, arXiv
//     2310.01889).
//   - Expert parallelism sends every token to each of its experts and back (Lepikhin et al. 2020, arXiv 2006.16668);
//     what selective-op keeps is among it, and is not sent again (torchtitan/models/llama4/infra/parallelize.py
//     (_op_sac_save_list), 0.2.0).
//   - A stage sends what it computed to the next, and gradients back.
func (w Workload) exchangedInLayers(c Card, a Assumption) float64 {
	s, elements := w.Shape, 4.0
	if w.Half() {
		elements = 2
	}
	passes := 2.0
	if traits.CheckpointingMode(w.Training) == "full" {
		passes = 3
	}
	tensor, context, experts, stages := w.over(w.Tensor), w.over(w.Context), w.over(w.Experts), w.over(w.Stages)
	layers, m := float64(s.Layers), w.Micro*w.Sequence/context
	states := m * float64(s.Hidden) * elements
	var t float64
	if tensor > 1 {
		t += (layers*passes*4 + 4) * states * (tensor - 1) / tensor / (w.reach(c, tensor, 1) * a.link)
	}
	if context > 1 {
		keys := 2 * m * float64(s.KVHeads*s.HeadDim) / tensor * elements
		t += layers * (passes + 1) * keys * (context - 1) / (w.reach(c, context, tensor) * a.link)
	}
	if experts > 1 && s.ExpertsPerToken > 0 {
		sent := states / tensor * float64(s.ExpertsPerToken)
		t += layers * passes * 2 * w.scatter(c, sent, experts) / a.link
	}
	if stages > 1 {
		apart := w.GPUs * context * tensor
		t += stages * 2 * states / tensor / (w.reach(c, 2, apart) * a.link)
	}
	return t
}

// scatter is how long an all-to-all of so many bytes from each of neighbours takes at the links' full rates: what is
// for other hosts goes through the GPU's own adapter, and what is for its host beside it through the link there.
// DeepSeek's own kernels, which send a token once to a host, reach 43 to 58 GB/s of 50 between hosts and 153 to 158 of
// 160 within (github.com/deepseek-ai/DeepEP, README.md, on H800).
func (w Workload) scatter(c Card, bytes, members float64) float64 {
	near := math.Min(members, w.host())
	return math.Max(bytes*(near-1)/members/c.Link, bytes*(members-near)/members/w.wire(c))
}

// host is how many GPUs a host has.
func (w Workload) host() float64 {
	if w.PerHost > 0 {
		return w.PerHost
	}
	return HostGPUs
}

// wire is what the network carries for each GPU, each way.
func (w Workload) wire(c Card) float64 {
	if w.Network > 0 {
		return w.Network
	}
	return c.Network
}

// reach is what a ring of so many members carries each way, neighbours in which are so many GPUs apart.
func (w Workload) reach(c Card, members, apart float64) float64 {
	if members*apart <= w.host() {
		return c.Link
	}
	return math.Min(c.Link, math.Max(1, math.Floor(w.host()/apart))*w.wire(c))
}

// over is into how many parts something is divided: 1 where nobody says.
func (w Workload) over(parts float64) float64 { return math.Max(1, parts) }

// gatheredBytes is what FSDP sends of a parameter: in half precision where it is stored or converted so.
func (w Workload) gatheredBytes() float64 {
	if w.Amp() && !gathersHalf[w.Training.Framework] || !w.Half() {
		return 4
	}
	return 2
}

// reducedBytes is what FSDP sends of a gradient: in the type that is gathered, where the job says no other.
func (w Workload) reducedBytes() float64 {
	if s := w.Training.States; s != nil && s.Gradients == "fp32" {
		return 4
	}
	return w.gatheredBytes()
}

// gathersHalf are the frameworks that give FSDP the half type of autocast. Source: accelerate/utils/dataclasses.py
// 1.15, FullyShardedDataParallelPlugin.set_mixed_precision.
var gathersHalf = map[string]bool{"": true, "hf-trainer": true, "trl": true, "accelerate": true, "axolotl": true,
	"llama-factory": true, "llm-foundry": true}

// gradientBytes is what a gradient takes: the type of the weights.
func (w Workload) gradientBytes() float64 {
	switch w.Training.Precision {
	case estimator.PrecisionBF16, estimator.PrecisionFP16:
		return 2
	}
	return 4
}
