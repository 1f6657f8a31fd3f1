package asking

import (
	"fmt"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/document"
)

// notes collects what an answer has to say besides its numbers.
type notes struct{ All []estimator.Note }

// Add adds a note.
func (n *notes) Add(code, format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	n.All = append(n.All, estimator.Note{Code: code, Text: text})
}

// List is never nil: the answer has an empty list, not null.
func (n *notes) List() []estimator.Note {
	if n.All == nil {
		return []estimator.Note{}
	}
	return n.All
}

// refusedPairs names the pairs that are left out.
func (n *notes) refusedPairs(js []Judged) {
	if len(js) == 0 {
		return
	}
	smallest := slices.MinFunc(js, func(a, b Judged) int { return int(a.Micro - b.Micro) })
	n.Add("pairs-left-out", "%s with a micro-batch of %d or more cannot be estimated and %s not listed: %v.",
		document.Count(len(js), "pair"), smallest.Micro, map[bool]string{true: "is", false: "are"}[len(js) == 1], smallest.Err)
}

// Sized is what a candidate takes, in words that say where it is the least.
func Sized(j Judged) string { return document.Least(j.DeviceBytes(), j.AtLeast()) }
