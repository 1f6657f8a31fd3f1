package planner

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/asking"
	"github.com/vramplan/vramplan/estimator/planner/document"
	"github.com/vramplan/vramplan/estimator/planner/lever"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
	"github.com/vramplan/vramplan/estimator/planner/samples"
)

func mustMake(t *testing.T, r Request, f *fake) *document.Plan {
	t.Helper()
	p, err := MakeWith(t.Context(), r, f.estimate)
	if err != nil {
		t.Fatalf("MakeWith: %v", err)
	}
	return p
}

// noteOf returns the text of the note with a code, or "".
func noteOf(p *document.Plan, code string) string {
	i := slices.IndexFunc(p.Notes, func(n estimator.Note) bool { return n.Code == code })
	if i < 0 {
		return ""
	}
	return p.Notes[i].Text
}

func TestPairsAreEveryDivisor(t *testing.T) {
	tests := []struct {
		effective, gpus int64
		want            []pairing.Choice
	}{
		{512, 1, []pairing.Choice{pairing.At(512, 1), pairing.At(256, 2), pairing.At(128, 4), pairing.At(64, 8),
			pairing.At(32, 16), pairing.At(16, 32), pairing.At(8, 64), pairing.At(4, 128), pairing.At(2, 256),
			pairing.At(1, 512)}},
		{12, 1, []pairing.Choice{pairing.At(12, 1), pairing.At(6, 2), pairing.At(4, 3), pairing.At(3, 4),
			pairing.At(2, 6), pairing.At(1, 12)}},
		{12, 2, []pairing.Choice{pairing.At(6, 1), pairing.At(3, 2), pairing.At(2, 3), pairing.At(1, 6)}},
		{7, 1, []pairing.Choice{pairing.At(7, 1), pairing.At(1, 7)}},
		{1, 1, []pairing.Choice{pairing.At(1, 1)}},
		{12, 5, nil},
	}
	for _, tt := range tests {
		b := pairing.Batch{Target: tt.effective, GPUs: tt.gpus}
		if diff := cmp.Diff(tt.want, b.Pairs(tt.effective)); diff != "" {
			t.Errorf("pairs of %d over %d GPUs (-want +got):\n%s", tt.effective, tt.gpus, diff)
		}
	}
}

