package estimator

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/replay"
	"github.com/vramplan/vramplan/estimator/resolve"
	"github.com/vramplan/vramplan/estimator/session"
)

// TestStandsEqualPlaying compares a run under a limit that goes on from where the run without one stood, before an
// optimizer step or within, with a run from the beginning; and with a run under another limit of those that it says are
// alike.
func TestStandsEqualPlaying(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SampledFrom([]func(*rapid.T) Job{randomJob, shardedJob, validMixture}).Draw(t, "kind")
		in := Input{Job: draw(t)}
		r, err := resolve.Resolve(&in)
		if err != nil {
			t.Fatal(err)
		}
		w := &replay.Workspace{Allocator: memory.NewAllocator(memory.Settings{})}
		requested := session.PlayerOf(
			r,
			&in,
			nil,
		).Session(
			w,
			session.Hardware(r.Recipe, nil),
			false,
		).Account(
			false,
			false,
		).Peak.Bytes
		settings := rapid.SampledFrom([]memory.Settings{{}, {Expandable: true}, {MaxSplit: 32 << 20}, {Divisions: 4}}).
			Draw(t, "settings")
		reserved, _ := w.Play(replay.Steps(&w.Session), settings, requested-1)
		stands := w.Stands
		if len(stands) == 0 && !settings.Expandable {
			t.Fatal("no stand was kept")
		}
		for range 3 {
			limit := rapid.Int64Range(min(requested*9/10, reserved), reserved).Draw(t, "limit")
			w.Stands = stands
			short, fits := w.PlayLimited(settings, limit)
			allocated := w.Allocator.PeakAllocated()
			least, end := w.Allocator.Alike()
			if limit < least || end <= limit {
				t.Fatalf("a run under %d bytes is said to be alike from %d to %d", limit, least, end)
			}
			w.Stands = nil
			long, does := w.PlayLimited(settings, limit)
			if fits != does {
				t.Fatalf("under %d of %d bytes the run that goes on fits: %v; the whole one: %v", limit, reserved, fits,
					does)
			}
			if fits && (short != long || allocated != w.Allocator.PeakAllocated()) {
				t.Fatalf("under %d bytes %d and %d are reserved and allocated, in the whole run %d and %d", limit,
					short, allocated, long, w.Allocator.PeakAllocated())
			}
			// a limit of 0 is none
			other := rapid.Int64Range(max(least, 1), min(end-1, 2*reserved)).Draw(t, "another limit")
			if again, does := w.PlayLimited(settings, other); does != fits || fits &&
				(again != long || w.Allocator.PeakAllocated() != allocated) {
				t.Fatalf("under %d bytes the run fits: %v, and %d are reserved; under %d, which is from %d "+
					"to %d, %v and %d", limit, fits, long, other, least, end, does, again)
			}
		}
	})
}

// TestStandsAreWithin: a search starts near what it looks for. In GPT-2's first step no limit above what is alive at a
// time is met before the first update, and so no run under one plays that step's requests again.
func TestStandsAreWithin(t *testing.T) {
	job := gpt2Job()
	job.Training.MicroBatch, job.Training.GradientAccumulation = 8, 1
	in := Input{Job: job}
	r, err := resolve.Resolve(&in)
	if err != nil {
		t.Fatal(err)
	}
	w := &replay.Workspace{Allocator: memory.NewAllocator(memory.Settings{})}
	requested := session.PlayerOf(
		r,
		&in,
		nil,
	).Session(
		w,
		session.Hardware(r.Recipe, nil),
		false,
	).Account(
		false,
		false,
	).Peak.Bytes
	reserved, _ := w.Play(replay.Steps(&w.Session), memory.Settings{}, requested-1)
	once := w.Session.Requests()
	for limit := requested; limit <= reserved; limit += (reserved - requested) / 16 {
		before := w.Session.Total
		w.PlayLimited(memory.Settings{}, limit)
		if played := w.Session.Total - before; played > 2*once {
			t.Errorf("under %d of %d bytes %d requests are played, of %d in a step", limit, reserved, played, once)
		}
	}
}

// TestVerdictsAlone compares the verdicts of those who ask for nothing else with those of an estimate.
func TestVerdictsAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Input{Job: randomJob(t)}
		in.Job.Confidence = rapid.SampledFrom([]float64{0, 0.5, 0.99}).Draw(t, "confidence")
		alone, err := Estimate(in)
		if err != nil {
			t.Skip(err)
		}
		for _, name := range rapid.SliceOfN(rapid.SampledFrom([]string{"a100-sxm4-80gb", "rtx-4070", "t4"}), 1,
			3).Draw(t, "cards") {
			card := tracedGPUs[name] // so that the smallest limit often decides
			card.ID, card.UsableBytes = name, alone.Peak.LowBytes+rapid.Int64Range(-256<<20, 256<<20).Draw(t,
				"off the lower bound")
			in.GPUs = append(in.GPUs, card)
		}
		want, err := Estimate(in)
		if err != nil {
			t.Fatal(err)
		}
		in.VerdictsOnly = true
		got, err := Judge(in)
		if err != nil {
			t.Fatal(err)
		}
		if got.Peak.DeviceBytes != want.Peak.DeviceBytes {
			t.Fatalf("%d bytes and %d", got.Peak.DeviceBytes, want.Peak.DeviceBytes)
		}
		for i := range want.GPUs {
			if got.GPUs[i].Verdict != want.GPUs[i].Verdict || got.GPUs[i].HeadroomBytes != want.GPUs[i].HeadroomBytes {
				t.Fatalf("%+v of an estimate is %+v alone; the bounds are %+v", want.GPUs[i], got.GPUs[i], want.Peak)
			}
		}
	})
}
