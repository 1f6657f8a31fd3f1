package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/catalog"
	"github.com/vramplan/vramplan/service/submission"
)

// Catalog is what is asked of a catalog of cards.
type Catalog interface {
	submission.Names
	GPU(name string) (*catalog.GPU, error)
	EstimatorGPUs() ([]estimator.GPU, error)
	EstimatorSlices() ([]estimator.GPU, error)
}

// Options say how figures are made. All but Each, Site and Among are needed.
type Options struct {
	Catalog Catalog
	// Site says which cards are behind a cluster's own names.
	Site submission.Site
	// Among are the cards that a job may be moved to, and slices. Empty are those of Site, where it has some, else
	// the catalog's; and the slices of a job's own card.
	Among []string
	// Margin is the share of a measured peak that a smaller card has to have beyond it.
	Margin float64
	// LeastUsers is how many users a row of the report has at least.
	LeastUsers int
	// By is the column of sacct that groups: Account, Group, …
	By string
	// JobLabel is the label of a series that has the job's number.
	JobLabel string
	// Prices are what an hour of a card costs, by the names of cards, in one unit; those of Site stand behind them.
	Prices map[string]float64
	// Each is called with every job that would have run on a smaller card, and with those that failed and were
	// named, or failed with their card full.
	Each func(*Found) error
}

// needed is what a smaller card has to have for a peak.
func (o *Options) needed(peak int64) int64 { return int64(float64(peak) * (1 + o.Margin)) }

// full is the share of a card from which on it counts as full: nothing larger than a twentieth was left for a
// request.
const full = 0.95

// Found is a job that the report counts among those that something may be done about. It names no user.
type Found struct {
	Job       string  `json:"job"`
	Card      string  `json:"card"`
	GPUs      int64   `json:"gpus"`
	State     string  `json:"state,omitempty"`
	Hours     float64 `json:"hours"`
	PeakBytes int64   `json:"peak_bytes,omitempty"`
	// Smaller is the smallest card with room for it, or with prices the one that costs least.
	Smaller string `json:"smaller,omitempty"`
	// Saves is what the job would have cost less there, had it taken as long.
	Saves float64 `json:"saves,omitempty"`
	// Full says that its card was full.
	Full bool `json:"full,omitempty"`
	// Verdict is what was said of it before it ran.
	Verdict string `json:"verdict,omitempty"`
}

// job is a run as it is known once all of it was read.
type job struct {
	id, user, group, state, partition, comment string
	types                                      []string
	gpus                                       int64
	hours                                      float64
	submitted                                  time.Time
	steps                                      steps
}

// whole says that a job ran as long as it was to, so that its peak is that of its steps.
func (j *job) whole() bool { return j.state == "COMPLETED" || j.state == "TIMEOUT" || j.state == "" }

// Counts are the jobs and series that rows do not have.
type Counts struct {
	WithoutGPUs int64 `json:"without_gpus"`
	NotEnded    int64 `json:"not_ended"`
	// WithoutJob are series that name no job; Unjoined are jobs with a peak and without a line of accounting.
	WithoutJob int64 `json:"series_without_job"`
	Unjoined   int64 `json:"measured_without_accounting"`
	// Ambiguous are jobs that several decisions with different verdicts may be about.
	Ambiguous int64 `json:"ambiguous_decisions"`
}

// Said is what became of jobs of which one verdict had been given.
type Said struct {
	Verdict   string `json:"verdict"`
	Decisions int64  `json:"decisions"`
	// Denied are those that were not let in.
	Denied int64 `json:"denied"`
	// Joined jobs were found in the accounting, and ended so.
	Joined      int64 `json:"joined"`
	Completed   int64 `json:"completed"`
	Failed      int64 `json:"failed"`
	OutOfMemory int64 `json:"out_of_host_memory"`
	// BelowLow are those of Completed whose peak was below the lower bound of what was predicted.
	BelowLow int64 `json:"completed_below_low"`
}

// Fleet is the figures while files are read.
type Fleet struct {
	o         Options
	cards     *cards
	counts    Counts
	held      map[string]*held
	joined    map[string]bool // those of held that accounting has
	decided   map[string][]decided
	decisions int
	verdicts  map[string]*Said
	observed  map[string]*Observed
	rows      map[rowKey]*row
	total     Figures
	sources   []*Source
	failure   error
}

