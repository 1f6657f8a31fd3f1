package jobdoc_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// story is the job of the founding question.
const story = `{
  "model": {"preset": "nanogpt/train_gpt2"},
  "training": {
    "micro_batch": 16, "sequence_length": 1024, "gradient_accumulation": 32,
    "precision": "amp-bf16", "optimizer": {"name": "adamw", "implementation": "fused"},
    "gradient_checkpointing": "none", "attention": "sdpa", "loss": "standard", "compile": false
  },
  "gpus": ["rtx-4070"]
}`

func BenchmarkDecode(b *testing.B) {
	data := []byte(story)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := jobdoc.Decode(data); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkEncodingJSON is what the same document costs without any check.
func BenchmarkEncodingJSON(b *testing.B) {
	data := []byte(story)
	b.SetBytes(int64(len(data)))
	b.ReportAllocs()
	for b.Loop() {
		var job estimator.Job
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&job); err != nil {
			b.Fatal(err)
		}
	}
}
