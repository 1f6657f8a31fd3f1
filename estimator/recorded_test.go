package estimator

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const recordingsFolder = "testdata/recordings"

// recordedCase is a job whose model was recorded from transformers' own code, and what a trace of it allocates.
type recordedCase struct {
	Recording      string `json:"recording"`
	Job            Job    `json:"job"`
	AllocatedBytes int64  `json:"allocated_bytes"`
}

func recordedCases(t testing.TB) []recordedCase {
	text, err := os.ReadFile(filepath.Join(recordingsFolder, "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []recordedCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// input is the case with the recording in the place of its config.json. What the recording decides is left out.
func (c *recordedCase) input(t testing.TB) Input {
	text, err := os.ReadFile(filepath.Join(recordingsFolder, c.Recording))
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Job: c.Job, OwnLoop: true}
	in.Job.GPUs = nil
	in.Job.Model = Model{Recorded: text}
	in.Job.Training.Attention = ""
	return in
}

// TestRecordedIsTraced: what was recorded allocates what a trace of the same job allocates, to the byte.
func TestRecordedIsTraced(t *testing.T) {
	for _, c := range recordedCases(t) {
		res, err := Estimate(c.input(t))
		if err != nil {
			t.Errorf("%s: %v", c.Recording, err)
			continue
		}
		if got := res.Peak.AllocatedBytes; got != c.AllocatedBytes {
			t.Errorf("%s: %d bytes are allocated, and %d were traced", c.Recording, got, c.AllocatedBytes)
		}
	}
}

// TestRecordedFoldsLayers: the short cut for layers that repeat gives what every layer by itself gives.
func TestRecordedFoldsLayers(t *testing.T) {
	folded := 0
	for _, c := range recordedCases(t) {
		in := c.input(t)
		var doc map[string]any
		if err := json.Unmarshal(in.Job.Model.Recorded, &doc); err != nil {
			t.Fatal(err)
		}
		layers := doc["layers"].(map[string]any)
		if layers["count"] == 0.0 {
			continue
		}
		layers["count"] = 9
		folded++
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		in.Job.Model.Recorded = text
		var peaks [2]counted
		for i, plain := range []bool{false, true} {
			if err := Replay(in, &peaks[i], 2, plain); err != nil {
				t.Fatalf("%s: %v", c.Recording, err)
			}
		}
		if peaks[0].most != peaks[1].most || peaks[0].live != peaks[1].live {
			t.Errorf("%s: %+v with the short cut, %+v without", c.Recording, peaks[0], peaks[1])
		}
	}
	if folded == 0 {
		t.Error("no recording has layers that repeat")
	}
}

// counted is a heap that counts bytes.
type counted struct {
	sizes      []int64
	live, most int64
}

func (c *counted) Alloc(bytes int64) int32 {
	c.sizes = append(c.sizes, bytes)
	c.live += bytes
	c.most = max(c.most, c.live)
	return int32(len(c.sizes) - 1)
}

func (c *counted) Free(i int32) { c.live -= c.sizes[i] }

// TestRecordedRefuses: what a recording does not say is refused, all of it at once.
func TestRecordedRefuses(t *testing.T) {
	c := recordedCases(t)[0]
	in := c.input(t)
	in.Job.Training.Attention = "eager"
	in.Job.Training.Compile = &Compile{Model: true}
	in.Job.Training.SequenceLength = 0
	in.Job.Training.Precision = PrecisionFP16
	in.Job.Training.AttentionMask = "explicit"
	in.Job.Training.Evaluation = &Evaluation{}
	_, err := Estimate(in)
	var wrong *InvalidJobError
	if !errors.As(err, &wrong) {
		t.Fatal(err)
	}
	for _, field := range []string{"attention", "attention_mask", "compile", "evaluation", "sequence_length", "precision"} {
		if !strings.Contains(err.Error(), "/training/"+field) {
			t.Errorf("%s is not named: %v", field, err)
		}
	}
}

// TestRecordedRefusesToCheckpointSeveralStacks: of an encoder and a decoder a recording would checkpoint one.
func TestRecordedRefusesToCheckpointSeveralStacks(t *testing.T) {
	for _, c := range recordedCases(t) {
		if c.Recording != "llama-checkpointed.json" {
			continue
		}
		in := c.input(t)
		if _, err := Estimate(in); err != nil {
			t.Fatal(err)
		}
		var doc map[string]any
		if err := json.Unmarshal(in.Job.Model.Recorded, &doc); err != nil {
			t.Fatal(err)
		}
		doc["other_stacks"] = []string{"encoder.layers"}
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		in.Job.Model.Recorded = text
		if _, err := Estimate(in); err == nil || !strings.Contains(err.Error(), "encoder.layers beside them") {
			t.Errorf("got %v", err)
		}
		return
	}
	t.Error("no case is checkpointed")
}

// TestRecordedCheckpointsItself: what a module checkpoints of itself can be asked for, and not otherwise.
func TestRecordedCheckpointsItself(t *testing.T) {
	for _, c := range recordedCases(t) {
		if c.Recording != "checkpointed-inside.json" {
			continue
		}
		for mode, ok := range map[string]bool{"full": true, "none": false, "selective": false} {
			in := c.input(t)
			in.Job.Training.GradientCheckpointing = &Checkpointing{Mode: mode}
			if _, err := Estimate(in); (err == nil) != ok {
				t.Errorf("%s: %v", mode, err)
			}
		}
		return
	}
	t.Error("no case checkpoints itself")
}

// TestRecordedNamesWhatIsUnexpressed: what the recorder answered in the module's place is named and widens the bounds.
func TestRecordedNamesWhatIsUnexpressed(t *testing.T) {
	in := recordedCases(t)[0].input(t)
	sure, err := Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(in.Job.Model.Recorded, &doc); err != nil {
		t.Fatal(err)
	}
	doc["unexpressed"] = []string{"one", "two", "three", "four"}
	if in.Job.Model.Recorded, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	unsure, err := Estimate(in)
	if err != nil {
		t.Fatal(err)
	}
	if unsure.Peak.AllocatedBytes != sure.Peak.AllocatedBytes {
		t.Errorf("%d bytes are allocated, and %d were", unsure.Peak.AllocatedBytes, sure.Peak.AllocatedBytes)
	}
	a, b := sure.Peak, unsure.Peak
	if b.LowBytes >= a.LowBytes || b.HighBytes <= a.HighBytes {
		t.Errorf("the bounds are %d to %d, and were %d to %d", b.LowBytes, b.HighBytes, a.LowBytes, a.HighBytes)
	}
	for _, d := range unsure.Doubts {
		if d.Source == "recorded-unexpressed" && strings.HasSuffix(d.How, ": one; two; three; and 1 more") &&
			d.AboveBytes > 0 {
			return
		}
	}
	t.Errorf("it is in no doubt: %+v", unsure.Doubts)
}

// FuzzRecorded: no recording crashes the estimator, or takes more than was admitted.
func FuzzRecorded(f *testing.F) {
	for _, c := range recordedCases(f)[:1] {
		f.Add([]byte(c.input(f).Job.Model.Recorded), uint16(2), uint16(64), uint8(0), uint8(0))
	}
	compiled, err := os.ReadFile(filepath.Join(recordingsFolder, "compiled", "gemma2.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(compiled, uint16(2), uint16(64), uint8(0), uint8(1))
	f.Add(compiled, uint16(2), uint16(64), uint8(0), uint8(4))
	adapted, err := os.ReadFile(filepath.Join(recordingsFolder, "family", "gpt2.json"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(adapted, uint16(2), uint16(64), uint8(8), uint8(2))
	f.Add(adapted, uint16(2), uint16(64), uint8(7), uint8(3))
	f.Fuzz(func(t *testing.T, text []byte, batch, length uint16, rank, way uint8) {
		var in Input
		in.Job.Model.Recorded = text
		in.Job.Training.MicroBatch, in.Job.Training.SequenceLength = int64(batch), int64(length)
		if rank > 0 {
			in.Job.Training.LoRA = &LoRA{Rank: int64(rank), TargetModules: Targets{"all-linear"}}
		}
		checkpointing := []string{"none", "none", "selective", "selective-op", "full", "full"}[way%6]
		in.Job.Training.GradientCheckpointing = &Checkpointing{Mode: checkpointing}
		if way%6 == 1 || way%6 == 4 {
			in.Job.Training.Compile = &Compile{Model: true, Loss: true}
		}
		if rank%2 == 1 {
			in.Job.Training.Evaluation = &Evaluation{MicroBatch: int64(length)}
		}
		bound, err := CostOf(in)
		if err != nil {
			return
		}
		var took Cost
		in.Took = &took
		if _, err := Estimate(in); err != nil && !errors.As(err, new(*InvalidJobError)) {
			t.Fatal(err)
		}
		if took.Requests > bound.Requests || took.Bytes > bound.Bytes {
			t.Errorf("took %+v of %+v", took, bound)
		}
	})
}

// TestRecordedOfOneSample: a recording of a batch of one sample stands for no other.
func TestRecordedOfOneSample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(recordingsFolder, "actor.json"))
	if err != nil {
		t.Fatal(err)
	}
	in := Input{Job: Job{Model: Model{Recorded: regexp.MustCompile(`\b(\d+)B\b`).ReplaceAll(text, []byte("$1"))},
		Training: Training{MicroBatch: 1, Precision: PrecisionBF16}}}
	if _, err := Estimate(in); err != nil {
		t.Fatal(err)
	}
	in.Job.Training.MicroBatch = 2
	if _, err := Estimate(in); err == nil || !strings.Contains(err.Error(), "of one sample") {
		t.Errorf("two samples: %v", err)
	}
}
