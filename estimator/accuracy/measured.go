package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"sort"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/oracle/tracefile"
)

// Observation is a published run on a real card: the job as its source describes it, and what somebody read off.
type Observation struct {
	ID      string        `json:"id"`
	Series  string        `json:"series"` // runs of one source, model and recipe, which are not independent
	Job     estimator.Job `json:"job"`
	Reading Reading       `json:"measured"`
	GPU     string        `json:"gpu"`
	Source  string        `json:"source"`
	Quality string        `json:"quality"` // A: everything that decides memory is known; B: a default or two assumed
}

// Reading is what was read, in bytes; 0 where it was not.
type Reading struct {
	AllocatedBytes int64 `json:"allocated_bytes"`
	// ActiveBytes is what is allocated with what other streams have not finished with yet (active_bytes.all.peak),
	// which depends on the time that a card takes: no answer has that figure.
	ActiveBytes   int64 `json:"active_bytes"`
	ReservedBytes int64 `json:"reserved_bytes"`
	DeviceBytes   int64 `json:"device_bytes"`
	OOMInBytes    int64 `json:"oom_in_bytes"`
	FitsInBytes   int64 `json:"fits_in_bytes"`
}

// cards are those of the published runs: what of them decides allocations, and what their driver hands out.
var cards = map[string]estimator.GPU{
	"a100-sxm4-80gb": {ComputeCapability: 80, Multiprocessors: 108, UsableBytes: 81039 << 20},
	"a100-sxm4-40gb": {ComputeCapability: 80, Multiprocessors: 108, UsableBytes: 40437 << 20},
	"a10g":           {ComputeCapability: 86, Multiprocessors: 80, UsableBytes: 22558 << 20},
	"h100-sxm5":      {ComputeCapability: 90, Multiprocessors: 132, UsableBytes: 81082 << 20},
	"rtx-3090":       {ComputeCapability: 86, Multiprocessors: 82, UsableBytes: 24115 << 20},
	"v100-sxm2-16gb": {ComputeCapability: 70, Multiprocessors: 80, UsableBytes: 16130 << 20},
}

// Published holds estimates against observations.
type Published struct {
	Runs, Answered int
	// Errors by kind of reading: answer / reading - 1.
	Allocated, Reserved, Device []seriesError
	// Covered counts the device readings that lie between low_bytes and high_bytes, Above those over high_bytes.
	Covered, Above, Facts int
	// Ratios says by the doubt that counts how the reserved bytes would have to be stretched to give the reading.
	Ratios map[string][]float64
	// Contradicted are runs that ran out of memory and were called fitting, or the reverse.
	Contradicted []string
	Refused      map[string]int
}

// seriesError is one run's.
type seriesError struct {
	series string
	error  float64
}

// ScorePublished estimates every observation; presets come from the catalog's own file.
func ScorePublished(list []Observation, presets map[string]*model.Preset) *Published {
	p := &Published{Runs: len(list), Refused: map[string]int{}, Ratios: map[string][]float64{}}
	for _, o := range list {
		g := cards[o.GPU]
		g.ID = o.GPU
		in := estimator.Input{Job: o.Job, GPUs: []estimator.GPU{g}, Preset: presets[o.Job.Model.Preset]}
		res, err := estimator.Estimate(in)
		if err != nil {
			p.Refused[err.Error()]++
			continue
		}
		p.Answered++
		add := func(to *[]seriesError, answer, reading int64) {
			if reading > 0 {
				*to = append(*to, seriesError{o.Series, float64(answer)/float64(reading) - 1})
			}
		}
		add(&p.Allocated, res.Peak.AllocatedBytes, o.Reading.AllocatedBytes)
		add(&p.Reserved, res.Peak.ReservedBytes, o.Reading.ReservedBytes)
		add(&p.Device, onCard(res), o.Reading.DeviceBytes)
		if d := o.Reading.DeviceBytes; d > 0 {
			source := widestDoubt(res)
			p.Ratios[source] = append(p.Ratios[source],
				float64(d-(res.Peak.DeviceBytes-res.Peak.ReservedBytes))/float64(res.Peak.ReservedBytes))
			switch {
			case d > res.Peak.HighBytes:
				p.Above++
			case d >= res.Peak.LowBytes:
				p.Covered++
			}
		}
		verdict := res.GPUs[0].Verdict
		if o.Reading.OOMInBytes > 0 || o.Reading.FitsInBytes > 0 {
			p.Facts++
		}
		if o.Reading.OOMInBytes > 0 && verdict == estimator.Fits || o.Reading.FitsInBytes > 0 &&
			verdict == estimator.DoesNotFit {
			p.Contradicted = append(p.Contradicted, o.ID+": "+string(verdict))
		}
	}
	return p
}

// onCard is the process figure on the first card, which may be full.
func onCard(res *estimator.Result) int64 {
	if full := res.GPUs[0].DeviceBytes; full > 0 {
		return full
	}
	return res.Peak.DeviceBytes
}

