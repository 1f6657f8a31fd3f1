package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
)

// launchDraw draws a batch script: how the card is asked for, what stands in front of the program, the program and its
// words. Most of it is what people write; some of it no reader knows.
func launchDraw(t *rapid.T) (script string) {
	pick := func(name string, of ...string) string { return rapid.SampledFrom(of).Draw(t, name) }
	card := pick("card", "--gres=gpu:rtx-4090:1", "--gres=gpu:h100:1", "-G t4:1", "--gpus=a100:1", "--gpus-per-node=rtx_3060_12gb:1",
		"--gres=gpu:1 --constraint=l40s", "--gres=gpu:rtx-4070:1\n#SBATCH hetjob\n#SBATCH --gres=gpu:h200:1")
	script = "#!/bin/bash\n#SBATCH " + card + "\n"
	if rapid.IntRange(0, 9).Draw(t, "declared") == 0 {
		script += "#VRAMPLAN model=gpt2 micro_batch=" + pick("micro", "1", "64") + " sequence_length=1024\n"
	}
	front := pick("front", "python ", "python -u ", "python3 ", "torchrun --standalone --nproc_per_node=1 ",
		"accelerate launch --num_processes 1 ", "accelerate launch --config_file one.yaml ", "srun python ",
		"srun --het-group=1 python ", "env HF_HOME=/x python ", "docker run --rm img python ", "$PYTHON ",
		"singularity exec --nv $SIF python ", "deepspeed --num_gpus 1 ", "nohup python ")
	model := pick("model", "gpt2", "gpt2-xl", "facebook/opt-1.3b", "Qwen/Qwen2.5-0.5B", "EleutherAI/pythia-1b",
		"meta-llama/Llama-3.1-8B", "somebody/unknown-7b", "./m")
	batch := pick("batch", "1", "4", "16", "64", "$B", "${B:-8}")
	var words string
	switch pick("program", "clm", "clm", "clm", "sft", "own", "nanogpt", "trl", "llamafactory", "axolotl", "unknown") {
	case "clm":
		words = front + "run_clm.py --do_train --dataset_name wikitext --output_dir $OUT --model_name_or_path " + model +
			" --per_device_train_batch_size " + batch
	case "sft":
		words = front + "sft.py --dataset_name x --max_length 1024 --model_name_or_path " + model +
			" --per_device_train_batch_size " + batch
	case "own":
		words = front + "finetune.py --model_max_length 1024 --model_name_or_path " + model +
			" --per_device_train_batch_size " + batch
	case "nanogpt":
		return script + front + "train.py --n_layer=12 --compile=False --block_size=1024 --batch_size=" + batch + "\n"
	case "trl":
		words = "trl sft --max_length 512 --dataset_name x --model_name_or_path " + model + " --per_device_train_batch_size " +
			batch
	case "llamafactory":
		return script + "llamafactory-cli train lf.yaml per_device_train_batch_size=" + batch + "\n"
	case "axolotl":
		return script + "axolotl train ax.yml\n"
	default:
		return script + front + "evaluate.py --model " + model + "\n"
	}
	for _, more := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"--bf16", "--fp16", "--gradient_checkpointing",
		"--block_size 1024", "--torch_dtype bfloat16", "--optim adafactor", "--optim adamw_bnb_8bit", "--do_eval",
		"--gradient_accumulation_steps 4", "--torch_compile", "--seed $SLURM_JOB_ID", "--my_flag 3", "--lora_r 8",
		"--use_liger_kernel", "$EXTRA", "--fsdp 'full_shard auto_wrap'", "--attn_implementation eager",
		"--max_train_samples 8", "--logging_steps ${EVERY:-10}"}), 0, 4, rapid.ID[string]).Draw(t, "words") {
		words += " " + more
	}
	return script + words + "\n"
}

// launchFiles lie beside the scripts.
var launchFiles = map[string]string{
	"one.yaml": "distributed_type: NO\nnum_processes: 1\nmixed_precision: 'no'\n",
	"lf.yaml": "model_name_or_path: Qwen/Qwen2.5-0.5B\nstage: sft\ndo_train: true\nfinetuning_type: full\ndataset: a\n" +
		"template: qwen\ncutoff_len: 1024\nbf16: true\n",
	"ax.yml": "base_model: Qwen/Qwen2.5-0.5B\nsequence_len: 1024\nmicro_batch_size: 4\nbf16: true\nadapter: lora\nlora_r: 8\n" +
		"lora_target_linear: true\ndatasets: []\n",
	"m/config.json": `{"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_layer": 12, "n_head": 12, "n_embd": 768,` +
		`"n_positions": 1024, "vocab_size": 50257, "dtype": "float32"}`,
}

// check --script, check --from and estimate --from read one script as one job on one card: the same bytes where they
// answer, and none answers where another does not know what to ask about. What check denies estimate does not let
// through, nor the other way round.
func TestOneReading(t *testing.T) {
	dir := t.TempDir()
	for name, text := range launchFiles {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	ask := func(args ...string) (code int, out string) {
		var b, errs bytes.Buffer
		code = run(context.Background(), args, strings.NewReader(""), &b, &errs, nil)
		return code, b.String()
	}
	ends := map[int]int{}
	same := 0
	rapid.Check(t, func(t *rapid.T) {
		script := launchDraw(t)
		if err := os.WriteFile("job.sh", []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		component := "0"
		if strings.Contains(script, "--het-group=1") && strings.Contains(script, "hetjob") &&
			!strings.Contains(script, marker) {
			component = "1"
		}
		est, answer := ask("estimate", "--from", "job.sh", "-o", "json")
		code, said := ask("check", "--script", "job.sh", "--json", "--advice-timeout", "1ns", "--het-group", component)
		if from, other := ask("check", "--from", "job.sh", "--json", "--advice-timeout", "1ns", "--het-group",
			component); from != code || other != said {
			t.Fatalf("check --from ends with %d, check --script with %d\n%s", from, code, script)
		}
		ends[code]++
		if est != exitOK {
			if code == exitOK || code == exitFailure {
				t.Fatalf("check ends with %d, and estimate has no answer\n%s%s", code, script, said)
			}
			return
		}
		var bests []string
		gjson.Get(answer, "gpus.#.verdict").ForEach(func(_, v gjson.Result) bool {
			bests = append(bests, v.String())
			return true
		})
		all := func(verdict estimator.Verdict) bool {
			for _, v := range bests {
				if v != string(verdict) {
					return false
				}
			}
			return len(bests) > 0
		}
		switch {
		case code == exitFailure && !all(estimator.DoesNotFit), code == exitOK && all(estimator.DoesNotFit):
			t.Fatalf("check ends with %d, estimate says %v\n%s", code, bests, script)
		case code != exitOK && code != exitFailure && code != exitUndecided:
			t.Fatalf("check ends with %d, and estimate answers\n%s%s", code, script, said)
		}
		if !gjson.Get(said, "peak").Exists() { // too little is understood for a verdict
			return
		}
		judged, err := sjson.Delete(said, "check")
		if err != nil {
			t.Fatal(err)
		}
		if judged != answer {
			t.Fatalf("check and estimate answer\n%s%sof\n%s", judged, answer, script)
		}
		same++
	})
	if ends[exitOK]+ends[exitFailure]+ends[exitUndecided] < 50 { // too few draws to have seen everything
		return
	}
	tried(t, ends, exitOK, exitUndecided)
	if same == 0 && !t.Failed() {
		t.Error("no script was answered by both")
	}
}

// marker begins a line that declares a job.
const marker = "#VRAMPLAN"
