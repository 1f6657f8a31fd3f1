package estimator

import (
	"bufio"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// compiledCase is a traced job of testdata/compiled.jsonl whose model was recorded, with padding, as transformers keeps
// the mask under torch.compile.
type compiledCase struct {
	id        string
	in        Input
	allocated int64
}

func compiledCases(t *testing.T) []compiledCase {
	f, err := os.Open("testdata/compiled.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []compiledCase
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var row struct {
			ID        string `json:"id"`
			Job       Job    `json:"job"`
			Allocated int64  `json:"allocated_bytes"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(recordingsFolder, "compiled", row.ID+".json"))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		row.Job.Model = Model{Recorded: text}
		row.Job.Training.Versions = maps.Clone(formerStack)
		in := Input{Job: row.Job, GPUs: []GPU{tracedGPUs[row.Job.GPUs[0].Name]}, OwnLoop: true}
		list = append(list, compiledCase{row.ID, in, row.Allocated})
	}
	if len(list) == 0 {
		t.Fatal("no traces")
	}
	return list
}

// TestRecordedCompiledIsNearTraces: recordings under torch.compile allocate what traces do, within 5 %.
func TestRecordedCompiledIsNearTraces(t *testing.T) {
	const band = 0.05
	for _, c := range compiledCases(t) {
		res := mustEstimate(t, c.in)
		if off := float64(res.Peak.AllocatedBytes)/float64(c.allocated) - 1; math.Abs(off) > band {
			t.Errorf("%s: allocated %d, traced %d: off by %+.2f %%", c.id, res.Peak.AllocatedBytes, c.allocated, 100*off)
		}
		if res.Peak.HighBytes < c.allocated {
			t.Errorf("%s: the upper bound is %d, and %d were traced", c.id, res.Peak.HighBytes, c.allocated)
		}
	}
}

// TestRecordedCompiledLeavesNothing: a compiled step leaves what the one before it left, and the short cut for layers
// that repeat changes nothing.
func TestRecordedCompiledLeavesNothing(t *testing.T) {
	for _, c := range compiledCases(t) {
		var two, three, plain counted
		for _, run := range []struct {
			heap  *counted
			steps int
			plain bool
		}{{&two, 2, false}, {&three, 3, false}, {&plain, 2, true}} {
			if err := Replay(c.in, run.heap, run.steps, run.plain); err != nil {
				t.Fatalf("%s: %v", c.id, err)
			}
		}
		if two.live != three.live {
			t.Errorf("%s: %d bytes are left after two steps, %d after three", c.id, two.live, three.live)
		}
		if two.most != plain.most || two.live != plain.live {
			t.Errorf("%s: at most %d bytes with the short cut, %d without", c.id, two.most, plain.most)
		}
	}
}

// TestRecordedCompiledRefuses: what a recording does not say of a compiled module is refused.
func TestRecordedCompiledRefuses(t *testing.T) {
	for _, c := range []struct {
		name, want string
		change     func(doc map[string]any, job *Job)
	}{
		{"a recorder of before", "record it again", func(d map[string]any, _ *Job) { delete(d, "breaks") }},
		{"a log", "logs something", func(d map[string]any, _ *Job) { d["breaks"] = "model" }},
		{"a loss outside", "outside of the module", func(d map[string]any, _ *Job) { d["breaks"] = "outside" }},
		{"another word", "none of none, loss", func(d map[string]any, _ *Job) { d["breaks"] = "here" }},
		{"no padding", "--padded", func(d map[string]any, _ *Job) { delete(d, "padded") }},
		{"the loss alone", "in parts", func(_ map[string]any, j *Job) { j.Training.Compile = &Compile{Loss: true} }},
		{"ten thousand lines", "up to 10000 lines in one stretch", func(d map[string]any, _ *Job) {
			program := d["programs"].(map[string]any)["amp"].(map[string]any)
			lines := make([]any, 10_000, 20_000)
			for i := range lines {
				lines[i] = "P n"
			}
			program["before"] = append(lines, program["before"].([]any)...)
		}},
		{"an evaluation", "/training/evaluation", func(_ map[string]any, j *Job) { j.Training.Evaluation = &Evaluation{} }},
	} {
		in := compiledCases(t)[0].in
		var doc map[string]any
		if err := json.Unmarshal(in.Job.Model.Recorded, &doc); err != nil {
			t.Fatal(err)
		}
		c.change(doc, &in.Job)
		var err error
		if in.Job.Model.Recorded, err = json.Marshal(doc); err != nil {
			t.Fatal(err)
		}
		if _, err = Estimate(in); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
