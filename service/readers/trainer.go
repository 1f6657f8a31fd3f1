package readers

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// trainerTool reads programs that hand their arguments to transformers' Trainer or to TRL's SFTTrainer: the example
// scripts, TRL's own, and everybody's train.py.
var trainerTool = tool{
	name:   "hf-trainer",
	starts: (*reading).trainerStarts,
	marks: map[string]int{"per_device_train_batch_size": 3, "model_name_or_path": 1, "gradient_accumulation_steps": 1,
		"learning_rate": 1, "num_train_epochs": 1,
		"lr_scheduler_type": 1, "output_dir": 1, "per_device_eval_batch_size": 1, "dataset_name": 1, "max_steps": 1,
		"max_seq_length": 1, "attn_implementation": 1},
	read:  (*reading).readTrainer,
	words: trainerWords,
}

// trainerAccepted are arguments of the Trainer and of common programs that the answer holds for whatever they say,
// though some of them move memory: what evaluation holds beside its batch is less with them, or some ids; whether
// anything is trained is looked at elsewhere; rows that are packed or padded are as long as the document's
// (transformers 4.57.6 training_args.py; trl 1.9 trainer/sft_config.py). Words that move none are trainerStill.
var trainerAccepted = strings.Fields(`do_train do_eval do_predict prediction_loss_only num_train_epochs max_steps jit_mode_eval
	eval_accumulation_steps eval_on_start load_best_model_at_end debug resume_from_checkpoint include_for_metrics
	include_inputs_for_metrics batch_eval_metrics eval_do_concat_batches eval_use_gather_object dataset_* tokenizer_name
	trust_remote_code model_revision chat_template eos_token pad_token packing packing_strategy padding_free eval_packing
	completion_only_loss assistant_only_loss conv_template* image_folder config_name validation_split_percentage`)

// trainerLoose are arguments that move memory in a way that is not replayed.
var trainerLoose = strings.Fields(`neftune_noise_alpha full_determinism torch_empty_cache_steps past_index use_cache
	ddp_static_graph ddp_broadcast_buffers ddp_bucket_cap_mb ddp_backend accelerator_config* pad_to_multiple_of
	chat_template_path optim_args optim_target_modules`)

// trainerArguments are words by which a program's arguments are known to be the Trainer's.
var trainerArguments = []string{"per_device_train_batch_size", "per_gpu_train_batch_size", "per_device_eval_batch_size",
	"gradient_accumulation_steps", "num_train_epochs", "lr_scheduler_type",
	"overwrite_output_dir", "save_total_limit", "logging_steps", "evaluation_strategy", "eval_strategy",
	"save_strategy", "model_name_or_path", "deepspeed", "fsdp"}

// objectives are kinds of training beside fine-tuning and pretraining, by the words of programs and files.
var objectives = regexp.MustCompile(`(?i)(^|[^a-z])(dpo|grpo|ppo|orpo|kto|simpo|cpo|rloo|ipo|bco|nash_md|xpo|gkd|prm|online_dpo|reinforce|rlhf|rft|reward|reward_model(?:ing)?|rm|distill\w*|embedding|reranker)([^a-z]|$)`)

// objectiveOf names the kind of training in a program's name, or "".
func objectiveOf(name string) string {
	m := objectives.FindStringSubmatch(strings.TrimSuffix(path.Base(name), path.Ext(name)))
	if m == nil || strings.HasPrefix(strings.ToLower(m[2]), "distill") {
		return ""
	}
	return strings.ToLower(m[2])
}

func (r *reading) refuseObjective(name string, at setting.Span) {
	r.d.refuse("objective", at, "%s is another kind of training than the next token's loss: what it holds besides the "+
		"trained model (a reference, rewards, generation) cannot be told from these files", strings.ToUpper(name))
}

// trainerStarts recognises the program by its name, by its text where it can be opened, and by its arguments.
func (r *reading) trainerStarts() bool {
	if r.launcher == "" && path.Base(r.program.Text) != "trl" && path.Ext(r.program.Text) != ".py" {
		return false
	}
	args := r.args
	if r.launcher == "" && r.program.Text == "trl" {
		if len(args) == 0 {
			return false
		}
		if served := args[0].Text; served == "vllm-serve" || served == "chat" || served == "env" {
			return false
		}
		args = args[1:]
	}
	s, positional, open := options(args, nil)
	if trainless.MatchString(r.lastName()) && !s.Has("do_train") {
		return false
	}
	r.s = whole(s)
	for _, w := range open {
		r.openWord(w)
	}
	if !r.module && strings.HasSuffix(r.program.Text, ".py") {
		if full, text, err := r.openProgram(r.program.Text); err == nil || text != nil {
			r.code, _ = decode.Python(r.files.shown(full), text, "")
		}
	}
	readable := r.configFile(positional)
	marks := 0
	for _, key := range trainerArguments {
		if r.s.Has(key) {
			marks++
		}
	}
	usesTrainer := r.code != nil && (r.code.Mentions("HfArgumentParser") || r.code.Mentions("TrlParser") ||
		r.code.Mentions("SFTConfig"))
	example := examples[path.Base(r.program.Text)]
	return marks >= 2 || example && (marks > 0 || !readable) || usesTrainer &&
		(marks > 0 || s.Len() > 0) || r.program.Text == "trl"
}