func TestPlanOfTheStory(t *testing.T) {
	p := mustMake(t, story(), storyFake())
	if p.EffectiveBatch != 512 || p.GPU != "rtx-4070" || len(p.Pairs) != 10 {
		t.Errorf("effective batch %d on %q with %d pairs, want 512 on rtx-4070 with 10", p.EffectiveBatch, p.GPU,
			len(p.Pairs))
	}
	if p.Today == nil || p.Today.Verdict != estimator.DoesNotFit || p.Today.DeviceBytes != 2500*mib+16*920*mib {
		t.Errorf("today is %+v", p.Today)
	}
	if diff := cmp.Diff(new(pairing.At(8, 64)), p.Recommended); diff != "" {
		t.Errorf("recommended (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(new(pairing.At(4, 128)), p.Safest); diff != "" {
		t.Errorf("safest (-want +got):\n%s", diff)
	}
	if p.LargestMicroBatch != 9 {
		t.Errorf("largest micro-batch %d, want 9", p.LargestMicroBatch)
	}
	if p.FloorBytes != 3420*mib {
		t.Errorf("floor %d, want %d", p.FloorBytes, 3420*mib)
	}
	first := p.Options[0]
	if first.Title != "Reduce the micro-batch only" || first.Recommendation != "best choice" ||
		first.TrainingEffect != "none" {
		t.Errorf("first option is %+v", first)
	}
	if want := []string{"batch_size = 8", "gradient_accumulation_steps = 64"}; !slices.Equal(first.Settings, want) {
		t.Errorf("settings %q, want %q", first.Settings, want)
	}
	if *first.SavesBytes != 8*920*mib {
		t.Errorf("saves %d, want %d", *first.SavesBytes, 8*920*mib)
	}
}

func TestAbsentMicroBatchMeansNoToday(t *testing.T) {
	r := story()
	r.Input.Job.Training.MicroBatch, r.Input.Job.Training.GradientAccumulation = 0, 0
	r.EffectiveBatch = 512
	p := mustMake(t, r, storyFake())
	if p.Today != nil {
		t.Errorf("today is %+v, want null", p.Today)
	}
	if x, _ := pairOf(p, pairing.At(8, 64)); x.RelativeStepTime != 1 {
		t.Errorf("the largest pair that fits has relative time %v, want 1", x.RelativeStepTime)
	}
	if p.Recommended == nil || *p.Recommended != pairing.At(8, 64) {
		t.Errorf("recommended %+v, want 8 × 64", p.Recommended)
	}
}

func TestBadBatches(t *testing.T) {
	tests := []struct {
		name    string
		set     func(*Request)
		pointer string
		code    string
	}{
		{"nothing given", func(r *Request) { r.Input.Job.Training.MicroBatch = 0 }, "/effective_batch", "required"},
		{"negative", func(r *Request) { r.EffectiveBatch = -1 }, "/effective_batch", "out_of_range"},
		{"too large", func(r *Request) { r.EffectiveBatch = 1<<31 + 1 }, "/effective_batch", "out_of_range"},
		{"product overflows", func(r *Request) {
			r.Input.Job.Training.MicroBatch, r.Input.Job.Training.GradientAccumulation = 1<<30, 1<<30
			r.Input.Job.Training.Distributed = &estimator.Distributed{WorldSize: 1 << 20}
		}, "/training/gradient_accumulation", "out_of_range"},
		{"more groups than the world holds", func(r *Request) {
			r.Input.Job.Training.Distributed = &estimator.Distributed{WorldSize: 8, TensorParallel: 1 << 32,
				PipelineParallel: 1 << 32}
		}, "/training/distributed/world_size", "not_divisible"},
		{"groups do not divide the world", func(r *Request) {
			r.Input.Job.Training.Distributed = &estimator.Distributed{WorldSize: 8, TensorParallel: 3}
		}, "/training/distributed/world_size", "not_divisible"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := story()
			tt.set(&r)
			_, err := MakeWith(t.Context(), r, storyFake().estimate)
			var bad *estimator.InvalidJobError
			if !errors.As(err, &bad) {
				t.Fatalf("error %v, want an InvalidJobError", err)
			}
			if f := bad.Fields[0]; f.Pointer != tt.pointer || f.Code != tt.code {
				t.Errorf("%s %s (%s), want %s %s", f.Pointer, f.Code, f.Detail, tt.pointer, tt.code)
			}
		})
	}
}

func TestDataParallelGPUsShareTheBatch(t *testing.T) {
	r := story()
	r.Input.Job.Training.Distributed = &estimator.Distributed{WorldSize: 8, TensorParallel: 2, Data: "ddp"}
	r.EffectiveBatch = 512
	p := mustMake(t, r, storyFake())
	if p.DataParallelGPUs != 4 {
		t.Errorf("%d data-parallel GPUs, want 4", p.DataParallelGPUs)
	}
	for _, x := range p.Pairs {
		if x.MicroBatch*x.GradientAccumulation*4 != 512 {
			t.Errorf("%d × %d on 4 GPUs is not 512", x.MicroBatch, x.GradientAccumulation)
		}
	}
	// train.py divides gradient_accumulation_steps by the number of processes.
	if got, want := p.Options[0].Settings[1], "gradient_accumulation_steps = 64"; got != want {
		t.Errorf("setting %q, want %q", got, want)
	}
	if noteOf(p, "ddp-no-sync") == "" {
		t.Error("no note on no_sync")
	}
}

