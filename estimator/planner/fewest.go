package planner

import (
	"context"
	"fmt"

	"github.com/vramplan/vramplan/estimator"
)

// mostGPUs bounds FewestGPUs: a job of more is beyond what a plan for one card is asked for.
const mostGPUs = 64

// fewestGPUs are the fewest of the plan's cards on which the job trains with parameters, gradients and optimizer
// state dealt out by FSDP2, at the same effective batch; nil where a pair fits as it is, where the job deals them out already,
// and where the estimator does not play the job so.
func (s *search) fewestGPUs(ctx context.Context) (*FewestGPUs, error) {
	base := s.costs.base.Job.Training.Distributed
	if s.gpu.UsableBytes <= 0 || s.fastest(s.exact, 1) != nil || base != nil && base.Data != "" && base.Data != "ddp" {
		return nil, nil
	}
	for gpus := max(2, s.batch.gpus); gpus <= min(mostGPUs, s.batch.target); gpus++ {
		if s.batch.target%gpus != 0 {
			continue
		}
		// A micro-batch of one first: where it does not fit, no other does.
		pairs := batch{target: s.batch.target, gpus: gpus}.pairs(s.batch.target)
		found, err := s.sharded(ctx, gpus, pairs[len(pairs)-1])
		if err != nil {
			return nil, err
		}
		if found == nil {
			continue
		}
		for _, p := range pairs[:len(pairs)-1] {
			if p.MicroBatch > s.largestAsked() {
				continue
			}
			larger, err := s.sharded(ctx, gpus, p)
			if err != nil {
				return nil, err
			}
			if larger != nil {
				return larger, nil
			}
		}
		return found, nil
	}
	return nil, nil
}

// largestAsked is the largest micro-batch that is tried on several GPUs: today's, since a larger one is not what was asked for.
func (s *search) largestAsked() int64 {
	if s.today != nil {
		return s.today.micro
	}
	return s.floor.micro
}

// sharded is a pair on so many GPUs, nil where it does not fit or cannot be judged.
func (s *search) sharded(ctx context.Context, gpus int64, p Choice) (*FewestGPUs, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	in := candidate{micro: p.MicroBatch, accum: p.GradientAccumulation}.input(s.costs.base)
	in.Job.Training.Distributed = &estimator.Distributed{WorldSize: gpus, Data: "fsdp", FSDPVersion: 2}
	r, err := s.costs.estimate(in)
	switch {
	case err != nil && refusal(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("judging %d GPUs: %w", gpus, err)
	case len(r.GPUs) == 0 || r.GPUs[0].Verdict != estimator.Fits:
		return nil, nil
	}
	return &FewestGPUs{GPUs: gpus, Changes: map[string]any{
		"distributed": map[string]any{"world_size": gpus, "data": "fsdp", "fsdp_version": 2},
		"micro_batch": p.MicroBatch, "gradient_accumulation": p.GradientAccumulation,
	}, MicroBatch: p.MicroBatch, GradientAccumulation: p.GradientAccumulation, DeviceBytes: r.Peak.DeviceBytes, HighBytes: r.Peak.HighBytes}, nil
}
