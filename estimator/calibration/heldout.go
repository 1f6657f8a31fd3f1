package calibration

import (
	"cmp"
	"math"
	"slices"

	"github.com/vramplan/vramplan/estimator/memory"
)

// HeldOut says how a fit does on runs that it did not see: the fit is made anew without the runs of one source after
// the other, and held against those.
type HeldOut struct {
	// By says what was left out together: "source" where there are several, else "job".
	By         string         `json:"by" enums:"source,job" example:"source"`
	Folds      int            `json:"folds" example:"6"`
	Confidence float64        `json:"confidence" example:"0.95"`
	All        HeldOutGroup   `json:"all"`
	Groups     []HeldOutGroup `json:"groups"`
}

// HeldOutGroup is the part of it that is about the jobs of one card, release of PyTorch and family.
type HeldOutGroup struct {
	Key
	// Jobs counts those whose process was measured, outliers included; Corrected those that the fit without them says
	// something of.
	Jobs      int `json:"jobs" example:"41"`
	Corrected int `json:"corrected" example:"41"`
	// Failed counts jobs that ran out of memory.
	Failed  int     `json:"failed,omitempty" example:"2"`
	Builtin Outcome `json:"builtin"`
	Fitted  Outcome `json:"fitted"`
}

// Outcome is how predictions did.
type Outcome struct {
	// Within is the share of the measured processes between low_bytes and high_bytes.
	Within float64 `json:"within" example:"0.951"`
	// Bias is the median of predicted ÷ measured − 1, Error that of its size.
	Bias  float64 `json:"bias" example:"-0.004"`
	Error float64 `json:"error" example:"0.011"`
	// WidthBytes is the median of high_bytes − low_bytes.
	WidthBytes int64 `json:"width_bytes" example:"734003200"`
	// Contradicted counts jobs that failed where even high_bytes were there.
	Contradicted int `json:"contradicted,omitempty" example:"0"`
}

// mostHeld bounds the work of a hold-out: folds × jobs. Each source is a fold where that allows it; else several are
// left out together, at least fewFolds times. heldConfidence is what is promised where a job does not say.
const (
	mostHeld       = 100_000
	fewFolds       = 10
	jobFolds       = 5
	heldConfidence = 0.95
)

// HoldOut fits without the runs of each source in turn, and holds the fit against them.
func HoldOut(rows []Row) HeldOut {
	list := oneAJob(rows)
	out := HeldOut{Confidence: heldConfidence, Groups: []HeldOutGroup{}}
	by := out.folds(list)
	verdicts := map[Key]*verdict{}
	all := &verdict{}
	for n := range out.Folds {
		var rest []Row
		for i, r := range list {
			if by[i] != n {
				rest = append(rest, *r)
			}
		}
		groups, _ := Fit(rest)
		index := make(map[Key]*Group, len(groups))
		for i := range groups {
			index[groups[i].Key] = &groups[i]
		}
		for i, r := range list {
			if by[i] != n || r.Device == 0 && r.AtLeast == 0 {
				continue
			}
			k, ok := r.Key.at(0)
			if !ok {
				k = Key{Torch: r.Key.Torch, Family: r.Key.Family, SeveralGPUs: r.Key.SeveralGPUs}
			}
			if verdicts[k] == nil {
				verdicts[k] = &verdict{}
			}
			g := find(index, r.Key)
			verdicts[k].add(r, g)
			if !r.ReleaseOnly {
				all.add(r, g)
			}
		}
	}
	out.All = all.summary(Key{})
	for k, v := range verdicts {
		out.Groups = append(out.Groups, v.summary(k))
	}
	slices.SortFunc(out.Groups, func(a, b HeldOutGroup) int { return compareKeys(a.Key, b.Key) })
	return out
}

// folds says which runs are left out together.
func (h *HeldOut) folds(list []*Row) []int {
	var sources []string
	for _, r := range list {
		sources = append(sources, r.Source)
	}
	slices.Sort(sources)
	sources = slices.Compact(sources)
	by := make([]int, len(list))
	if len(sources) < 2 {
		h.By, h.Folds = "job", jobFolds
		numbers := map[string]int{}
		for i, r := range list {
			if _, known := numbers[r.Job]; !known {
				numbers[r.Job] = len(numbers)
			}
			by[i] = numbers[r.Job] % jobFolds
		}
		return by
	}
	h.By, h.Folds = "source", min(len(sources), max(fewFolds, mostHeld/len(list)))
	for i, r := range list {
		place, _ := slices.BinarySearch(sources, r.Source)
		by[i] = place % h.Folds
	}
	return by
}

// verdict gathers how predictions did.
type verdict struct {
	jobs, corrected, failed int
	builtin, fitted         tally
}

type tally struct {
	within, contradicted int
	errors               []float64
	widths               []float64
}

func (v *verdict) add(r *Row, g *Group) {
	if g != nil {
		v.corrected++
	}
	if r.AtLeast > 0 {
		v.failed++
	} else {
		v.jobs++
	}
	v.builtin.add(r, r.Base.Bounded(memory.Correction{}, heldConfidence))
	v.fitted.add(r, r.Base.Bounded(g.Correction(r.Base.Reserved, heldConfidence), heldConfidence))
}

func (t *tally) add(r *Row, f memory.Figures) {
	if r.AtLeast > 0 {
		if f.High <= r.AtLeast {
			t.contradicted++
		}
		return
	}
	if f.Low <= r.Device && r.Device <= f.High {
		t.within++
	}
	t.errors = append(t.errors, float64(f.Device)/float64(r.Device)-1)
	t.widths = append(t.widths, float64(f.High-f.Low))
}

func (v *verdict) summary(k Key) HeldOutGroup {
	return HeldOutGroup{Key: k, Jobs: v.jobs, Corrected: v.corrected, Failed: v.failed, Builtin: v.builtin.outcome(),
		Fitted: v.fitted.outcome()}
}

func (t *tally) outcome() Outcome {
	o := Outcome{Contradicted: t.contradicted}
	n := len(t.errors)
	if n == 0 {
		return o
	}
	o.Within = digits(float64(t.within) / float64(n))
	o.Bias = digits(median(t.errors))
	for i, e := range t.errors {
		t.errors[i] = math.Abs(e)
	}
	o.Error, o.WidthBytes = digits(median(t.errors)), int64(median(t.widths))
	return o
}

// digits rounds to what is worth reading.
func digits(v float64) float64 { return cmp.Or(math.Round(v*1e4)/1e4, 0) }
