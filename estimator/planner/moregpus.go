package planner

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/steptime"
	"github.com/vramplan/vramplan/estimator/planner/traits"
)

// cardsGroup is the group of the levers that put a job on more of its card.
const cardsGroup = "cards"

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

// dealtWords name the ways to put a job on several GPUs in a title.
var dealtWords = map[string]string{"ddp": "data parallel", "fsdp": "dealt out by FSDP", "zero1": "ZeRO-1",
	"zero2": "ZeRO-2", traits.ZeRO3: "dealt out by ZeRO-3"}

// restage is a zero_optimization whose stage, where it names one, is that of data.
func restage(words json.RawMessage, data string) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(words, &all) != nil || all["stage"] == nil {
		return words
	}
	all["stage"] = json.RawMessage(strings.TrimPrefix(data, "zero"))
	restaged, err := json.Marshal(all)
	if err != nil {
		return words
	}
	return restaged
}

// multiplies reports whether more of the plan's card is something that can be had, of a job that the planner knows how
// to spread.
func (s *search) multiplies() bool {
	d := s.costs.base.Job.Training.Distributed
	if s.gpu.UsableBytes <= 0 || s.gpu.Single || d != nil && max(d.TensorParallel, d.PipelineParallel,
		d.ContextParallel, d.ExpertParallel) > 1 {
		return false
	}
	return d == nil || max(1, d.WorldSize) == s.batch.gpus && dealtWords[cmp.Or(d.Data, "ddp")] != ""
}

// spread puts the job on so many data-parallel GPUs: each with all of it (ddp), or with parameters, gradients and
// optimizer state dealt out (fsdp, zero3). A job that is dealt out stays so.
func (s *search) spread(data string, gpus int64) lever {
	d := estimator.Distributed{WorldSize: gpus, Data: data}
	own := s.costs.base.Job.Training.Distributed
	if own != nil && (data == "ddp" || traits.SharesState(own) || traits.OnZeRO(own)) {
		d = *own
		d.WorldSize, d.Data = gpus, data
		if traits.OnZeRO(own) {
			d.DeepSpeed = restage(own.DeepSpeed, data)
		}
	} else if data == "fsdp" {
		d.FSDPVersion = 2
	}
	word := cardsWord(s.tool, data, gpus)
	if traits.OnZeRO(&d) {
		word = zeroWord(s.tool, &d)
	}
	l := lever{
		code: fmt.Sprintf("%s-%d", data, gpus), group: cardsGroup, effort: settingEffort, gpus: gpus,
		title:    fmt.Sprintf("Train on %d GPUs (%s)", gpus, dealtWords[data]),
		apply:    func(in *estimator.Input) { in.Job.Training.Distributed = &d },
		changes:  map[string]any{"distributed": d},
		settings: []string{word.setting},
	}
	if word.code {
		l.effort = codeEffort
	}
	on := s.costs.base
	l.apply(&on)
	if own := on.Job.Training.GradientCheckpointing; thatRun(on) != own {
		l = notReentrant(l, *own)
		l.settings = append(l.settings, reentrantOff(s.tool))
	}
	return l
}

// moreGPUs are the options that take more of the plan's card: the next larger number of GPUs where a pair fits on as
// many as there are, which saves time, and the fewest that hold the job between them where none does.
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
	if own := s.costs.base.Job.Training.Distributed; traits.SharesState(own) || traits.OnZeRO(own) {
		data = own.Data
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

// nextGPUs is the next larger number of GPUs that divides the effective batch, up to those of a host or twice as many
// as there are; 0 where there is none.
func (s *search) nextGPUs() int64 {
	for n := s.batch.gpus + 1; n <= max(steptime.HostGPUs, 2*s.batch.gpus); n++ {
		if s.batch.target%n == 0 {
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
	first := max(2, s.batch.gpus)
	if traits.SharesState(s.costs.base.Job.Training.Distributed) {
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
		v := newVariant(s.spread(s.dealing(), gpus))
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
	own := s.costs.base.Job.Training.Distributed
	for _, c := range s.floor.result.Components {
		if c.Name != "weights" && c.Name != "optimizer_state" {
			continue
		}
		copies := int64(1)
		// of weights ZeRO-3 has gathered ones beside its part
		if traits.SharesState(own) && !traits.OnZeRO(own) || traits.OnZeRO(own) && c.Name == "optimizer_state" {
			copies = s.batch.gpus
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
