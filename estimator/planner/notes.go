package planner

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// explain writes the notes that belong to the whole plan.
func (t teller) explain(edge limit, p *document.Plan) {
	t.explainDisplay()
	t.explainToday()
	t.explainEdge(edge)
	t.explainFloor()
	t.explainBatch()
	accumulates := t.s.rank.today != nil && t.s.rank.today.Accum > 1
	for _, o := range p.Options {
		accumulates = accumulates || o.Verdict == estimator.Fits && o.GradientAccumulation > 1
	}
	t.caveats(accumulates)
	t.exchanges(p.Options)
	t.explainOtherGPUs(p.GPUs)
	t.explainCosts(p.GPUs)
	t.s.ExplainBudget()
	t.explainLeast(p)
	relativeTo := "the job as it is today"
	if t.s.rank.today == nil {
		which := "largest pair that fits"
		if !t.s.reference.Fits() {
			which = "smallest pair"
		}
		relativeTo = fmt.Sprintf("%d × %d, the %s, since the job has no micro-batch", t.s.reference.Micro,
			t.s.reference.Accum, which)
	}
	facts := ""
	if t.s.GPU.PeakFLOPS <= 0 || t.s.GPU.BandwidthBytesPerSecond <= 0 || t.s.GPU.Multiprocessors <= 0 {
		facts = " Some data of this card are not known and were replaced by usual ones."
	}
	from := "a model, not from a run"
	if t.s.Basis == asking.BasisCalibrated {
		from = "a model that was fitted to measured steps"
	}
	t.s.Notes.Add("step-time-model", "Relative step times come from "+from+
		": time for the same number of %s, relative to %s.%s", t.unit(), relativeTo, facts)
}

func (tell teller) explainToday() {
	if tell.s.GPU.ID == "" {
		tell.s.Notes.Add("no-gpu", "The job names no GPU: nothing is said to fit or not, and no ways out are ranked. Name "+
			"one in gpus (--gpu).")
	}
	t := tell.s.rank.today
	if t == nil {
		return
	}
	switch t.Fit().Verdict {
	case estimator.Fits:
		tell.s.Notes.Add("today-fits", "The job as it is today takes %s of %s.", estimator.Bytes(t.DeviceBytes()),
			estimator.Bytes(t.Fit().UsableBytes))
	case estimator.Unknown:
	default:
		takes := fmt.Sprintf("%s (up to %s)", estimator.Bytes(t.DeviceBytes()), estimator.Bytes(t.HighBytes()))
		if t.AtLeast() {
			takes = asking.Sized(*t)
		}
		tell.s.Notes.Add("today-short", "The job as it is today takes %s; the card has %s. The peak is in %s.",
			takes, estimator.Bytes(t.Fit().UsableBytes), document.PeakOf(t.Result))
	}
	if !tell.s.Batch.Exact() {
		tell.s.Notes.Add("today-differs", "Today's %d × %d on %s is an effective batch of %d, not %d.",
			t.Micro, t.Accum, document.Count(int(tell.s.Batch.GPUs), "data-parallel GPU"), tell.s.Batch.Effective(t.Micro, t.Accum),
			tell.s.Batch.Target)
	}
}

// explainDisplay says what the recommendation leaves for a display, where the card drives one.
func (t teller) explainDisplay() {
	pair, tightest := t.s.rank.besideDisplay(t.s.exact), t.s.rank.fastest(t.s.exact, 1)
	room := t.s.Costs.Base.Job.DisplayRoom(&t.s.GPU)
	if pair == nil {
		return
	}
	left := func(j *asking.Judged) string { return estimator.Bytes(t.s.rank.spare(*j)).String() }
	why := t.s.GPU.ID + " drives a display"
	if t.s.Costs.Base.Job.Display == nil {
		why = fmt.Sprintf("%s is a %s card and may drive a display", t.s.GPU.ID, t.s.GPU.Line)
	}
	const roomWords = "1 GiB"
	const otherwise = "Say display: false (--no-display) where it drives none, or in reserve_bytes (--reserve " +
		"300MiB) what is held."
	switch {
	case t.s.rank.spare(*pair) < room:
		t.s.Notes.Add("display", "%s, whose programs often hold %s: %d × %d leaves %s at its upper bound, and no pair "+
			"that is not far slower leaves enough. %s",
			why, roomWords, pair.Micro, pair.Accum, left(pair), otherwise)
	case pair.Choice() != tightest.Choice():
		t.s.Notes.Add("display", "%s, whose programs often hold %s: take %d × %d there, which leaves %s at its upper "+
			"bound. %d × %d fits where nothing else is on the card, and leaves %s. %s",
			why, roomWords, pair.Micro, pair.Accum, left(pair), tightest.Micro, tightest.Accum, left(tightest),
			otherwise)
	default:
		t.s.Notes.Add("display", "%s: %d × %d leaves %s for it at its upper bound.", why, pair.Micro, pair.Accum,
			left(pair))
	}
}

