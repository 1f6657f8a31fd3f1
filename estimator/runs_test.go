package estimator

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// keptRun is a run of the Trainer itself (oracle/lengths.py).
type keptRun struct {
	ID       string          `json:"id"`
	Job      json.RawMessage `json:"job"`
	Shapes   [][3]any        `json:"shapes"`
	Reserved []int64         `json:"reserved"`
}

// keptRuns are those that are kept.
func keptRuns(t *testing.T) (runs []keptRun) {
	t.Helper()
	f, err := os.Open("testdata/runs.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var run keptRun
		if err := json.Unmarshal(lines.Bytes(), &run); err != nil {
			t.Fatal(err)
		}
		runs = append(runs, run)
	}
	if lines.Err() != nil || len(runs) < 8 {
		t.Fatalf("%d runs are kept: %v", len(runs), lines.Err())
	}
	return runs
}

// order are the batches as the Trainer had them.
func (r *keptRun) order() []Batch {
	order := make([]Batch, len(r.Shapes))
	for i, s := range r.Shapes {
		order[i] = Batch{Samples: int64(s[0].(float64)), Tokens: int64(s[1].(float64)), Padded: s[2].(bool)}
	}
	return order
}

// What is reserved after each step of a run is what the Trainer was traced to reserve: to the byte where all batches
// have one length, and within two hundredths at nine steps in ten otherwise.
func TestRunsAreAsTraced(t *testing.T) {
	for _, run := range keptRuns(t) {
		var in Input
		if err := json.Unmarshal(run.Job, &in.Job); err != nil {
			t.Fatal(run.ID, err)
		}
		reserved, err := Run(in, run.order())
		if in.Job.Training.GradientAccumulation > 1 {
			var refused *InvalidJobError
			if !errors.As(err, &refused) {
				t.Errorf("%s: gradients accumulate over other batches, and the run is answered: %v", run.ID, err)
			}
			continue
		}
		if err != nil || len(reserved) != len(run.Reserved) {
			t.Errorf("%s: %d of %d steps, %v", run.ID, len(reserved), len(run.Reserved), err)
			continue
		}
		equal, near, worst := 0, 0, 0.0
		for i, want := range run.Reserved {
			off := float64(reserved[i])/float64(want) - 1
			if reserved[i] == want {
				equal++
			}
			if off > -0.02 && off < 0.02 {
				near++
			}
			if off*off > worst*worst {
				worst = off
			}
		}
		all := len(reserved)
		t.Logf("%s: of %d steps %d equal, %d within 2 %%, the worst %+.1f %%; %d MiB at the end, traced %d", run.ID, all,
			equal, near, 100*worst, reserved[all-1]>>20, run.Reserved[all-1]>>20)
		if one := run.order()[0]; allAre(run.order(), one) && equal < all {
			t.Errorf("%s: %d of %d steps of one length are equal", run.ID, equal, all)
		}
		if near*10 < all*9 {
			t.Errorf("%s: %d of %d steps are within 2 %%", run.ID, near, all)
		}
	}
}

func allAre(order []Batch, one Batch) bool {
	for _, s := range order {
		if s != one {
			return false
		}
	}
	return true
}

// What no trace has shown is refused, and so are batches that are none.
func TestRunsThatAreRefused(t *testing.T) {
	one := []Batch{{Samples: 2, Tokens: 64, Padded: true}}
	for name, c := range map[string]struct {
		change  func(*Training)
		batches []Batch
	}{
		"several GPUs":   {func(u *Training) { u.Distributed = &Distributed{WorldSize: 2, Data: "ddp"} }, one},
		"accumulation":   {func(u *Training) { u.GradientAccumulation = 4 }, one},
		"an evaluation":  {func(u *Training) { u.Evaluation = &Evaluation{} }, one},
		"compile":        {func(u *Training) { u.Compile = &Compile{Model: true} }, one},
		"no rows":        {func(*Training) {}, []Batch{{Samples: 0, Tokens: 64}}},
		"endless tokens": {func(*Training) {}, []Batch{{Samples: 1, Tokens: 1 << 40}}},
	} {
		in := Input{Job: frozenJob()}
		in.Job.Training.Freeze = nil
		if r, err := Run(in, one); err != nil || len(r) != 1 || r[0] <= 0 {
			t.Fatal(r, err)
		}
		c.change(&in.Job.Training)
		var refused *InvalidJobError
		if r, err := Run(in, c.batches); !errors.As(err, &refused) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
}