// configFile lays the file of --config, or the one that stands alone behind the program, under the arguments
// (trl 1.9 scripts/utils.py TrlParser; transformers 4.57.6 hf_argparser.py parse_json_file and parse_yaml_file). It is
// false where there is such a file and it cannot be read.
func (r *reading) configFile(positional []word) bool {
	v, ok := r.s.Get("config", "config_file", "args_file")
	if !ok {
		if len(positional) == 0 {
			return true
		}
		switch path.Ext(positional[0].Text) {
		case ".yaml", ".yml", ".json":
		default:
			return true
		}
		v = positional[0].argument("")
	}
	s, full, err := r.load(v)
	if err != nil {
		r.problems = append(r.problems, func(*draft) { r.notThere(v, err) })
		return false
	}
	r.file = full
	merged := s.Clone()
	merged.Over(r.s)
	merged.Read("config", "config_file", "args_file")
	r.s = merged
	return true
}

// readTrainer maps the Trainer's arguments, and the common programs' own, to fields.
func (r *reading) readTrainer() {
	r.compare = r.isRunCLM
	sub := ""
	if r.program.Text == "trl" && len(r.args) > 0 {
		sub = r.args[0].Text
		r.trlLauncher()
	}
	name := r.program.Text
	kind := objectiveOf(name)
	if sub != "" && sub != "sft" {
		kind = sub
	}
	if kind == "" && (r.s.Any("reward_funcs", "num_generations", "use_vllm")) {
		kind = "grpo"
	}
	if kind == "" && r.s.Any("actor_model_name_or_path", "critic_model_name_or_path") { // DeepSpeed-Chat, step 3
		kind = "rlhf"
	}
	if kind == "" && path.Base(name) == "main.py" && r.s.Any("zero_stage", "only_optimize_lora") {
		r.d.refuse("unsupported", r.at, "DeepSpeed-Chat's main.py has arguments and defaults of its own (fp16, its ZeRO "+
			"settings), which are not read")
	}
	if kind == "" && name == "" {
		kind = r.kindOfFile()
	}
	objective := r.trlKindOf(kind, sub)
	switch {
	case kind == "" || objective != "":
	case name == "" && trlKinds[kind].config != "":
		r.d.refuse("objective", r.at, "%s is another kind of training than the next token's loss, and no command says "+
			"whose trainer runs it: where it is trl's own, say so (vramplan read -- trl %s --config FILE)",
			strings.ToUpper(kind), kind)
	default:
		r.refuseObjective(kind, r.at)
	}
	r.underProgram()
	r.modelArguments()
	trl := objective != "" || r.isTRL(sub)
	t := trainerDefaults{framework: "hf-trainer"}
	if trl {
		t.framework, r.d.reader = "trl", "trl"
		if r.code == nil || !r.code.Mentions("TrainingArguments") || r.code.Mentions("SFTConfig") || objective != "" {
			t.ofTRL(r.release("trl"))
		}
	}
	r.trainedModel()
	if objective == "" {
		r.programHead()
		showPictures(r.launch, r.d, "")
	}
	r.onlyEvaluates()
	if v, ok := r.s.Get("config_overrides"); ok && !v.Off() {
		r.d.refuse("own-model", v.Origin.At, "%s changes the model's configuration: give its config.json "+
			"with --hf-config", v.Origin.Key)
	}
	r.trainerAdapters(trl)
	r.programAdapters()
	r.loads = r.programLoadsBy(trl)
	strangeTrainers(r.code, r.d)
	r.trainer(t)
	r.adapterBase()
	r.trainerLength(trl)
	switch {
	case objective != "":
		r.trlObjective(objective)
	case trl && !shows(r.launch, r.d):
		r.trlLoss()
		r.fullRows()
	}
}

// ofTRL are the defaults of trl's configurations where they differ from the Trainer's.
func (t *trainerDefaults) ofTRL(release string) {
	if d, ok := defaultOf("trl", "gradient_checkpointing", release); ok && d.Value == "True" {
		t.checkpointing, t.checkpointingRef = true, d.String()
	}
	if d, ok := defaultOf("trl", "bf16", release); ok && d.Value == "None" {
		t.bf16, t.bf16Ref = true, d.String()
	}
}

