package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/oracle/traced"
)

// Where two lists part, they meet again at the nearest place, up to reach events on, where meeting events are the same.
// A layer that is replayed otherwise has some hundred events; a shorter meeting is found by chance.
const (
	reach   = 400
	meeting = 5
)

// inequality is a stretch that differs: the number of its first event, and what only one of the lists has.
type inequality struct {
	at               int
	traced, replayed []estimator.Event
}

// printed says whether both lists are equal, and where they are not, by how much the peak is off and what differs.
func printed(c *traced.Job, out io.Writer, replayed []estimator.Event, list int) bool {
	events := c.Traced()
	traced.Order(events)
	traced.Order(replayed)
	if slices.EqualFunc(events, replayed, same) {
		return true
	}
	want, have := peak(events), peak(replayed)
	fmt.Fprintf(out, "%s: peak %+.2f %% (%d traced, %d replayed)\n", c.ID, 100*(float64(have)/float64(want)-1), want, have)
	found := inequalities(events, replayed)
	for i, d := range found {
		if i == list {
			fmt.Fprintf(out, "  and %d more\n", len(found)-list)
			break
		}
		fmt.Fprintf(out, "  event %d\n", d.at)
		side(out, "traced", d.traced)
		side(out, "replayed", d.replayed)
	}
	return false
}

// side prints what one of the lists has alone.
func side(out io.Writer, name string, events []estimator.Event) {
	const most = 8
	for i, e := range events {
		if i == most {
			fmt.Fprintf(out, "    %-8s and %d more\n", name, len(events)-most)
			break
		}
		fmt.Fprintf(out, "    %-8s %+13d  %s\n", name, e.Bytes, e.What)
	}
}

func same(a, b estimator.Event) bool { return a.Bytes == b.Bytes }

// peak is the most that was alive, in blocks of 512 bytes as the allocator hands them out.
func peak(events []estimator.Event) int64 {
	var alive, most int64
	for _, e := range events {
		if e.Bytes > 0 {
			alive += (e.Bytes + 511) / 512 * 512
		} else {
			alive -= (-e.Bytes + 511) / 512 * 512
		}
		most = max(most, alive)
	}
	return most
}

// inequalities are the stretches that differ, in order.
func inequalities(traced, replayed []estimator.Event) []inequality {
	var found []inequality
	i, j := 0, 0
	for i < len(traced) || j < len(replayed) {
		if i < len(traced) && j < len(replayed) && same(traced[i], replayed[j]) {
			i, j = i+1, j+1
			continue
		}
		skipped, left := meet(traced[i:], replayed[j:])
		found = append(found, inequality{i, traced[i : i+skipped], replayed[j : j+left]})
		i, j = i+skipped, j+left
	}
	return found
}

// meet is how many events of either list come before they agree again; all that are left where they do not.
func meet(a, b []estimator.Event) (skipA, skipB int) {
	for total := 1; total <= 2*reach; total++ {
		for skipA := max(0, total-reach); skipA <= min(total, reach); skipA++ {
			if agree(a, b, skipA, total-skipA) {
				return skipA, total - skipA
			}
		}
	}
	return len(a), len(b)
}

// agree says whether the lists go on alike after so many events of each; both ends meet, too.
func agree(a, b []estimator.Event, skipA, skipB int) bool {
	if skipA > len(a) || skipB > len(b) {
		return false
	}
	a, b = a[skipA:], b[skipB:]
	if len(a) < meeting || len(b) < meeting {
		return slices.EqualFunc(a, b, same)
	}
	return slices.EqualFunc(a[:meeting], b[:meeting], same)
}
