// Package trainer reads programs that hand their command line to transformers' Trainer or to a trainer of trl's.
package trainer

import (
	"path"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/programs"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/shards"
	"github.com/vramplan/vramplan/service/readers/tool"
	"github.com/vramplan/vramplan/service/readers/trl"
)

// Tool reads programs that hand their arguments to transformers' Trainer or to TRL's SFTTrainer: the example
// scripts, TRL's own, and everybody's train.py.
var Tool = tool.Tool{
	Name: "hf-trainer",
	Marks: map[string]int{"per_device_train_batch_size": 3, "model_name_or_path": 1, "gradient_accumulation_steps": 1,
		"learning_rate": 1, "num_train_epochs": 1,
		"lr_scheduler_type": 1, "output_dir": 1, "per_device_eval_batch_size": 1, "dataset_name": 1, "max_steps": 1,
		"max_seq_length": 1, "attn_implementation": 1},
	New:     func(j *tool.Job) tool.Reader { return &job{Job: trl.Of(j)} },
	Words:   huggingface.Words,
	Still:   huggingface.StillText + huggingface.ProgramStill,
	Command: "trl",
}

// job is one job on its way through this tool.
type job struct {
	trl.Job
}

// Arguments are words by which a program's arguments are known to be the Trainer's.
var Arguments = []string{"per_device_train_batch_size", "per_gpu_train_batch_size", "per_device_eval_batch_size",
	"gradient_accumulation_steps", "num_train_epochs", "lr_scheduler_type",
	"overwrite_output_dir", "save_total_limit", "logging_steps", "evaluation_strategy", "eval_strategy",
	"save_strategy", "model_name_or_path", "deepspeed", "fsdp"}

// Starts recognises the program by its name, by its text where it can be opened, and by its arguments.
func (r *job) Starts() bool {
	if r.Launcher == "" && path.Base(r.Program.Text) != "trl" && path.Ext(r.Program.Text) != ".py" {
		return false
	}
	args := r.Args
	if r.Launcher == "" && r.Program.Text == "trl" {
		if len(args) == 0 {
			return false
		}
		if served := args[0].Text; served == "vllm-serve" || served == "chat" || served == "env" {
			return false
		}
		args = args[1:]
	}
	s, positional, open := argv.Options(args, nil)
	if Trainless.MatchString(r.LastName()) && !s.Has("do_train") {
		return false
	}
	r.In = whole(s)
	for _, w := range open {
		r.OpenWord(w)
	}
	if !r.Module && strings.HasSuffix(r.Program.Text, ".py") {
		if full, text, err := r.OpenProgram(r.Program.Text); err == nil || text != nil {
			r.Code, _ = programs.Read(r.Files, full, text, "")
		}
	}
	readable := r.ConfigFile(positional)
	marks := 0
	for _, key := range Arguments {
		if r.In.Has(key) {
			marks++
		}
	}
	usesTrainer := r.Code != nil && (r.Code.Mentions("HfArgumentParser") || r.Code.Mentions("TrlParser") ||
		r.Code.Mentions("SFTConfig"))
	example := examples[path.Base(r.Program.Text)]
	return marks >= 2 || example && (marks > 0 || !readable) || usesTrainer &&
		(marks > 0 || s.Len() > 0) || r.Program.Text == "trl"
}

