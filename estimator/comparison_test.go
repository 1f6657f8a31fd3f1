package estimator

import (
	order "cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// mostShown is how many of the rows that differ a comparison prints: one cause makes hundreds of them differ.
const mostShown = 10

// comparison counts the rows of a comparison with traces that differ.
type comparison struct {
	rows, differ int
	first        map[string]int // by what differs first
}

// difference is what of a row differs first, in words that rows of one cause share, and all of it.
type difference struct{ first, detail string }

// add holds a row, as a test of its own, and prints the difference unless ten were printed: the test is skipped then,
// and the summary fails.
func (c *comparison) add(t *testing.T, name string, row func(t *testing.T) *difference) {
	t.Run(name, func(t *testing.T) {
		c.rows++
		d := row(t)
		if d == nil {
			return
		}
		if c.first == nil {
			c.first = map[string]int{}
		}
		c.differ++
		c.first[d.first]++
		if c.differ > mostShown {
			t.Skip("it differs, too: " + d.first)
		}
		t.Error(d.detail)
	})
}

// end fails where rows differ, and says how many and what most of them share.
func (c *comparison) end(t *testing.T) {
	t.Helper()
	if text := c.summary(); text != "" {
		t.Error(text)
	}
}

func (c *comparison) summary() string {
	if c.differ == 0 {
		return ""
	}
	var out strings.Builder
	fmt.Fprintf(&out, "%d of %d differ", c.differ, c.rows)
	if c.differ > mostShown {
		fmt.Fprintf(&out, ", %d of which are printed", mostShown)
	}
	out.WriteString("; first in")
	shared := slices.SortedFunc(maps.Keys(c.first), func(a, b string) int {
		return order.Or(order.Compare(c.first[b], c.first[a]), order.Compare(a, b))
	})
	for i, what := range shared {
		if i == mostShown {
			fmt.Fprintf(&out, "\n  %d others", len(shared)-mostShown)
			break
		}
		fmt.Fprintf(&out, "\n  %6d %s", c.first[what], what)
	}
	return out.String()
}

// layerNumber is what events of one cause differ in.
var layerNumber = regexp.MustCompile(`\blayer \d+`)

// shared is what an event is about without the number of its layer.
func shared(what string) string { return layerNumber.ReplaceAllString(what, "a layer") }

// TestComparison: ten differences are printed and all are counted, by what they share.
func TestComparison(t *testing.T) {
	var c comparison
	if got := c.summary(); got != "" {
		t.Errorf("nothing differs, and it says %q", got)
	}
	c = comparison{rows: 40, differ: 12, first: map[string]int{}}
	for i := range 12 {
		c.first[shared(fmt.Sprintf("micro-step layer %d mlp: output", i/2*2))]++
	}
	c.first["load"] = 3
	const want = "40 differ, 10 of which are printed; first in\n      12 micro-step a layer mlp: output\n       3 load"
	if got := c.summary(); got != "12 of "+want {
		t.Errorf("got %q", got)
	}
}
