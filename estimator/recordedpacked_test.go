package estimator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestRecordedPackedIsTheFamily: a recording whose linear layers return what they are given allocates what the family
// allocates on a quantised base under autocast, which rows of QLoRA were traced with.
func TestRecordedPackedIsTheFamily(t *testing.T) {
	recorded, err := os.ReadFile(filepath.Join(recordingsFolder, "llama-packed.json"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(recordingsFolder, "family", "configs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var configs map[string]json.RawMessage
	if err := json.Unmarshal(text, &configs); err != nil {
		t.Fatal(err)
	}
	for _, training := range []string{
		`{"lora":{"rank":8,"target_modules":"all-linear","base_precision":"nf4","upcast_base":true}}`,
		`{"lora":{"rank":8,"target_modules":["q_proj","v_proj"],"base_precision":"nf4","upcast_base":true,
			"dropout":0.05},"micro_batch":8}`,
		`{"lora":{"rank":8,"target_modules":"all-linear","base_precision":"int8","upcast_base":true}}`,
		`{"lora":{"rank":8,"target_modules":"all-linear","base_precision":"nf4","upcast_base":true},
			"distributed":{"data":"ddp","world_size":4}}`,
		`{"lora":{"rank":8,"target_modules":"all-linear","base_precision":"nf4","upcast_base":true},
			"evaluation":{"micro_batch":32}}`,
	} {
		var peaks [2]int64
		for i, m := range []Model{{Recorded: recorded}, {HFConfig: configs["llama"]}} {
			res, err := Estimate(Input{Job: withModel(recipeJob(t, training), m), OwnLoop: true})
			if err != nil {
				t.Fatalf("%s: %v", training, err)
			}
			peaks[i] = res.Peak.AllocatedBytes
		}
		if peaks[0] != peaks[1] {
			t.Errorf("%s: the recording allocates %d bytes, the family %d", training, peaks[0], peaks[1])
		}
	}
}