func TestGPUsThatDoNotDivideTheBatch(t *testing.T) {
	r := story()
	r.Input.Job.Training.Distributed = &estimator.Distributed{WorldSize: 7, Data: "ddp"}
	r.EffectiveBatch = 512
	p := mustMake(t, r, storyFake())
	if len(p.Pairs) != 0 || p.Recommended != nil {
		t.Fatalf("%d pairs and recommended %v, want none", len(p.Pairs), p.Recommended)
	}
	if note := noteOf(p, "no-exact-pair"); !strings.Contains(note, "511 (-0.2 %) and 518 (+1.2 %)") {
		t.Errorf("note %q does not name the nearest batches", note)
	}
	// Eight GPUs divide the batch; on seven, every way changes it.
	if len(p.Options) < 2 || p.Options[0].DataParallelGPUs != 8 || p.Options[0].DeviationPercent != 0 {
		t.Fatalf("the first option is not a number of GPUs that divides the batch: %+v", p.Options)
	}
	for _, o := range p.Options[1:] {
		if o.DataParallelGPUs != 7 || o.DeviationPercent == 0 || !o.ChangesTraining {
			t.Errorf("%q does not state the deviation: %+v", o.Title, o)
		}
	}
}

func TestPrimeBatchOffersANeighbour(t *testing.T) {
	r := story()
	r.EffectiveBatch = 509
	p := mustMake(t, r, storyFake())
	if want := pairing.At(1, 509); p.Recommended == nil || *p.Recommended != want {
		t.Errorf("recommended %v, want %v, the only exact pair that fits", p.Recommended, want)
	}
	i := slices.IndexFunc(p.Options, func(o document.Option) bool {
		return strings.HasPrefix(o.Title, "Nearest effective batch")
	})
	if i < 0 {
		t.Fatal("no option with a neighbouring batch")
	}
	if o := p.Options[i]; o.MicroBatch < 5 || math.Abs(o.DeviationPercent) > 1 || o.DeviationPercent == 0 {
		t.Errorf("%d × %d deviates by %v %%", o.MicroBatch, o.GradientAccumulation, o.DeviationPercent)
	}
}

func TestLargestMicroBatchLooksPastABump(t *testing.T) {
	f := storyFake()
	f.bumps = map[int64]int64{9: 2000 * mib, 8: 100 * mib}
	f.activations = 300 * mib // 10 fits but for the bump at 9
	p := mustMake(t, story(), f)
	if p.LargestMicroBatch != 10 {
		t.Errorf("largest micro-batch %d, want 10", p.LargestMicroBatch)
	}
}

// An estimator whose answers make no sense must not keep the search going.
func TestLargestMicroBatchEnds(t *testing.T) {
	odd := func(in estimator.Input) (*estimator.Result, error) {
		r, err := storyFake().estimate(in)
		if in.Job.Training.MicroBatch%2 == 1 && err == nil {
			r.GPUs[0].Verdict = estimator.Fits
		}
		return r, err
	}
	var asked atomic.Int64 // the planner asks from several goroutines
	count := func(in estimator.Input) (*estimator.Result, error) {
		asked.Add(1)
		return odd(in)
	}
	b, err := pairing.Of(story().Input.Job.Training, 0)
	if err != nil {
		t.Fatal(err)
	}
	request := story()
	s := newSearch(asking.New(count, request.Input, b, request.Brief, request.Brief))
	if err := s.survey(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.largest(t.Context(), lever.Variant{}); err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); n > 500 {
		t.Errorf("%d estimates", n)
	}
}

func TestPairsBeyondWhatCanBeEstimated(t *testing.T) {
	f := storyFake()
	f.refuseFrom = 300
	p := mustMake(t, story(), f)
	if len(p.Pairs) != 9 || p.Pairs[0].MicroBatch != 256 {
		t.Errorf("%d pairs from %d, want 9 from 256", len(p.Pairs), p.Pairs[0].MicroBatch)
	}
	if noteOf(p, "pairs-left-out") == "" {
		t.Error("the pair is left out silently")
	}
}