// modelArguments takes model_init_kwargs apart: what a program hands to from_pretrained wins over nothing else that it
// has (trl 1.16.0 trainer/sft_trainer.py, where it is given with a model's name). What is read elsewhere asks nothing.
func (r *reading) modelArguments(readElsewhere ...string) {
	v, ok := r.s.Get("model_init_kwargs", "model_kwargs")
	if !ok {
		return
	}
	inner, ok := r.objectOf(v)
	if !ok {
		r.d.askWord(v)
		return
	}
	r.s.Read("model_init_kwargs*", "model_kwargs*")
	for _, key := range inner.Keys() {
		x, _ := inner.Peek(key)
		switch key {
		case "torch_dtype", "dtype", "attn_implementation", "load_in_4bit", "load_in_8bit":
			if !r.s.Has(key) {
				r.s.Set(key, x)
			}
		case "use_cache", "trust_remote_code", "revision", "low_cpu_mem_usage", "cache_dir", "token", "device_map":
		default:
			if !x.Off() && !slices.Contains(readElsewhere, key) {
				r.d.askWord(x)
			}
		}
	}
}

// objectOf is an object that a setting has: the settings under it, or what stands in its text as JSON.
func (r *reading) objectOf(v setting.Value) (inner *setting.Settings, ok bool) {
	if inner = r.s.Under(v.Origin.Key); inner.Len() > 0 {
		return inner, true
	}
	text := strings.TrimSpace(v.String())
	if !strings.HasPrefix(text, "{") {
		return inner, v.Unknown == ""
	}
	s, err := decodeFile(".json", v.Origin.At.File+".json", []byte(text))
	if err != nil {
		return nil, false
	}
	inner = setting.New()
	for _, key := range s.Keys() {
		x, _ := s.Peek(key)
		x.Origin.At, x.Origin.Kind = v.Origin.At, v.Origin.Kind
		inner.Set(key, x)
	}
	return inner, true
}

// trlLoss reads loss_type: up to some release "nll" kept the logits and "chunked_nll" did not, and in 1.16 neither does
// (trl 1.16.0 trainer/sft_config.py:314). A document that names no release is replayed with today's.
func (r *reading) trlLoss() {
	v, ok := r.s.Get("loss_type")
	release := r.release("trl")
	row, _ := defaultOf("trl", "loss_type", release)
	switch {
	case r.d.has("/training/loss"):
	case release != "" && strings.HasSuffix(row.Means, "never all logits at once") &&
		(!ok || row.Value == "'nll'" && v.String() == "nll"):
		r.d.fall("/training/loss", "fused-linear", "loss_type", row.String())
	case !ok && release != "":
	case !ok:
		r.d.assume("/training/loss", "the loss is made without logits, as in trl since 1.7; 0.26 and older make it of "+
			"all of them (--set versions.trl=0.26.2)")
	case v.String() == "nll" && v.Unknown == "":
	case v.String() == "chunked_nll":
		r.d.put("/training/loss", "fused-linear", v)
	default:
		r.d.askWord(v)
	}
}

// isTRL reports whether the program runs TRL's SFTTrainer.
func (r *reading) isTRL(sub string) bool {
	if r.code != nil {
		return r.code.Mentions("SFTTrainer") || r.code.Mentions("SFTConfig")
	}
	name := strings.ToLower(path.Base(r.program.Text))
	return sub != "" || strings.Contains(name, "sft") || r.program.Text == "" &&
		(r.directoryKind() == "sft" || r.s.Any("max_length", "packing", "dataset_text_field", "use_peft",
			"dataset_train_split", "dataset_mixture", "dataset_mixer"))
}

// underProgram lays the defaults that a program declares under its arguments.
func (r *reading) underProgram() {
	if r.code == nil {
		return
	}
	merged := r.code.Fields.Clone()
	merged.Over(r.s)
	read := r.s
	r.s = merged
	for _, key := range read.Keys() {
		if !slices.Contains(read.Rest(), key) {
			r.s.Read(key)
		}
	}
}

// trlLauncher reads the launcher's options of trl's own command: --accelerate_config NAME and --num_processes
// (trl 1.9 cli.py and accelerate_configs/).
func (r *reading) trlLauncher() {
	a := setting.New()
	if v, ok := r.s.Get("accelerate_config"); ok {
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
			if s, _, err := r.load(v); err == nil {
				a = flatAccelerate(s)
			} else {
				missingShards(r.d, v, err)
			}
		}
	}
	if v, ok := r.s.Get("num_processes"); ok {
		a.Set("num_processes", v)
	}
	r.launcher, r.accelerate = "accelerate", a
}
