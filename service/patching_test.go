package service_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers"
)

// patchedTool is a tool as its users start it: the line with %s in the place of further words, the words of its
// settings, and the file beside it.
type patchedTool struct {
	line, file, text string
	micro, steps     string
	// dash is in front of an option's word, and after between it and its value.
	dash, after string
}

var patchedTools = []patchedTool{
	{line: "llamafactory-cli train c.yaml %s", file: "c.yaml", text: "model_name_or_path: Qwen/Qwen2.5-0.5B # small\n" +
		"stage: sft\ndo_train: true\ndataset:   alpaca\ntemplate: default\noutput_dir: out\nfinetuning_type: full\n" +
		"cutoff_len: 1024\nbf16: true\npacking: true\n",
		micro: "per_device_train_batch_size", steps: "gradient_accumulation_steps", after: "="},
	{line: "axolotl train ax.yml %s", file: "ax.yml", text: "base_model: Qwen/Qwen2.5-0.5B\nsequence_len: 1024 # tokens\n" +
		"micro_batch_size: 4\ngradient_accumulation_steps: 4\nbf16: true\noptimizer: adamw_torch\n" +
		"datasets: [{path: a, type: alpaca}]\nsample_packing: true\npad_to_sequence_len: true\n"},
	{line: "swift sft --model Qwen/Qwen2.5-0.5B --train_type full --torch_dtype bfloat16 --dataset alpaca --max_length 1024 " +
		"--packing true %s", micro: "per_device_train_batch_size", steps: "gradient_accumulation_steps", dash: "--", after: " "},
	{line: "trl sft --model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name x --max_length 1024 --bf16 true --packing %s",
		micro: "per_device_train_batch_size", steps: "gradient_accumulation_steps", dash: "--", after: " "},
	{line: "python run_clm.py --model_name_or_path gpt2 --do_train --dataset_name wikitext --output_dir out " +
		"--block_size 1024 %s", micro: "per_device_train_batch_size", steps: "gradient_accumulation_steps", dash: "--",
		after: " "},
	{line: "python train.py --n_layer=6 --compile=False --dataset=shakespeare %s", micro: "batch_size",
		steps: "gradient_accumulation_steps", dash: "--", after: "="},
}

// patchedWays put the words for the micro-batch and the steps on a line: lines in front of it, and its words. M and S
// stand for the two options, B and A for their values.
var patchedWays = []struct{ lines, words string }{
	{"", "MB SA"},
	{"", `M"B" SA`},
	{"B=B\n", "M$B SA"},
	{"B=B\n", `M"${B}" SA`},
	{"B=B\necho \"batch $B\"\n", "M$B SA"},
	{"export B=B\n", "M$B SA"},
	{"B=B; A=A # both\n", "M$B S$A"},
	{"", "M${B:-B} SA"},
	{"ARGS='MB SA'\n", "$ARGS"},
	{"ARGS=\"MB\"\necho $ARGS\n", "$ARGS SA"},
	{"B=B\nARGS=\"M$B --seed_of_mine\"\n", "M$B SA"},
	{"ARGS=(MB\n  SA)\n", `"${ARGS[@]}"`},
	{"ARGS=(MB)\nARGS+=(SA)\necho \"${#ARGS[@]} words\"\n", `"${ARGS[@]}"`},
	{"B=B\ncat <<END\nbatch $B\nEND\n", "M$B SA"},
	{"B=B\n[ $B -gt 3 ] && echo large\n", "M$B \\\n    SA"},
	{"set -a\nB=B\nset +a\n", "M$B SA"},
}

// patchedChanges are ways out as plans have them.
var patchedChanges = []map[string]any{
	{"micro_batch": 2, "gradient_accumulation": 8},
	{"micro_batch": 1, "gradient_accumulation": 16},
	{"gradient_checkpointing": "full"},
	{"gradient_checkpointing": "full", "micro_batch": 2, "gradient_accumulation": 8},
	{"gradient_checkpointing": map[string]any{"mode": "full", "reentrant": false}},
	{"attention": "sdpa"},
	{"loss": "fused-linear"},
	{"optimizer": estimator.Optimizer{Name: "adamw-8bit", Implementation: "bitsandbytes"}},
	{"optimizer": estimator.Optimizer{Name: "adafactor"}},
	{"precision": "amp-bf16"},
	{"sequence_length": 512},
	{"lora": estimator.LoRA{Rank: 16, TargetModules: estimator.Targets{"all-linear"}}},
	{"lora": estimator.LoRA{Rank: 16, TargetModules: estimator.Targets{"all-linear"}, BasePrecision: "nf4",
		DoubleQuantization: new(true)}},
	{"lora": estimator.LoRA{Rank: 16, TargetModules: estimator.Targets{"all-linear"}, BasePrecision: "nf4",
		DoubleQuantization: new(true)}, "gradient_checkpointing": map[string]any{"mode": "full", "reentrant": false},
		"micro_batch": 2, "gradient_accumulation": 8},
}

