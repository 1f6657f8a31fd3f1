package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// notes collects what an answer has to say besides its numbers.
type notes struct{ all []estimator.Note }

func (n *notes) add(code, format string, args ...any) {
	text := format
	if len(args) > 0 {
		text = fmt.Sprintf(format, args...)
	}
	n.all = append(n.all, estimator.Note{Code: code, Text: text})
}

// list is never nil: the answer has an empty list, not null.
func (n *notes) list() []estimator.Note {
	if n.all == nil {
		return []estimator.Note{}
	}
	return n.all
}

// refusedPairs names the pairs that are left out.
func (n *notes) refusedPairs(js []judged) {
	if len(js) == 0 {
		return
	}
	smallest := slices.MinFunc(js, func(a, b judged) int { return int(a.micro - b.micro) })
	n.add("pairs-left-out", "%s with a micro-batch of %d or more cannot be estimated and %s not listed: %v.",
		document.Count(len(js), "pair"), smallest.micro, map[bool]string{true: "is", false: "are"}[len(js) == 1], smallest.err)
}

// explain writes the notes that belong to the whole plan.
func (t teller) explain(edge limit, p *document.Plan) {
	t.explainDisplay()
	t.explainToday()
	t.explainEdge(edge)
	t.explainFloor()
	t.explainBatch()
	accumulates := t.s.rank.today != nil && t.s.rank.today.accum > 1
	for _, o := range p.Options {
		accumulates = accumulates || o.Verdict == estimator.Fits && o.GradientAccumulation > 1
	}
	t.caveats(accumulates)
	t.exchanges(p.Options)
	t.explainOtherGPUs(p.GPUs)
	t.s.explainBudget()
	t.explainLeast(p)
	relativeTo := "the job as it is today"
	if t.s.rank.today == nil {
		which := "largest pair that fits"
		if !t.s.reference.fits() {
			which = "smallest pair"
		}
		relativeTo = fmt.Sprintf("%d × %d, the %s, since the job has no micro-batch", t.s.reference.micro,
			t.s.reference.accum, which)
	}
	facts := ""
	if t.s.gpu.PeakFLOPS <= 0 || t.s.gpu.BandwidthBytesPerSecond <= 0 || t.s.gpu.Multiprocessors <= 0 {
		facts = " Some data of this card are not known and were replaced by usual ones."
	}
	from := "a model, not from a run"
	if t.s.basis == basisCalibrated {
		from = "a model that was fitted to measured steps"
	}
	t.s.notes.add("step-time-model", "Relative step times come from "+from+
		": time for the same number of %s, relative to %s.%s", t.unit(), relativeTo, facts)
}

func (tell teller) explainToday() {
	if tell.s.gpu.ID == "" {
		tell.s.notes.add("no-gpu", "The job names no GPU: nothing is said to fit or not, and no ways out are ranked. Name "+
			"one in gpus (--gpu).")
	}
	t := tell.s.rank.today
	if t == nil {
		return
	}
	switch t.fit().Verdict {
	case estimator.Fits:
		tell.s.notes.add("today-fits", "The job as it is today takes %s of %s.", estimator.Bytes(t.deviceBytes()),
			estimator.Bytes(t.fit().UsableBytes))
	case estimator.Unknown:
	default:
		takes := fmt.Sprintf("%s (up to %s)", estimator.Bytes(t.deviceBytes()), estimator.Bytes(t.highBytes()))
		if t.atLeast() {
			takes = leastOf(*t)
		}
		tell.s.notes.add("today-short", "The job as it is today takes %s; the card has %s. The peak is in %s.",
			takes, estimator.Bytes(t.fit().UsableBytes), document.PeakOf(t.result))
	}
	if !tell.s.batch.Exact() {
		tell.s.notes.add("today-differs", "Today's %d × %d on %s is an effective batch of %d, not %d.",
			t.micro, t.accum, document.Count(int(tell.s.batch.GPUs), "data-parallel GPU"), tell.s.batch.Effective(t.micro, t.accum),
			tell.s.batch.Target)
	}
}

