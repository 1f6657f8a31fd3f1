package estimator

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/oracle/tracefile"
)

// phaseTrace is what the Trainer allocated in each phase of a run, as oracle/phases.py writes it.
type phaseTrace struct {
	ID    string `json:"id"`
	Job   Job    `json:"job"`
	Truth struct {
		AllocatedBytes int64            `json:"allocated_bytes"`
		ReservedBytes  int64            `json:"reserved_bytes"`
		Phases         map[string]int64 `json:"phases"`
	} `json:"truth"`
}

// TestPhasesEqualTraces holds what a run does besides its steps against the Trainer's own: the allocator's counter
// where a run is played up to the phase, and the answer's figure, which counts live tensors and so lies below it.
func TestPhasesEqualTraces(t *testing.T) {
	const (
		asTraced = 0.01  // of what PyTorch counts
		slack    = 0.025 // unused ends of blocks, which live tensors do not count
		reserved = 0.04
	)
	near := func(got, want int64, share float64) bool { return math.Abs(float64(got-want)) <= share*float64(want) }
	cases, equal := 0, 0
	if err := tracefile.EachLine("testdata/phases.jsonl", func(line []byte) error {
		var c phaseTrace
		if err := json.Unmarshal(line, &c); err != nil {
			return err
		}
		cases++
		t.Run(c.ID, func(t *testing.T) {
			in := Input{Job: c.Job, GPUs: []GPU{{ID: "a100-sxm4-80gb", ComputeCapability: 80, Multiprocessors: 108,
				UsableBytes: 79 << 30}}}
			played := func(steps int) int64 {
				heap := memory.NewAllocator(memory.Settings{})
				if err := Replay(in, heap, steps, true); err != nil {
					t.Fatal(err)
				}
				heap.ForgetPeaks()
				return heap.PeakAllocated()
			}
			answer, err := Estimate(in)
			if err != nil {
				t.Fatal(err)
			}
			phases := map[string]Phase{}
			for _, p := range answer.Phases {
				phases[p.Name] = p
			}
			if want := c.Truth.ReservedBytes; answer.Peak.ReservedBytes == want {
				equal++
			} else if !near(answer.Peak.ReservedBytes, want, reserved) {
				t.Errorf("reserved are %d, traced %d", answer.Peak.ReservedBytes, want)
			}
			if want := c.Truth.Phases["load"]; !near(played(0), want, asTraced) {
				t.Errorf("before the first forward are %d, traced %d", played(0), want)
			}
			if want := c.Truth.Phases["save"]; !phases["save"].AtLeast && !near(played(2), want, asTraced) {
				t.Errorf("where a checkpoint is written are %d, traced %d", played(2), want)
			}
			for _, name := range []string{"evaluation", "save", "resume"} {
				want, traced := c.Truth.Phases[name]
				got := phases[name]
				if got.InJob != traced {
					t.Errorf("%s is part of the job: %v, traced %v", name, got.InJob, traced)
				}
				if !traced {
					continue
				}
				if most := want + want/1000; got.AllocatedBytes > most ||
					!got.AtLeast && !near(got.AllocatedBytes, want, slack) {
					t.Errorf("%s holds %d (at least: %v), traced %d", name, got.AllocatedBytes, got.AtLeast, want)
				}
			}
		})
		return nil
	}); err != nil || cases == 0 {
		t.Fatalf("%d traces: %v", cases, err)
	}
	if equal < cases-1 {
		t.Errorf("of %d runs %d reserve what was traced to the byte", cases, equal)
	}
}
