package submission

import (
	"context"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/service/readers"
)

// nanoGPTModel stands for nanoGPT's model.py.
const nanoGPTModel = "class GPT(nn.Module):\n    pass # its layers\n"

// findKnown looks for the job of a script in /job, where nanoGPTScript and nanoGPTModel are nanoGPT's.
func findKnown(script string, f files) (Found, error) {
	return Find(context.Background(), Source{Script: []byte(script), Dir: "/job", Name: "job.sh", ReadFile: f.read,
		HasModel: hasModel, Programs: readers.ProgramsOf([]byte(nanoGPTScript), []byte(nanoGPTModel))})
}

// may says whether a job may be refused: it was found, and nothing of it is in doubt.
func may(found Found, err error) bool { return err == nil && len(found.Doubts) == 0 }

// The launches of which every word is understood.
const (
	trainerLaunch = "python run_clm.py --model_name_or_path gpt2 --dataset_name wikitext " +
		"--per_device_train_batch_size 64 --per_device_eval_batch_size 8 --do_train --do_eval --bf16 --block_size " +
		"1024 --learning_rate 1e-4 --output_dir $OUT"
	nanoLaunch = "python train.py config/big.py --compile=False --out_dir=$OUT"
)

var nanoFiles = files{"train.py": nanoGPTScript, "model.py": nanoGPTModel,
	"config/big.py": "# big\nbatch_size = 64\nwandb_run_name = 'a' + str(time.time())\n"}

// withFile is nanoFiles with one more or other file.
func withFile(name, text string) files {
	f := files{}
	for n, t := range nanoFiles {
		f[n] = t
	}
	f[name] = text
	return f
}

func TestUnderstood(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		files        files
	}{
		{"the Trainer", trainerLaunch, nil},
		{"nanoGPT", nanoLaunch, nanoFiles},
		{"with other values in train.py", nanoLaunch,
			withFile("train.py", strings.Replace(nanoGPTScript, "n_layer = 12", "n_layer = 48 # more", 1))},
		{"under srun, with an environment", "module load cuda\nsource ~/venv/bin/activate\nexport OMP_NUM_THREADS=8 " +
			"HF_HOME=/scratch PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True\ncd " +
			"$SLURM_SUBMIT_DIR\nsrun --ntasks=1 -u " + trainerLaunch, nil},
		{"under torchrun", "torchrun --standalone --nproc_per_node=1 --master_port 29500 " +
			strings.TrimPrefix(nanoLaunch, "python "), nanoFiles},
		{"under accelerate with a file", "accelerate launch --config_file a.yaml --num_processes 1 " +
			strings.TrimPrefix(trainerLaunch, "python "), files{"a.yaml": "distributed_type: NO\nnum_processes: " +
			"1\nmixed_precision: bf16\nuse_cpu: false\n"}},
		{"behind a check", "set -euo pipefail\nif [ $# -gt 5 ]; then echo no; exit 1; fi\nmkdir -p out && " +
			"cd . || exit 1\n" + nanoLaunch, nanoFiles},
		{"in a function", "main() {\n" + nanoLaunch + " 2>&1 | tee log.txt\n}\nmain \"$@\"", nanoFiles},
		{"run_clm.py of a release", trainerLaunch, files{"run_clm.py": "from transformers import Trainer, " +
			"HfArgumentParser\nparser = HfArgumentParser((ModelArguments, TrainingArguments))\n    model = " +
			"AutoModelForCausalLM.from_pretrained(name)\n    model.resize_token_embeddings(len(tokenizer))\n    " +
			"trainer = Trainer(model=model)\n"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if found, err := findKnown(tt.script, tt.files); !may(found, err) {
				t.Errorf("error %v, in doubt: %v", err, found.Doubts)
			}
		})
	}
}

