package fleet

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"slices"
)

// maxRows is how many rows of groups and cards are held; what comes after them is put together.
const maxRows = 10_000

// Figures are of the jobs of a row, or of all.
type Figures struct {
	Jobs     int64   `json:"jobs"`
	GPUHours float64 `json:"gpu_hours"`
	// Measured jobs have a peak of a GPU. Untold have one of several GPUs together only; of Unseen no memory was
	// ever seen in use on their GPUs.
	Measured int64 `json:"measured"`
	Untold   int64 `json:"untold"`
	Unseen   int64 `json:"unseen"`
	// AskedGiBHours is the memory of the cards of measured jobs, for as long as they had them; at least
	// UnusedGiBHours of it was never held.
	AskedGiBHours  float64 `json:"asked_gib_hours"`
	UnusedGiBHours float64 `json:"unused_gib_hours"`
	// Whole are the measured jobs that ran as long as they were to; Smaller of them would have run on a smaller
	// card, by the smallest On which they would.
	Whole           int64            `json:"whole"`
	Smaller         int64            `json:"smaller"`
	SmallerGPUHours float64          `json:"smaller_gpu_hours"`
	On              map[string]int64 `json:"on,omitempty"`
	// Cost is what the jobs on cards with a price cost, for PricedGPUHours; UnusedCost is that of the memory that was
	// never held, of MeasuredCost. SmallerPriced of Smaller have a price on both cards, and would have cost
	// SmallerSaves less, had they run as long.
	PricedGPUHours float64 `json:"priced_gpu_hours,omitempty"`
	Cost           float64 `json:"cost,omitempty"`
	MeasuredCost   float64 `json:"measured_cost,omitempty"`
	UnusedCost     float64 `json:"unused_cost,omitempty"`
	SmallerPriced  int64   `json:"smaller_priced,omitempty"`
	SmallerSaves   float64 `json:"smaller_saves,omitempty"`
	// Failed jobs: FailedFull had their card full, FailedJudged had a verdict before they ran, and Named of them
	// the one that they do not fit. OutOfMemory ran out of the host's memory.
	Failed       int64 `json:"failed"`
	FailedFull   int64 `json:"failed_full"`
	FailedJudged int64 `json:"failed_judged"`
	Named        int64 `json:"named"`
	OutOfMemory  int64 `json:"out_of_host_memory"`
}

func (a *Figures) add(b *Figures) {
	a.Jobs += b.Jobs
	a.GPUHours += b.GPUHours
	a.Measured += b.Measured
	a.Untold += b.Untold
	a.Unseen += b.Unseen
	a.AskedGiBHours += b.AskedGiBHours
	a.UnusedGiBHours += b.UnusedGiBHours
	a.Whole += b.Whole
	a.Smaller += b.Smaller
	a.SmallerGPUHours += b.SmallerGPUHours
	a.PricedGPUHours += b.PricedGPUHours
	a.Cost += b.Cost
	a.MeasuredCost += b.MeasuredCost
	a.UnusedCost += b.UnusedCost
	a.SmallerPriced += b.SmallerPriced
	a.SmallerSaves += b.SmallerSaves
	a.Failed += b.Failed
	a.FailedFull += b.FailedFull
	a.FailedJudged += b.FailedJudged
	a.Named += b.Named
	a.OutOfMemory += b.OutOfMemory
	for card, n := range b.On {
		if a.On == nil {
			a.On = map[string]int64{}
		}
		a.On[card] += n
	}
}

func (a *Figures) round() {
	for _, n := range []*float64{&a.GPUHours, &a.AskedGiBHours, &a.UnusedGiBHours, &a.SmallerGPUHours,
		&a.PricedGPUHours, &a.Cost, &a.MeasuredCost, &a.UnusedCost, &a.SmallerSaves} {
		*n = rounded(*n)
	}
}

func rounded(n float64) float64 { return math.Round(n*1000) / 1000 }

type rowKey struct{ group, card string }

// row is the figures of one group on one kind of card, and as many of its users as matter.
type row struct {
	Figures
	users map[uint64]struct{}
}

func (r *row) merge(other *row, least int) {
	r.add(&other.Figures)
	for user := range other.users {
		r.addUser(user, least)
	}
}

