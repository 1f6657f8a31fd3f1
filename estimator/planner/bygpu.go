package planner

import (
	"context"
	"fmt"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// byGPU plans the same batch for every card of a job that names several.
//
// Asking about every pair on every card would take thousands of estimates. The bytes of a pair differ little between
// cards (contexts, workspaces, scratch of sums), so those on the plan's own card say about which pair is the largest;
// that one and its neighbours are asked about, until one fits and the next larger does not. Smaller pairs than one that
// fits are taken to fit too, and the pair that is recommended is asked about in any case.
func (s *search) byGPU(ctx context.Context) ([]document.GPUPlan, error) {
	if len(s.Rest) == 0 || !s.Affords(asking.SpareQuestions, "the other GPUs of the job") {
		return nil, nil
	}
	cards := append([]estimator.GPU{s.GPU}, s.Rest...)
	out := make([]document.GPUPlan, len(cards))
	asked := s.newJudgements(cards)
	today := s.floor
	if s.rank.today != nil {
		today = *s.rank.today
	}
	if err := asked.judge(ctx, map[pairing.Choice][]int{today.Choice(): allOf(cards)}); err != nil {
		return nil, err
	}
	asked.fitsOnly = true // no other verdict is shown
	largest, err := s.largestByGPU(ctx, cards, asked)
	if err != nil {
		return nil, err
	}
	// The fastest of the pairs up to the largest, by the time model of each card.
	best := make([]int, len(cards))
	wanted := map[pairing.Choice][]int{}
	for i := range cards {
		out[i] = document.GPUPlan{GPU: cards[i].ID, UsableBytes: asked.of(i, today.Choice()).UsableBytes,
			Verdict: asked.of(i, today.Choice()).Verdict}
		best[i] = -1
		if largest[i] < len(s.exact) {
			best[i] = s.fastestOn(cards[i], largest[i])
			c := s.exact[best[i]].Choice()
			wanted[c] = append(wanted[c], i)
		}
	}
	if err := asked.judge(ctx, wanted); err != nil {
		return nil, err
	}
	for i := range cards {
		if best[i] < 0 {
			continue
		}
		if asked.of(i, s.exact[best[i]].Choice()).Verdict != estimator.Fits {
			best[i] = largest[i] // a smaller pair that does not fit although a larger one does
		}
		c := s.exact[best[i]].Choice()
		out[i].Recommended, out[i].DeviceBytes = &c, asked.bytes[judgement{i, c}]
		out[i].RelativeStepTime = s.timeOn(cards[i], s.exact[best[i]])
	}
	return out, nil
}

// largestByGPU is, for each card, the index of the largest pair that fits; past the end where none does.
func (s *search) largestByGPU(ctx context.Context, cards []estimator.GPU, asked *judgements) ([]int, error) {
	pairs := len(s.exact)
	at := make([]int, len(cards))
	fits := make([]bool, len(cards)) // whether something at or below at is known to fit
	var open []int
	for i := range cards {
		at[i] = pairs
		if cards[i].UsableBytes <= 0 || pairs == 0 {
			continue
		}
		usable := cards[i].UsableBytes - s.Costs.Base.Job.Aside(&cards[i])
		at[i] = slices.IndexFunc(s.exact, func(j asking.Judged) bool { return j.HighBytes() <= usable })
		if at[i] < 0 {
			at[i] = pairs - 1
		}
		open = append(open, i)
	}
	for len(open) > 0 {
		wanted := map[pairing.Choice][]int{}
		for _, i := range open {
			c := s.exact[at[i]].Choice()
			wanted[c] = append(wanted[c], i)
		}
		if err := asked.judge(ctx, wanted); err != nil {
			return nil, err
		}
		var next []int
		for _, i := range open {
			good := asked.of(i, s.exact[at[i]].Choice()).Verdict == estimator.Fits
			switch {
			case good && !fits[i] && at[i] > 0: // perhaps a larger one, too
				larger := asked.known(i, s.exact[at[i]-1].Choice())
				if fits[i] = true; larger {
					continue
				}
				at[i]--
			case good:
				continue
			case fits[i]: // the one below is known to fit
				at[i]++
				continue
			case at[i] == pairs-1:
				at[i] = pairs
				continue
			default:
				at[i]++
			}
			next = append(next, i)
		}
		open = next
	}
	return at, nil
}

// fastestOn is the index of the fastest pair on a card from the largest that fits on.
func (s *search) fastestOn(g estimator.GPU, largest int) int {
	best := largest
	reference := s.PerTokenOn(g, s.exact[largest])[0]
	lowest := 1.0
	for k := largest + 1; k < len(s.exact); k++ {
		if t := asking.Round3(s.PerTokenOn(g, s.exact[k])[0] / reference); t < lowest {
			best, lowest = k, t
		}
	}
	return best
}

// timeOn is the expected time of a pair on a card, relative to the reference on the plan's own.
func (s *search) timeOn(g estimator.GPU, j asking.Judged) float64 {
	return threeDigits(s.PerTokenOn(g, j)[0] / s.RefTime[0])
}

// judgement is a card, by its place, and a pair.
type judgement struct {
	card int
	pair pairing.Choice
}

// judgements are what several cards make of the pairs of the job as it stands.
type judgements struct {
	search *search
	cards  []estimator.GPU
	// fitsOnly says that verdicts other than "fits" do not matter any more.
	fitsOnly bool
	fits     map[judgement]estimator.GPUFit
	bytes    map[judgement]int64
}

func (s *search) newJudgements(cards []estimator.GPU) *judgements {
	return &judgements{search: s, cards: cards, fits: map[judgement]estimator.GPUFit{}, bytes: map[judgement]int64{}}
}

func (a *judgements) of(card int, pair pairing.Choice) estimator.GPUFit {
	return a.fits[judgement{card, pair}]
}

func (a *judgements) known(card int, pair pairing.Choice) bool {
	_, ok := a.fits[judgement{card, pair}]
	return ok
}

// judge asks about pairs, each on some of the cards. A pair that is refused fits nowhere.
func (a *judgements) judge(ctx context.Context, wanted map[pairing.Choice][]int) error {
	type question struct {
		pair  pairing.Choice
		cards []int
	}
	var questions []question
	for pair, cards := range wanted {
		cards = slices.DeleteFunc(slices.Clone(cards), func(i int) bool { return a.known(i, pair) })
		for chunk := range slices.Chunk(cards, cardsAtOnce) {
			questions = append(questions, question{pair, chunk})
		}
	}
	results := make([]*estimator.Result, len(questions))
	err := asking.Parallel(ctx, len(questions), func(_ context.Context, k int) error {
		q := questions[k]
		in := asking.Candidate{Micro: q.pair.MicroBatch, Accum: q.pair.GradientAccumulation}.Input(a.search.Costs.Base)
		in.GPUs, in.FitsOnly = make([]estimator.GPU, len(q.cards)), a.fitsOnly
		for n, i := range q.cards {
			in.GPUs[n] = a.cards[i]
		}
		r, err := a.search.Costs.Ask(in)
		if err != nil && !asking.Refusal(err) {
			return fmt.Errorf("judging the job's GPUs: %w", err)
		}
		results[k] = r
		return nil
	})
	if err != nil {
		return err
	}
	for k, q := range questions {
		for n, i := range q.cards {
			fit := estimator.GPUFit{GPU: a.cards[i].ID, Verdict: estimator.Unknown}
			if results[k] != nil {
				fit = results[k].GPUs[n]
				a.bytes[judgement{i, q.pair}] = fit.UsableBytes - fit.HeadroomBytes
			}
			a.fits[judgement{i, q.pair}] = fit
		}
	}
	return nil
}

// cardsAtOnce is how many cards one estimate judges: few enough to share the work among processors, many enough
// that cards of the same hardware share a replay.
const cardsAtOnce = 48

func allOf(cards []estimator.GPU) []int {
	all := make([]int, len(cards))
	for i := range all {
		all[i] = i
	}
	return all
}
