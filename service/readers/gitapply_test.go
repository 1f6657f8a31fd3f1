package readers_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/service/readers"
)

// patched are the tools whose own files or command lines have to take a patch of the micro-batch, and the forms of
// files.
var (
	patched = []string{"axolotl", "deepspeed", "hf-trainer", "litgpt", "llama-factory", "megatron", "ms-swift",
		"nanogpt",
		"torchtitan", "torchtune", "trl", "unsloth", "gpt-neox", "llm-foundry", "nanotron", "nemo-rl", "olmo",
		"open-instruct", "verl"}
	patchedForms = []string{".json", ".py", ".sh", ".toml", ".yaml"}
)

// furtherPatched are files of tools whose cases in testdata cannot take another micro-batch alone: there it decides
// other numbers too.
var furtherPatched = map[string]string{
	"DeepSpeed's file": `-- ds.json --
{
  "train_micro_batch_size_per_gpu": 4,
  "gradient_accumulation_steps": 2,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 2}
}
`,
	"LLM Foundry": `-- train.yaml --
model: {name: mpt_causal_lm, d_model: 768, n_heads: 12, n_layers: 12, expansion_ratio: 4, max_seq_len: 1024, vocab_size: 50368}
max_seq_len: 1024
train_loader: {name: text, dataset: {max_seq_len: 1024}}
optimizer: {name: decoupled_adamw}
device_eval_batch_size: 4
precision: amp_bf16
device_train_microbatch_size: 4 # per card
global_train_batch_size: 64
`,
	"OLMo": `-- small.yaml --
model: {d_model: 768, n_heads: 12, n_layers: 12, mlp_ratio: 8, max_sequence_length: 1024, vocab_size: 50280,
  activation_type: swiglu, rope: true}
optimizer: {name: adamw}
precision: amp_bf16
save_interval_unsharded: 1000
device_train_microbatch_size: 4 # per card
global_train_batch_size: 64
`,
}

// TestGitAppliesEveryToolsPatch applies patches as a user would. Lines that a patch does not speak of stay, with their
// comments and in their order, and the tool's reader reads what was asked for.
func TestGitAppliesEveryToolsPatch(t *testing.T) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	archives := map[string]*txtar.Archive{}
	for _, name := range names {
		if archives[name], err = txtar.ParseFile(name); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range furtherPatched {
		archives[name] = txtar.Parse([]byte(text))
	}
	var tools, forms []string
	for name, a := range archives {
		s, _ := sourceOf(a)
		answer, err := readers.Read(context.Background(), s)
		if err != nil {
			t.Fatal(err)
		}
		for i := range answer.Jobs {
			job := &answer.Jobs[i]
			p, want := anotherMicroBatch(s, job)
			if p == nil {
				continue
			}
			dir := t.TempDir()
			before := map[string]string{}
			for _, f := range a.Files {
				if f.Name == "want" {
					continue
				}
				before[f.Name] = string(f.Data)
				full := filepath.Join(dir, f.Name)
				if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(full, f.Data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			apply := exec.Command(git, "apply", "--whitespace=nowarn", "-")
			apply.Dir, apply.Stdin = dir, strings.NewReader(p.Diff)
			if out, err := apply.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s\n%s", name, err, out, p.Diff)
				continue
			}
			tools = append(tools, job.Reader)
			after := s
			after.ReadFile = func(file string) ([]byte, error) {
				return os.ReadFile(filepath.Join(dir, strings.TrimPrefix(file, "/job/")))
			}
			again, err := readers.Read(context.Background(), after)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.ContainsFunc(again.Jobs, func(j readers.Job) bool {
				return gjson.GetBytes(j.Document, "training.micro_batch").Int() == want && j.Reader == job.Reader
			}) {
				t.Errorf("%s: no job with a micro-batch of %d\n%s", name, want, p.Diff)
			}
			for file, text := range before {
				now, err := os.ReadFile(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				if string(now) != text {
					forms = append(forms, filepath.Ext(file))
				}
				if rest := unspoken(text, p.Diff); !inOrder(rest, strings.Split(string(now), "\n")) {
					t.Errorf("%s: lines of %s that the patch does not speak of are gone or moved:\n%s", name, file,
						p.Diff)
				}
			}
		}
	}
	for _, tool := range patched {
		if !slices.Contains(tools, tool) {
			t.Errorf("no patch of %s's was applied", tool)
		}
	}
	for _, form := range patchedForms {
		if !slices.Contains(forms, form) {
			t.Errorf("no file *%s was changed", form)
		}
	}
}

// anotherMicroBatch is a patch of a job's files for another micro-batch than it has, and that micro-batch; nil where
// there is none.
func anotherMicroBatch(s readers.Source, job *readers.Job) (p *readers.Patch, want int64) {
	micro := gjson.GetBytes(job.Document, "training.micro_batch").Int()
	steps := gjson.GetBytes(job.Document, "training.gradient_accumulation").Int()
	for _, other := range [][2]int64{{micro / 2, 2 * steps}, {2 * micro, steps / 2}, {micro / 2, 0}, {micro + 1, 0}} {
		if other[0] < 1 || other[0] == micro || other[1] > 0 && other[0]*other[1] != micro*steps {
			continue
		}
		changes := map[string]any{"/training/micro_batch": other[0]}
		if other[1] > 0 {
			changes["/training/gradient_accumulation"] = other[1]
		}
		p, err := readers.MakePatch(context.Background(), s, job, changes)
		if err == nil && p.Diff != "" {
			return p, other[0]
		}
	}
	return nil, 0
}

// unspoken are the lines of a text that a patch does not take away.
func unspoken(text, diff string) []string {
	var gone, rest []string
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, "-") && !strings.HasPrefix(line, "---") {
			gone = append(gone, strings.TrimRight(line[1:], "\n"))
		}
	}
	for _, line := range strings.Split(text, "\n") {
		if !slices.Contains(gone, line) {
			rest = append(rest, line)
		}
	}
	return rest
}

// inOrder reports whether all lines are among others, in their order.
func inOrder(lines, all []string) bool {
	for _, line := range lines {
		i := slices.Index(all, line)
		if i < 0 {
			return false
		}
		all = all[i+1:]
	}
	return true
}