func (r *row) addUser(user uint64, least int) {
	if len(r.users) < least {
		r.users[user] = struct{}{}
	}
}

func newRow() *row { return &row{users: map[uint64]struct{}{}} }

// Rows that are put together.
const (
	smallGroups = "(small groups)"
	moreGroups  = "(further groups)"
	severalCard = "(several cards)"
)

// book adds a job to its row and to all.
func (f *Fleet) book(key rowKey, user string, one *Figures) {
	if key.group == "" {
		key.group = "(no group)"
	}
	f.total.add(one)
	r := f.rows[key]
	if r == nil {
		if len(f.rows) >= maxRows {
			key = rowKey{moreGroups, severalCard}
		}
		if r = f.rows[key]; r == nil {
			r = newRow()
			f.rows[key] = r
		}
	}
	r.add(one)
	if user != "" {
		r.addUser(maphash.String(seed, user), f.o.LeastUsers)
	}
}

// Row is the figures of one group on one kind of card.
type Row struct {
	Group string `json:"group"`
	Card  string `json:"card"`
	Figures
}

// Report is everything that was found.
type Report struct {
	LeastUsers int        `json:"least_users"`
	Total      Figures    `json:"total"`
	Rows       []Row      `json:"rows"`
	Verdicts   []Said     `json:"verdicts,omitempty"`
	Observed   []Observed `json:"observed,omitempty"`
	Counts     Counts     `json:"not_in_rows"`
	Sources    []*Source  `json:"sources"`
	Notes      []string   `json:"notes"`
}

// Report has the figures of what was read. No row is of fewer users than were asked for, and none can be told by
// taking the others from the total: rows with fewer are put together by card, those that are still of too few over
// all cards, and the smallest of the others with them where that is still of too few.
func (f *Fleet) Report() *Report {
	f.counts.Unjoined = int64(len(f.held) - len(f.joined))
	r := &Report{LeastUsers: f.o.LeastUsers, Total: f.total, Rows: []Row{}, Counts: f.counts, Sources: f.sources,
		Observed: f.allObserved(), Notes: f.notes()}
	r.Total.round()
	rows, hidden := f.wideEnough()
	for key, row := range rows {
		row.round()
		r.Rows = append(r.Rows, Row{key.group, key.card, row.Figures})
	}
	slices.SortFunc(r.Rows, func(a, b Row) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Card, b.Card))
	})
	if hidden {
		r.Notes = append(r.Notes, fmt.Sprintf("Rows with fewer than %d users are put together.", f.o.LeastUsers))
	}
	for _, verdict := range []string{"does_not_fit", "unlikely", "tight", "fits", "unknown", "none"} {
		if s := f.verdicts[verdict]; s != nil {
			r.Verdicts = append(r.Verdicts, *s)
		}
	}
	return r
}

func (f *Fleet) wideEnough() (rows map[rowKey]*row, hidden bool) {
	rows = map[rowKey]*row{}
	into := func(key rowKey, r *row) {
		if rows[key] == nil {
			rows[key] = newRow()
		}
		rows[key].merge(r, f.o.LeastUsers)
	}
	few := func(r *row) bool { return len(r.users) < f.o.LeastUsers }
	for key, r := range f.rows {
		if few(r) {
			key.group, hidden = smallGroups, true
		}
		into(key, r)
	}
	rest := rowKey{smallGroups, severalCard}
	for _, key := range slices.Collect(maps.Keys(rows)) {
		if key.group == smallGroups && few(rows[key]) {
			r := rows[key]
			delete(rows, key)
			into(rest, r)
		}
	}
	for rows[rest] != nil && few(rows[rest]) && len(rows) > 1 {
		next := slices.MinFunc(slices.Collect(maps.Keys(rows)), func(a, b rowKey) int {
			return cmp.Or(cmp.Compare(last(a == rest), last(b == rest)), cmp.Compare(last(a.group != smallGroups),
				last(b.group != smallGroups)), cmp.Compare(rows[a].Jobs, rows[b].Jobs), cmp.Compare(a.group, b.group),
				cmp.Compare(a.card, b.card))
		})
		r := rows[next]
		delete(rows, next)
		into(rest, r)
	}
	return rows, hidden
}

// last sorts what is so behind what is not.
func last(so bool) int {
	if so {
		return 1
	}
	return 0
}