// drawPatched is a script with its file.
func drawPatched(t *rapid.T) (files map[string]string) {
	tool := rapid.SampledFrom(patchedTools).Draw(t, "tool")
	way := rapid.SampledFrom(patchedWays).Draw(t, "way")
	if tool.micro == "" {
		way.lines, way.words = "", ""
	}
	put := func(text string) string {
		text = strings.ReplaceAll(text, "ARGS", "\x00")
		text = regexp.MustCompile(`\bM(["$B])`).ReplaceAllString(text, "\x01$1")
		text = regexp.MustCompile(`\bS(["$A])`).ReplaceAllString(text, "\x02$1")
		text = regexp.MustCompile(`([\x01"=-])B\b`).ReplaceAllString(text, "${1}4")
		text = regexp.MustCompile(`([\x02=])A\b`).ReplaceAllString(text, "${1}4")
		return strings.NewReplacer("\x00", "ARGS", "\x01", tool.dash+tool.micro+tool.after, "\x02",
			tool.dash+tool.steps+tool.after).Replace(text)
	}
	front := rapid.SampledFrom([]string{"", "# B=4 was too much: 4 of them\n", "echo begins   # 4\n",
		"export WANDB_MODE=offline\n"}).Draw(t, "front")
	behind := rapid.SampledFrom([]string{"", "echo 'M B 4'\n", "# the end\n", "\n\n"}).Draw(t, "behind")
	script := "#!/bin/bash\n#SBATCH --gres=gpu:rtx-4090:1\nexport CUDA_VISIBLE_DEVICES=0\n" + front + put(way.lines) +
		strings.TrimRight(fmt.Sprintf(tool.line, put(way.words)), " ") + "\n" + behind
	files = map[string]string{"job.sh": script, "requirements.txt": "transformers==5.23.0\n"}
	if tool.file != "" {
		files[tool.file] = tool.text
	}
	return files
}

// filesOf is what readers get of files in a folder.
func filesOf(dir string) readers.Source {
	catalog := service.EmbeddedCatalog()
	return readers.Source{Dir: dir, Files: []string{filepath.Join(dir, "job.sh")}, ReadFile: os.ReadFile,
		HasModel: catalog.HasModel, ModelType: catalog.ModelType, HasGPU: catalog.Has,
		Pictures: func(name string) readers.Pictures { return readers.PicturesOf(catalog.ShowsPictures(name)) }}
}