func TestUnknownCard(t *testing.T) {
	for name, gpus := range map[string][]estimator.GPU{"no GPU": nil, "no capacity": {{ID: "b100"}}} {
		r := story()
		r.Input.GPUs = gpus
		r.Catalog = []estimator.GPU{samples.RTX4070(), {ID: "rtx-4090", UsableBytes: 24000 * mib},
			{ID: "a100", UsableBytes: 80000 * mib}}
		p := mustMake(t, r, storyFake())
		if p.Recommended != nil || len(p.Options) != 0 || p.Pairs[0].Verdict != estimator.Unknown {
			t.Errorf("%s: recommended %v, %d options, verdict %s", name, p.Recommended, len(p.Options),
				p.Pairs[0].Verdict)
		}
		if want := []string{"rtx-4090", "a100"}; !slices.Equal(p.SmallestGPUs, want) {
			t.Errorf("%s: smallest GPUs %q, want %q", name, p.SmallestGPUs, want)
		}
	}
}

func TestLargerGPUWhereNothingElseHelps(t *testing.T) {
	r := story()
	r.Input.GPUs[0].UsableBytes = 100 * mib
	r.Catalog = []estimator.GPU{samples.RTX4070(), {ID: "rtx-4090", UsableBytes: 24000 * mib}}
	p := mustMake(t, r, storyFake())
	i := slices.IndexFunc(p.Options, func(o document.Option) bool { return o.Verdict == estimator.Fits })
	if i < 0 || p.Options[i].Recommendation == "" || !slices.Equal(p.Options[i].Settings, []string{"rtx-4090"}) {
		t.Errorf("the larger card is not offered:\n%s", p.Text())
	}
	checkChanges(t, r, p, storyFake().estimate)
}

func TestEveryGPUOfTheJob(t *testing.T) {
	r := story()
	r.Input.GPUs = append(r.Input.GPUs, estimator.GPU{ID: "small", UsableBytes: 6000 * mib},
		estimator.GPU{ID: "tiny", UsableBytes: 1000 * mib},
		estimator.GPU{ID: "unknown"}, estimator.GPU{ID: "rtx-4090", UsableBytes: 24000 * mib})
	p := mustMake(t, r, storyFake())
	type row struct {
		gpu     string
		verdict estimator.Verdict
		pair    pairing.Choice
	}
	want := []row{
		{"rtx-4070", estimator.DoesNotFit, pairing.At(8, 64)}, {"small", estimator.DoesNotFit, pairing.At(2, 256)},
		{"tiny", estimator.DoesNotFit, pairing.Choice{}},
		{"unknown", estimator.Unknown, pairing.Choice{}}, {"rtx-4090", estimator.Fits, pairing.At(16, 32)},
	}
	var got []row
	for _, g := range p.GPUs {
		x := row{gpu: g.GPU, verdict: g.Verdict}
		if g.Recommended != nil {
			x.pair = *g.Recommended
			pair, _ := pairOf(p, x.pair)
			if g.DeviceBytes != pair.DeviceBytes {
				t.Errorf("%s: %d × %d takes %d bytes in the table of cards and %d in that of pairs", g.GPU,
					x.pair.MicroBatch, x.pair.GradientAccumulation, g.DeviceBytes, pair.DeviceBytes)
			}
		}
		got = append(got, x)
	}
	if !slices.Equal(got, want) {
		t.Errorf("cards\n%v, want\n%v", got, want)
	}
	const note = "The options and pairs are for rtx-4070. Of the 5 GPUs that the job names, a pair fits on 3."
	if got := noteOf(p, "other-gpus"); got != note {
		t.Errorf("note %q, want %q", got, note)
	}
	if r.Input.GPUs = r.Input.GPUs[:1]; len(mustMake(t, r, storyFake()).GPUs) != 0 {
		t.Error("a job with one card has a table of cards")
	}
}

