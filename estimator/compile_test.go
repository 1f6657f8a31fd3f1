package estimator

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/step"
)

// TestCompiledFamilies compiles jobs of every family: the ledger's peak is that of the replay, nothing is freed that
// was not allocated, and a step leaves what the one before it left.
func TestCompiledFamilies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := Input{Job: randomJob(t)}
		// What is refused together with compilation would leave too few jobs.
		in.Job.Training.Loss = nil
		if d := in.Job.Training.Distributed; d != nil && d.Data != "ddp" {
			in.Job.Training.Distributed = nil
		}
		if l := in.Job.Training.LoRA; l != nil {
			l.DoRA, l.DoubleQuantization = false, nil
			if fields.Quantisations[l.BasePrecision] != step.NotQuantised {
				l.BasePrecision = ""
			}
		}
		in.Job.Training.Compile = &Compile{Model: true}
		if !valid(in.Job) {
			t.Skip("refused")
		}
		ledgerEqualsReplay(t, in, false)
		leavesWhatTheFormerStepLeft(t, in)
	})
}

// leavesWhatTheFormerStepLeft: a third optimizer step leaves no more behind than the second.
func leavesWhatTheFormerStepLeft(t rapid.TB, in Input) {
	t.Helper()
	var played, longer tape
	if err := Replay(in, &played, 2, false); err != nil {
		t.Fatal(err)
	}
	if err := Replay(in, &longer, 3, false); err != nil {
		t.Fatal(err)
	}
	if left, later := rest(played.events), rest(longer.events); left != later {
		t.Fatalf("%d bytes are left after two steps, %d after three", left, later)
	}
}

// rest is what the events leave allocated.
func rest(events []int64) int64 {
	left := int64(0)
	for _, e := range events {
		left += e
	}
	return left
}

// TestCompiledTraces holds small models of other families than GPT-2's and Llama's against PyTorch 2.9.1 under
// torch.compile (undisturbed runs over a stand-in driver): the largest number of allocated bytes.
func TestCompiledTraces(t *testing.T) { nearCompiled(t, "testdata/compiled.jsonl", 0.035) }

// TestCompiledEvaluationIsNearTraces holds jobs whose peak is in an evaluation of larger batches than those that are
// trained, on both stacks: GPT-2 is 5.3 and 4.3 % low, the others are within 2.4 %. What was reserved lies between the
// bounds.
func TestCompiledEvaluationIsNearTraces(t *testing.T) {
	nearCompiled(t, "testdata/compiledevaluation.jsonl", 0.055)
}

// nearCompiled holds what the jobs of a file allocate at most to a band around what was traced.
func nearCompiled(t *testing.T, file string, band float64) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all comparison
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var row compiledRow
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		all.add(t, row.ID, func(t *testing.T) *difference { return row.near(t, band) })
	}
	if all.rows == 0 {
		t.Error("no traces")
	}
	all.end(t)
}

// compiledRow is what a compiled job allocated and reserved at most.
type compiledRow struct {
	ID        string `json:"id"`
	Job       Job    `json:"job"`
	Allocated int64  `json:"allocated_bytes"`
	Reserved  int64  `json:"reserved_bytes"` // 0 in rows of before
}

func (row *compiledRow) near(t *testing.T, band float64) *difference {
	t.Helper()
	if len(row.Job.Training.Versions) == 0 {
		row.Job.Training.Versions = formerStack
	}
	res := mustEstimate(t, Input{Job: row.Job, GPUs: []GPU{tracedGPUs[row.Job.GPUs[0].Name]}, OwnLoop: true})
	if off := float64(res.Peak.AllocatedBytes)/float64(row.Allocated) - 1; math.Abs(off) > band {
		return &difference{"the peak", fmt.Sprintf("allocated %d, traced %d: off by %+.2f %%", res.Peak.AllocatedBytes,
			row.Allocated, 100*off)}
	}
	outside := res.Peak.DeviceBytes - res.Peak.ReservedBytes
	if r := row.Reserved + outside; row.Reserved > 0 && (r < res.Peak.LowBytes || r > res.Peak.HighBytes) {
		return &difference{"what is reserved", fmt.Sprintf("reserved %d with what is outside, which is not between %d and %d",
			r, res.Peak.LowBytes, res.Peak.HighBytes)}
	}
	return nil
}

// TestUncompiledFamilies asks for torch.compile where it is not modelled.
func TestUncompiledFamilies(t *testing.T) {
	for _, family := range []string{"deberta-v2", "modernbert", "mixtral"} {
		job := Job{Model: Model{HFConfig: []byte(`{"model_type": "` + family + `"}`)},
			Training: Training{MicroBatch: 1, SequenceLength: 64}}
		if _, err := Estimate(Input{Job: job}); err != nil {
			t.Errorf("%s: %v", family, err)
		}
		job.Training.Compile = &Compile{Model: true}
		if _, err := Estimate(Input{Job: job}); err == nil || !strings.Contains(err.Error(), "/training/compile") {
			t.Errorf("%s is compiled, got %v", family, err)
		}
	}
}
