package planner

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// drawRequest makes a plan request with random sizes, and a fake that answers it.
func drawRequest(t *rapid.T) (Request, *fake) {
	r := story()
	tr := &r.Input.Job.Training
	heads := rapid.Int64Range(1, 16).Draw(t, "heads")
	r.Input.Job.Model.NanoGPT = &model.NanoGPT{
		Layers: rapid.Int64Range(1, 48).Draw(t, "layers"), Heads: heads, Embedding: 64 * heads,
		BlockSize: 1024, Vocabulary: rapid.Int64Range(1, 300000).Draw(t, "vocabulary"),
	}
	tr.MicroBatch = rapid.Int64Range(0, 600).Draw(t, "micro")
	tr.GradientAccumulation = rapid.Int64Range(0, 600).Draw(t, "accumulation")
	tr.Precision = rapid.SampledFrom([]estimator.Precision{"", estimator.PrecisionAMPBF16, estimator.PrecisionFP32,
		estimator.PrecisionBF16}).Draw(t, "precision")
	tr.Attention = rapid.SampledFrom([]string{"", "sdpa", "eager"}).Draw(t, "attention")
	tr.Framework = rapid.SampledFrom([]string{"", "hf-trainer", "megatron", "torchtitan", "axolotl"}).Draw(t,
		"framework")
	tr.Optimizer.Implementation = rapid.SampledFrom([]string{"", "foreach", "fused", "for-loop"}).Draw(t,
		"implementation")
	if rapid.Bool().Draw(t, "distributed") {
		tr.Distributed = &estimator.Distributed{
			WorldSize: rapid.Int64Range(1, 64).Draw(t, "world"),
			Data:      rapid.SampledFrom([]string{"", "ddp", "fsdp", "zero2", "zero3"}).Draw(t, "data"),
		}
	}
	if tr.MicroBatch == 0 || rapid.Bool().Draw(t, "stated") {
		r.EffectiveBatch = rapid.OneOf(
			rapid.Int64Range(1, 4096),
			rapid.SampledFrom([]int64{1, 2, 509, 7919, 1 << 20, 1<<31 - 1, 1 << 31, 2095133040}),
		).Draw(t, "effective")
	}
	r.Input.GPUs[0].UsableBytes = rapid.Int64Range(0, 100000).Draw(t, "usable") * mib
	if rapid.Bool().Draw(t, "bare card") {
		r.Input.GPUs[0] = estimator.GPU{ID: "bare", UsableBytes: r.Input.GPUs[0].UsableBytes}
	}
	for i := range rapid.IntRange(0, 5).Draw(t, "further cards") {
		r.Input.GPUs = append(r.Input.GPUs, estimator.GPU{
			ID: fmt.Sprint("card-", i), UsableBytes: rapid.Int64Range(0, 100000).Draw(t, "its memory") * mib,
			Multiprocessors: rapid.IntRange(0, 144).Draw(t, "its multiprocessors"),
		})
	}
	f := &fake{
		base: rapid.Int64Range(1, 20000).Draw(t, "base") * mib, activations: rapid.Int64Range(1, 4000).Draw(t,
			"activations") * mib,
		logits: rapid.Int64Range(0, 4000).Draw(t, "logits") * mib,
	}
	return r, f
}

func TestPlanProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, f := drawRequest(t)
		p, err := MakeWith(t.Context(), r, f.estimate)
		if err != nil {
			t.Fatalf("MakeWith: %v", err)
		}
		if n := f.asked.Load(); n > 2000 {
			t.Errorf("%d estimates", n)
		}
		checkPairs(t, r, p, f.estimate)
		checkPicks(t, p)
		checkOptions(t, p)
		checkCards(t, r, p, f.estimate)
		checkChanges(t, r, p, f.estimate)
		if p.Markdown() == "" || p.Text() == "" || p.WideText() == "" {
			t.Error("nothing printed")
		}
		for line := range strings.Lines(p.Text()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > document.LineWidth {
				t.Errorf("%d columns: %s", n, line)
			}
		}
	})
}