func TestFrontierFallsWithTheSequence(t *testing.T) {
	r := story()
	r.Frontier = true
	p := mustMake(t, r, storyFake())
	var lengths []int64
	for i, x := range p.Frontier {
		lengths = append(lengths, x.SequenceLength)
		if i > 0 && x.LargestMicroBatch > p.Frontier[i-1].LargestMicroBatch {
			t.Errorf("at %d tokens %d sequences fit, more than at %d", x.SequenceLength, x.LargestMicroBatch,
				p.Frontier[i-1].SequenceLength)
		}
	}
	if want := []int64{128, 256, 512, 1024}; !slices.Equal(lengths, want) {
		t.Errorf("lengths %v, want %v", lengths, want)
	}
	for _, c := range p.Grid {
		i := slices.IndexFunc(p.Frontier,
			func(x document.FrontierPoint) bool { return x.SequenceLength == c.SequenceLength })
		if fits := c.MicroBatch <= p.Frontier[i].LargestMicroBatch; fits != (c.Verdict == estimator.Fits) {
			t.Errorf("%d sequences of %d tokens %s, although %d is the largest number that fits", c.MicroBatch,
				c.SequenceLength, c.Verdict, p.Frontier[i].LargestMicroBatch)
		}
	}
	for i, x := range p.Sequences {
		if i > 0 && x.LargestSequenceLength > p.Sequences[i-1].LargestSequenceLength {
			t.Errorf("%d sequences may be longer than %d", x.MicroBatch, p.Sequences[i-1].MicroBatch)
		}
	}
	if got := p.Frontier[3].LargestMicroBatch; got != p.LargestMicroBatch {
		t.Errorf("at the job's own length %d fit, elsewhere %d", got, p.LargestMicroBatch)
	}
}

func TestEndedContextAndBrokenEstimator(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := MakeWith(ctx, story(), storyFake().estimate); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after the context ended", err)
	}
	broken := errors.New("broken")
	_, err := MakeWith(t.Context(), story(), func(estimator.Input) (*estimator.Result, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("error %v, want the estimator's", err)
	}
}

func TestSamePlanEveryTime(t *testing.T) {
	var want []byte
	for range 20 {
		got, err := json.Marshal(mustMake(t, story(), storyFake()))
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if string(got) != string(want) {
			t.Fatalf("a second plan differs:\n%s\n%s", got, want)
		}
	}
}

func TestMostPairs(t *testing.T) {
	// 2,095,133,040 has 1,536 divisors, the most of any number below 2³¹.
	r := story()
	r.EffectiveBatch = 2095133040
	f := storyFake()
	p := mustMake(t, r, f)
	if len(p.Pairs) < 1500 {
		t.Errorf("%d pairs", len(p.Pairs))
	}
	if n := f.asked.Load(); n > 2000 {
		t.Errorf("%d estimates for %d pairs", n, len(p.Pairs))
	}
}

// A plan without a card says why nothing is judged in it.
func TestNoGPUIsSaid(t *testing.T) {
	r := story()
	if noteOf(mustMake(t, r, storyFake()), "no-gpu") != "" {
		t.Error("a job that names a card is told to name one")
	}
	r.Input.GPUs = nil
	p := mustMake(t, r, storyFake())
	if noteOf(p, "no-gpu") == "" || len(p.Options) > 0 {
		t.Errorf("notes %v, options %v without a card", p.Notes, p.Options)
	}
}

func TestRangeHoldsTheExpectation(t *testing.T) {
	for _, x := range mustMake(t, story(), storyFake()).Options {
		if r := x.RelativeStepTime; r.Low > r.Expected || r.Expected > r.High || r.Basis != "model" {
			t.Errorf("%s: %+v", x.Title, r)
		}
	}
}
