package submission

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"
)

// files is a directory in memory, whose names begin with /job/.
type files map[string]string

func (f files) read(name string) ([]byte, error) {
	text, ok := f[strings.TrimPrefix(name, "/job/")]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(text), nil
}

// find looks for the job of a script that is submitted in /job.
func find(script string, f files) (Found, error) {
	return Find(context.Background(), Source{Script: []byte(script), Dir: "/job", Name: "job.sh", ReadFile: f.read, HasModel: hasModel})
}

// hasModel is a catalog of GPT-2 and all models of Qwen's.
func hasModel(name string) bool { return name == "gpt2" || strings.HasPrefix(name, "Qwen/") }

const nanoGPTDocument = `{"model":{"nanogpt":{"bias":false,"block_size":1024,"dropout":0,"n_embd":768,"n_head":12,"n_layer":12,"vocab_size":50304}},` +
	`"training":{"micro_batch":12,"sequence_length":1024,"gradient_accumulation":40,"precision":"amp-bf16","optimizer":{"name":"adamw","implementation":"fused"},"compile":true}}`

// nanoGPTScript is what of nanoGPT's train.py decides memory.
const nanoGPTScript = `"""
batch_size = 99
"""
import os
eval_only = False # if True, script exits right after the first eval
init_from = 'scratch' # 'scratch' or 'resume' or 'gpt2*'
dataset = 'openwebtext'
gradient_accumulation_steps = 5 * 8 # used to simulate larger batch sizes
batch_size = 12 # if gradient_accumulation_steps > 1, this is the micro-batch size
block_size = 1024
n_layer = 12
n_head = 12
n_embd = 768
dropout = 0.0 # for pretraining 0 is good, for finetuning try 0.1+
bias = False
device = 'cuda'
dtype = 'bfloat16' if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else 'float16'
compile = True
config_keys = [k for k,v in globals().items()]
exec(open('configurator.py').read()) # overrides from command line or config file
batch_size = 99
`