// Jobs that run, or may run, in another way than they seem to: none may be refused, and what is in doubt is named.
func TestDoubts(t *testing.T) {
	trainer := func(more string) string { return trainerLaunch + " " + more }
	launched := func(by string) string { return by + " " + strings.TrimPrefix(trainerLaunch, "python ") }
	fork := func(old, new string) files { return withFile("train.py", strings.Replace(nanoGPTScript, old, new, 1)) }
	for _, tt := range []struct {
		name, script string
		files        files
		want         string // part of the reason
	}{
		{"PEFT's switch", trainer("--use_peft_lora True --lora_r 8"), nil, "--lora_r"},
		{"PEFT's quantisation", trainer("--use_4bit_quantization True"), nil,
			"--use_4bit_quantization"},
		{"LLaMA-Factory", trainer("--finetuning_type lora"), nil, "--finetuning_type"},
		{"qlora.py", trainer("--bits 4 --double_quant"), nil, "--bits"},
		{"frozen layers", trainer("--freeze_layers 20"), nil, "--freeze_layers"},
		{"a kind of adapter", trainer("--peft_type IA3"), nil, "--peft_type"},
		{"a backbone", trainer("--tune_mm_mlp_adapter True"), nil, "--tune_mm_mlp_adapter"},
		{"a flag in camel case", trainer("--loraRank 8"), nil, "--loraRank is about adapters"},
		{"adapters that run_clm.py does not have", trainer("--use_lora"), nil, "Of which rank are the adapters?"},
		{"a rank without a switch", trainer("--lora_rank 8"), nil, "--lora_rank"},
		{"an option that nobody knows", trainer("--my_flag 7"), nil, "--my_flag is not understood"},
		{"an optimizer over some modules", trainer("--optim_target_modules attn mlp"), nil, "--optim_target_modules"},
		{"another model", trainer("--config_overrides n_layer=2"), nil, "--config_overrides changes the model's configuration"},
		{"code of its own", trainer("--trust_remote_code True"), nil, "--trust_remote_code"},
		{"only evaluates", strings.Replace(trainerLaunch, "--do_train", "", 1), nil,
			"without do_train evaluates, and trains nothing"},
		{"does not train", strings.Replace(trainerLaunch, "--do_train", "--do_train False", 1), nil,
			"without do_train evaluates, and trains nothing"},
		{"on a processor", trainer("--no_cuda"), nil, "it trains on the CPU"},
		{"words from outside", trainer("$EXTRA"), nil,
			"$EXTRA is not set"},
		{"words behind a flag", strings.Replace(trainerLaunch, "--do_eval", "--do_eval $EXTRA", 1), nil,
			"known only when the script runs"},
		{"a list from outside", trainer("\"${ARGS[@]}\""), nil, "\"${ARGS[@]}\" may add arguments: $ARGS is not set"},
		{"arguments of the script", trainer("$@"), nil, "$@ may add arguments: the script's arguments are not known"},
		{"another program", strings.Replace(trainerLaunch, "run_clm.py", "mine.py", 1), nil,
			"mine.py may do more, or something else"},
		{"TRL's program", strings.Replace(trainerLaunch, "run_clm.py", "sft.py", 1), nil, "sft.py may do more, or something else"},
		{"a run_clm.py with adapters", trainerLaunch,
			files{"run_clm.py": "from peft import LoraConfig\nHfArgumentParser()"},
			"run_clm.py:1: from peft import LoraConfig is not in the program of a release"},
		{"a run_clm.py that freezes", trainerLaunch, files{"run_clm.py": "HfArgumentParser()\nfor p in " +
			"model.parameters():\n    p.requires_grad = False\n"}, "run_clm.py:3: p.requires_grad"},
		{"a run_clm.py that cuts the model", trainerLaunch,
			files{"run_clm.py": "HfArgumentParser()\nmodel.transformer.h = model.transformer.h[:2]\n"},
			"run_clm.py:2: model.transformer"},
		{"a quantised model", strings.Replace(trainerLaunch, "gpt2", "./m", 1),
			files{"m/config.json": "{\"model_type\": \"gpt2\",\n\"quantization_config\": {}}"},
			"the weights are stored by a method without a name"},

		{"accelerate without a file", launched("accelerate launch --num_processes 1"), nil,
			"the file in the user's home"},
		{"accelerate with FSDP", launched("accelerate launch --config_file a.yaml"),
			files{"a.yaml": "fsdp_config: {}\ndistributed_type: FSDP"}, "On how many GPUs does it run?"},
		{"accelerate with a file that is not there", launched("accelerate launch --config_file a.yaml"), nil,
			"What does a.yaml say?"},
		{"accelerate's FSDP", launched("accelerate launch --use_fsdp"), nil, "On how many GPUs does it run?"},
		{"accelerate's DeepSpeed", launched("accelerate launch --use_deepspeed --zero_stage 3"), nil,
			"On how many GPUs does it run?"},
		{"accelerate's Megatron", launched("accelerate launch --use_megatron_lm"), nil, "hands the model to Megatron-LM"},
		{"accelerate's tensor parallelism", launched("accelerate launch --tp_size 4"), nil,
			"tensor parallelism (tp_size) is not read"},
		{"a launcher that nobody knows", launched("colossalai run"), nil, "colossalai run is no program that is known"},
		{"a launcher from outside", launched("$LAUNCHER"), nil, "$LAUNCHER is no program that is known"},
		{"a module in front", launched("python -m mylauncher"), nil, "mylauncher"},
		{"FSDP in the environment", "export ACCELERATE_USE_FSDP=true\n" + trainerLaunch, nil,
			"job.sh:1: ACCELERATE_USE_FSDP is about sharding"},
		{"FSDP in front", "ACCELERATE_USE_FSDP=1 " + trainerLaunch, nil, "ACCELERATE_USE_FSDP"},
		{"FSDP by env", "env ACCELERATE_USE_FSDP=1 " + trainerLaunch, nil, "ACCELERATE_USE_FSDP"},
		{"FSDP by srun", "srun --export=ALL,ACCELERATE_USE_FSDP=1 " + trainerLaunch, nil,
			"--export=ALL,ACCELERATE_USE_FSDP=1 is about sharding"},
		{"other modules", "export PYTHONPATH=$PWD/mine\n" + trainerLaunch, nil, "PYTHONPATH may put other modules"},
		{"another library", "LD_PRELOAD=libx.so " + trainerLaunch, nil, "LD_PRELOAD may change"},
		{"a quantised checkpoint", strings.Replace(trainerLaunch, "gpt2", "unsloth/llama-3-8b-bnb-4bit", 1), nil,
			"catalog has no unsloth/llama-3-8b-bnb-4bit"},
		{"a paged optimizer", trainer("--optim paged_adamw_32bit"), nil,
			"paged_adamw_32bit may move its state"},
		{"an environment from a file", "source env.sh\n" + trainerLaunch, nil, "the environment is not known"},
		{"no GPU to be seen", "export CUDA_VISIBLE_DEVICES=\n" + trainerLaunch, nil,
			"CUDA_VISIBLE_DEVICES hides all GPUs"},

		{"a branch", "if [ \"$MODE\" = big ]; then " + trainerLaunch + "; fi", nil, "may not run: if in line 1"},
		{"a case", "case $1 in big) " + trainerLaunch + ";; esac", nil, "may not run: case in line 1"},
		{"another attempt", trainerLaunch + " || python small.py", nil, "may fail without harm: || in line 1"},
		{"big and small", "test -f big && " + trainerLaunch, nil, "may not run: && in line 1"},
		{"the status", trainerLaunch + "\nif [ $? -ne 0 ]; then python small.py; fi", nil,
			"looks at how a command ended"},
		{"attempts in a loop", "for n in 64 32 16; do " + trainerLaunch + " && break; done", nil, "loop in line 1"},
		{"until it goes", "until " + trainerLaunch + "; do sleep 1; done", nil, "loop in line 1"},
		{"a trap", "trap 'python small.py' ERR\n" + trainerLaunch, nil, "trap in line 1"},
		{"nothing to do", "if [ -f done ]; then exit 0; fi\n" + trainerLaunch, nil, "may not run: if in line 1"},

		{"nanoGPT without its code", nanoLaunch, files{"config/big.py": "batch_size = 64"},
			"train.py is not there to be compared"},
		{"nanoGPT without its model", nanoLaunch, files{"config/big.py": "", "train.py": nanoGPTScript},
			"model.py is not there to be compared"},
		{"a fork's model", nanoLaunch, withFile("model.py", nanoGPTModel+"    share = True\n"),
			"model.py is not one of nanoGPT's own"},
		{"a fork's program", nanoLaunch, withFile("train.py", nanoGPTScript+"model.freeze()\n"),
			"train.py is not one of nanoGPT's own"},
		{"a fork's kind of model", nanoLaunch, fork("n_layer = 12", "n_layer = 12\nmodel_type = 'rwkv'"),
			"train.py:12: model_type"},
		{"a fork's key", nanoLaunch + " --n_kv_head=4", nanoFiles, "n_kv_head"},
		{"a fork's key in a file", nanoLaunch, withFile("config/big.py", "batch_size = 64\nuse_lora = True\n"),
			"config/big.py:2: use_lora"},
		{"a program in a configuration", nanoLaunch,
			withFile("config/big.py", "batch_size = 64\ntorch.set_default_dtype(torch.half)\n"),
			"config/big.py:2: torch.set_default_dtype(torch.half) is not followed"},
		{"more words from outside", nanoLaunch + " $EXTRA", nanoFiles,
			"$EXTRA is not set"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found, err := findKnown(tt.script, tt.files)
			if may(found, err) {
				t.Fatalf("nothing is in doubt of %s", found.Document)
			}
			var said []string
			for _, d := range found.Doubts {
				said = append(said, d.String())
			}
			if err != nil {
				said = append(said, err.Error())
			}
			if text := strings.Join(said, "\n"); !strings.Contains(text, tt.want) {
				t.Errorf("%q is not in:\n%s", tt.want, text)
			}
		})
	}
}

