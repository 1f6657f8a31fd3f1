package jobdoc_test

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// Whatever is sent as an observation is read, and can be written again, or is refused with reasons.
func FuzzDecodeObservation(f *testing.F) {
	f.Add(`{"job": {"model": {"preset": "gpt2"}, "training": {"micro_batch": 1}, "gpus": ["t4"]}, "measured": {"allocated_bytes": 1}, "versions": {"torch": "2.9.1"}}`)
	f.Add(`{"job": {"model": {"hf_config": {"a": [1]}}, "training": {"micro_batch": -1}}, "measured": {"out_of_memory": true, "device_bytes": 9007199254740993}}`)
	f.Add(`{"job": [], "measured": null, "versions": {"a": "b", "a": "c"}, "x": 1}`)
	f.Fuzz(func(t *testing.T, document string) {
		o, err := jobdoc.DecodeObservation([]byte(document))
		if err != nil {
			if wrong, ok := errors.AsType[*invalid.Error](err); !ok || len(wrong.Fields) == 0 {
				t.Fatalf("%q: error %v", document, err)
			}
			return
		}
		if _, err := json.Marshal(&o); err != nil {
			t.Fatalf("%q cannot be stored: %v", document, err)
		}
	})
}
