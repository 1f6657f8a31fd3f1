package estimator

import (
	"fmt"
	"math"
	"testing"
)

// TestLossInModel holds decoders that computed their loss themselves, of logits in their own type, against traces of
// transformers 4.48.1 on torch 2.9.1; before, those in half precision were up to 42 % too high. What is left is what
// else that release does otherwise, most in its own attention of GPT-NeoX.
func TestLossInModel(t *testing.T) {
	const runs = 31
	near := 0
	var all comparison
	for _, run := range tracedRuns(t, "testdata/transformers-4.48.jsonl", runs) {
		all.add(t, run.ID, func(t *testing.T) *difference {
			res := mustEstimate(t, Input{Job: run.Job, GPUs: []GPU{tracedGPUs["a100-sxm4-80gb"]}})
			off := float64(res.Peak.AllocatedBytes)/run.Truth.Allocated - 1
			if math.Abs(off) < 0.013 {
				near++
			}
			const most = 0.042
			if math.Abs(off) > most {
				return &difference{"the peak", fmt.Sprintf("%d bytes, traced are %.0f: %+.2f %%", res.Peak.AllocatedBytes,
					run.Truth.Allocated, 100*off)}
			}
			if high := float64(res.Peak.HighBytes); high < run.Truth.Allocated {
				return &difference{"the upper bound", fmt.Sprintf("at most %.0f bytes are said, and %.0f were allocated", high,
					run.Truth.Allocated)}
			}
			return nil
		})
	}
	all.end(t)
	if least := runs * 3 / 4; near < least {
		t.Errorf("%d of %d within 1.3 %%, %d are asked for", near, runs, least)
	}
}
