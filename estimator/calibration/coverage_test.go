package calibration_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/memory"
)

// within is the share of runs whose process lies between the bounds of a confidence.
func within(c *calibration.Calibration, rows []calibration.Row, confidence float64) float64 {
	n := 0
	for _, r := range rows {
		f := r.Base.Bounded(c.For(r.Key).Correction(r.Base.Reserved, confidence), confidence)
		if f.Low <= r.Device && r.Device <= f.High {
			n++
		}
	}
	return float64(n) / float64(len(rows))
}

// New runs lie between the bounds as often as is promised, whatever the distribution of what is left: on
// average over fits, which is what split-conformal bounds promise.
func TestBoundsCoverWhatTheyPromise(t *testing.T) {
	skewed := func(s *site) float64 { return s.random.ExpFloat64() * 120 * mib }
	heavy := func(s *site) float64 {
		return 30 * mib * s.random.NormFloat64() / math.Sqrt(s.random.ExpFloat64()+0.05)
	}
	for name, left := range map[string]func(*site) float64{
		"normal":               func(s *site) float64 { return 60 * mib * s.random.NormFloat64() },
		"skewed":               skewed,
		"heavy":                heavy,
		"growing with the job": func(s *site) float64 { return 0 },
	} {
		t.Run(name, func(t *testing.T) {
			const fits = 60
			got := map[float64]float64{}
			confidences := []float64{0.5, 0.8, 0.9, 0.95}
			for seed := range uint64(fits) {
				s := newSite(seed, "rtx-4090", "llama")
				s.noise, s.context = 0, 90*mib
				runs := func(n int) []calibration.Row {
					list := s.runs(n)
					for i := range list {
						more := left(s)
						if name == "growing with the job" {
							more = 0.02 * s.random.NormFloat64() * float64(list[i].Base.Reserved)
						}
						list[i].Reserved = 0
						list[i].Device += int64(more)
					}
					return list
				}
				c := fitted(t, runs(60))
				fresh := runs(400)
				for _, confidence := range confidences {
					got[confidence] += within(c, fresh, confidence) / fits
				}
			}
			for _, confidence := range confidences {
				// Setting runs apart that lie far from the others costs a heavy tail what lies in it.
				if promised := confidence - 0.012; got[confidence] < promised {
					t.Errorf("at %g %g of new runs lie between the bounds", confidence, got[confidence])
				}
			}
		})
	}
}

// Beyond what so many runs can promise, the bounds are those of the estimator or wider.
func TestFewRunsPromiseLittle(t *testing.T) {
	s := newSite(1, "rtx-4090", "llama")
	s.noise = 1 * mib
	g := fitted(t, s.runs(60)).For(s.key)
	if !g.Promises(0.95) || g.Promises(0.99) {
		t.Errorf("40 runs promise %+v", g.Bounds)
	}
	b := base(5 * gib)
	narrow, wide := b.Bounded(g.Correction(b.Reserved, 0.95), 0.95), b.Bounded(g.Correction(b.Reserved, 0.99), 0.99)
	own := b.Bounded(memory.Correction{}, 0.99)
	if narrow.High-narrow.Device >= own.High-own.Device || wide.High-wide.Device < own.High-own.Device || wide.Limit+
		wide.Context-wide.Low < own.Limit+own.Context-own.Low {
		t.Errorf("at 95 %%: %+v\nat 99 %%: %+v\nbuilt in: %+v", narrow, wide, own)
	}
}

// Jobs far outside of what was measured get no narrower bounds, and no more in proportion than the largest.
func TestBeyondWhatWasMeasured(t *testing.T) {
	s := newSite(1, "rtx-4090", "llama") // 1 to 20 GiB
	s.share = 0.05
	g := fitted(t, s.runs(90)).For(s.key)
	for _, c := range []struct {
		reserved int64
		beyond   bool
	}{{10 * gib, false}, {30 * gib, false}, {100 * gib, true}, {300 * mib, true}} {
		b := base(c.reserved)
		f, own := b.Bounded(g.Correction(b.Reserved, 0.95), 0.95), b.Bounded(memory.Correction{}, 0.95)
		if wide := f.High-f.Device >= own.High-own.Device; wide != c.beyond || g.Beyond(c.reserved) != c.beyond {
			t.Errorf("%d MiB: bounds as wide as the built-in ones: %v, want %v", c.reserved/mib, wide, c.beyond)
		}
		if more := f.Reserved - b.Reserved; more > 21*gib/20+30*mib {
			t.Errorf("%d MiB: %d MiB more", c.reserved/mib, more/mib)
		}
	}
}

// One run in five that has nothing to do with the others moves little.
func TestOutliersMoveLittle(t *testing.T) {
	for _, direction := range []int64{-1, 1} {
		s := newSite(3, "rtx-4090", "llama")
		s.context, s.share = 100*mib, 0.03
		rows := s.runs(150)
		clean := fitted(t, rows).For(s.key)
		for i := range rows {
			if i%5 == 0 {
				rows[i].Device += direction * rows[i].Base.Reserved / 3
				rows[i].Reserved += direction * rows[i].Base.Reserved / 3
			}
		}
		spoilt := fitted(t, rows).For(s.key)
		if spoilt == nil || spoilt.Outliers < 15 {
			t.Fatalf("%+v", spoilt)
		}
		near(t, "the context", float64(spoilt.ContextBytes), float64(clean.ContextBytes), 15*mib)
		near(t, "the workspace", float64(spoilt.WorkspaceBytes), float64(clean.WorkspaceBytes), 40*mib)
		near(t, "the share", spoilt.AllocatorShare, clean.AllocatorShare, 0.01)
		b := base(8 * gib)
		x, y := b.Bounded(clean.Correction(b.Reserved, 0.95), 0.95), b.Bounded(spoilt.Correction(b.Reserved, 0.95),
			0.95)
		near(t, "high_bytes", float64(y.High), float64(x.High), 100*mib)
		near(t, "low_bytes", float64(y.Low), float64(x.Low), 100*mib)
	}
}

