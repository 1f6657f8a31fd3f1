package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
)

// narrowCommands are asked what they print: every kind of model, of cards and of ways to train.
func narrowCommands(t *testing.T) []string {
	t.Helper()
	folder := t.TempDir()
	a, b := filepath.Join(folder, "a.json"), filepath.Join(folder, "b.json")
	many := filepath.Join(folder, "jobs.ndjson")
	printed := filepath.Join(folder, "printed.log")
	for path, text := range map[string]string{
		printed: "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 500.00 MiB. GPU 0 has a total " +
			"capacity of 24.00 GiB of which 100.00 MiB is free. " +
			"Process 1 has 23.00 GiB memory in use. Of the allocated memory 20.00 GiB is allocated by PyTorch, and " +
			"2.00 GiB is reserved by PyTorch but unallocated.\n",
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
	story := "--model nanogpt/train_gpt2 --micro-batch 16 --sequence-length 1024 --gradient-accumulation 32 " +
		"--optimizer adamw_torch_fused --gpu rtx-4070"
	list := []string{"releases", "read --explain-defaults all",
		"plan --model openai-community/gpt2 --micro-batch 2 --objective kto --prompt-tokens 64 --completion-tokens 64 " +
			"--gpu rtx-4070",
		"plan --model openai-community/gpt2 --micro-batch 2 --objective ppo --prompt-tokens 64 --completion-tokens 64 " +
			"--gpu rtx-4070",
		"estimate --pipeline black-forest-labs/FLUX.1-dev --resolution 512 --micro-batch 1 --lora-rank " +
			"16 --gpu a100-80gb",
		"estimate --framework torchtitan --model meta-llama/Llama-3.1-8B --micro-batch 1 --sequence-length 1024 " +
			"--world-size 8 --tensor-parallel 2 --pipeline-parallel 2 --data-parallel fsdp --gradient-accumulation 4 " +
			"--precision bf16 --gpu h100-sxm5",
		"gpus a100-80gb", "gpus p4d.24xlarge", "models gpt2", "estimate " + story,
		"plan " + story, "estimate -f " + many,
		"estimate --model gpt2 --micro-batch 4 --gpu *", "compare " + a + " " + b,
		"plan --model meta-llama/Llama-3.1-8B --micro-batch 4 --gradient-accumulation 2 --sequence-length 1024 " +
			"--qlora --gpu rtx-4090 --framework axolotl",
		"plan --model gpt2 --micro-batch 8 --sequence-length 512 --effective-batch 5040 --gpu h100 --gpu a100 --gpu " +
			"t4 --framework torchtitan"}
	for _, model := range []string{"google-bert/bert-base-uncased", "google-t5/t5-small", "google/vit-base-patch16-224",
		"openai/clip-vit-base-patch32",
		"openai/whisper-tiny", "mistralai/Mixtral-8x7B-v0.1", "Qwen/Qwen3-0.6B", "google/gemma-2-2b"} {
		for _, how := range []string{"", " --precision bf16 --checkpointing full --gpu 3g.20gb",
			" --compile --gpu a100 --gpu t4 --gpu mi300x --reserve 1GiB"} {
			list = append(list, "estimate --model "+model+" --micro-batch 2 --sequence-length 64"+how)
		}
	}
	for _, gpu := range []string{"rtx-4070", "a100-80gb", "rtx-4070 --gpu t4 --gpu rtx-pro-6000-blackwell-max-q"} {
		list = append(list, "check --advice-timeout 1m --model deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B "+
			"--micro-batch 8 --sequence-length 2048 --framework hf-trainer --gpu "+gpu,
			"diagnose --model gpt2-xl --micro-batch 8 --sequence-length 1024 --gpu "+gpu+" -f "+printed)
	}
	return append(list, "check --advice-timeout 1m -f "+many, "diagnose -f "+printed)
}

// No line of an answer for people is wider than 80 columns. Refusals count too: what a job may not ask for is said as
// narrowly.
func TestAnswersFitEightyColumns(t *testing.T) {
	widest := map[string]int{}
	for _, command := range narrowCommands(t) {
		var out, errs bytes.Buffer
		code := run(t.Context(), strings.Fields(command), strings.NewReader(""), &out, &errs, nil)
		if code != exitOK && !strings.HasPrefix(command, "check ") && !strings.HasSuffix(command, ".ndjson") &&
			!strings.Contains(errs.String(), "not modelled") {
			t.Errorf("%s: exit code %d\n%s", command, code, errs.String())
		}
		if out.Len() == 0 && code == exitOK {
			t.Errorf("%s prints nothing", command)
		}
		for line := range strings.Lines(out.String()) {
			name, _, _ := strings.Cut(command, " ")
			n := screen.Width(strings.TrimSuffix(line, "\n"))
			widest[name] = max(widest[name], n)
			if n > screen.LineWidth {
				t.Errorf("%s: %d columns: %s", command, n, line)
			}
		}
	}
	t.Log(fmt.Sprint("widest lines: ", widest))
}
