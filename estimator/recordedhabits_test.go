package estimator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecordedHabitsAreTraced: modules with weights of several types, with parts as long as their code says and with
// positions that end (recorder/tests/habits.py) allocate what traces of them do at sizes that were not recorded, and
// are refused where the module does something else.
func TestRecordedHabitsAreTraced(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(recordingsFolder, "habits", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []recordedCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	answered := 0
	for _, c := range cases {
		tokens := c.Job.Training.SequenceLength
		res, err := Estimate(c.input(t))
		if strings.Contains(c.Recording, "windows") && tokens > 640 {
			if err == nil || !strings.Contains(err.Error(), "holds for lengths from 481 to 640") {
				t.Errorf("%s of %d tokens: %v, want a refusal that says where it holds", c.Recording, tokens, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s of %d tokens: %v", c.Recording, tokens, err)
			continue
		}
		answered++
		if got := res.Peak.AllocatedBytes; got != c.AllocatedBytes {
			t.Errorf("%s of %d tokens in %s: %d bytes are allocated, and %d were traced", c.Recording, tokens,
				c.Job.Training.Precision, got, c.AllocatedBytes)
		}
	}
	if answered != 6 {
		t.Errorf("%d jobs were answered", answered)
	}
}

// TestRecordedHoldsUpToItsPositions: a recording of learned positions is not asked beyond them.
func TestRecordedHoldsUpToItsPositions(t *testing.T) {
	c := recordedCase{Recording: "habits/learned.json"}
	c.Job.Training.MicroBatch, c.Job.Training.Precision = 2, "amp-bf16"
	for tokens, refused := range map[int64]bool{640: false, 641: true} {
		c.Job.Training.SequenceLength = tokens
		_, err := Estimate(c.input(t))
		if refused != (err != nil && strings.Contains(err.Error(), "/training/sequence_length: is 641; the recording "+
			"holds for lengths from 2 to 640")) {
			t.Errorf("%d tokens: %v", tokens, err)
		}
	}
}

// TestShardingOwnTypesIsRefused: FSDP1 flattens parameters of one type alone, and no trace shows what the others do.
func TestShardingOwnTypesIsRefused(t *testing.T) {
	c := recordedCase{Recording: "habits/taught.json"}
	c.Job.Training = Training{MicroBatch: 2, SequenceLength: 64, Precision: "amp-bf16",
		Distributed: &Distributed{Data: "fsdp", WorldSize: 2}}
	if _, err := Estimate(c.input(t)); err == nil || !strings.Contains(err.Error(), "parameters of several types") {
		t.Errorf("%v, want a refusal", err)
	}
}