// widestDoubt is the source that decides how far high_bytes lies from the replay; the context does not count.
func widestDoubt(res *estimator.Result) string {
	var widest estimator.DoubtSource
	for _, d := range res.Doubts[:len(res.Doubts)-1] {
		if d.AboveBytes >= widest.AboveBytes {
			widest = d
		}
	}
	return widest.Source
}

// PrintFit writes what the published runs say of each doubt: the stretch of the reserved bytes, once the usual context
// is taken off the reading, at the middle and between the ends of 95 %.
func (p *Published) PrintFit(w io.Writer) {
	fmt.Fprintf(w, "| source of doubt | runs | lowest 2.5 %% | median | highest 2.5 %% |\n|---|---|---|---|---|\n")
	for _, source := range slices.Sorted(maps.Keys(p.Ratios)) {
		r := p.Ratios[source]
		sort.Float64s(r)
		fmt.Fprintf(w, "| %s | %d | %+.1f %% | %+.1f %% | %+.1f %% |\n", source, len(r), 100*(at(r, .025)-1),
			100*(at(r, .5)-1), 100*(at(r, .975)-1))
	}
}

// bySeries is the absolute mean error of each series.
func bySeries(list []seriesError) []float64 {
	sum, n := map[string]float64{}, map[string]int{}
	for _, e := range list {
		sum[e.series] += math.Abs(e.error)
		n[e.series]++
	}
	out := make([]float64, 0, len(sum))
	for s, total := range sum {
		out = append(out, 100*total/float64(n[s]))
	}
	sort.Float64s(out)
	return out
}

// Print writes the table of published runs.
func (p *Published) Print(w io.Writer) {
	fmt.Fprintf(w, "| reading | runs | series | median error of a series | nine in ten within | bias "+
		"|\n|---|---|---|---|---|---|\n")
	for _, k := range []struct {
		name string
		list []seriesError
	}{{"allocated", p.Allocated}, {"reserved", p.Reserved}, {"the process (nvidia-smi)", p.Device}} {
		if len(k.list) == 0 {
			continue
		}
		s := bySeries(k.list)
		fmt.Fprintf(w, "| %s | %d | %d | %.1f %% | %.1f %% | %+.1f %% |\n", k.name, len(k.list), len(s), at(s, .5),
			at(s, .9), bias(k.list))
	}
	if n := len(p.Device); n > 0 {
		fmt.Fprintf(w, "\n%d of %d process figures are at or below `high_bytes` (%.0f %%), %d of them at or above "+
			"`low_bytes`; the promise is 95 %% between both.\n",
			n-p.Above, n, 100*float64(n-p.Above)/float64(n), p.Covered)
	}
	fmt.Fprintf(w, "Of %d runs that are known to fit or to run out of memory, %d are contradicted.\n", p.Facts,
		len(p.Contradicted))
}

// Promises about published runs, in percent: what the median series and nine of ten may be off by, and how many
// readings high_bytes has to cover.
const (
	publishedAllocatedHalf, publishedAllocatedMost = 2, 10
	publishedReservedHalf                          = 5
	publishedDeviceHalf                            = 6
	publishedCovered                               = 93
)

// Broken says which promises about the published runs do not hold.
func (p *Published) Broken() []string {
	var out []string
	within := func(what string, list []seriesError, q, band float64) {
		if got := at(bySeries(list), q); got > band {
			out = append(out, fmt.Sprintf("published runs: %s of %.0f in a hundred series is within %.1f %%, "+
				"promised are %.0f %%", what, 100*q, got, band))
		}
	}
	within("allocated", p.Allocated, .5, publishedAllocatedHalf)
	within("allocated", p.Allocated, .9, publishedAllocatedMost)
	within("reserved", p.Reserved, .5, publishedReservedHalf)
	within("the process figure", p.Device, .5, publishedDeviceHalf)
	if n := len(p.Device); 100*(n-p.Above) < publishedCovered*n {
		out = append(out, fmt.Sprintf("published runs: high_bytes covers %d of %d process figures, promised are %d %%",
			n-p.Above, n, publishedCovered))
	}
	for _, c := range p.Contradicted {
		out = append(out, "published runs: contradicted: "+c)
	}
	return out
}

// bias is the median signed error.
func bias(list []seriesError) float64 {
	v := make([]float64, len(list))
	for i, e := range list {
		v[i] = 100 * e.error
	}
	return at(v, .5)
}

// ReadObservations reads observations, one a line, and the presets that they name.
func ReadObservations(paths []string, presetFile string) ([]Observation, map[string]*model.Preset, error) {
	var list []Observation
	for _, path := range paths {
		err := tracefile.EachLine(path, func(line []byte) error {
			var o Observation
			if err := json.Unmarshal(line, &o); err != nil {
				return err
			}
			list = append(list, o)
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
	}
	data, err := os.ReadFile(presetFile)
	if err != nil {
		return nil, nil, err
	}
	var all []model.Preset
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", presetFile, err)
	}
	presets := map[string]*model.Preset{}
	for i := range all {
		presets[all[i].ID] = &all[i]
		for _, alias := range all[i].Aliases {
			presets[alias] = &all[i]
		}
	}
	return list, presets, nil
}
