package planner

import (
	"context"
	"fmt"

	"github.com/vramplan/vramplan/estimator"
)

// cardsGroup is the group of the levers that put a job on more of its card.
const cardsGroup = "cards"

const (
	// mostGPUs bounds FewestGPUs: a job of more is beyond what a plan for one card is asked for.
	mostGPUs = 64
	// moreTried bounds the pairs that are asked about for the next larger number of GPUs. Reducing gradients takes a little
	// memory, so that the best pair of fewer GPUs may just not fit, and the next one does.
	moreTried = 2
)

// sharesState says whether the job deals out its parameters already.
func sharesState(d *estimator.Distributed) bool {
	return d != nil && d.Data == "fsdp" && d.WorldSize > 1
}

// multiplies reports whether more of the plan's card is something that can be had, of a job that the planner knows how to spread.
func (s *search) multiplies() bool {
	d := s.costs.base.Job.Training.Distributed
	if s.gpu.UsableBytes <= 0 || s.gpu.Single {
		return false
	}
	return d == nil || max(1, d.WorldSize) == s.batch.gpus && (d.Data == "" || d.Data == "ddp" || d.Data == "fsdp")
}

// spread puts the job on so many data-parallel GPUs: each with all of it (ddp), or with parameters, gradients and optimizer state dealt
// out (fsdp). A job that is dealt out stays so.
func (s *search) spread(data string, gpus int64) lever {
	d := estimator.Distributed{WorldSize: gpus, Data: data}
	own := s.costs.base.Job.Training.Distributed
	if own != nil && (data == "ddp" || sharesState(own)) {
		d = *own
		d.WorldSize, d.Data = gpus, data
	} else if data == "fsdp" {
		d.FSDPVersion = 2
	}
	word := cardsWord(s.tool, data, gpus)
	l := lever{
		code: fmt.Sprintf("%s-%d", data, gpus), group: cardsGroup, effort: settingEffort, gpus: gpus,
		title:    fmt.Sprintf("Train on %d GPUs (%s)", gpus, map[string]string{"ddp": "data parallel", "fsdp": "dealt out by FSDP"}[data]),
		apply:    func(in *estimator.Input) { in.Job.Training.Distributed = &d },
		changes:  map[string]any{"distributed": d},
		settings: []string{word.setting},
	}
	if word.code {
		l.effort = codeEffort
	}
	return l
}

// moreGPUs are the options that take more of the plan's card: the next larger number of GPUs where a pair fits on as many as
// there are, which saves time, and the fewest that hold the job between them where none does.
func (s *search) moreGPUs(ctx context.Context, best, fewest *judged) ([]proposal, error) {
	if fewest != nil {
		return []proposal{{judged: *fewest, title: fewest.with.levers[0].title}}, nil
	}
	if best == nil || !s.multiplies() {
		return nil, nil
	}
	gpus := s.nextGPUs()
	if gpus == 0 {
		return nil, nil
	}
	data := "ddp"
	if sharesState(s.costs.base.Job.Training.Distributed) {
		data = "fsdp"
	}
	v := newVariant(s.spread(data, gpus))
	tried := 0
	if !s.affords(moreTried, "more GPUs") {
		return nil, nil
	}
	for _, p := range (batch{target: s.batch.target, gpus: gpus}).pairs(s.batch.target) {
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
			return []proposal{{judged: j, title: v.levers[0].title}}, nil
		}
	}
	return nil, nil
}

// nextGPUs is the next larger number of GPUs that divides the effective batch, up to those of a host or twice as many as there are; 0 where
// there is none.
func (s *search) nextGPUs() int64 {
	for n := s.batch.gpus + 1; n <= max(hostGPUs, 2*s.batch.gpus); n++ {
		if s.batch.target%n == 0 {
			return n
		}
	}
	return 0
}

// fewestGPUs are the fewest of the plan's cards on which the job trains with parameters, gradients and optimizer
// state dealt out by FSDP, at the same effective batch; nil where a pair fits on as many as there are, and where the estimator does not
// play the job so.
func (s *search) fewestGPUs(ctx context.Context) (*judged, error) {
	if !s.multiplies() || s.fastest(s.work(), 1) != nil {
		return nil, nil
	}
	first := max(2, s.batch.gpus)
	if sharesState(s.costs.base.Job.Training.Distributed) {
		first = s.batch.gpus + 1
	}
	for gpus := first; gpus <= min(mostGPUs, s.batch.target); gpus++ {
		if s.batch.target%gpus != 0 || s.tooMuch(gpus) {
			continue
		}
		if !s.affords(1, "the fewest GPUs") {
			return nil, nil
		}
		// A micro-batch of one first: where it does not fit, no other does.
		v := newVariant(s.spread("fsdp", gpus))
		pairs := batch{target: s.batch.target, gpus: gpus}.pairs(s.batch.target)
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
	for _, c := range s.floor.result.Components {
		if c.Name == "weights" || c.Name == "optimizer_state" {
			states += c.Bytes
		}
	}
	if sharesState(s.costs.base.Job.Training.Distributed) {
		states *= s.batch.gpus
	}
	return float64(states)*statesSpread/float64(gpus) > float64(s.floor.fit().UsableBytes)
}

// largestAsked is the largest micro-batch that is tried on several GPUs: today's, since a larger one is not what was asked for.
func (s *search) largestAsked() int64 {
	if s.today != nil {
		return s.today.micro
	}
	return s.floor.micro
}
