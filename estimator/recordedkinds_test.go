package estimator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// TestRecordedKindsAreTheLayers: a recording with layers of two kinds stored once each answers what the recording of
// the same module answers that has every layer as it ran.
func TestRecordedKindsAreTheLayers(t *testing.T) {
	var texts [2]json.RawMessage
	for i, file := range []string{"family/gemma3-alternating-nocache.json", "gemma3-alternating-flat.json"} {
		text, err := os.ReadFile(filepath.Join(recordingsFolder, file))
		if err != nil {
			t.Fatal(err)
		}
		texts[i] = text
	}
	rapid.Check(t, func(t *rapid.T) {
		training := Training{MicroBatch: rapid.Int64Range(1, 9).Draw(t, "batch"),
			SequenceLength:       rapid.Int64Range(129, 700).Draw(t, "tokens"),
			Precision:            PrecisionAMPBF16,
			GradientAccumulation: rapid.Int64Range(1, 3).Draw(t, "accumulation"),
			Framework:            rapid.SampledFrom([]string{"pytorch", "hf-trainer", "accelerate"}).Draw(t, "loop"),
			Optimizer: &Optimizer{Name: rapid.SampledFrom([]string{"adamw", "sgd", "adafactor"}).
				Draw(t, "optimizer")},
			Versions: map[string]string{"torch": "2.15.0", "transformers": "5.23.0"}}
		if rapid.Bool().Draw(t, "several") {
			training.Distributed = &Distributed{Data: "ddp", WorldSize: 4}
		}
		var peaks [2]int64
		for i, text := range texts {
			res, err := Estimate(Input{Job: Job{Model: Model{Recorded: text}, Training: training}})
			if err != nil {
				t.Fatal(err)
			}
			peaks[i] = res.Peak.AllocatedBytes
		}
		if peaks[0] != peaks[1] {
			t.Fatalf("%d bytes with each kind stored once, %d with every layer", peaks[0], peaks[1])
		}
	})
}

// TestRecordedKindsRepeat: the short cut for layers that repeat after some others gives what every layer by itself
// gives.
func TestRecordedKindsRepeat(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(recordingsFolder, "family/gemma3-alternating-nocache.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	doc["layers"].(map[string]any)["count"] = 48
	if text, err = json.Marshal(doc); err != nil {
		t.Fatal(err)
	}
	for _, training := range []string{`{}`, `{"gradient_checkpointing":{"mode":"full"}}`} {
		var peaks [2]counted
		for i, plain := range []bool{false, true} {
			in := Input{Job: withModel(recipeJob(t, training), Model{Recorded: text})}
			if err := Replay(in, &peaks[i], 2, plain); err != nil {
				t.Fatal(err)
			}
		}
		if peaks[0].most != peaks[1].most || peaks[0].live != peaks[1].live {
			t.Errorf("%s: %+v with the short cut, %+v without", training, peaks[0].most, peaks[1].most)
		}
	}
}