// Where two kinds of runs are in a group, no constant describes them, and the group is left to the next coarser one.
func TestTwoKindsOfRuns(t *testing.T) {
	s := newSite(4, "rtx-4090", "llama")
	rows := s.runs(90)
	for i := range rows {
		if i%5 < 2 {
			rows[i].Device += 3 * gib
		}
	}
	groups, skipped := calibration.Fit(rows)
	if len(groups) != 0 || len(skipped) == 0 {
		t.Errorf("groups %+v, skipped %+v", groups, skipped)
	}
}

// Too few runs leave the estimator as it is.
func TestTooFewRuns(t *testing.T) {
	s := newSite(5, "rtx-4090", "llama")
	s.context = 500 * mib
	for n := range 22 {
		groups, skipped := calibration.Fit(s.runs(n))
		if len(groups) != 0 || n > 0 && len(skipped) == 0 {
			t.Errorf("%d runs: groups %+v, skipped %+v", n, groups, skipped)
		}
	}
	// From 22 on eight of them say what is to be added; from 28 on nineteen others bound it.
	for _, c := range []struct {
		runs, bounded int
	}{{22, 0}, {27, 0}, {28, 0}, {29, 19}, {30, 20}} {
		g := fitted(t, s.runs(c.runs)).For(s.key)
		if g == nil || g.BoundedBy != c.bounded {
			t.Errorf("%d runs: %+v, want %d behind the bounds", c.runs, g, c.bounded)
		}
	}
}

// A group that stands for more than was measured has runs of several kinds of it.
func TestGroupsSpeakForWhatTheySaw(t *testing.T) {
	var rows []calibration.Row
	for i, card := range []struct{ gpu, family string }{{"rtx-4090", "llama"}, {"rtx-4090", "gpt2"},
		{"l40s", "llama"}} {
		s := newSite(uint64(i), card.gpu, card.family)
		s.context = 100 * mib
		rows = append(rows, s.runs(40)...)
	}
	c := fitted(t, rows)
	key := func(gpu string, cc int, torch, family string) calibration.Key {
		return calibration.Key{GPU: gpu, ComputeCapability: cc, Torch: torch, Family: family}
	}
	for _, x := range []struct {
		job  calibration.Key
		want string
	}{
		{key("rtx-4090", 89, "2.9", "llama"), "rtx-4090, torch 2.9, llama"},
		// two families were measured on the card
		{key("rtx-4090", 89, "2.9", "qwen2"), "rtx-4090, torch 2.9"},
		{key("rtx-4070", 89, "2.9", "llama"), "compute capability 8.9, torch 2.9, llama"}, // two cards
		{key("rtx-4070", 89, "2.9", "qwen2"), "compute capability 8.9, torch 2.9"},
		{key("l40s", 89, "2.9", "qwen2"), "compute capability 8.9, torch 2.9"}, // one family on that card
		{key("rtx-4090", 89, "2.1", "llama"), "none"},                          // one release
		{key("h100", 90, "2.9", "llama"), "none"},                              // one architecture
		{calibration.Key{Torch: "2.9", Family: "llama"}, "none"},
	} {
		got := "none"
		if g := c.For(x.job); g != nil {
			got = g.Key.String()
		}
		if got != x.want {
			t.Errorf("%v is corrected by %s, want %s", x.job, got, x.want)
		}
	}
	several := key("rtx-4090", 89, "2.9", "llama")
	several.SeveralGPUs = true
	if g := c.For(several); g != nil {
		t.Errorf("a job on several cards is corrected by %v", g.Key)
	}
}

// The fit says what it would have been worth, on sources that it did not see.
func TestHoldOut(t *testing.T) {
	s := newSite(6, "rtx-4090", "llama")
	s.context = 300 * mib
	rows := s.runs(120)
	h := calibration.HoldOut(rows)
	if h.By != "job" || h.All.Jobs != 120 || h.All.Corrected != 120 || len(h.Groups) != 1 {
		t.Fatalf("%+v", h)
	}
	if h.All.Builtin.Within > 0.2 || h.All.Fitted.Within < 0.93 || h.All.Fitted.Error > h.All.Builtin.Error/3 {
		t.Errorf("%+v", h.All)
	}
	for i := range rows {
		rows[i].Source = fmt.Sprint(i % 3)
		if i%3 == 2 { // a source that measures something else: the others do not foresee it
			rows[i].Device += gib
		}
	}
	rows = append(rows, calibration.Row{ID: "oom", Job: "oom", Source: "3", Key: s.key, Base: base(4 * gib),
		AtLeast: 6 * gib})
	h = calibration.HoldOut(rows)
	if h.By != "source" || h.Folds != 4 || h.All.Failed != 1 || h.All.Fitted.Contradicted != 1 {
		t.Fatalf("%+v", h)
	}
	if h.All.Fitted.Within > 0.75 {
		t.Errorf("a third of the runs lie elsewhere, and %g within the bounds", h.All.Fitted.Within)
	}
	if empty := calibration.HoldOut(nil); empty.All.Jobs != 0 || len(empty.Groups) != 0 {
		t.Errorf("%+v", empty)
	}
}
