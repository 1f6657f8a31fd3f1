package readers

import (
	"slices"
	"strings"
)

// started reads a command that trains; nil where it does not.
func (in *inbox) started(c command) *reading {
	if len(c.ways) > 0 {
		return in.eachWay(c)
	}
	l, ok := parseLaunch(c)
	if ok {
		readAccelerateFile(l)
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
func (in *inbox) eachWay(c command) *reading {
	var all []*reading
	for _, way := range c.ways {
		way.ways = nil
		if r := in.started(way); r != nil {
			all = append(all, r)
		}
	}
	if len(all) == 0 {
		return nil
	}
	text := func(words []word) string {
		var b strings.Builder
		for _, w := range words {
			b.WriteString(w.Text + " ")
		}
		return strings.Join(strings.Fields(b.String()), " ")
	}
	likely := text(c.words)
	main := slices.IndexFunc(all, func(r *reading) bool { return text(r.words) == likely })
	if main < 0 {
		main = max(0, slices.IndexFunc(all, func(r *reading) bool {
			return len(r.d.refusals) == 0 && len(r.d.questions) == 0
		}))
	}
	r := all[main]
	for _, w := range c.words {
		if reason := w.Unknown + w.Assumed; reason != "" && !decided(w, r) {
			if r.d.why = reason; w.Origin.At.Known() {
				r.d.why = w.Origin.At.Where() + ": " + reason
			}
			break
		}
	}
	r.d.assumeOf(Assumption{Uncertain: true, tainted: true, Say: r.d.why + ": both ways are judged"})
	for i, other := range all {
		if i != main {
			r.d.ways = append(r.d.ways, other.d)
		}
	}
	if len(all) < len(c.ways) {
		r.d.doubts.add(Doubt{File: r.at.File, Line: r.at.Line, Why: "may start something else: " + r.d.why,
			Enlarges: true})
	}
	return r
}

// decided reports whether a word of a command is open in one of its ways, too: it is not what they differ in.
func decided(w word, r *reading) bool {
	return slices.ContainsFunc(r.words, func(o word) bool {
		return o.Unknown+o.Assumed != "" && o.Origin.At == w.Origin.At
	})
}

// allDoubts are those of all ways of a job. A way that is refused, or about which something is asked, is one.
func (d *draft) allDoubts() []Doubt {
	all := slices.Clone(d.doubts)
	for _, way := range d.ways {
		for _, of := range way.doubts {
			all.add(of)
		}
		var file string
		var line int
		if d.command != nil {
			file, line = d.command.File, d.command.Line
		}
		for _, r := range way.refusals {
			all.add(Doubt{File: file, Line: line, Why: d.why + ": " + r.String(), Enlarges: true})
		}
		for _, q := range way.questions {
			all.add(Doubt{File: file, Line: line, Why: d.why + ": " + q.Ask, Enlarges: true})
		}
	}
	return all
}