func (t teller) explainEdge(edge limit) {
	best, next := edge.best, edge.next
	if best == nil || next == nil || next.Result == nil {
		return
	}
	more, by := next.DeviceBytes()-best.DeviceBytes(), ""
	if next.AtLeast() {
		more, by = next.Result.Peak.AllocatedBytes-best.Result.Peak.AllocatedBytes, "at least "
	}
	t.s.Notes.Add("largest-micro-batch", "A micro-batch of %d is the largest that fits. One more %s takes about "+
		"%s; at %d the upper bound passes the card by %s%s.",
		best.Micro, t.example(), estimator.Bytes(more/(next.Micro-best.Micro)), next.Micro, by,
		estimator.Bytes(next.HighBytes()-next.Fit().UsableBytes))
}

// example is one of what a micro-batch counts.
func (t teller) example() string {
	if o := t.s.Costs.Base.Job.Training.Objective; o != nil && o.Kind == "diffusion" {
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
	f := t.s.floor.Fit()
	if f.Verdict == estimator.Fits || f.Verdict == estimator.Unknown {
		return
	}
	parts := slices.Clone(t.s.floor.Result.Components)
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
	if t.s.floor.Micro > 1 {
		at = fmt.Sprintf("%d %ss, the least that its trainer takes,", t.s.floor.Micro, t.example())
	}
	text := fmt.Sprintf("No micro-batch fits: at %s the job takes %s of %s", at,
		asking.Sized(t.s.floor), estimator.Bytes(f.UsableBytes))
	if len(held) > 0 {
		text += ", most of it " + strings.Join(held, ", ")
	}
	t.s.Notes.Add("floor", "%s.", text)
}

func (t teller) explainBatch() {
	b := t.s.Batch
	if b.Target/b.GPUs > pairing.MaxMicroBatch {
		t.s.Notes.Add("pairs-left-out", "Pairs with a micro-batch or an accumulation above %d are not listed: no job "+
			"may ask for them.", pairing.MaxMicroBatch)
	}
	if b.Target%b.GPUs != 0 {
		var near []string
		for _, n := range b.Nearest() {
			near = append(near, fmt.Sprintf("%d (%+.2g %%)", n, b.Deviation(n)))
		}
		t.s.Notes.Add("no-exact-pair", "%s cannot be shared evenly by %d data-parallel GPUs. The nearest "+
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
	t.s.Notes.Add("other-gpus", "The options and pairs are for %s. Of the %d GPUs that the job names, a pair fits on %d.",
		t.s.GPU.ID, len(gpus), fitting)
}

// explainLeast says what the bytes of a brief plan are where they are not whole.
func (t teller) explainLeast(p *document.Plan) {
	some := p.FloorAtLeast || p.Today != nil && p.Today.AtLeast
	for i := range p.Pairs {
		some = some || p.Pairs[i].AtLeast
	}
	for i := range p.Options {
		some = some || p.Options[i].AtLeast
	}
	if some {
		t.s.Notes.Add("at-least", "Bytes that are marked so are the least that something takes which does not fit: what "+
			"is alive at its largest moment, without what the allocator reserves beyond. Plans that are not brief have "+
			"the rest.")
	}
}
