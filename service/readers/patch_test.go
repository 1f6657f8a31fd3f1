package readers_test

import (
	"context"
	"errors"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/tidwall/gjson"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/reliability/process"
	"github.com/vramplan/vramplan/service/readers"
)

func archive(t *testing.T, text string) readers.Source {
	t.Helper()
	s, _ := sourceOf(txtar.Parse([]byte(text)))
	return s
}

func readOne(t *testing.T, s readers.Source) *readers.Job {
	t.Helper()
	answer, err := readers.Read(context.Background(), s)
	if err != nil || len(answer.Jobs) == 0 {
		t.Fatalf("%v, %+v", err, answer)
	}
	return &answer.Jobs[0]
}

func TestPatches(t *testing.T) {
	for _, c := range []struct {
		name, files string
		changes     map[string]any
		want        string
	}{
		{"a value in YAML keeps its comment, and a default gets a line of its own", `
-- sft.yaml --
model_name_or_path: meta-llama/Meta-Llama-3-8B-Instruct
stage: sft
finetuning_type: lora
template: llama3
bf16: true
per_device_train_batch_size: 16 # large
cutoff_len: 1024
`, map[string]any{"/training/micro_batch": int64(8), "/training/gradient_accumulation": int64(2), "/training/attention": "sdpa"},
			"-per_device_train_batch_size: 16 # large\n+per_device_train_batch_size: 8 # large\n+flash_attn: " +
				"sdpa\n+gradient_accumulation_steps: 2\n"},
		{"a variable is changed where it is assigned", `
-- run.sh --
B=8
python run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size "$B" --block_size 512
`, map[string]any{"/training/micro_batch": int64(4)}, "-B=8\n+B=4\n"},
		{"nanoGPT counts its steps over all processes", `
read: run.sh
-- run.sh --
torchrun --nproc_per_node=4 train.py config/x.py
-- config/x.py --
batch_size = 12
gradient_accumulation_steps = 8 # 2 each
n_layer = 6
max_iters = 10
`, map[string]any{"/training/micro_batch": int64(6), "/training/gradient_accumulation": int64(4)},
			"-batch_size = 12\n-gradient_accumulation_steps = 8 # 2 each\n+batch_size = " +
				"6\n+gradient_accumulation_steps = 16 # 2 each\n"},
		{"arguments of a call", `
-- tune.py --
from unsloth import FastLanguageModel
model, t = FastLanguageModel.from_pretrained(model_name="gpt2", max_seq_length=512)
args = TrainingArguments(per_device_train_batch_size=4, fp16=True)
`, map[string]any{"/training/micro_batch": int64(2), "/training/gradient_accumulation": int64(2)},
			"+args = TrainingArguments(per_device_train_batch_size=2, gradient_accumulation_steps=2, fp16=True)\n"},
		{"torchtitan's accumulation follows from the global batch", `
-- 8b.toml --
[job]
dump_folder = "x"
[model]
name = "llama3"
flavor = "8B"
[training]
local_batch_size = 8
seq_len = 1024
`, map[string]any{"/training/micro_batch": int64(4)}, "-local_batch_size = 8\n+local_batch_size = 4\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := archive(t, c.files)
			p, err := readers.MakePatch(context.Background(), s, readOne(t, s), c.changes)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(p.Diff, c.want) {
				t.Errorf("patch:\n%s\nlacks:\n%s", p.Diff, c.want)
			}
		})
	}
}

// An evaluation whose batch axolotl takes from the micro-batch follows it in a plan; one that a line gives stays.
func TestPlanDocumentFollowsTheMicroBatch(t *testing.T) {
	for _, c := range []struct{ name, line, want string }{
		{"no line gives it", "", "{}"},
		{"a line gives it", "eval_batch_size: 4\n", `{"micro_batch":4}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			job := readOne(t, archive(t, "-- qlora.yml --\nbase_model: Qwen/Qwen2.5-0.5B\nadapter: lora\nlora_r: 8\n"+
				"lora_target_linear: true\ndatasets:\n  - path: a\n    type: alpaca\nval_set_size: 0.05\n"+
				"sequence_len: 512\nmicro_batch_size: 4\ngradient_accumulation_steps: 2\n"+c.line))
			if got := gjson.GetBytes(job.Document, "training.evaluation").Raw; got != `{"micro_batch":4}` {
				t.Fatalf("the job's evaluation is %s", got)
			}
			document, err := job.PlanDocument()
			if err != nil {
				t.Fatal(err)
			}
			if got := gjson.GetBytes(document, "training.evaluation").Raw; got != c.want {
				t.Errorf("the plan's evaluation is %s, want %s", got, c.want)
			}
		})
	}
}

func TestPatchesRefuseWhatTheToolCannotSay(t *testing.T) {
	s := archive(t, "-- run.sh --\npython train.py --batch_size=12 --n_layer=2 --dataset=shakespeare\n")
	for _, changes := range []map[string]any{
		{"/training/gradient_checkpointing": "full"},
		{"/training/optimizer": map[string]any{"name": "adamw-8bit"}},
	} {
		p, err := readers.MakePatch(context.Background(), s, readOne(t, s), changes)
		if !errors.Is(err, readers.ErrNotExpressible) {
			t.Errorf("%v: %v, %v", changes, p, err)
		}
	}
}

// A patch that is made reads as the wanted job: MakePatch compares, and here every case of testdata is tried with any
// numbers.
func TestPatchedFilesReadAsWanted(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	made := 0
	rapid.Check(t, func(rt *rapid.T) {
		a, err := txtar.ParseFile(rapid.SampledFrom(names).Draw(rt, "case"))
		if err != nil {
			rt.Fatal(err)
		}
		s, _ := sourceOf(a)
		answer, err := readers.Read(context.Background(), s)
		if err != nil || len(answer.Jobs) != 1 {
			return
		}
		micro := rapid.Int64Range(1, 64).Draw(rt, "micro-batch")
		p, err := readers.MakePatch(context.Background(), s, &answer.Jobs[0],
			map[string]any{"/training/micro_batch": micro})
		if err != nil && !errors.Is(err, readers.ErrNotExpressible) {
			rt.Fatal(err)
		}
		if err == nil {
			made++
			if p.Diff == "" && p.Command == "" && !strings.Contains(string(answer.Jobs[0].Document), `"micro_batch"`) {
				rt.Fatal("an empty patch for another micro-batch")
			}
		}
	})
	if made == 0 {
		t.Error("no case could be patched")
	}
}

func FuzzRead(f *testing.F) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, name := range names {
		a, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		for i := range a.Files {
			if a.Files[i].Name == "want" {
				a.Files = a.Files[:i]
				break
			}
		}
		f.Add(txtar.Format(a))
	}
	nameless := regexp.MustCompile(`(?m)^-- --\r?$`) // on which txtar.Parse itself panics (go-internal 1.16)
	f.Fuzz(func(t *testing.T, text []byte) {
		if nameless.Match(text) {
			return
		}
		s, _ := sourceOf(txtar.Parse(text))
		if len(s.Files)+len(s.Command) == 0 {
			return
		}
		var answer *readers.Answer
		var err error
		if dear := process.Reading(len(text), func() {
			answer, err = readers.Read(context.Background(), s)
		}); dear != nil {
			t.Error(dear)
		}
		if err != nil {
			return
		}
		for i := range answer.Jobs {
			if _, err := readers.MakePatch(context.Background(), s, &answer.Jobs[i],
				map[string]any{"/training/micro_batch": int64(3)}); err != nil &&
				!errors.Is(err, readers.ErrNotExpressible) {
				t.Fatal(err)
			}
		}
	})
}