// New makes figures of nothing.
func New(o Options) (*Fleet, error) {
	c, err := newCards(&o)
	if err != nil {
		return nil, err
	}
	f := &Fleet{o: o, cards: c, held: map[string]*held{}, joined: map[string]bool{}, decided: map[string][]decided{},
		verdicts: map[string]*Said{}, observed: map[string]*Observed{}, rows: map[rowKey]*row{}}
	c.o = &f.o
	return f, nil
}

// Read goes through files. Whatever their order, jobs are read last, when all that is known of them is there.
func (f *Fleet) Read(sources ...*Source) error {
	order := slices.Clone(sources)
	slices.SortStableFunc(order, func(a, b *Source) int { return cmp.Compare(rank(a.Kind), rank(b.Kind)) })
	for _, s := range order {
		read := map[Kind]func(*Source) error{Accounting: f.readAccounting, Exposition: f.readExposition,
			Query: f.readQuery, Decisions: f.readDecisions, Observations: f.readObservations}[s.Kind]
		if s.Kind == Accounting {
			for _, list := range f.decided {
				slices.SortFunc(list, func(a, b decided) int { return a.at.Compare(b.at) })
			}
		}
		if err := read(s); err != nil {
			return err
		}
	}
	f.sources = append(f.sources, sources...)
	if !slices.ContainsFunc(f.sources, func(s *Source) bool { return s.Kind == Accounting }) {
		f.addHeld()
	}
	return f.failure
}

func rank(k Kind) int {
	if k == Accounting {
		return 1
	}
	return 0
}

// addHeld makes jobs of what was measured, where no accounting says more of them.
func (f *Fleet) addHeld() {
	for _, id := range slices.Sorted(maps.Keys(f.held)) {
		h := f.held[id]
		f.add(&job{id: id, group: h.group, gpus: int64(len(h.gpus)), hours: (h.last - h.first) / 3600})
	}
}

// said is what was said with one verdict.
func (f *Fleet) said(verdict string) *Said {
	if !known(verdict) {
		verdict = "unknown"
	}
	s := f.verdicts[verdict]
	if s == nil {
		s = &Said{Verdict: verdict}
		f.verdicts[verdict] = s
	}
	return s
}

// add books a job.
func (f *Fleet) add(j *job) {
	if f.failure != nil {
		return
	}
	card := f.cards.given(j.types, j.partition)
	peak, told := j.steps.peak, !j.steps.untold
	if h := f.held[j.id]; h != nil {
		f.joined[j.id] = true
		peak, told = max(peak, h.peak), true
		if h.kinds > 1 {
			card = estimator.GPU{ID: untoldCard}
		} else if h.card != "" {
			card = f.cards.named(h.card)
		}
	}
	one := Figures{Jobs: 1, GPUHours: j.hours * float64(j.gpus)}
	if price := f.cards.prices[card.ID]; price > 0 {
		one.PricedGPUHours, one.Cost = one.GPUHours, price*one.GPUHours
	}
	found := Found{Job: j.id, Card: card.ID, GPUs: j.gpus, State: j.state, Hours: rounded(j.hours)}
	switch {
	case !told:
		one.Untold = 1
	case peak > 0:
		one.Measured = 1
		found.PeakBytes = peak
		f.fill(&one, j, &card, &found)
	case j.steps.seen || f.held[j.id] != nil:
		one.Unseen = 1
	}
	if j.state != "" {
		f.judge(&one, j, &found)
	}
	f.book(rowKey{j.group, card.ID}, j.user, &one)
	if f.o.Each != nil && (found.Smaller != "" || one.Named > 0 || one.FailedFull > 0) {
		f.failure = f.o.Each(&found)
	}
}