// An unknown data set may have a small vocabulary, and a long block may be cut: a job is refused only if it fits in
// neither reading.
func TestOtherReadings(t *testing.T) {
	for _, tt := range []struct {
		script string
		files  files
		want   string
	}{
		{nanoLaunch + " --dataset=tinystories", nanoFiles, `"vocab_size":1}`},
		{strings.Replace(trainerLaunch, "1024", "4096", 1), nil, `"sequence_length":1024`},
		{nanoLaunch + " --dataset=shakespeare", nanoFiles, `"vocab_size":50304}`},
		{trainerLaunch, nil, `"sequence_length":1024`},
		{trainerLaunch + " --max_train_samples 4", nil, `"micro_batch":1,`},
	} {
		found, err := findKnown(tt.script, tt.files)
		switch {
		case err != nil || len(found.Others) != 1:
			t.Errorf("%s: %v, %d other readings", tt.script, err, len(found.Others))
		case !strings.Contains(string(found.Others[0].Document), tt.want):
			t.Errorf("%s: %s", tt.script, found.Others[0].Document)
		}
	}
}

// memoryWords are what people write about adapters, quantisation, sharding, offload, precision and models.
var memoryWords = []string{
	"lora", "lora_r", "lora_alpha", "use_lora", "q_lora", "qlora", "use_dora", "use_peft", "peft_type", "adapter",
	"adapter_name_or_path", "prefix_tuning", "ia3", "finetuning_type", "galore", "apollo_rank", "badam_mode",
	"use_lomo",
	"spectrum", "layerwise_optimizer", "freeze", "freeze_layers", "freeze_backbone", "unfrozen_parameters",
	"trainable_layers", "tune_head_only", "bits", "quantization", "quant_type", "load_in_4bit", "load_in_8bit",
	"use_4bit", "int8_training", "nf4",
	"gptq", "awq", "use_bnb", "double_quant", "hqq", "torchao_config", "zero_stage", "zero3_init_flag", "deepspeed",
	"ds_config", "fsdp_config", "sharded_ddp", "shard_size", "tensor_parallel", "tp", "tp_size", "pp",
	"pipeline_parallel_size",
	"cp", "context_parallel", "sp", "sequence_parallel", "ep", "expert_parallel", "use_megatron_lm", "offload",
	"cpu_offload", "offload_optimizer", "nvme_path", "fp8", "fp8_recipe", "pure_bf16", "half", "amp",
	"dtype_of_weights", "mixed_precision",
	"autocast", "param_dtype", "model_type", "hidden_size", "num_layers", "vocab_size", "n_expert", "moe", "ref_model",
	"reward_model", "critic", "teacher_model", "vision_tower", "tie_layers", "medusa_heads", "attn_window", "recompute",
}

