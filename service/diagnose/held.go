package diagnose

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

// Held is what a snapshot's process held, by the names that the replay of the job has for it.
type Held struct {
	Moment Moment `json:"moment"`
	// AllocatedBytes is what was allocated at that moment, RequestedBytes what was asked for then and failed.
	AllocatedBytes int64 `json:"allocated_bytes"`
	RequestedBytes int64 `json:"requested_bytes,omitempty"`
	// PredictedBytes is the most that the replay has alive; it is not there without a job.
	PredictedBytes *int64 `json:"predicted_bytes,omitempty"`
	// Groups are allocations of one size, those that take most together first.
	Groups []HeldGroup `json:"groups"`
	// RestBytes is what all others take.
	RestBytes int64 `json:"rest_bytes,omitempty"`
	// Departures are where the run holds what was not predicted.
	Departures []Departure `json:"departures,omitempty"`
}

// HeldGroup are allocations of one size.
type HeldGroup struct {
	Bytes int64 `json:"bytes"`
	Count int64 `json:"count"`
	// Names are the tensors of that size that the replay has, those first that are alive at its peak.
	Names []string `json:"names,omitempty"`
	// Predicted is how many of them the replay has alive at its peak; it is not there without a job.
	Predicted *int64 `json:"predicted,omitempty"`
	// At is the line that asked for most of them.
	At string `json:"at,omitempty"`
}

// Departure is memory that the run holds and no step of the replay has.
type Departure struct {
	Bytes int64  `json:"bytes"`
	Count int64  `json:"count"`
	At    string `json:"at,omitempty"`
	Text  string `json:"text"`
}

const (
	// maxGroups are listed, of those that take a thousandth of all together.
	maxGroups     = 24
	listedShare   = 1000
	maxDepartures = 12
	maxNames      = 3
	// What is smaller than this share of all that is allocated is no departure: counters, seeds, workspaces' ends.
	departs = 0.002
)

// Explain names what was held. known has what the job asks for, and result the tensors that are alive at its peak; of a
// job that is not known neither is looked at.
func (a *Allocations) Explain(known *Job, result *estimator.Result) *Held {
	h := &Held{Moment: a.Moment, AllocatedBytes: a.AllocatedBytes, RequestedBytes: a.RequestedBytes,
		Groups: []HeldGroup{}}
	names, counts := map[int64][]string{}, map[int64]int64{}
	add := func(bytes int64, name string) {
		if size := rounded(bytes); !slices.Contains(names[size], name) {
			names[size] = append(names[size], name)
		}
	}
	if known.Known {
		for _, t := range result.Tensors {
			add(t.Bytes, t.Name)
			counts[rounded(t.Bytes)] += t.Count
		}
		for i := range known.Tensors {
			add(known.Tensors[i].Bytes, known.Tensors[i].What)
		}
		h.PredictedBytes = &result.AliveBytes
	}
	groups := map[int64]*HeldGroup{}
	rows := map[int64][]HeldBlocks{}
	for _, b := range a.Blocks {
		g := groups[b.Bytes]
		if g == nil {
			g = &HeldGroup{Bytes: b.Bytes, At: b.At} // rows are in order: the first has most
			groups[b.Bytes] = g
		}
		g.Count += b.Count
		rows[b.Bytes] = append(rows[b.Bytes], b)
	}
	all := make([]HeldGroup, 0, len(groups))
	for _, g := range groups {
		if known.Known {
			n := counts[g.Bytes]
			g.Predicted = &n
			list := names[g.Bytes]
			g.Names = list[:min(len(list), maxNames)]
		}
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b HeldGroup) int {
		return cmp.Or(cmp.Compare(b.Bytes*b.Count, a.Bytes*a.Count), cmp.Compare(b.Bytes, a.Bytes))
	})
	if known.Known {
		h.depart(all, rows)
	}
	h.RestBytes = a.AllocatedBytes
	for _, g := range all[:min(len(all), maxGroups)] {
		if g.Bytes*g.Count >= a.AllocatedBytes/listedShare {
			h.Groups = append(h.Groups, g)
			h.RestBytes -= g.Bytes * g.Count
		}
	}
	return h
}

// depart finds what no step has: sizes that the replay never asks for, and, at the peak, more of a size than it has
// alive there. At another moment how many of a size are alive is another matter, and is not held against it.
func (h *Held) depart(all []HeldGroup, rows map[int64][]HeldBlocks) {
	least := int64(departs * float64(h.AllocatedBytes))
	more := h.Moment == AtPeak && h.AllocatedBytes-*h.PredictedBytes > least
	for _, g := range all {
		switch {
		case len(g.Names) == 0 && g.Bytes*g.Count >= least:
			for _, row := range rows[g.Bytes] {
				if row.Bytes*row.Count >= least {
					h.say(row.Bytes, row.Count, row.At, "no step of the job asks for this size")
				}
			}
		case len(g.Names) > 0 && more && (g.Count-*g.Predicted)*g.Bytes >= least:
			h.say(g.Bytes, g.Count-*g.Predicted, g.At, fmt.Sprintf("%d are alive and %d were predicted (%s)", g.Count, *g.Predicted,
				strings.Join(g.Names, " or ")))
		}
	}
	slices.SortStableFunc(h.Departures, func(a, b Departure) int {
		return cmp.Compare(b.Bytes*b.Count, a.Bytes*a.Count)
	})
	h.Departures = h.Departures[:min(len(h.Departures), maxDepartures)]
}

func (h *Held) say(bytes, count int64, at, why string) {
	text := fmt.Sprintf("%d of %s: %s", count, said(bytes), why)
	if at != "" {
		text += ", asked for at " + at
	}
	h.Departures = append(h.Departures, Departure{Bytes: bytes, Count: count, At: at, Text: text})
}

// said is a size as the replay's tensors have theirs.
func said(n int64) string {
	switch {
	case n >= gib:
		return fmt.Sprintf("%.2f GiB", float64(n)/gib)
	case n >= mib:
		return fmt.Sprintf("%.1f MiB", float64(n)/mib)
	}
	return fmt.Sprintf("%d B", n)
}
