package planner

import (
	"math"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/planner/layouts"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
	"github.com/vramplan/vramplan/estimator/planner/steptime"
)

// readCluster checks a cluster and fills in what nobody said.
func readCluster(r *Request) error {
	c := r.Cluster
	if c == nil {
		return nil
	}
	var v invalid.List
	if c.GPUs < 1 || c.GPUs > layouts.MostGPUs {
		v.Add("/cluster/gpus", "out_of_range", "%d GPUs were given; a plan is made for 1 to %d", c.GPUs,
			layouts.MostGPUs)
		return v.Err()
	}
	own := *c
	if own.PerNode == 0 {
		own.PerNode = min(steptime.HostGPUs, own.GPUs)
	}
	if own.PerNode < 1 || own.GPUs%own.PerNode != 0 {
		v.Add("/cluster/gpus_per_node", "not_divisible", "%d GPUs are no multiple of %d in each host", own.GPUs,
			own.PerNode)
	}
	if n := own.NetworkBytesPerSecond; n < 0 || math.IsNaN(n) || math.IsInf(n, 0) {
		v.Add("/cluster/network_bytes_per_second", "out_of_range",
			"%g was given; bytes a second for each GPU, each way", n)
	}
	switch {
	case len(r.Input.GPUs) == 0:
		v.Add("/gpus", "required", "layouts are for one kind of card: name it in gpus (--gpu)")
	case r.Input.GPUs[0].Single && own.GPUs > 1:
		v.Add("/cluster/gpus", "unsupported", "no host has several of %s that work together", r.Input.GPUs[0].ID)
	case r.Input.GPUs[0].UsableBytes <= 0:
		v.Add("/gpus", "unsupported", "the memory of %s is not known", r.Input.GPUs[0].ID)
	}
	t := &r.Input.Job.Training
	if r.EffectiveBatch == 0 && t.Distributed == nil {
		// A sequence, or what the job runs on one GPU today, on each.
		each := float64(max(t.MicroBatch, 1)) * float64(max(t.GradientAccumulation, 1))
		if each*float64(own.GPUs) > pairing.MaxEffectiveBatch {
			v.Add("/training/gradient_accumulation", "out_of_range",
				"%.0f sequences on each of %d GPUs are more than an "+
					"effective batch of %d", each, own.GPUs, pairing.MaxEffectiveBatch)
		} else {
			r.EffectiveBatch = int64(each) * own.GPUs
		}
	}
	r.Cluster = &own
	return v.Err()
}
