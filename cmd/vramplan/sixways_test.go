package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/vramplan/vramplan/api"
	"github.com/vramplan/vramplan/service"
)

// recipe is one job said in as few words as a framework takes: by flags, and by a launch line with the files that it
// names. config is one of those that says all of it alone, where the tool reads such a file.
type recipe struct {
	name, framework string
	flags           []string
	launch          string
	files           map[string]string
	config          string
}

// recipes are those of the frameworks whose defaults a document is completed with.
var recipes = []recipe{
	{name: "whole", framework: "hf-trainer",
		flags: []string{"--model", "meta-llama/Llama-3.1-8B", "--sequence-length", "2048",
			"--micro-batch", "2"},
		launch: "python run_clm.py --do_train --model_name_or_path meta-llama/Llama-3.1-8B --block_size 2048 " +
			"--per_device_train_batch_size 2"},
	{name: "published in float32", framework: "hf-trainer",
		flags:  []string{"--model", "gpt2", "--sequence-length", "512", "--micro-batch", "2"},
		launch: "python run_clm.py --do_train --model_name_or_path gpt2 --block_size 512 --per_device_train_batch_size 2"},
	{name: "autocast", framework: "hf-trainer",
		flags:  []string{"--model", "Qwen/Qwen2.5-0.5B", "--sequence-length", "512", "--precision", "amp-bf16"},
		launch: "python run_clm.py --do_train --model_name_or_path Qwen/Qwen2.5-0.5B --block_size 512 --bf16"},
	{name: "older release", framework: "hf-trainer",
		flags: []string{"--model", "Qwen/Qwen2.5-0.5B", "--sequence-length", "512",
			"--set", "versions.transformers=4.53.3"},
		launch: "python run_clm.py --do_train --model_name_or_path Qwen/Qwen2.5-0.5B --block_size 512",
		files:  map[string]string{"said": "versions.transformers=4.53.3"}},
	{name: "whole", framework: "trl",
		flags:  []string{"--model", "Qwen/Qwen2.5-0.5B"},
		launch: "trl sft --model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name d",
		files: map[string]string{"c.yaml": "model_name_or_path: Qwen/Qwen2.5-0.5B\ndataset_name: d\n" +
			"learning_rate: 2.0e-5\nper_device_train_batch_size: 8\nuse_peft: false\n"}, config: "trl sft --config c.yaml"},
	{name: "adapters", framework: "trl",
		flags:  []string{"--model", "Qwen/Qwen2.5-0.5B", "--lora-rank", "16", "--set", "lora.dropout=0.05"},
		launch: "trl sft --model_name_or_path Qwen/Qwen2.5-0.5B --dataset_name d --use_peft"},
}

// The same recipe by flags, by a document from a file and over HTTP, by its launch line, by a configuration and by a
// gate that reads its script takes the same bytes and is the same job with all that nobody says: one table has it.
func TestOneRecipeHasOneDefault(t *testing.T) {
	for _, r := range recipes {
		t.Run(r.framework+"/"+r.name, func(t *testing.T) { r.sameEveryWay(t) })
	}
}

