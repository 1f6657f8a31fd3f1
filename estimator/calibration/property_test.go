package calibration_test

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/memory"
)

// anyRow draws runs of a few groups, sound or not.
func anyRow() *rapid.Generator[calibration.Row] {
	return rapid.Custom(func(t *rapid.T) calibration.Row {
		reserved := rapid.OneOf(rapid.Int64Range(gib, 40*gib), rapid.Int64Range(-1, 1<<62)).Draw(t, "reserved")
		figure := rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(gib/2, 80*gib),
			rapid.SampledFrom([]int64{-1, 1, math.MaxInt64, math.MinInt64, 1 << 53}))
		b := base(max(reserved, 1))
		if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
			width := rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -1, 1e300, 1e-300})
			b = memory.Base{Allocated: figure.Draw(t, "allocated"), Reserved: reserved, Limit: figure.Draw(t, "limit"),
				Context: figure.Draw(t, "context"), Below: width.Draw(t, "below"), Above: width.Draw(t, "above")}
		}
		r := calibration.Row{
			ID:     fmt.Sprint(rapid.IntRange(0, 500).Draw(t, "id")),
			Job:    fmt.Sprint(rapid.IntRange(0, 500).Draw(t, "job")),
			Source: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "source"),
			Key: calibration.Key{GPU: rapid.SampledFrom([]string{"", "a100", "t4"}).Draw(t, "gpu"),
				ComputeCapability: rapid.SampledFrom([]int{0, 80}).Draw(t, "cc"),
				Torch:             rapid.SampledFrom([]string{"2.9", calibration.Unnamed}).Draw(t, "torch"),
				Family:            rapid.SampledFrom([]string{"", "llama", "gpt2"}).Draw(t, "family"),
				SeveralGPUs:       rapid.IntRange(0, 9).Draw(t, "several") == 0},
			Base: b,
		}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			r.AtLeast = figure.Draw(t, "at least")
		case 1:
			r.Reserved, r.Device, r.AtLeast = figure.Draw(t, "measured reserved"), figure.Draw(t, "measured device"),
				figure.Draw(t, "at least")
		default: // as a run would be
			off := func(name string) int64 {
				return int64(rapid.Float64Range(-0.1, 0.3).Draw(t, name) * float64(b.Reserved))
			}
			r.Reserved = b.Reserved + off("more reserved")
			r.Device = r.Reserved + b.Context
		}
		return r
	})
}

func anyBase() *rapid.Generator[memory.Base] {
	return rapid.Custom(func(t *rapid.T) memory.Base {
		reserved := rapid.Int64Range(1, 1e15).Draw(t, "reserved")
		limit := rapid.Int64Range(1, reserved).Draw(t, "limit")
		return memory.BaseOf(rapid.Int64Range(1, reserved).Draw(t, "allocated"), reserved, limit, memory.ContextLazy,
			memory.Doubt{Below: 0.015, Above: 0.4})
	})
}

// Whatever was measured, a fit is a calibration, and low_bytes to high_bytes hold the figure of every job, and at a
// higher confidence not less.
func TestEveryFitIsACalibration(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows := rapid.SliceOfN(anyRow(), 0, 200).Draw(t, "rows")
		groups, _ := calibration.Fit(rows)
		c, err := calibration.New("cal-1", "1", "b", groups)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var read calibration.Calibration
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		b := anyBase().Draw(t, "job")
		for _, g := range append(slices.Clone(read.Groups()), calibration.Group{}) {
			last := memory.Figures{Low: math.MaxInt64}
			for _, confidence := range []float64{0.5, 0.55, 0.9, 0.95, 0.96, 0.999} {
				f := b.Bounded(g.Correction(b.Reserved, confidence), confidence)
				if !(0 <= f.Low && f.Low <= f.Device && f.Device <= f.High) || f.Reserved < b.Allocated ||
					f.Allocated != b.Allocated || f.Limit > f.Reserved || f.Context < 0 || f.Reserved+
					f.Context != f.Device {
					t.Fatalf("%+v at %g: %+v", g, confidence, f)
				}
				if f.Low > last.Low || f.High < last.High {
					t.Fatalf("%+v at %g: %+v after %+v", g, confidence, f, last)
				}
				if p := f.Probability(f.High); math.IsNaN(p) || p < 0.5 {
					t.Fatalf("%+v at %g: high_bytes do with probability %g", g, confidence, p)
				}
				last = f
			}
		}
		h := calibration.HoldOut(rows)
		for _, x := range append(h.Groups, h.All) {
			for _, o := range []calibration.Outcome{x.Builtin, x.Fitted} {
				if !(o.Within >= 0 && o.Within <= 1) || math.IsNaN(o.Bias+o.Error) || o.WidthBytes < 0 {
					t.Fatalf("%+v", x)
				}
			}
		}
	})
}

// A run that failed for want of memory changes no correction and makes no bound narrower.
func TestFailuresNeverLower(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSite(rapid.Uint64().Draw(t, "seed"), "rtx-4090", "llama")
		s.context = 50 * mib
		rows := s.runs(rapid.IntRange(20, 90).Draw(t, "runs"))
		before, _ := calibration.Fit(rows)
		for i := range rapid.IntRange(1, 60).Draw(t, "failures") {
			b := base(rapid.Int64Range(gib, 20*gib).Draw(t, "reserved"))
			rows = append(rows, calibration.Row{ID: fmt.Sprintf("oom-%d", i), Job: fmt.Sprintf("oom-%d", i), Key: s.key,
				Base:    b,
				AtLeast: rapid.Int64Range(1, 3*b.Reserved).Draw(t, "at least")})
		}
		after, _ := calibration.Fit(rows)
		if len(before) != len(after) {
			t.Fatalf("%d groups became %d", len(before), len(after))
		}
		for i := range before {
			x, y := before[i], after[i]
			if x.Key != y.Key || x.ContextBytes != y.ContextBytes || x.WorkspaceBytes != y.WorkspaceBytes ||
				x.AllocatorShare != y.AllocatorShare || len(x.Bounds) != len(y.Bounds) {
				t.Fatalf("%+v became %+v", x, y)
			}
			for j := range x.Bounds {
				if x.Bounds[j].Below != y.Bounds[j].Below || x.Bounds[j].Above > y.Bounds[j].Above {
					t.Fatalf("%+v became %+v", x.Bounds[j], y.Bounds[j])
				}
			}
		}
	})
}