// ran is what a script prints where every program that trains prints the words that it gets, and those words.
func ran(t *rapid.T, bash, dir, stubs string) (said string, words [][]string) {
	cmd := exec.Command(bash, "job.sh")
	cmd.Dir, cmd.Env = dir, []string{"PATH=" + stubs + ":/usr/bin:/bin"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for line := range strings.Lines(string(out)) {
		if rest, is := strings.CutPrefix(line, "\x1e"); is {
			words = append(words, strings.Split(strings.TrimSuffix(rest, "\x1f\n"), "\x1f"))
			continue
		}
		said += line
	}
	return said, words
}

// meant are the words of a program, of each key the last value.
func meant(words []string) (keys map[string]string, rest []string) {
	keys = map[string]string{}
	for i := 0; i < len(words); i++ {
		key, value, given := strings.Cut(words[i], "=")
		if !strings.HasPrefix(key, "--") && !given {
			rest = append(rest, key)
			continue
		}
		if !given && i+1 < len(words) && !strings.HasPrefix(words[i+1], "--") {
			i++
			value = words[i]
		}
		keys[strings.TrimLeft(key, "-")] = value
	}
	return keys, rest
}

// A patch that is made means what was planned: the patched script passes bash -n, is read as the planned job, takes
// what the patch says that it takes, and does all else that it did, to the letter. Where none is made, the words are
// named with their files and lines.
func TestPatchedScriptsMeanThePlannedJob(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	stubs := t.TempDir()
	for _, name := range []string{"llamafactory-cli", "axolotl", "swift", "trl", "python"} {
		if err := os.WriteFile(filepath.Join(stubs, name),
			[]byte("#!/bin/sh\nprintf '\\036'\nfor a; do printf '%s\\037' \"$a\"; done\necho\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	made, named, none := map[string]int{}, 0, 0
	place := regexp.MustCompile(`^\S+:\d+: \S+ .* → `)
	rapid.Check(t, func(t *rapid.T) {
		files := drawPatched(t)
		changes := rapid.SampledFrom(patchedChanges).Draw(t, "changes")
		dir, err := os.MkdirTemp("", "patched")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		source := filesOf(dir)
		answer, err := readers.Read(context.Background(), source)
		if err != nil || len(answer.Jobs) != 1 || len(answer.Open()) > 0 {
			t.Fatalf("%v %+v\n%s", err, answer, files["job.sh"])
		}
		patching := service.Patching{Catalog: service.EmbeddedCatalog(), Source: source, Job: &answer.Jobs[0],
			Over: func(document []byte) ([]byte, error) {
				return sjson.SetRawBytes(document, "gpus", []byte(`["rtx-4090"]`))
			}}
		plain := asPlain(t, changes)
		patching.Plan = &planner.Plan{Options: []planner.Option{{Title: "this", Changes: plain, Verdict: estimator.Fits,
			DeviceBytes: 1}}}
		patch, err := patching.Patch(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if patch.Diff == "" {
			if len(patch.Words) == 0 {
				none++ // the tool has no word for it
				return
			}
			named++
			for _, word := range patch.Words {
				if !place.MatchString(word) {
					t.Fatalf("%q names no place", word)
				}
			}
			return
		}
		saidBefore, before := ran(t, bash, dir, stubs)
		apply := exec.Command(git, "apply", "-")
		apply.Dir, apply.Stdin = dir, strings.NewReader(patch.Diff)
		if out, err := apply.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s\n%s", err, out, patch.Diff)
		}
		if out, err := exec.Command(bash, "-n", filepath.Join(dir, "job.sh")).CombinedOutput(); err != nil {
			t.Fatalf("bash -n: %s\n%s", out, patch.Diff)
		}
		again, err := readers.Read(context.Background(), filesOf(dir))
		if err != nil || len(again.Jobs) != 1 {
			t.Fatalf("%v %+v", err, again)
		}
		for field, want := range plain {
			got := gjson.GetBytes(again.Jobs[0].Document, "training."+field)
			if object, is := want.(map[string]any); is && field != "optimizer" {
				for key, inner := range object {
					g := got.Get(key)
					if (key == "mode" || key == "kind") && !got.IsObject() {
						g = got
					}
					if key != "reentrant" && !sameJSON(g.Raw, inner) {
						t.Fatalf("%s.%s is %s, planned %v\n%s", field, key, g.Raw, inner, patch.Diff)
					}
				}
			} else if got.IsObject() && !is {
				if !sameJSON(got.Get("mode").Raw, want) && !sameJSON(got.Get("kind").Raw, want) {
					t.Fatalf("%s is %s, planned %v", field, got.Raw, want)
				}
			} else if !is && got.Raw != "" && !sameJSON(got.Raw, want) {
				t.Fatalf("%s is %s, planned %v\n%s", field, got.Raw, want, patch.Diff)
			}
		}
		if patch.DeviceBytes != 1 {
			job, err := jobdoc.Decode(again.Jobs[0].Document)
			if err != nil {
				t.Fatal(err)
			}
			model, err := service.EmbeddedCatalog().Model(job.Model.Preset)
			if err != nil {
				t.Fatal(err)
			}
			gpu, err := service.EmbeddedCatalog().GPU("rtx-4090")
			if err != nil {
				t.Fatal(err)
			}
			result, err := estimator.Judge(estimator.Input{Job: job, Preset: &model.Preset,
				GPUs: []estimator.GPU{gpu.ForEstimator()}})
			if err != nil || result.Peak.DeviceBytes != patch.DeviceBytes {
				t.Fatalf("%v: the patch says %d bytes, the patched files take %+v", err, patch.DeviceBytes, result.Peak)
			}
		}
		said, after := ran(t, bash, dir, stubs)
		if said != saidBefore || len(after) != len(before) {
			t.Fatalf("the script prints %q, and %q before\n%s", said, saidBefore, patch.Diff)
		}
		for i := range before {
			was, rest := meant(before[i])
			is, restNow := meant(after[i])
			if !slices.Equal(rest, restNow) {
				t.Fatalf("%q, and %q before", after[i], before[i])
			}
			for key, value := range was {
				if now, there := is[key]; !there || now != value && !strings.Contains(strings.ReplaceAll(patch.Diff, "-", "_"), key) {
					t.Fatalf("%s is %q, and %q before\n%s", key, now, value, patch.Diff)
				}
			}
		}
		for line := range strings.Lines(patch.Diff) {
			if strings.HasPrefix(line, "-#") || strings.HasPrefix(line, "-echo") || strings.HasPrefix(line, "-export") {
				t.Fatalf("harmless text changes:\n%s", patch.Diff)
			}
		}
		for field := range changes {
			made[field]++
		}
	})
	t.Logf("patched: %v; %d named in words, of %d the tool has no word", made, named, none)
}

// asPlain is a value as JSON has it.
func asPlain(t *rapid.T, v map[string]any) (plain map[string]any) {
	text, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(text, &plain)
	}
	if err != nil {
		t.Fatal(err)
	}
	return plain
}

func sameJSON(raw string, want any) bool {
	text, err := json.Marshal(want)
	return err == nil && raw == string(text)
}
