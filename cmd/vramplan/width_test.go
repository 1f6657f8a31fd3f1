package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// narrowCommands are asked what they print: every kind of model, of cards and of ways to train.
func narrowCommands(t *testing.T) []string {
	t.Helper()
	folder := t.TempDir()
	a, b := filepath.Join(folder, "a.json"), filepath.Join(folder, "b.json")
	many := filepath.Join(folder, "jobs.ndjson")
	for path, text := range map[string]string{
		a: `{"model": {"preset": "meta-llama/Llama-3.1-8B"}, "training": {"micro_batch": 4, "sequence_length": 2048}, "gpus": ["a100-80gb"]}`,
		b: `{"model": {"preset": "meta-llama/Llama-3.1-8B"}, "training": {"micro_batch": 2, "sequence_length": 2048, "gradient_checkpointing": "full",
			"lora": {"rank": 8}, "optimizer": "adamw_bnb_8bit"}, "gpus": ["a100-80gb"]}`,
		many: `{"model": {"preset": "deepseek-ai/DeepSeek-R1-Distill-Llama-8B"}, "training": {"micro_batch": 1, "sequence_length": 512}, "gpus": ["rtx-pro-6000-blackwell-max-q", "t4"]}
{"model": {"preset": "no/such/model/of/that/very/long/name"}, "training": {"micro_batch": -1, "precision": "fp7"}}
`,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	story := "--model nanogpt/train_gpt2 --micro-batch 16 --sequence-length 1024 --gradient-accumulation 32 --optimizer adamw_torch_fused --gpu rtx-4070"
	list := []string{"gpus", "models", "gpus a100-80gb", "gpus p4d.24xlarge", "models gpt2", "estimate " + story, "plan " + story, "estimate -f " + many,
		"estimate --model gpt2 --micro-batch 4 --gpu *", "compare " + a + " " + b,
		"plan --model meta-llama/Llama-3.1-8B --micro-batch 4 --gradient-accumulation 2 --sequence-length 1024 --qlora --gpu rtx-4090 --framework axolotl",
		"plan --model gpt2 --micro-batch 8 --sequence-length 512 --effective-batch 5040 --gpu h100 --gpu a100 --gpu t4 --framework torchtitan"}
	for _, model := range []string{"google-bert/bert-base-uncased", "google-t5/t5-small", "google/vit-base-patch16-224", "openai/clip-vit-base-patch32",
		"openai/whisper-tiny", "mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-0.6B", "google/gemma-2-2b"} {
		for _, how := range []string{"", " --precision bf16 --checkpointing full --gpu 3g.20gb", " --compile --gpu a100 --gpu t4 --gpu mi300x --reserve 1GiB"} {
			list = append(list, "estimate --model "+model+" --micro-batch 2 --sequence-length 64"+how)
		}
	}
	return list
}

// No line of an answer for people is wider than 80 columns. Refusals count too: what a job may not ask for is said as narrowly.
func TestAnswersFitEightyColumns(t *testing.T) {
	widest := map[string]int{}
	for _, command := range narrowCommands(t) {
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(command), strings.NewReader(""), &out, &errs, nil)
		if code != exitOK && !strings.HasSuffix(command, ".ndjson") && !strings.Contains(errs.String(), "not modelled") {
			t.Errorf("%s: exit code %d\n%s", command, code, errs.String())
		}
		if out.Len() == 0 && code == exitOK {
			t.Errorf("%s prints nothing", command)
		}
		for line := range strings.Lines(out.String()) {
			name, _, _ := strings.Cut(command, " ")
			n := width(strings.TrimSuffix(line, "\n"))
			widest[name] = max(widest[name], n)
			if n > lineWidth {
				t.Errorf("%s: %d columns: %s", command, n, line)
			}
		}
	}
	t.Log(fmt.Sprint("widest lines: ", widest))
}