// Failures that were said to fit raise the upper bound.
func TestFailuresRaise(t *testing.T) {
	s := newSite(1, "rtx-4090", "llama")
	rows := s.runs(60)
	before := fitted(t, rows).For(s.key)
	for i := range 8 {
		b := base(8 * gib)
		rows = append(rows, calibration.Row{ID: fmt.Sprintf("oom-%d", i), Job: fmt.Sprintf("oom-%d", i), Key: s.key,
			Base: b, AtLeast: b.Reserved + b.Context + 20*gib})
	}
	after := fitted(t, rows).For(s.key)
	if after.OutOfMemory != 8 || after.Correction(8*gib, 0.95).Above <= before.Correction(8*gib, 0.95).Above {
		t.Errorf("%+v\n%+v", before, after)
	}
	if after.Correction(8*gib, 0.95).Above > 10 {
		t.Errorf("failures on cards that something else may have filled: %+v", after)
	}
}

// What is no calibration is not read as one.
func TestBadCalibrations(t *testing.T) {
	const good = `{"id": "cal-1", "estimator": "1", "base": "b", "groups": [{"gpu": "t4", "jobs": 9, "context_bytes": 5, "allocator_share": 0.1, "reserved_to_bytes": 9, "bounds": [{"confidence": 0.9, "below": 1, "above": 2}]}]}`
	var c calibration.Calibration
	if err := json.Unmarshal([]byte(good), &c); err != nil || len(c.Groups()) != 1 {
		t.Fatal(err)
	}
	for what, text := range map[string]string{
		"nothing":             `{}`,
		"no id":               `{"estimator": "1", "base": "b"}`,
		"a giant context":     `{"id": "c", "estimator": "1", "base": "b", "groups": [{"gpu": "t4", "context_bytes": 9000000000000}]}`,
		"a giant share":       `{"id": "c", "estimator": "1", "base": "b", "groups": [{"gpu": "t4", "allocator_share": 1e300}]}`,
		"no number":           `{"id": "c", "estimator": "1", "base": "b", "groups": [{"gpu": "t4", "allocator_share": NaN}]}`,
		"no range":            `{"id": "c", "estimator": "1", "base": "b", "groups": [{"gpu": "t4", "reserved_from_bytes": 7}]}`,
		"a group twice":       `{"id": "c", "estimator": "1", "base": "b", "groups": [{"gpu": "t4"}, {"gpu": "t4"}]}`,
		"no such group":       `{"id": "c", "estimator": "1", "base": "b", "groups": [{"family": "llama"}]}`,
		"a card and a kind":   `{"id": "c", "estimator": "1", "base": "b", "groups": [{"gpu": "t4", "compute_capability": 75}]}`,
		"falling bounds":      `{"id": "c", "estimator": "1", "base": "b", "groups": [{"bounds": [{"confidence": 0.9, "below": 1, "above": 2}, {"confidence": 0.95, "below": 0.9, "above": 2}]}]}`,
		"negative bounds":     `{"id": "c", "estimator": "1", "base": "b", "groups": [{"bounds": [{"confidence": 0.9, "below": -1, "above": 2}]}]}`,
		"more than certainty": `{"id": "c", "estimator": "1", "base": "b", "groups": [{"bounds": [{"confidence": 1, "below": 1, "above": 2}]}]}`,
	} {
		var c calibration.Calibration
		if err := json.Unmarshal([]byte(text), &c); err == nil {
			t.Errorf("%s: read as %+v", what, c.Groups())
		}
	}
}

// Whatever is read as a calibration keeps the bounds of a job around its figure.
func FuzzCalibration(f *testing.F) {
	f.Add(`{"id": "cal-1", "estimator": "1", "base": "b", "groups": [{"gpu": "t4", "torch": "2.9", "family": "llama", "context_bytes": -2147483648, "workspace_bytes": -8589934592, "allocator_share": -0.5, "reserved_to_bytes": 1000000000000000, "bounds": [{"confidence": 0.000001, "below": 1e-300, "above": 1000}]}]}`)
	f.Add(`{"id": "cal-1", "estimator": "1", "base": "b", "groups": [{}, {"compute_capability": -1}]}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		var c calibration.Calibration
		if json.Unmarshal([]byte(text), &c) != nil {
			return
		}
		for i := range c.Groups() {
			g := &c.Groups()[i]
			if c.For(g.Key) != g {
				t.Fatalf("%v is not looked up", g.Key)
			}
			for _, reserved := range []int64{1, gib, 1e15} {
				b := base(reserved)
				if reserved == 1 {
					b.Allocated, b.Limit = 1, 1
				}
				for _, confidence := range []float64{0.5, 0.95, 0.999} {
					x := b.Bounded(g.Correction(reserved, confidence), confidence)
					if !(0 <= x.Low && x.Low <= x.Device && x.Device <= x.High) || x.Reserved < b.Allocated {
						t.Fatalf("%s: %+v", text, x)
					}
				}
			}
		}
	})
}
