package submission

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// findTool looks for the job of a script in /job, with a catalog that has all models of Qwen's.
func findTool(script string, f files) (Found, error) {
	return Find(context.Background(), Source{Script: []byte(script), Dir: "/job", Name: "job.sh", ReadFile: f.read, HasModel: hasModel})
}

const (
	factoryYAML = `model_name_or_path: Qwen/Qwen2.5-7B
stage: sft
do_train: true
finetuning_type: full
template: qwen
dataset: alpaca
cutoff_len: 4096
per_device_train_batch_size: 2
bf16: true
`
	factoryLaunch = "#!/bin/bash\nexport CUDA_VISIBLE_DEVICES=0\nllamafactory-cli train full.yaml\n"
)

func TestToolsUnderstood(t *testing.T) {
	found, err := findTool(factoryLaunch, files{"full.yaml": factoryYAML})
	if !may(found, err) {
		t.Fatalf("error %v, in doubt: %v", err, found.Doubts)
	}
	if len(found.Others) != 1 || !strings.Contains(string(found.Others[0].Document), `"sequence_length":8`) {
		t.Errorf("the reading that needs least is %s", found.Others)
	}
	found, err = findTool(factoryLaunch, files{"full.yaml": factoryYAML,
		"Qwen/Qwen2.5-7B/config.json": `{"model_type": "qwen2"}`})
	if !strings.Contains(string(found.Document), `{"hf_config":{"model_type":"qwen2"}}`) {
		t.Errorf("a directory of the model's name is read as %s, %v", found.Document, err)
	}
	if !strings.Contains(string(found.Document), `"sequence_length":4096`) {
		t.Errorf("the faithful reading is %s", found.Document)
	}
}

// Jobs of tools of which something is not understood: none may be refused.
func TestToolsDoubts(t *testing.T) {
	axolotl := files{"q.yml": "base_model: Qwen/Qwen2.5-7B\nmicro_batch_size: 2\nsequence_len: " +
		"2048\ndatasets:\n  - path: x\n"}
	for _, tt := range []struct {
		name, script string
		files        files
		want         string
	}{
		{"a key that nobody knows", factoryLaunch, files{"full.yaml": factoryYAML + "my_key: 7\n"},
			"full.yaml:10: my_key"},
		{"a word about adapters", factoryLaunch, files{"full.yaml": factoryYAML + "lisa_layers: 2\n"}, "lisa_layers"},
		{"a model that is not known", factoryLaunch,
			files{"full.yaml": strings.Replace(factoryYAML, "Qwen/", "other/", 1)}, "catalog has no other/Qwen2.5-7B"},
		{"a file that is not there", factoryLaunch, nil, "full.yaml is not there"},
		{"a file that the script changes",
			strings.Replace(factoryLaunch, "llama", "sed -i s/full/lora/ full.yaml\nllama", 1),
			files{"full.yaml": factoryYAML}, "as it lies there"},
		{"a file of the same name elsewhere", strings.Replace(factoryLaunch, "full.yaml", "runs/full.yaml", 1),
			files{"full.yaml": factoryYAML}, "runs/full.yaml is not there, and full.yaml is read in its place"},
		{"a file on another disk", strings.Replace(factoryLaunch, "full.yaml", "/scratch/full.yaml", 1),
			files{"full.yaml": factoryYAML}, "/scratch/full.yaml is not there"},
		{"a branch", strings.Replace(factoryLaunch, "llamafactory-cli train full.yaml",
			"if [ -e x ]; then llamafactory-cli train full.yaml; fi", 1), files{"full.yaml": factoryYAML},
			"may not run"},
		{"words from outside", strings.Replace(factoryLaunch, "full.yaml", "full.yaml $EXTRA", 1),
			files{"full.yaml": factoryYAML}, "EXTRA"},
		{"a variable that shards", strings.Replace(factoryLaunch, "export ", "export ACCELERATE_USE_FSDP=1 ", 1),
			files{"full.yaml": factoryYAML}, "ACCELERATE_USE_FSDP"},
		{"no GPU", strings.Replace(factoryLaunch, "=0", "=", 1), files{"full.yaml": factoryYAML}, "hides all GPUs"},
		{"a program of the user's", "#!/bin/bash\npython src/train.py full.yaml\n",
			files{"full.yaml": factoryYAML,
				"src/train.py": "from llamafactory.train.tuner import run_exp\nrun_exp()\n"}, "train.py may do more"},
		{"accelerate's own file", "#!/bin/bash\naxolotl train q.yml\n", axolotl, "axolotl may do more"},
		{"a directory of the model's name, of a quantised model", factoryLaunch, files{"full.yaml": factoryYAML,
			"Qwen/Qwen2.5-7B/config.json": `{"model_type": "qwen2", "quantization_config": {"bits": 4}}`},
			"quantization_config"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, err := findTool(tt.script, tt.files)
			if may(found, err) {
				t.Fatalf("may be refused: %s", found.Document)
			}
			reasons := ""
			if err != nil {
				reasons = err.Error()
			}
			for _, d := range found.Doubts {
				reasons += "\n" + d.String()
			}
			if !strings.Contains(reasons, tt.want) {
				t.Errorf("%q is not among the reasons:\n%s", tt.want, reasons)
			}
		})
	}
}

// A word more in the settings of a tool never makes a denial of what was none: either it is understood, or it is a
// doubt.
func TestToolsMutation(t *testing.T) {
	known := map[string]bool{}
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"my", "use", "enable", "train", "the"}).Draw(t, "first") + "_" +
			rapid.SampledFrom([]string{"lora_x", "bits", "zero_stage", "offload_all", "freeze_layers", "fp8_mode",
				"thing", "depth", "cache_w", "galore_q", "parallel_y"}).Draw(t, "second")
		value := rapid.SampledFrom([]string{"1", "true", "auto", "[a, b]"}).Draw(t, "value")
		lines := strings.SplitAfter(factoryYAML, "\n")
		at := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
		text := strings.Join(lines[:at], "") + key + ": " + value + "\n" + strings.Join(lines[at:], "")
		if found, err := findTool(factoryLaunch, files{"full.yaml": text}); may(found, err) {
			t.Fatalf("%s: %s: may be refused", key, value)
		}
		known[key] = true
	})
	if len(known) == 0 {
		t.Error("nothing was tried")
	}
}