// Read maps the Trainer's arguments, and the common programs' own, to fields.
func (r *job) Read() {
	r.Compare = r.IsRunCLM
	sub := ""
	if r.Program.Text == "trl" && len(r.Args) > 0 {
		sub = r.Args[0].Text
		r.trlLauncher()
	}
	r.Out.OwnProgram = sub != "" || r.Module && strings.HasPrefix(r.Program.Text, trl.OwnModules) ||
		r.Code != nil && r.Code.Mentions("ModelConfig") && r.Code.Mentions("get_peft_config")
	name := r.Program.Text
	kind := tool.ObjectiveOf(name)
	if own, ok := strings.CutPrefix(name, trl.OwnModules); ok && r.Module && own != "sft" {
		kind = own
	}
	if sub != "" && sub != "sft" {
		kind = sub
	}
	if kind == "" && (r.In.Any("reward_funcs", "num_generations", "use_vllm")) {
		kind = "grpo"
	}
	if kind == "" && r.In.Any("actor_model_name_or_path", "critic_model_name_or_path") { // DeepSpeed-Chat, step 3
		kind = "rlhf"
	}
	if kind == "" && path.Base(name) == "main.py" && r.In.Any("zero_stage", "only_optimize_lora") {
		r.Out.Refuse("unsupported", r.At, "DeepSpeed-Chat's main.py has arguments and defaults of its own (fp16, its ZeRO "+
			"settings), which are not read")
	}
	if kind == "" && name == "" {
		kind = r.kindOfFile()
	}
	objective := r.KindOf(kind, sub)
	if kind == "" && name != "" {
		r.strangeKind()
	}
	switch {
	case kind == "" || objective != "":
	case name == "" && programs.Kinds[kind].Config != "":
		r.Out.Refuse("objective", r.At, "%s is another kind of training than the next token's loss, and no command says "+
			"whose trainer runs it: where it is trl's own, say so (vramplan read -- trl %s --config FILE)",
			strings.ToUpper(kind), kind)
	default:
		r.RefuseObjective(kind, r.At)
	}
	r.underProgram()
	r.ModelArguments()
	trl := objective != "" || r.isTRL(sub)
	t := huggingface.Defaults{Framework: "hf-trainer"}
	if trl {
		t.Framework, r.Out.Reader = "trl", "trl"
		if r.Code == nil || !r.Code.Mentions("TrainingArguments") || r.Code.Mentions("SFTConfig") || objective != "" {
			t.Table = "trl"
		}
	}
	r.trainedModel()
	if objective == "" {
		r.programHead()
		models.ShowPictures(r.Launch, r.Out, "")
	}
	r.onlyEvaluates()
	if v, ok := r.In.Get("config_overrides"); ok && !v.Off() {
		r.Out.Refuse("own-model", v.Origin.At, "%s changes the model's configuration: give its config.json "+
			"with --hf-config", v.Origin.Key)
	}
	r.adapters(trl)
	r.programAdapters()
	r.Loads = r.ProgramLoadsBy(trl)
	r.Code.StrangeTrainers(r.Out)
	r.effects()
	r.ReadTrainer(t)
	r.adapterBase()
	r.length(trl)
	switch {
	case objective != "":
		r.Objective(objective)
	case trl && !models.Shows(r.Launch, r.Out):
		r.Loss()
		r.FullRows()
	}
}

// effects asks about what a program that parses its arguments does besides to its model, its adapters and its trainer;
// transformers' own examples do what their arguments say.
func (r *job) effects() {
	if r.Code == nil || examples[path.Base(r.Program.Text)] {
		return
	}
	r.Code.Effects(r.Out)
	if call, ok := r.Code.ModelCall(); ok {
		r.Code.ModelsBeside(call, r.Out)
	}
}

// isTRL reports whether the program runs TRL's SFTTrainer.
func (r *job) isTRL(sub string) bool {
	if r.Code != nil {
		return r.Code.Mentions("SFTTrainer") || r.Code.Mentions("SFTConfig")
	}
	name := strings.ToLower(path.Base(r.Program.Text))
	return sub != "" || strings.Contains(name, "sft") || r.Program.Text == "" &&
		(r.directoryKind() == "sft" || r.In.Any("max_length", "packing", "dataset_text_field", "use_peft",
			"dataset_train_split", "dataset_mixture", "dataset_mixer"))
}

// underProgram lays the defaults that a program declares under its arguments.
func (r *job) underProgram() {
	if r.Code == nil {
		return
	}
	merged := r.Code.Fields.Clone()
	merged.Over(r.In)
	read := r.In
	r.In = merged
	for _, key := range read.Keys() {
		if !slices.Contains(read.Rest(), key) {
			r.In.Read(key)
		}
	}
}

// trlLauncher reads the launcher's options of trl's own command: --accelerate_config NAME and --num_processes
// (trl 1.9 cli.py and accelerate_configs/).
func (r *job) trlLauncher() {
	a := setting.New()
	if v, ok := r.In.Get("accelerate_config"); ok {
		kind := strings.ToLower(v.String())
		at := func(key string, x any) { a.Set(key, setting.Value{Any: x, Text: v.Text, Origin: v.Origin}) }
		switch {
		case strings.HasPrefix(kind, "zero") && len(kind) == 5:
			at("distributed_type", "DEEPSPEED")
			at("zero_stage", kind[4:])
			at("num_processes", int64(8))
		case kind == "fsdp1" || kind == "fsdp2":
			at("distributed_type", "FSDP")
			at("fsdp_version", kind[4:])
			at("num_processes", int64(8))
		case kind == "multi_gpu":
			at("num_processes", int64(8))
		case kind == "single_gpu":
			at("num_processes", int64(1))
		default:
			if s, _, err := r.Load(v); err == nil {
				a = shards.Flat(s)
			} else {
				shards.MissingShards(r.Out, v, err)
			}
		}
	}
	if v, ok := r.In.Get("num_processes"); ok {
		a.Set("num_processes", v)
	}
	r.Launcher, r.Accelerate = "accelerate", a
}
