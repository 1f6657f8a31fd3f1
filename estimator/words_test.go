package estimator

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/answer"
	"github.com/vramplan/vramplan/estimator/step/play"
)

// TestWordsSayWhatIsReplayed: what an answer says in words is what the replay of the job did.
func TestWordsSayWhatIsReplayed(t *testing.T) {
	const qlora = `"lora": {"rank": 8, "base_precision": "nf4"}, "precision": "amp-bf16"`
	hopper := []GPU{{ID: "h100", Vendor: "NVIDIA", MemoryBytes: 80 << 30, UsableBytes: 79 << 30, ComputeCapability: 90,
		Multiprocessors: 132}}
	for _, c := range []struct{ name, training, without, with string }{
		{"torch chooses cuDNN's attention", `"attention": "sdpa"`, "", "attention is cuDNN's"},
		{"the package flash-attn is its own kernel", `"attention": "flash"`, "cuDNN", ""},
		{"QLoRA under trl, which casts embeddings back",
			qlora + `, "objective": "sft", "versions": {"torch": "2.9.1", "transformers": "4.57.6", "trl": "0.23.0"}`,
			"", "in the linear layers quantised, embeddings and head × 2 B (bf16), else × 4 B (fp32)"},
		{"QLoRA under the Trainer", qlora, "embeddings and head", "in the linear layers quantised, else × 4 B (fp32)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := Input{GPUs: hopper}
			if err := json.Unmarshal([]byte(`{"model": `+smallLlama+`, "training": {"micro_batch": 2,
				"sequence_length": 64, `+c.training+`}}`), &in.Job); err != nil {
				t.Fatal(err)
			}
			res, err := Estimate(in)
			if err != nil {
				t.Fatal(err)
			}
			said, err := json.Marshal([]any{res.Notes, res.Components})
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(said), c.with) || c.without != "" && strings.Contains(string(said), c.without) {
				t.Errorf("want %q and not %q in\n%s", c.with, c.without, said)
			}
		})
	}
}

// TestEveryStageHasAName: whichever stage comes second, a note can name it.
func TestEveryStageHasAName(t *testing.T) {
	for s := range play.StageCount {
		var l play.Ledger
		l.Largest[s] = 1
		if name, bytes := answer.RunnerUp(&l, play.StageCount); name == "" || bytes != 1 {
			t.Errorf("stage %d is called %q and takes %d", s, name, bytes)
		}
	}
}