func TestFind(t *testing.T) {
	trainer := func(model, micro, rest string) string {
		return `{"model":` + model + `,"training":{"micro_batch":` + micro + "," + rest + `}}`
	}
	const gpt2 = `{"preset":"gpt2"}`
	const fused = `"optimizer":{"name":"adamw","implementation":"fused"}`
	const plain = `"gradient_checkpointing":"none","framework":"hf-trainer"`
	tests := []struct {
		name, script string
		files        files
		want         string
	}{
		{"pairs", "#VRAMPLAN model=gpt2 micro_batch=8\n#VRAMPLAN gpus=t4,a10 compile=true", nil,
			`{"model":{"preset":"gpt2"},"training":{"micro_batch":8,"compile":true},"gpus":["t4","a10"]}`},
		{"pairs with whole paths", "#VRAMPLAN training.micro_batch=8 model.preset=gpt2 training.lora.rank=4", nil,
			`{"training":{"micro_batch":8,"lora":{"rank":4}},"model":{"preset":"gpt2"}}`},
		{"an option as a word, then its fields", "#VRAMPLAN optimizer=adamw optimizer.implementation=fused", nil,
			`{"training":{"optimizer":{"name":"adamw","implementation":"fused"}}}`},
		{"its fields, then the word", "#VRAMPLAN loss.chunks=8 loss=chunked", nil,
			`{"training":{"loss":{"chunks":8,"kind":"chunked"}}}`},
		{"quoted", `#VRAMPLAN model="my model" optimizer='{"name": "adamw"}'`, nil,
			`{"model":{"preset":"my model"},"training":{"optimizer":{"name":"adamw"}}}`},
		{"JSON over several lines", "#VRAMPLAN {\"model\":\r\n#VRAMPLAN\t{\"preset\": \"gpt2\"}}\r\n", nil,
			"{\"model\":\n{\"preset\": \"gpt2\"}}"},
		{"a declared job wins over a configuration", "#VRAMPLAN micro_batch=1\npython train.py --batch_size=2",
			files{"train.py": nanoGPTScript},
			`{"training":{"micro_batch":1}}`},

		{"nanoGPT's own defaults", "python train.py", files{"train.py": nanoGPTScript}, nanoGPTDocument},
		{"nanoGPT without its train.py at hand", "python train.py --batch_size=12", nil, nanoGPTDocument},
		{"a configuration and a key", "python train.py config/a.py --batch_size=12",
			files{"train.py": nanoGPTScript, "config/a.py": "batch_size = 4\nlearning_rate = 1e-3\n"}, nanoGPTDocument},
		{"variables of the script", "export SIZE=12\nCONFIG=config/a.py\nARGS=\"$CONFIG --batch_size=$SIZE\"\npython " +
			"-u train.py ${ARGS}",
			files{"config/a.py": "batch_size = 4"}, nanoGPTDocument},
		{"a here-document", "B=4\ncat > c.py <<EOF\nbatch_size = $((B * 3))\nEOF\npython train.py c.py",
			files{"train.py": nanoGPTScript}, nanoGPTDocument},
		{"a script that a script runs", "export B=12\nbash train.sh config/a.py",
			files{"train.py": nanoGPTScript, "config/a.py": "batch_size = 4",
				"train.sh": "srun python train.py $1 --batch_size=$B"}, nanoGPTDocument},
		{"a sourced file", "source sizes.sh\npython train.py --batch_size=$B",
			files{"train.py": nanoGPTScript, "sizes.sh": "B=12"}, nanoGPTDocument},
		{"sums, arrays and conditions", "B=$((3 * 4))\nARGS=(--batch_size=$B)\nif [ $B -gt 8 ]; then " +
			"ARGS+=(--n_layer=12); else ARGS+=(--n_layer=24); fi\npython train.py \"${ARGS[@]}\"",
			files{"train.py": nanoGPTScript}, nanoGPTDocument},
		{"another directory", "cd code\npython train.py", files{"code/train.py": nanoGPTScript}, nanoGPTDocument},
		{"sbatch's directory", "#SBATCH --chdir code\npython train.py", files{"code/train.py": nanoGPTScript},
			nanoGPTDocument},
		{"over several lines, in the middle of things", "set -e\nif true; then\n  srun --gres=gpu:1 \\\n    python " +
			"train.py \\\n    --n_layer=12 2>&1 | tee log &\nfi\nwait", files{"train.py": nanoGPTScript},
			nanoGPTDocument},
		{"GPT-2 XL", "python train.py --init_from=gpt2-xl --compile=False --dropout=0.1 --dtype=float16",
			files{"train.py": nanoGPTScript},
			`{"model":{"nanogpt":{"bias":true,"block_size":1024,"dropout":0.1,"n_embd":1600,"n_head":25,"n_layer":48,"vocab_size":50257}},` +
				`"training":{"micro_batch":12,"sequence_length":1024,"gradient_accumulation":40,"precision":"amp-fp16",` + fused + `,"compile":false}}`},
		{"eight processes share the accumulation", "torchrun --standalone --nproc_per_node=8 train.py",
			files{"train.py": nanoGPTScript + "gradient_accumulation_steps //= ddp_world_size\n"},
			strings.Replace(strings.Replace(nanoGPTDocument, `"gradient_accumulation":40`, `"gradient_accumulation":5`, 1),
				`"compile":true`, `"compile":true,"distributed":{"data":"ddp","world_size":8}`, 1)},

		{"the Trainer", "accelerate launch --num_processes 1 run_clm.py --do_train --model_name_or_path gpt2 " +
			"--per_device_train_batch_size 4 --block_size 512 --bf16 --optim adamw_bnb_8bit " +
			"--gradient_checkpointing true", nil,
			trainer(gpt2, "4", `"sequence_length":512,"gradient_accumulation":1,"precision":"amp-bf16","optimizer":{"name":"adamw-8bit","implementation":"bitsandbytes"},`+
				`"gradient_checkpointing":"full","framework":"hf-trainer"`)},
		{"the Trainer with weights in float32", "python run_clm.py --do_train --model_name_or_path=gpt2 " +
			"--per-device-train-batch-size=4 --bf16 True --torch_dtype float32 --gradient_accumulation_steps=3", nil,
			trainer(gpt2, "4", `"sequence_length":1024,"gradient_accumulation":3,"precision":"amp-bf16",`+fused+","+plain)},
		{"the Trainer with a local model", "python run_clm.py --do_train --model_name_or_path ./m " +
			"--per_device_train_batch_size 4 --fp16", files{"m/config.json": `{"model_type": "gpt2"}`},
			trainer(`{"hf_config":{"model_type":"gpt2"}}`, "4",
				`"sequence_length":1024,"gradient_accumulation":1,"precision":"amp-fp16",`+fused+","+plain)},
		{"the Trainer's arguments in a file", "python run_clm.py args.json",
			files{"args.json": `{"do_train": true, "model_name_or_path": "gpt2", "per_device_train_batch_size": 2, "tf32": true, "max_seq_length": 256}`},
			trainer(gpt2, "2", `"sequence_length":256,"gradient_accumulation":1,"precision":"tf32",`+fused+","+plain)},
		{"TRL with adapters", "python sft.py --model_name_or_path gpt2 --per_device_train_batch_size 1 --max_length " +
			"2048 --use_peft --lora_r 8 --lora_target_modules q_proj v_proj --load_in_4bit --bf16", nil,
			trainer(gpt2, "1", `"sequence_length":2048,"gradient_accumulation":1,"precision":"amp-bf16",`+fused+
				`,"gradient_checkpointing":"full","lora":{"base_precision":"nf4","dropout":0.05,"rank":8,"target_modules":["q_proj","v_proj"]},"framework":"trl"`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found, err := find(tt.script, tt.files)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, string(found.Document)); diff != "" {
				t.Errorf("document (-want +got):\n%s", diff)
			}
		})
	}
}

