package tool

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Loose takes words, and those that begin with one that ends in "*", for read, and leaves a doubt about each that is
// there, that no reader followed and that says more than no: they move memory in a way that is not replayed.
func (r *Job) Loose(words ...string) {
	table := setting.New()
	table.Still(words...)
	for _, key := range r.In.Rest() {
		v, _ := r.In.Peek(key)
		if !table.IsStill(key) {
			continue
		}
		if n, ok := v.Int(); v.Off() || ok && n == 1 && strings.HasSuffix(key, "_degree") {
			continue
		}
		r.Out.Doubts.Add(draft.Doubt{File: v.Origin.At.File, Line: v.Origin.At.Line, Word: v.Origin.Key,
			Why: "may change what a GPU holds, and is not followed", Enlarges: true})
	}
	r.In.Read(words...)
}
