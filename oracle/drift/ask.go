package main

import (
	"encoding/json"
	"maps"
	"regexp"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/oracle/drift/result"
	"github.com/vramplan/vramplan/oracle/traced"
	"github.com/vramplan/vramplan/oracle/tracefile"
)

// mostNames is how many operations of a row, or of what no row says, are listed.
const mostNames = 4

// ask holds every trace of the file against the rows.
func ask(path string, rows []release.Switch) (*result.Stack, error) {
	found := &result.Stack{}
	shown := map[release.Switch]*result.Row{}
	moved := map[release.Switch]map[string]int{}
	unexplained := map[string]int{}
	err := tracefile.EachLine(path, func(line []byte) error {
		var t traced.Job
		if err := json.Unmarshal(line, &t); err != nil {
			return err
		}
		if err := t.Check(); err != nil {
			return err
		}
		t.Job.Training.Versions = maps.Clone(release.Stacks()[0].Releases)
		found.Jobs++
		f, err := fit(&t, rows)
		if err != nil {
			found.Refused = append(found.Refused, t.ID)
			return nil
		}
		for row, there := range f.there {
			r := shown[row]
			if r == nil {
				r, moved[row] = &result.Row{Switch: string(row)}, map[string]int{}
				shown[row] = r
			}
			if there {
				r.With++
			} else {
				r.Without++
			}
			for name, n := range f.moved[row] {
				moved[row][name] += n
			}
		}
		if len(f.left) == 0 {
			found.Equal++
			return nil
		}
		found.Unequal = append(found.Unequal, t.ID)
		for name, n := range f.left {
			unexplained[name] += n
		}
		return nil
	})
	for _, row := range rows {
		if r := shown[row]; r != nil {
			r.Moved = most(moved[row])
			found.Rows = append(found.Rows, *r)
		}
	}
	found.Unexplained = most(unexplained)
	return found, err
}

// fitted is which rows a trace shows.
type fitted struct {
	// there says of a row that the trace can tell about whether it is in the stack; moved are the operations whose
	// allocations it moves.
	there map[release.Switch]bool
	moved map[release.Switch]map[string]int
	// left are the operations whose allocations the nearest replay has not.
	left map[string]int
}

// fit begins with all rows and takes each out that the trace is nearer without, until none is.
func fit(t *traced.Job, rows []release.Switch) (*fitted, error) {
	held := map[release.Switch]bool{}
	for _, row := range rows {
		held[row] = true
	}
	now, err := replayed(t, held)
	if err != nil {
		return nil, err
	}
	events := t.Traced()
	truth := bytesOf(events)
	want := pairsOf(truth)
	f := &fitted{there: map[release.Switch]bool{}, moved: map[release.Switch]map[string]int{}}
	for changed := true; changed; {
		changed = false
		for _, row := range rows {
			held[row] = !held[row]
			other, err := replayed(t, held)
			if err != nil { // without it, the job cannot be asked for
				held[row] = !held[row]
				continue
			}
			near, far := distance(want, pairsOf(now)), distance(want, pairsOf(other))
			switch {
			case far < near:
				f.moved[row] = named(events, pairsOf(other), pairsOf(now))
				now, changed = other, true
			case far > near:
				held[row] = !held[row]
				f.moved[row] = named(events, pairsOf(now), pairsOf(other))
			default:
				held[row] = !held[row]
				continue
			}
			f.there[row] = held[row]
		}
	}
	if !slices.Equal(now, truth) {
		f.left = named(events, want, pairsOf(now))
		if len(f.left) == 0 {
			f.left = map[string]int{"order alone": 1}
		}
	}
	return f, nil
}

// replayed are the bytes that the replay allocates and frees with those rows.
func replayed(t *traced.Job, held map[release.Switch]bool) ([]int64, error) {
	events, err := t.Replayed(held)
	if err != nil {
		return nil, err
	}
	return bytesOf(events), nil
}

// bytesOf are those of events, with frees in one order.
func bytesOf(events []estimator.Event) []int64 {
	traced.Order(events)
	bytes := make([]int64, len(events))
	for i, e := range events {
		bytes[i] = e.Bytes
	}
	return bytes
}

// pair is an allocation or free and the one before it, which says something of the order, too.
type pair struct{ before, bytes int64 }

func pairsOf(events []int64) map[pair]int {
	pairs, before := map[pair]int{}, int64(0)
	for _, bytes := range events {
		pairs[pair{before, bytes}]++
		before = bytes
	}
	return pairs
}

// distance is how many pairs are in one of the two alone.
func distance(a, b map[pair]int) int {
	n := 0
	for p, k := range a {
		n += max(k-b[p], 0)
	}
	for p, k := range b {
		n += max(k-a[p], 0)
	}
	return n
}

// layers are the numbers in the names of modules.
var layers = regexp.MustCompile(`\.\d+\b`)

// named are the operations and modules of the traced pairs that a has more often than b.
func named(events []estimator.Event, a, b map[pair]int) map[string]int {
	names, before := map[string]int{}, int64(0)
	for _, e := range events {
		p := pair{before, e.Bytes}
		if before = e.Bytes; a[p] > b[p] {
			names[layers.ReplaceAllString(e.What, ".*")]++
		}
	}
	return names
}

// most are the names that occur most often, in their order.
func most(names map[string]int) []string {
	all := slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		if names[a] != names[b] {
			return names[b] - names[a]
		}
		if a < b {
			return -1
		}
		return 1
	})
	return all[:min(len(all), mostNames)]
}