// What cannot be told is not guessed: a hook lets such a job pass.
func TestUnclear(t *testing.T) {
	withDefaults := func(more string) files { return files{"train.py": nanoGPTScript, "c.py": more} }
	tests := []struct {
		name, script string
		files        files
		want         string // part of the reason; "" for no job at all
	}{
		{"nothing", "", nil, ""},
		{"no training", "#!/bin/bash\nhostname\npython evaluate.py --model gpt2", nil, ""},
		{"another language", "#!/usr/bin/env python3\nbatch_size = 4", nil, ""},
		{"a syntax error", "if true; then python train.py --batch_size=4", nil, ""},
		{"somebody else's train.py", "python train.py --batch_size=4", files{"train.py": "import lightning"}, ""},
		{"words that nanoGPT's configurator does not take", "python train.py data/", files{"train.py": nanoGPTScript}, ""},
		{"from a checkpoint", "python train.py --init_from=resume", files{"train.py": nanoGPTScript},
			"init_from resume"},
		{"on a processor", "python train.py --device=cpu", files{"train.py": nanoGPTScript}, "no GPU is used"},
		{"the Trainer on a processor", "python run_clm.py --do_train --model_name_or_path gpt2 " +
			"--per_device_train_batch_size 4 --use_cpu", nil, "trains on the CPU"},
		{"only evaluates", "python train.py --eval_only=True", files{"train.py": nanoGPTScript}, "no training step"},
		{"a configuration that is not there", "python train.py config/b.py", files{"train.py": nanoGPTScript},
			"job.sh:1: the configuration config/b.py is not there"},
		{"a configuration from outside", "python train.py $1.py", files{"train.py": nanoGPTScript},
			"which configuration it is cannot be told"},
		{"a value from outside", "python train.py --batch_size=$1", files{"train.py": nanoGPTScript},
			"job.sh:1: $1: the script's arguments"},
		{"a value from a loop", "for b in $SIZES; do python train.py --batch_size=$b; done",
			files{"train.py": nanoGPTScript}, "assigned in the loop in line 1"},
		{"a call", "python train.py c.py", withDefaults("batch_size = int(os.environ['B'])"), "c.py:1: "},
		{"a branch", "python train.py c.py", withDefaults("if big:\n    batch_size = 64"), "c.py:2: "},
		{"an update", "python train.py c.py", withDefaults("batch_size *= 2"), "c.py:1: "},
		{"several names", "python train.py c.py", withDefaults("batch_size, n_layer = sizes()"), "c.py:1: "},
		{"a data set with its own vocabulary", "python train.py --dataset=mine",
			files{"train.py": nanoGPTScript, "data/mine/meta.pkl": "x"}, "meta.pkl"},
		{"no length", "python mine.py --model_name_or_path gpt2 --per_device_train_batch_size 4", nil,
			"How many tokens has a sequence?"},
		{"a model that is not there", "python mine.py --model_name_or_path ./m --per_device_train_batch_size " +
			"4 --max_length 8", nil, "config.json is not there"},
		{"sharded by something unknown",
			"python run_clm.py --do_train --model_name_or_path gpt2 --per_device_train_batch_size 4 " +
				"--deepspeed $UNSET", nil, "job.sh:1: $UNSET is not set"},
		{"a value that is read", "read B\npython train.py --batch_size=$B", files{"train.py": nanoGPTScript},
			"set by read in line 1"},
		{"a value from a sourced file", "B=4\nsource sizes.sh\npython train.py --batch_size=$B",
			files{"train.py": nanoGPTScript}, "line 2 sources"},
		{"a value by eval", "B=4\neval \"B=$X\"\npython train.py --batch_size=$B", files{"train.py": nanoGPTScript},
			"in line 2"},
		{"a size from outside", "python run_clm.py --do_train --model_name_or_path gpt2 --per_device_train_batch_size $B",
			nil, "job.sh:1: $B is not set"},
		{"more configuration", "python sft.py --config a.yaml --model_name_or_path gpt2 --per_device_train_batch_size 1",
			nil, "the configuration a.yaml is not there"},
		{"a word for a pair", "#VRAMPLAN micro_batch 4", nil, "not key=value"},
		{"an element of a list", "#VRAMPLAN gpus.999999999=4", nil, "not the name of a field"},
		{"a strange key", "#VRAMPLAN a#b=4", nil, "not the name of a field"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found, err := find(tt.script, tt.files)
			if found.Document != nil || err == nil {
				t.Fatalf("found %s, error %v", found.Document, err)
			}
			if tt.want == "" {
				if !errors.Is(err, ErrNoJob) {
					t.Errorf("error %v, want none found", err)
				}
				return
			}
			if bad := (*UnclearError)(nil); !errors.As(err, &bad) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}

func TestBesideTheScript(t *testing.T) {
	for _, tt := range []struct{ job, want string }{
		{` {"model": 1}`, ` {"model": 1}`},
		{"job.json", `{"model": 2}`},
	} {
		found, err := Find(context.Background(), Source{Job: tt.job, Dir: "/job", ReadFile: files{"job.json": `{"model": 2}`}.read})
		if err != nil || string(found.Document) != tt.want {
			t.Errorf("%q gave %s, %v; want %s", tt.job, found.Document, err, tt.want)
		}
	}
	if _, err := Find(context.Background(), Source{Job: "nowhere.json", Dir: "/job", ReadFile: files{}.read}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there gave %v", err)
	}
}

// Of a heterogeneous job each component is asked about by itself: a launch runs on the first one, unless srun names
// others, and what is declared on the first.
func TestComponents(t *testing.T) {
	const head = "#!/bin/sh\n#SBATCH --gres=gpu:h200:1\n#SBATCH hetjob\n#SBATCH --gres=gpu:rtx-4070:1\n"
	launch := func(batch string) string {
		return "python run_clm.py --do_train --model_name_or_path gpt2 --per_device_train_batch_size " + batch
	}
	for _, tt := range []struct {
		name, script string
		component    int
		// micro is the micro-batch of the job that is found, "" where none is.
		micro, gres string
		doubtful    bool
	}{
		{"a launch", launch("4"), 0, "4", "gpu:h200:1", false},
		{"a launch, for the second", launch("4"), 1, "", "gpu:rtx-4070:1", false},
		{"declared", "#VRAMPLAN model=gpt2 micro_batch=4", 0, "4", "gpu:h200:1", false},
		{"declared, for the second", "#VRAMPLAN model=gpt2 micro_batch=4", 1, "", "gpu:rtx-4070:1", false},
		{"srun on the second", "srun --het-group=1 " + launch("4"), 1, "4", "gpu:rtx-4070:1", false},
		{"srun on the second, for the first", "srun --het-group=1 " + launch("4"), 0, "", "gpu:h200:1", false},
		{"as older releases say it", "srun --pack-group 1 " + launch("4"), 1, "4", "gpu:rtx-4070:1", false},
		{"srun on both", "srun --het-group=0,1 " + launch("4"), 1, "4", "gpu:rtx-4070:1", false},
		{"one each, the first", "srun " + launch("4") + " : --het-group=1 " + launch("8"), 0, "4", "gpu:h200:1", false},
		{"one each, the second", "srun " + launch("4") + " : --het-group=1 " + launch("8"), 1, "8", "gpu:rtx-4070:1", false},
		{"srun on what only the script knows", "srun --het-group=$G " + launch("4"), 1, "4", "gpu:rtx-4070:1", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, err := Find(context.Background(), Source{Script: []byte(head + tt.script), Dir: "/job", Name: "job.sh",
				ReadFile: files{}.read, HasModel: hasModel, Component: tt.component})
			if tt.micro == "" {
				if !errors.Is(err, ErrNoJob) {
					t.Errorf("found %s, %v; want none", found.Document, err)
				}
			} else if micro := gjson.GetBytes(found.Document, "training.micro_batch").Raw; err != nil || micro != tt.micro {
				t.Errorf("found %s, %v; want a micro-batch of %s", found.Document, err, tt.micro)
			}
			if found.Options.GRES != tt.gres {
				t.Errorf("asks for %q, want %q", found.Options.GRES, tt.gres)
			}
			if tt.micro != "" && found.Inferred && (len(found.Doubts) > 0) != tt.doubtful {
				t.Errorf("in doubt: %v", found.Doubts)
			}
		})
	}
}