func checkPairs(t *rapid.T, r Request, p *document.Plan, estimate asking.Estimator) {
	for i, x := range p.Pairs {
		if got := x.MicroBatch * x.GradientAccumulation * p.DataParallelGPUs; got != p.EffectiveBatch ||
			x.EffectiveBatch != got {
			t.Errorf("%d × %d on %d GPUs is %d, not %d", x.MicroBatch, x.GradientAccumulation, p.DataParallelGPUs, got,
				p.EffectiveBatch)
		}
		if i > 0 && x.MicroBatch >= p.Pairs[i-1].MicroBatch {
			t.Errorf("%d comes after %d", x.MicroBatch, p.Pairs[i-1].MicroBatch)
		}
		in := r.Input
		in.Job.Training.MicroBatch, in.Job.Training.GradientAccumulation = x.MicroBatch, x.GradientAccumulation
		again, err := estimate(in)
		if err != nil {
			t.Fatalf("%d × %d: %v", x.MicroBatch, x.GradientAccumulation, err)
		}
		if again.Peak.DeviceBytes != x.DeviceBytes || again.Peak.LowBytes != x.LowBytes ||
			again.Peak.HighBytes != x.HighBytes || again.GPUs[0].Verdict != x.Verdict {
			t.Errorf("%d × %d is %d–%d–%d bytes and %s in the plan, %d–%d–%d and %s in an estimate", x.MicroBatch,
				x.GradientAccumulation,
				x.LowBytes, x.DeviceBytes, x.HighBytes, x.Verdict, again.Peak.LowBytes, again.Peak.DeviceBytes,
				again.Peak.HighBytes, again.GPUs[0].Verdict)
		}
		if !(x.RelativeStepTime > 0) {
			t.Errorf("%d × %d has relative step time %v", x.MicroBatch, x.GradientAccumulation, x.RelativeStepTime)
		}
	}
}

// checkCards asks about every pair on every card of the job.
func checkCards(t *rapid.T, r Request, p *document.Plan, estimate asking.Estimator) {
	if len(r.Input.GPUs) > 1 && len(p.GPUs) != len(r.Input.GPUs) {
		t.Fatalf("%d cards in the plan, %d in the job", len(p.GPUs), len(r.Input.GPUs))
	}
	for i, g := range p.GPUs {
		for _, x := range p.Pairs {
			in := r.Input
			in.GPUs = in.GPUs[i : i+1]
			in.Job.Training.MicroBatch, in.Job.Training.GradientAccumulation = x.MicroBatch, x.GradientAccumulation
			again, err := estimate(in)
			if err != nil {
				t.Fatal(err)
			}
			fits := again.GPUs[0].Verdict == estimator.Fits
			if g.Recommended == nil && fits {
				t.Errorf("%s: %d × %d fits but nothing is recommended", g.GPU, x.MicroBatch, x.GradientAccumulation)
			}
			if g.Recommended != nil && *g.Recommended == pairing.At(x.MicroBatch, x.GradientAccumulation) &&
				(!fits || again.Peak.DeviceBytes != g.DeviceBytes) {
				t.Errorf("%s: %d × %d is recommended with %d bytes; an estimate has %d and %s", g.GPU, x.MicroBatch,
					x.GradientAccumulation,
					g.DeviceBytes, again.Peak.DeviceBytes, again.GPUs[0].Verdict)
			}
		}
	}
}

// pairOf finds a choice among the pairs.
func pairOf(p *document.Plan, c pairing.Choice) (document.Pair, bool) {
	for _, x := range p.Pairs {
		if x.MicroBatch == c.MicroBatch && x.GradientAccumulation == c.GradientAccumulation {
			return x, true
		}
	}
	return document.Pair{}, false
}

func checkPicks(t *rapid.T, p *document.Plan) {
	fitting := 0
	for _, x := range p.Pairs {
		if x.Verdict == estimator.Fits {
			fitting++
			if x.MicroBatch > p.LargestMicroBatch {
				t.Errorf("a micro-batch of %d fits, but the largest is said to be %d", x.MicroBatch,
					p.LargestMicroBatch)
			}
		}
	}
	if (p.Recommended != nil) != (fitting > 0) || (p.Safest != nil) != (fitting > 0) {
		t.Errorf("recommended %v, safest %v, but %d pairs fit", p.Recommended, p.Safest, fitting)
	}
	for name, c := range map[string]*pairing.Choice{"recommended": p.Recommended, "safest": p.Safest} {
		if c == nil {
			continue
		}
		x, ok := pairOf(p, *c)
		if !ok || x.Verdict != estimator.Fits {
			t.Errorf("%s %v is %+v", name, *c, x)
		}
		for _, y := range p.Pairs {
			if name == "recommended" && y.Verdict == estimator.Fits && y.DeviceBytes <= x.DeviceBytes &&
				y.RelativeStepTime < x.RelativeStepTime-lever.SettingEffort {
				t.Errorf("%d × %d is recommended, and %d × %d takes less memory and less time", x.MicroBatch,
					x.GradientAccumulation, y.MicroBatch, y.GradientAccumulation)
			}
		}
	}
}