// fill says how much of its cards a job held.
func (f *Fleet) fill(one *Figures, j *job, card *estimator.GPU, found *Found) {
	if card.UsableBytes <= 0 {
		return
	}
	one.MeasuredCost = one.Cost
	one.UnusedCost = one.Cost * float64(max(card.UsableBytes-found.PeakBytes, 0)) / float64(card.UsableBytes)
	one.AskedGiBHours = gib(card.UsableBytes) * one.GPUHours
	one.UnusedGiBHours = gib(max(card.UsableBytes-found.PeakBytes, 0)) * one.GPUHours
	found.Full = float64(found.PeakBytes) >= full*float64(card.UsableBytes)
	if !j.whole() {
		return
	}
	one.Whole = 1
	if found.Smaller = f.cards.smallest(card, j.gpus, f.o.needed(found.PeakBytes)); found.Smaller != "" {
		one.Smaller, one.SmallerGPUHours = 1, one.GPUHours
		one.On = map[string]int64{found.Smaller: 1}
		own, other := f.cards.prices[card.ID], f.cards.prices[found.Smaller]
		if own > 0 && other > 0 {
			one.SmallerPriced, one.SmallerSaves = 1, (own-other)*one.GPUHours
			found.Saves = rounded(one.SmallerSaves)
		}
	}
}

// judge says how a job ended, beside what was said of it.
func (f *Fleet) judge(one *Figures, j *job, found *Found) {
	verdict, low := f.verdictOf(j)
	found.Verdict = verdict
	does := verdict == string(estimator.DoesNotFit)
	switch j.state {
	case "FAILED":
		one.Failed = 1
		if found.Full {
			one.FailedFull = 1
		}
		if verdict != "" && verdict != "none" {
			one.FailedJudged = 1
		}
		if does {
			one.Named = 1
		}
	case "OUT_OF_MEMORY":
		one.OutOfMemory = 1
	}
	if verdict == "" {
		return
	}
	s := f.said(verdict)
	s.Joined++
	switch j.state {
	case "COMPLETED":
		s.Completed++
		if found.PeakBytes > 0 && found.PeakBytes < low {
			s.BelowLow++
		}
	case "FAILED":
		s.Failed++
	case "OUT_OF_MEMORY":
		s.OutOfMemory++
	}
}

func gib(bytes int64) float64 { return float64(bytes) / (1 << 30) }

// notes are what has to be known to read the figures.
func (f *Fleet) notes() []string {
	kinds := map[Kind]bool{}
	for _, s := range f.sources {
		kinds[s.Kind] = true
	}
	var notes []string
	if f.total.Measured > 0 {
		notes = append(notes, fmt.Sprintf("A smaller card has at most three quarters of the memory, and room for the measured peak "+
			"and %.0f %% more. It is the smallest of the same vendor and line and, up to Ampere, of no older generation; or a MIG "+
			"slice of its own card, where the job has one GPU. It is said of jobs that completed or ran to their time limit.", 100*f.o.Margin),
			"A peak is the highest of samples, every 30 s or so: what lies between them is not seen. Of several GPUs it is that "+
				"of the fullest, so at least so much was not used.")
	}
	if f.total.PricedGPUHours > 0 {
		notes = append(notes, "Costs are GPU-hours at the prices that were given, in their unit. Not used is the share of the "+
			"card's memory that was never held. Of the cards with room that of the lowest price is taken, and a job to run as "+
			"long there, which it does not on a slower one: plan with --price ranks a job's cards with their time.")
	}
	if kinds[Accounting] {
		notes = append(notes, "That a job ran out of its card's memory stands in no accounting: it is FAILED like any other; "+
			"OUT_OF_MEMORY is the host's memory. Among the failed, those whose card was full (95 %), and those of which it had "+
			"been said that they do not fit, are the ones to look at.")
	}
	if f.total.Jobs > 0 && !kinds[Accounting] {
		notes = append(notes, "No file says how the jobs ended: each is taken to have run whole, from its first sample to its "+
			"last.")
	}
	if f.total.Untold > 0 {
		notes = append(notes, "Slurm adds up the memory of all GPUs of a task: where a task has several, no single GPU's is "+
			"known. Series of dcgm-exporter with the job's number tell it.")
	}
	for _, name := range slices.Sorted(maps.Keys(f.cards.doubted)) {
		notes = append(notes, fmt.Sprintf("%.40s means %d cards; the smallest is taken. --site says which it is.", name,
			len(f.cards.doubted[name])))
	}
	joined := int64(0)
	for _, s := range f.verdicts {
		joined += s.Joined
	}
	if kinds[Decisions] && kinds[Accounting] && joined == 0 {
		notes = append(notes, "No decision was found to be about one of the jobs: they are joined by user and by the time of "+
			"submission, in UTC (TZ=UTC sacct …, with the column Submit).")
	}
	return notes
}
