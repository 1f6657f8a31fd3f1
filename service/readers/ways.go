package readers

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/shards"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// started reads a command that trains; nil where it does not.
func (in *inbox) started(c launch.Command) *tool.Job {
	if len(c.Ways) > 0 {
		return in.eachWay(c)
	}
	l, ok := launch.Parse(c)
	if ok {
		shards.ReadFile(l)
		if r := in.job(l); r != nil {
			return r
		}
	}
	if r := in.behind(c); r != nil {
		return r
	}
	if ok {
		in.stranger(l)
	} else {
		in.unknownCommand(c)
	}
	return nil
}

// eachWay reads a command whose words a decision changes that only the environment knows, for each way of it. The job
// is the way that the script takes if the environment says nothing, or else the first that is complete; the others are
// what it may be instead.
func (in *inbox) eachWay(c launch.Command) *tool.Job {
	var all []*tool.Job
	for _, way := range c.Ways {
		way.Ways = nil
		if r := in.started(way); r != nil {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil
	}
	text := func(words []argv.Word) string {
		var b strings.Builder
		for _, w := range words {
			b.WriteString(w.Text + " ")
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	likely := text(c.Words)
	main := slices.IndexFunc(all, func(r *tool.Job) bool { return text(r.Words) == likely })
	if main < 0 {
		main = max(0, slices.IndexFunc(all, func(r *tool.Job) bool {
			return len(r.Out.Refusals) == 0 && len(r.Out.Questions) == 0
		}))
	}
	r := all[main]
	for _, w := range c.Words {
		if reason := w.Unknown + w.Assumed; reason != "" && !decided(w, r) {
			if r.Out.Why = reason; w.Origin.At.Known() {
				r.Out.Why = w.Origin.At.Where() + ": " + reason
			}
			break
		}
	}
	r.Out.AssumeOf(draft.Assumption{Uncertain: true, Tainted: true, Say: r.Out.Why + ": both ways are judged"})
	for i, other := range all {
		if i != main {
			r.Out.Ways = append(r.Out.Ways, other.Out)
		}
	}
	if len(all) < len(c.Ways) {
		r.Out.Doubts.Add(draft.Doubt{File: r.At.File, Line: r.At.Line, Why: "may start something else: " + r.Out.Why,
			Enlarges: true})
	}
	return r
}

// decided reports whether a word of a command is open in one of its ways, too: it is not what they differ in.
func decided(w argv.Word, r *tool.Job) bool {
	return slices.ContainsFunc(r.Words, func(o argv.Word) bool {
		return o.Unknown+o.Assumed != "" && o.Origin.At == w.Origin.At
	})
}