func checkOptions(t *rapid.T, p *document.Plan) {
	// What stands above the table is the best choice in it, and nothing else is.
	for i, o := range p.Options {
		pair := p.Recommended != nil && *p.Recommended == pairing.At(o.MicroBatch, o.GradientAccumulation)
		if o.Recommendation == document.BestChoice && (i > 0 || p.Recommended != nil && !pair) {
			t.Errorf("option %d, %q at %d × %d, is the best choice, and %v is recommended", i+1, o.Title, o.MicroBatch,
				o.GradientAccumulation, p.Recommended)
		}
		if i == 0 && p.Recommended != nil && o.Recommendation != document.BestChoice {
			t.Errorf("%v is recommended, and the first option is %q: %s", p.Recommended, o.Title, o.Recommendation)
		}
	}
	for _, n := range p.Notes {
		if n.Code == "dominated" && p.Recommended != nil &&
			strings.HasPrefix(n.Text, fmt.Sprintf("Left out: reduce the micro-batch only at %d × %d ",
				p.Recommended.MicroBatch, p.Recommended.GradientAccumulation)) {
			t.Errorf("recommended and left out: %s", n.Text)
		}
	}
	changing := false
	for i, o := range p.Options {
		if o.Rank != i+1 {
			t.Errorf("option %d has rank %d", i+1, o.Rank)
		}
		if changing && !o.ChangesTraining {
			t.Errorf("%q leaves training alone but ranks below one that does not", o.Title)
		}
		changing = o.ChangesTraining
		if o.ChangesTraining == (o.TrainingEffect == "none") {
			t.Errorf("%q: changes training %v, effect %q", o.Title, o.ChangesTraining, o.TrainingEffect)
		}
		if o.EffectiveBatch == p.EffectiveBatch != (o.DeviationPercent == 0) {
			t.Errorf("%q: effective batch %d of %d, deviation %v", o.Title, o.EffectiveBatch, p.EffectiveBatch,
				o.DeviationPercent)
		}
		if got := o.MicroBatch * o.GradientAccumulation * o.DataParallelGPUs; got != o.EffectiveBatch {
			t.Errorf("%q: %d × %d on %d GPUs is %d, not %d", o.Title, o.MicroBatch, o.GradientAccumulation,
				o.DataParallelGPUs, got, o.EffectiveBatch)
		}
		if (o.SavesBytes == nil) != o.AtLeast {
			t.Errorf("%q: at least is %v, and what it saves is said: %v", o.Title, o.AtLeast, o.SavesBytes != nil)
		}
		if p.Today != nil && o.SavesBytes != nil && *o.SavesBytes != p.Today.DeviceBytes-o.DeviceBytes {
			t.Errorf("%q saves %d bytes: today takes %d and it %d", o.Title, *o.SavesBytes, p.Today.DeviceBytes,
				o.DeviceBytes)
		}
		if more := o.DataParallelGPUs > p.DataParallelGPUs; more &&
			!(o.RelativeGPUTime > o.RelativeStepTime.Expected) || !more &&
			o.RelativeGPUTime != o.RelativeStepTime.Expected {
			t.Errorf("%q on %d GPUs takes %v of the time and %v of the GPU time", o.Title, o.DataParallelGPUs,
				o.RelativeStepTime.Expected, o.RelativeGPUTime)
		}
		// What costs no further card comes first.
		if i > 0 && o.DataParallelGPUs < p.Options[i-1].DataParallelGPUs && !o.ChangesTraining &&
			o.Verdict == estimator.Fits && o.Changes["gpus"] == nil {
			t.Errorf("%q ranks below %q", o.Title, p.Options[i-1].Title)
		}
		if o.Recommendation == "" || len(o.Changes) == 0 && o.Title != keepTitle {
			t.Errorf("%q changes %v, recommended as %q", o.Title, o.Changes, o.Recommendation)
		}
	}
}

// comfort is how many pairs fit, and the step time of the recommended one; -1 where none does.
func comfort(p *document.Plan) (fits int, best float64) {
	best = -1
	for _, x := range p.Pairs {
		if x.Verdict == estimator.Fits {
			fits++
		}
	}
	if p.Recommended != nil {
		x, _ := pairOf(p, *p.Recommended)
		best = x.RelativeStepTime
	}
	return fits, best
}

func TestMoreMemoryIsNeverWorse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, f := drawRequest(t)
		r.Input.GPUs[0].UsableBytes = max(r.Input.GPUs[0].UsableBytes, mib)
		more := r
		more.Input.GPUs = []estimator.GPU{r.Input.GPUs[0]}
		more.Input.GPUs[0].UsableBytes += rapid.Int64Range(1, 50000).Draw(t, "more") * mib
		small, err := MakeWith(t.Context(), r, f.estimate)
		if err != nil {
			t.Fatal(err)
		}
		large, err := MakeWith(t.Context(), more, f.estimate)
		if err != nil {
			t.Fatal(err)
		}
		if large.LargestMicroBatch < small.LargestMicroBatch {
			t.Errorf("largest micro-batch falls from %d to %d", small.LargestMicroBatch, large.LargestMicroBatch)
		}
		nSmall, tSmall := comfort(small)
		nLarge, tLarge := comfort(large)
		if nLarge < nSmall {
			t.Errorf("%d pairs fit, then %d", nSmall, nLarge)
		}
		// A pair that is a setting's worth slower but already in use may win.
		if nSmall > 0 && tLarge > tSmall+lever.SettingEffort+1e-9 {
			t.Errorf("the recommended pair takes %.3f, then %.3f", tSmall, tLarge)
		}
	})
}
