package planner

import (
	"cmp"
	"context"

	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
	"github.com/vramplan/vramplan/estimator/planner/steptime"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

const (
	// mostGPUs bounds FewestGPUs: a job of more is beyond what a plan for one card is asked for.
	mostGPUs = 64
	// moreTried bounds the pairs that are asked about for the next larger number of GPUs. Reducing gradients takes a
	// little memory, so that the best pair of fewer GPUs may just not fit, and the next one does.
	moreTried = 2
)

// dealing is what deals out parameters, gradients and optimizer state of the job: ZeRO-3 where DeepSpeed trains it,
// FSDP elsewhere.
func (s *search) dealing() string {
	if traits.OnZeRO(s.Costs.Base.Job.Training.Distributed) {
		return traits.ZeRO3
	}
	return "fsdp"
}

// moreGPUs are the options that take more of the plan's card: the next larger number of GPUs where a pair fits on as
// many as there are, which saves time, and the fewest that hold the job between them where none does.
func (s *search) moreGPUs(ctx context.Context, best, fewest *asking.Judged) ([]proposal, error) {
	if fewest != nil {
		return []proposal{{Judged: *fewest, title: fewest.With.Levers[0].Title}}, nil
	}
	if best == nil || !s.multiplies() {
		return nil, nil
	}
	gpus := s.nextGPUs()
	if gpus == 0 {
		return nil, nil
	}
	data := "ddp"
	if own := s.Costs.Base.Job.Training.Distributed; traits.SharesState(own) || traits.OnZeRO(own) {
		data = own.Data
	}
	v := lever.NewVariant(lever.Spread(s.Costs.Base, s.Tool, data, gpus))
	tried := 0
	if !s.Affords(moreTried, "more GPUs") {
		return nil, nil
	}
	for _, p := range (pairing.Batch{Target: s.Batch.Target, GPUs: gpus}).Pairs(s.Batch.Target) {
		if p.MicroBatch > best.Micro {
			continue
		}
		if tried++; tried > moreTried {
			break
		}
		j, err := s.JudgeShown(ctx, v, p)
		if err != nil || j.Result == nil {
			return nil, err
		}
		if j.Fits() && j.Time.Expected < best.Time.Expected {
			return []proposal{{Judged: j, title: v.Levers[0].Title}}, nil
		}
	}
	return nil, nil
}

// nextGPUs is the next larger number of GPUs that divides the effective batch, up to those of a host or twice as many
// as there are; 0 where there is none.
func (s *search) nextGPUs() int64 {
	for n := s.Batch.GPUs + 1; n <= max(steptime.HostGPUs, 2*s.Batch.GPUs); n++ {
		if s.Batch.Target%n == 0 {
			return n
		}
	}
	return 0
}

// fewestGPUs are the fewest of the plan's cards on which the job trains with parameters, gradients and optimizer
// state dealt out by FSDP or ZeRO-3, at the same effective batch; nil where a pair fits on as many as there are, and
// where the estimator does not play the job so.
func (s *search) fewestGPUs(ctx context.Context) (*asking.Judged, error) {
	if !s.multiplies() || s.rank.fastest(s.work(), 1) != nil {
		return nil, nil
	}
	first := max(2, s.Batch.GPUs)
	if traits.SharesState(s.Costs.Base.Job.Training.Distributed) {
		first = s.Batch.GPUs + 1
	}
	for gpus := first; gpus <= min(mostGPUs, s.Batch.Target); gpus++ {
		if s.Batch.Target%gpus != 0 || s.tooMuch(gpus) {
			continue
		}
		if !s.Affords(1, "the fewest GPUs") {
			return nil, nil
		}
		// A micro-batch of one first: where it does not fit, no other does.
		v := lever.NewVariant(lever.Spread(s.Costs.Base, s.Tool, s.dealing(), gpus))
		pairs := pairing.Batch{Target: s.Batch.Target, GPUs: gpus}.Pairs(s.Batch.Target)
		found, err := s.Judge(ctx, v, pairs[len(pairs)-1])
		if err != nil || found.Result == nil {
			return nil, err // refused on any number of GPUs
		}
		if !found.Fits() {
			continue
		}
		for _, p := range pairs[:len(pairs)-1] {
			if p.MicroBatch > s.largestAsked() {
				continue
			}
			if !s.Affords(1, "larger micro-batches on several GPUs") {
				break
			}
			larger, err := s.Judge(ctx, v, p)
			if err != nil {
				return nil, err
			}
			if larger.Fits() {
				return &larger, nil
			}
		}
		return &found, nil
	}
	return nil, nil
}

// tooMuch reports whether weights and optimizer state alone, dealt out to so many GPUs, are more than each has.
func (s *search) tooMuch(gpus int64) bool {
	var states int64
	own := s.Costs.Base.Job.Training.Distributed
	for _, c := range s.floor.Result.Components {
		if c.Name != "weights" && c.Name != "optimizer_state" {
			continue
		}
		copies := int64(1)
		// of weights ZeRO-3 has gathered ones beside its part
		if traits.SharesState(own) && !traits.OnZeRO(own) || traits.OnZeRO(own) && c.Name == "optimizer_state" {
			copies = s.Batch.GPUs
		}
		states += copies * c.Bytes
	}
	return float64(states)*statesSpread/float64(gpus) > float64(s.floor.Fit().UsableBytes)
}

// largestAsked is the largest micro-batch that is tried on several GPUs: today's, since a larger one is not what was
// asked for.
func (s *search) largestAsked() int64 {
	if s.rank.today != nil {
		return s.rank.today.Micro
	}
	return s.floor.Micro
}

// multiplies reports whether more of the plan's card is something that can be had, of a job that the planner knows how
// to spread.
func (s *search) multiplies() bool {
	d := s.Costs.Base.Job.Training.Distributed
	if s.GPU.UsableBytes <= 0 || s.GPU.Single || d != nil && max(d.TensorParallel, d.PipelineParallel,
		d.ContextParallel, d.ExpertParallel) > 1 {
		return false
	}
	return d == nil || max(1, d.WorldSize) == s.Batch.GPUs && traits.Dealt(cmp.Or(d.Data, "ddp")) != ""
}
