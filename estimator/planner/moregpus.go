package planner

import (
	"cmp"
	"context"

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
	if traits.OnZeRO(s.costs.base.Job.Training.Distributed) {
		return traits.ZeRO3
	}
	return "fsdp"
}

// moreGPUs are the options that take more of the plan's card: the next larger number of GPUs where a pair fits on as
// many as there are, which saves time, and the fewest that hold the job between them where none does.
func (s *search) moreGPUs(ctx context.Context, best, fewest *judged) ([]proposal, error) {
	if fewest != nil {
		return []proposal{{judged: *fewest, title: fewest.with.Levers[0].Title}}, nil
	}
	if best == nil || !s.multiplies() {
		return nil, nil
	}
	gpus := s.nextGPUs()
	if gpus == 0 {
		return nil, nil
	}
	data := "ddp"
	if own := s.costs.base.Job.Training.Distributed; traits.SharesState(own) || traits.OnZeRO(own) {
		data = own.Data
	}
	v := lever.NewVariant(lever.Spread(s.costs.base, s.tool, data, gpus))
	tried := 0
	if !s.affords(moreTried, "more GPUs") {
		return nil, nil
	}
	for _, p := range (pairing.Batch{Target: s.batch.Target, GPUs: gpus}).Pairs(s.batch.Target) {
		if p.MicroBatch > best.micro {
			continue
		}
		if tried++; tried > moreTried {
			break
		}
		j, err := s.judgeShown(ctx, v, p)
		if err != nil || j.result == nil {
			return nil, err
		}
		if j.fits() && j.time.Expected < best.time.Expected {
			return []proposal{{judged: j, title: v.Levers[0].Title}}, nil
		}
	}
	return nil, nil
}

// nextGPUs is the next larger number of GPUs that divides the effective batch, up to those of a host or twice as many
// as there are; 0 where there is none.
func (s *search) nextGPUs() int64 {
	for n := s.batch.GPUs + 1; n <= max(steptime.HostGPUs, 2*s.batch.GPUs); n++ {
		if s.batch.Target%n == 0 {
			return n
		}
	}
	return 0
}

// fewestGPUs are the fewest of the plan's cards on which the job trains with parameters, gradients and optimizer
// state dealt out by FSDP or ZeRO-3, at the same effective batch; nil where a pair fits on as many as there are, and
// where the estimator does not play the job so.
func (s *search) fewestGPUs(ctx context.Context) (*judged, error) {
	if !s.multiplies() || s.rank.fastest(s.work(), 1) != nil {
		return nil, nil
	}
	first := max(2, s.batch.GPUs)
	if traits.SharesState(s.costs.base.Job.Training.Distributed) {
		first = s.batch.GPUs + 1
	}
	for gpus := first; gpus <= min(mostGPUs, s.batch.Target); gpus++ {
		if s.batch.Target%gpus != 0 || s.tooMuch(gpus) {
			continue
		}
		if !s.affords(1, "the fewest GPUs") {
			return nil, nil
		}
		// A micro-batch of one first: where it does not fit, no other does.
		v := lever.NewVariant(lever.Spread(s.costs.base, s.tool, s.dealing(), gpus))
		pairs := pairing.Batch{Target: s.batch.Target, GPUs: gpus}.Pairs(s.batch.Target)
		found, err := s.judge(ctx, v, pairs[len(pairs)-1])
		if err != nil || found.result == nil {
			return nil, err // refused on any number of GPUs
		}
		if !found.fits() {
			continue
		}
		for _, p := range pairs[:len(pairs)-1] {
			if p.MicroBatch > s.largestAsked() {
				continue
			}
			if !s.affords(1, "larger micro-batches on several GPUs") {
				break
			}
			larger, err := s.judge(ctx, v, p)
			if err != nil {
				return nil, err
			}
			if larger.fits() {
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
	own := s.costs.base.Job.Training.Distributed
	for _, c := range s.floor.result.Components {
		if c.Name != "weights" && c.Name != "optimizer_state" {
			continue
		}
		copies := int64(1)
		// of weights ZeRO-3 has gathered ones beside its part
		if traits.SharesState(own) && !traits.OnZeRO(own) || traits.OnZeRO(own) && c.Name == "optimizer_state" {
			copies = s.batch.GPUs
		}
		states += copies * c.Bytes
	}
	return float64(states)*statesSpread/float64(gpus) > float64(s.floor.fit().UsableBytes)
}

// largestAsked is the largest micro-batch that is tried on several GPUs: today's, since a larger one is not what was
// asked for.
func (s *search) largestAsked() int64 {
	if s.rank.today != nil {
		return s.rank.today.micro
	}
	return s.floor.micro
}

// multiplies reports whether more of the plan's card is something that can be had, of a job that the planner knows how
// to spread.
func (s *search) multiplies() bool {
	d := s.costs.base.Job.Training.Distributed
	if s.gpu.UsableBytes <= 0 || s.gpu.Single || d != nil && max(d.TensorParallel, d.PipelineParallel,
		d.ContextParallel, d.ExpertParallel) > 1 {
		return false
	}
	return d == nil || max(1, d.WorldSize) == s.batch.GPUs && traits.Dealt(cmp.Or(d.Data, "ddp")) != ""
}
