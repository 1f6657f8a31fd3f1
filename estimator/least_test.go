package estimator

import (
	"testing"

	"pgregory.net/rapid"
)

// TestLeastIsNoMore holds the least that random jobs take against whole answers.
func TestLeastIsNoMore(t *testing.T) {
	worse := map[Verdict]int{Fits: 0, Tight: 1, Unlikely: 2, DoesNotFit: 3}
	rapid.Check(t, func(t *rapid.T) {
		in := Input{Job: randomJob(t)}
		if rapid.Bool().Draw(t, "several cards") {
			randomShards(t, &in.Job.Training)
		}
		card := tracedGPUs["rtx-4090"]
		card.UsableBytes = rapid.Int64Range(1<<28, 20<<30).Draw(t, "usable")
		in.GPUs = []GPU{card}
		whole, err := Estimate(in)
		in.LeastOnly = true
		least, leastErr := Judge(in)
		if (err == nil) != (leastErr == nil) {
			t.Fatalf("whole %v, least %v", err, leastErr)
		}
		if err != nil {
			return
		}
		a, b := least.Peak, whole.Peak
		if a.DeviceBytes > b.DeviceBytes || a.HighBytes > b.HighBytes || a.ReservedBytes > b.ReservedBytes ||
			a.LowBytes > b.LowBytes {
			t.Errorf("the least is %+v, the whole %+v", a, b)
		}
		if worse[least.GPUs[0].Verdict] > worse[whole.GPUs[0].Verdict] {
			t.Errorf("%s at least, %s as a whole", least.GPUs[0].Verdict, whole.GPUs[0].Verdict)
		}
		if least.Played != 0 {
			t.Errorf("%d requests were played", least.Played)
		}
		in.LeastOnly, in.LeastIfBeyond = false, true
		if least, err = Judge(in); err != nil {
			t.Fatal(err)
		}
		if least.GPUs[0].Verdict != whole.GPUs[0].Verdict {
			t.Errorf("%s where it does not matter by how much, %s as a whole", least.GPUs[0].Verdict,
				whole.GPUs[0].Verdict)
		}
		if least.AtLeast != (least.Played == 0) || least.AtLeast && whole.GPUs[0].Verdict != DoesNotFit {
			t.Errorf("at least: %v, with %d requests, of what %s", least.AtLeast, least.Played, whole.GPUs[0].Verdict)
		}
		if !least.AtLeast && least.Peak.ReservedBytes != b.ReservedBytes {
			t.Errorf("%d bytes reserved, as a whole %d", least.Peak.ReservedBytes, b.ReservedBytes)
		}
	})
}