// explainDisplay says what the recommendation leaves for a display, where the card drives one.
func (t teller) explainDisplay() {
	pair, tightest := t.s.rank.besideDisplay(t.s.exact), t.s.rank.fastest(t.s.exact, 1)
	room := t.s.costs.base.Job.DisplayRoom(&t.s.gpu)
	if pair == nil {
		return
	}
	left := func(j *judged) string { return estimator.Bytes(t.s.rank.spare(*j)).String() }
	why := t.s.gpu.ID + " drives a display"
	if t.s.costs.base.Job.Display == nil {
		why = fmt.Sprintf("%s is a %s card and may drive a display", t.s.gpu.ID, t.s.gpu.Line)
	}
	const roomWords = "1 GiB"
	const otherwise = "Say display: false (--no-display) where it drives none, or in reserve_bytes (--reserve " +
		"300MiB) what is held."
	switch {
	case t.s.rank.spare(*pair) < room:
		t.s.notes.add("display", "%s, whose programs often hold %s: %d × %d leaves %s at its upper bound, and no pair "+
			"that is not far slower leaves enough. %s",
			why, roomWords, pair.micro, pair.accum, left(pair), otherwise)
	case pair.choice() != tightest.choice():
		t.s.notes.add("display", "%s, whose programs often hold %s: take %d × %d there, which leaves %s at its upper "+
			"bound. %d × %d fits where nothing else is on the card, and leaves %s. %s",
			why, roomWords, pair.micro, pair.accum, left(pair), tightest.micro, tightest.accum, left(tightest),
			otherwise)
	default:
		t.s.notes.add("display", "%s: %d × %d leaves %s for it at its upper bound.", why, pair.micro, pair.accum,
			left(pair))
	}
}

func (t teller) explainEdge(edge limit) {
	best, next := edge.best, edge.next
	if best == nil || next == nil || next.result == nil {
		return
	}
	more, by := next.deviceBytes()-best.deviceBytes(), ""
	if next.atLeast() {
		more, by = next.result.Peak.AllocatedBytes-best.result.Peak.AllocatedBytes, "at least "
	}
	t.s.notes.add("largest-micro-batch", "A micro-batch of %d is the largest that fits. One more %s takes about "+
		"%s; at %d the upper bound passes the card by %s%s.",
		best.micro, t.example(), estimator.Bytes(more/(next.micro-best.micro)), next.micro, by,
		estimator.Bytes(next.highBytes()-next.fit().UsableBytes))
}

// example is one of what a micro-batch counts.
func (t teller) example() string {
	if o := t.s.costs.base.Job.Training.Objective; o != nil && o.Kind == "diffusion" {
		return "picture"
	}
	return "sequence"
}

// unit is what steps of one time are compared by.
func (t teller) unit() string {
	if t.example() == "picture" {
		return "pictures"
	}
	return "tokens"
}

// explainFloor says what holds the memory that no micro-batch gives back.
func (t teller) explainFloor() {
	f := t.s.floor.fit()
	if f.Verdict == estimator.Fits || f.Verdict == estimator.Unknown {
		return
	}
	parts := slices.Clone(t.s.floor.result.Components)
	slices.SortStableFunc(parts, func(a, b estimator.Component) int {
		return int(min(max(b.Bytes-a.Bytes, -1), 1))
	})
	var held []string
	for _, c := range parts[:min(3, len(parts))] {
		if c.Bytes > 0 {
			held = append(held, strings.ReplaceAll(c.Name, "_", " ")+" "+estimator.Bytes(c.Bytes).String())
		}
	}
	at := "one " + t.example()
	if t.s.floor.micro > 1 {
		at = fmt.Sprintf("%d %ss, the least that its trainer takes,", t.s.floor.micro, t.example())
	}
	text := fmt.Sprintf("No micro-batch fits: at %s the job takes %s of %s", at,
		leastOf(t.s.floor), estimator.Bytes(f.UsableBytes))
	if len(held) > 0 {
		text += ", most of it " + strings.Join(held, ", ")
	}
	t.s.notes.add("floor", "%s.", text)
}

func (t teller) explainBatch() {
	b := t.s.batch
	if b.Target/b.GPUs > pairing.MaxMicroBatch {
		t.s.notes.add("pairs-left-out", "Pairs with a micro-batch or an accumulation above %d are not listed: no job "+
			"may ask for them.", pairing.MaxMicroBatch)
	}
	if b.Target%b.GPUs != 0 {
		var near []string
		for _, n := range b.Nearest() {
			near = append(near, fmt.Sprintf("%d (%+.2g %%)", n, b.Deviation(n)))
		}
		t.s.notes.add("no-exact-pair", "%s cannot be shared evenly by %d data-parallel GPUs. The nearest "+
			"effective batches are %s.",
			document.Count(int(b.Target), t.example()), b.GPUs, strings.Join(near, " and "))
	}
}

// explainOtherGPUs says where the table of the job's GPUs is.
func (t teller) explainOtherGPUs(gpus []document.GPUPlan) {
	if len(gpus) == 0 {
		return
	}
	fitting := 0
	for _, g := range gpus {
		if g.Recommended != nil {
			fitting++
		}
	}
	t.s.notes.add("other-gpus", "The options and pairs are for %s. Of the %d GPUs that the job names, a pair fits on %d.",
		t.s.gpu.ID, len(gpus), fitting)
}

// leastOf is what a candidate takes, in words that say where it is the least.
func leastOf(j judged) string { return document.Least(j.deviceBytes(), j.atLeast()) }