// Any such word that is added to a launch of which everything is understood takes the denial back.
func TestAnyWordAboutMemory(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom(memoryWords).Draw(t, "word")
		spelling := rapid.SampledFrom([]func(string) string{
			func(s string) string {
				return "--" + s
			}, func(s string) string {
				return "--" + strings.ReplaceAll(s, "_", "-")
			}, func(s string) string { return "--" + s + "=8" },
			func(s string) string {
				return "--" + s + " True"
			}, func(s string) string {
				return "--" + strings.ToUpper(s)
			}, func(s string) string { return "--my_" + s + " 1" },
			func(s string) string { return "\"--" + s + "\"" }, func(s string) string { return "$WORD" },
		}).Draw(t, "spelling")(word)
		script, f := "WORD=--"+word+"\n"+rapid.SampledFrom([]string{trainerLaunch, "srun " + trainerLaunch}).Draw(t,
			"launch"), files(nil)
		switch rapid.SampledFrom([]string{"argument", "first argument", "launcher", "environment", "nanoGPT",
			"configuration"}).Draw(t, "place") {
		case "argument":
			script += " " + spelling
		case "first argument":
			script = strings.Replace(script, "run_clm.py ", "run_clm.py "+spelling+" ", 1)
		case "launcher":
			script = strings.Replace(script, "python ", "torchrun "+spelling+" ", 1)
		case "environment":
			script = strings.Replace(script, "python ", "env ACCELERATE_"+strings.ToUpper(word)+"=1 python ", 1)
		case "nanoGPT":
			script, f = "WORD=--"+word+"\n"+nanoLaunch+" "+spelling, nanoFiles
		case "configuration":
			script, f = nanoLaunch, withFile("config/big.py", nanoFiles["config/big.py"]+word+" = 8\n")
		}
		if found, err := findKnown(script, f); may(found, err) {
			t.Errorf("%s\nis understood as %s", script, found.Document)
		}
	})
}

func TestTopics(t *testing.T) {
	for word, want := range map[string]string{
		"--lora_r": "adapters and frozen weights", "q-lora": "adapters and frozen weights",
		"loraRank": "adapters and frozen weights", "load_in_4bit": "quantisation", "zero3_init_flag": "sharding",
		"tp": "sharding", "TENSOR_PARALLEL": "sharding",
		"cpu_offload": "offload", "fp8_recipe": "precision", "num_hidden_layers": "the model", "http": "",
		"report_to": "", "exploration": "", "steps": "",
	} {
		if got, _ := readers.TopicOf(word); got != want {
			t.Errorf("%s is about %q, want %q", word, got, want)
		}
	}
}
