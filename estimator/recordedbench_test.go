package estimator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// benchLayers is the depth at which recordings are held against families: that of a model of 8 billion parameters.
const benchLayers = 32

// BenchmarkRecordedAndFamily is the same job from a recording and from the family described by hand.
func BenchmarkRecordedAndFamily(b *testing.B) {
	dir := filepath.Join(recordingsFolder, "family")
	text, err := os.ReadFile(filepath.Join(dir, "configs.json"))
	if err != nil {
		b.Fatal(err)
	}
	var configs map[string]map[string]any
	if err := json.Unmarshal(text, &configs); err != nil {
		b.Fatal(err)
	}
	for _, family := range []string{"gpt2", "llama", "bert"} {
		config := configs[family]
		for _, key := range []string{"n_layer", "num_hidden_layers"} {
			if _, given := config[key]; given {
				config[key] = benchLayers
			}
		}
		described, err := json.Marshal(config)
		if err != nil {
			b.Fatal(err)
		}
		job := gpt2Job()
		job.Training.MicroBatch, job.Training.SequenceLength = 4, 256
		job.Training.Versions = map[string]string{"torch": "2.15.0", "transformers": "5.23.0"}
		job.Model = Model{HFConfig: described}
		b.Run(family+"/family", func(b *testing.B) { whole(b, job) })
		job.Model = Model{Recorded: deep(b, filepath.Join(dir, family+".json"))}
		b.Run(family+"/recorded", func(b *testing.B) { whole(b, job) })
	}
}

// deep is a recording with as many layers as are compared.
func deep(b *testing.B, path string) []byte {
	text, err := os.ReadFile(path)
	if err != nil {
		b.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		b.Fatal(err)
	}
	doc["layers"].(map[string]any)["count"] = benchLayers
	if text, err = json.Marshal(doc); err != nil {
		b.Fatal(err)
	}
	return text
}