func (r recipe) sameEveryWay(t *testing.T) {
	t.Helper()
	handler := api.New(service.New(service.EmbeddedCatalog()), api.Options{})
	dir := t.TempDir()
	t.Chdir(dir)
	var set []string
	for name, text := range r.files {
		if name == "said" {
			set = []string{"--set", text}
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(args ...string) string {
		t.Helper()
		var out, errs bytes.Buffer
		if code := run(context.Background(), args, strings.NewReader(""), &out, &errs, nil); code > exitFailure {
			t.Fatalf("%v ends with %d: %s%s", args, code, out.String(), errs.String())
		}
		return out.String()
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const card = "h100-sxm5"
	flags := append([]string{"--framework", r.framework, "--gpu", card}, r.flags...)
	document := documentOf(t, flags)
	write("job.json", document)
	write("run.sh", "#!/bin/bash\n#SBATCH --gres=gpu:"+card+":1\n"+r.launch+"\n")
	request := httptest.NewRequest(http.MethodPost, "/v1/estimate", strings.NewReader(document))
	request.Header.Set("Content-Type", "application/json")
	over := httptest.NewRecorder()
	handler.ServeHTTP(over, request)

	ways := map[string]string{
		"flags":     ask(append([]string{"estimate", "-o", "json"}, flags...)...),
		"document":  ask("estimate", "-f", "job.json", "-o", "json"),
		"over HTTP": over.Body.String(),
		"launch":    ask(append([]string{"estimate", "--from", "run.sh", "-o", "json"}, set...)...),
		"check":     ask(append([]string{"check", "--script", "run.sh", "--json", "--advice-timeout", "1ns"}, set...)...),
	}
	if r.config != "" {
		write("config.sh", "#!/bin/bash\n#SBATCH --gres=gpu:"+card+":1\n"+r.config+"\n")
		ways["configuration"] = ask("estimate", "--from", "config.sh", "-o", "json")
	}
	whole := ways["flags"]
	for _, way := range slices.Sorted(maps.Keys(ways)) {
		for _, part := range []string{"peak", "assumed.training"} {
			got, want := gjson.Get(ways[way], part).Raw, gjson.Get(whole, part).Raw
			if want == "" || sorted(t, got) != sorted(t, want) {
				t.Errorf("%s: %s is\n%s\nand by flags\n%s\nof %s", way, part, got, want, r.launch)
			}
		}
	}
}

// A word of a tool: what it sets in a job document, as --set takes it, and how the tool spells it.
type word struct{ set, key, value string }

// spoken is how a tool is told a recipe, and the words that one is drawn from: at most one of each group, of which
// the first may be what the tool does unless told otherwise.
var spoken = map[string]struct {
	models []string
	begin  []word // without which it trains nothing
	groups [][]word
	// whole are the words of a training without adapters, adapters those of one with them, each with words of its own.
	whole, adapters  []word
	drawnOfAdapters  [][]word
	config, launches string // a file of lines "key: value", or the command before "--key value"
}{
	"axolotl": {
		models: []string{"meta-llama/Llama-3.2-1B", "Qwen/Qwen2.5-0.5B", "gpt2"},
		begin:  []word{{"", "datasets", "[{path: x, type: alpaca}]"}},
		groups: [][]word{
			{{"micro_batch=3", "micro_batch_size", "3"}, {"micro_batch=1", "micro_batch_size", "1"}},
			{{"sequence_length=768", "sequence_len", "768"}},
			{{"gradient_accumulation=4", "gradient_accumulation_steps", "4"}},
			{{"precision=amp-bf16", "bf16", "true"}, {"precision=amp-bf16", "bf16", "auto"}, {"precision=fp32", "bf16", "false"}},
			{{"gradient_checkpointing=full", "gradient_checkpointing", "true"},
				{"gradient_checkpointing=none", "gradient_checkpointing", "false"}},
			{{"optimizer=adafactor", "optimizer", "adafactor"}},
		},
		adapters: []word{{"", "adapter", "lora"}, {"lora.rank=16", "lora_r", "16"}},
		drawnOfAdapters: [][]word{{{"lora.dropout=0.1", "lora_dropout", "0.1"}, {"lora.dropout=0", "lora_dropout", "0.0"}},
			{{`lora.base_precision="nf4"`, "load_in_4bit", "true"}, {`lora.base_precision="int8"`, "load_in_8bit", "true"}},
			{{`lora.target_modules=["all-linear"]`, "lora_target_linear", "true"}}},
		config: "base_model", launches: "axolotl train c.yml",
	},
	"llama-factory": {
		models: []string{"meta-llama/Llama-3.2-1B", "Qwen/Qwen2.5-0.5B", "gpt2"},
		begin: []word{{"", "stage", "sft"}, {"", "do_train", "true"}, {"", "dataset", "x"}, {"", "template", "llama3"},
			{"", "output_dir", "o"}},
		groups: [][]word{
			{{"micro_batch=3", "per_device_train_batch_size", "3"}, {"micro_batch=8", "per_device_train_batch_size", "8"}},
			{{"sequence_length=768", "cutoff_len", "768"}},
			{{"gradient_accumulation=4", "gradient_accumulation_steps", "4"}},
			{{"precision=amp-bf16", "bf16", "true"}},
			{{"gradient_checkpointing=none", "disable_gradient_checkpointing", "true"}},
			{{"optimizer=adafactor", "optim", "adafactor"}},
		},
		whole:    []word{{"", "finetuning_type", "full"}},
		adapters: []word{{"lora={}", "finetuning_type", "lora"}},
		drawnOfAdapters: [][]word{{{"lora.rank=16", "lora_rank", "16"}}, {{"lora.dropout=0.1", "lora_dropout", "0.1"}},
			{{`lora.base_precision="nf4"`, "quantization_bit", "4"}, {`lora.base_precision="int8"`, "quantization_bit", "8"}},
			{{`lora.target_modules=["q_proj","v_proj"]`, "lora_target", "q_proj,v_proj"}}},
		config: "model_name_or_path", launches: "llamafactory-cli train c.yml",
	},
	"ms-swift": {
		models: []string{"meta-llama/Llama-3.2-1B", "Qwen/Qwen2.5-0.5B", "gpt2"},
		begin:  []word{{"", "dataset", "x"}, {"sequence_length=768", "max_length", "768"}},
		groups: [][]word{
			{{"micro_batch=3", "per_device_train_batch_size", "3"}, {"micro_batch=1", "per_device_train_batch_size", "1"}},
			{{"gradient_accumulation=4", "gradient_accumulation_steps", "4"}},
			{{"precision=amp-bf16", "bf16", "true"}},
			{{"gradient_checkpointing=none", "gradient_checkpointing", "false"}},
			{{"optimizer=adafactor", "optim", "adafactor"}},
		},
		whole:    []word{{"", "tuner_type", "full"}},
		adapters: []word{{"lora={}", "tuner_type", "lora"}},
		drawnOfAdapters: [][]word{{{"lora.rank=16", "lora_rank", "16"}}, {{"lora.dropout=0", "lora_dropout", "0"}},
			{{`lora.base_precision="nf4"`, "quant_bits", "4"}}},
		config: "", launches: "swift sft --model",
	},
}

// Recipes that are drawn, for every framework whose words are known: however few of them are said, all ways to say
// them are the same job.
func TestDrawnRecipesHaveOneDefault(t *testing.T) {
	for _, framework := range slices.Sorted(maps.Keys(spoken)) {
		tool := spoken[framework]
		draw := rand.New(rand.NewPCG(7, uint64(len(framework))))
		for n := range 8 {
			adapted := n%2 == 0
			model := tool.models[draw.IntN(len(tool.models))]
			if adapted && model == "gpt2" { // whose names of modules are its own
				model = tool.models[0]
			}
			words, groups := slices.Concat(tool.begin, tool.whole), tool.groups
			if adapted {
				words = slices.Concat(tool.begin, tool.adapters)
				groups = slices.Concat(tool.groups, tool.drawnOfAdapters)
			}
			for _, group := range groups {
				if draw.IntN(3) == 0 {
					words = append(words, group[draw.IntN(len(group))])
				}
			}
			r := recipe{framework: framework, flags: []string{"--model", model}, launch: tool.launches}
			text := tool.config + ": " + model + "\n"
			if tool.config == "" {
				r.launch += " " + model
			}
			for _, w := range words {
				if w.set != "" {
					r.flags = append(r.flags, "--set", w.set)
				}
				text += w.key + ": " + w.value + "\n"
				if tool.config == "" {
					r.launch += " --" + w.key + " " + w.value
				}
			}
			if tool.config != "" {
				r.files = map[string]string{"c.yml": text}
			}
			t.Run(fmt.Sprint(framework, "/", n), func(t *testing.T) {
				r.sameEveryWay(t)
				if t.Failed() {
					t.Log(text)
				}
			})
		}
	}
}

// documentOf is the job document that flags mean.
func documentOf(t *testing.T, flags []string) string {
	t.Helper()
	document := "{}"
	set := func(path string, value any) {
		t.Helper()
		var err error
		if document, err = sjson.Set(document, path, value); err != nil {
			t.Fatal(err)
		}
	}
	for i := 0; i+1 < len(flags); i += 2 {
		switch value := flags[i+1]; flags[i] {
		case "--framework":
			set("training.framework", value)
		case "--gpu":
			set("gpus", []string{value})
		case "--model":
			set("model.preset", value)
		case "--precision":
			set("training.precision", value)
		case "--set":
			path, text, _ := strings.Cut(value, "=")
			if gjson.Valid(text) && !strings.HasPrefix(path, "versions.") {
				set("training."+path, gjson.Parse(text).Value())
			} else {
				set("training."+path, text)
			}
		case "--lora-rank":
			set("training.lora.rank", gjson.Parse(value).Int())
		default:
			set("training."+strings.ReplaceAll(strings.TrimPrefix(flags[i], "--"), "-", "_"), gjson.Parse(value).Int())
		}
	}
	return document
}

// sorted is JSON with its keys in order.
func sorted(t *testing.T, text string) string {
	t.Helper()
	if text == "" {
		return ""
	}
	return gjson.Get(text, "@ugly|@pretty:{\"sortKeys\":true}").Raw
}
