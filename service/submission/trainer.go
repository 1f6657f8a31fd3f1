package submission

import (
	"encoding/json"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/service/readers"
	"github.com/vramplan/vramplan/service/readers/shell"
)

// trainer reads the arguments of a program that takes those of Hugging Face's TrainingArguments:
// "run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 8 …", or the name of one
// JSON file that holds them.
func (p *program) trainer() (map[string]any, string, error) {
	args := p.arguments()
	from := "the arguments of " + p.name
	if len(p.args) == 1 && p.args[0].Certainty == shell.Sure && strings.HasSuffix(p.args[0].Text, ".json") {
		p.doubts = slices.DeleteFunc(p.doubts, func(d Doubt) bool { return d.Word == p.args[0].Text })
		text, err := p.read(p.args[0].Text)
		if err != nil {
			return nil, "", err
		}
		args, from = jsonArguments(p.args[0].Text, text), p.args[0].Text
	}
	if _, ok := args["per_device_train_batch_size"]; !ok {
		return nil, "", ErrNoJob
	}
	if config, ok := args["config"]; ok {
		return nil, "", unclear("%s reads more of its configuration from %s, which is not "+
			"followed", clip(p.name), clip(config.value))
	}
	a := trainerArgs{program: p, args: args}
	job, err := a.job()
	return job, from, err
}

// trainerArgs are arguments on their way to a job. The first one that cannot be told ends it.
type trainerArgs struct {
	program *program
	args    map[string]argument
	err     error
}

// text is the value of the first of names that is given.
func (a *trainerArgs) text(names ...string) (string, bool) {
	for _, n := range names {
		w, ok := a.args[n]
		if !ok {
			continue
		}
		if !w.known && a.err == nil {
			a.err = unclear("%s: %s depends on something that is only known when the script runs: "+
				"%s", place(w.file, w.line), w.written, w.reason)
		}
		return w.value, true
	}
	return "", false
}

func isFalse(v string) bool {
	return strings.EqualFold(v, "false") || v == "0" || strings.EqualFold(v, "no")
}

func (a *trainerArgs) flag(names ...string) bool {
	v, ok := a.text(names...)
	return ok && !isFalse(v)
}

func (a *trainerArgs) number(names ...string) (int64, bool) {
	v, ok := a.text(names...)
	if !ok {
		return 0, false
	}
	var n int64
	if err := json.Unmarshal([]byte(v), &n); err != nil || n < 1 {
		if a.err == nil {
			a.err = unclear("--%s is %q, not a number", names[0], clip(v))
		}
		return 0, false
	}
	return n, true
}

// job is the document. Where the command line leaves a choice open, the one that needs less is
// taken: a job may be refused only if it fits in no reading.
func (a *trainerArgs) job() (map[string]any, error) {
	for _, n := range []string{"deepspeed", "fsdp", "fsdp_config", "auto_find_batch_size"} {
		if v, ok := a.args[n]; ok && (!v.known || v.value != "" && !strings.EqualFold(v.value, "false")) {
			return nil, unclear("%s: %s decides what a GPU holds, and is not followed", place(v.file, v.line),
				v.written)
		}
	}
	model, err := a.model()
	if err != nil {
		return nil, err
	}
	training := map[string]any{}
	for _, f := range []struct {
		field string
		names []string
	}{
		{"micro_batch", []string{"per_device_train_batch_size"}},
		{"gradient_accumulation", []string{"gradient_accumulation_steps"}},
	} {
		if n, ok := a.number(f.names...); ok {
			training[f.field] = n
		}
	}
	if err := a.sequence(training); err != nil {
		return nil, err
	}
	a.precision(training)
	if a.flag("gradient_checkpointing") {
		training["gradient_checkpointing"] = "full"
	}
	if v, ok := a.text("optim"); ok {
		training["optimizer"] = v
		if strings.Contains(v, "paged") {
			arg := a.args["optim"]
			a.program.doubt(Doubt{File: arg.file, Line: arg.line, Word: arg.written + " " + v,
				Why: "may move its state to the host when the GPU is full"})
		}
	}
	if v, ok := a.text("attn_implementation"); ok {
		training["attention"] = v
	}
	if a.flag("torch_compile") {
		training["compile"] = true
	}
	if a.flag("use_liger_kernel", "use_liger") {
		training["loss"] = "fused-linear"
		training["kernels"] = []string{"rmsnorm", "rope", "swiglu"}
	}
	a.adapter(training)
	job := map[string]any{"model": model, "training": training}
	a.doubts(job)
	return job, a.err
}

// doubts notes what of the arguments is not understood, and what is not known of the program.
func (a *trainerArgs) doubts(job map[string]any) {
	p := a.program
	clm := path.Base(p.name) == "run_clm.py"
	for _, key := range slices.Sorted(maps.Keys(a.args)) {
		arg := a.args[key]
		switch {
		case listed(understood, key), listed(harmlessFlags, key), listed(harmlessValues, key), !clm &&
			listed(programWords, key):
		case key == "trust_remote_code" && isFalse(arg.value):
		case key == "low_cpu_mem_usage":
		default:
			p.doubtKey(arg.file, arg.line, arg.written)
		}
	}
	a.notTraining(clm)
	switch {
	case clm:
		p.readRunCLM()
		a.blocks(job)
	default:
		p.doubt(Doubt{File: p.file(p.nameAt), Line: p.nameAt.Line, Word: path.Base(p.name), Why: "is not a program " +
			"of a known release: what else it does is not known"})
	}
}

// notTraining notes what keeps a program from training on a GPU, or from filling its batches.
func (a *trainerArgs) notTraining(clm bool) {
	note := func(key, why string) {
		arg := a.args[key]
		a.program.doubt(Doubt{File: arg.file, Line: arg.line, Word: "--" + key, Why: why})
	}
	for _, key := range []string{"no_cuda", "use_cpu"} {
		if a.flag(key) {
			note(key, "keeps it off the GPU")
		}
	}
	if _, ok := a.args["do_train"]; ok && !a.flag("do_train") || !ok && clm {
		p := a.program
		p.doubt(Doubt{File: p.file(p.nameAt), Line: p.nameAt.Line, Word: path.Base(p.name),
			Why: "without --do_train trains nothing"})
	}
	if _, ok := a.args["max_train_samples"]; ok {
		note("max_train_samples", "may leave fewer sequences than a batch holds")
	}
	for _, key := range []string{"num_train_epochs", "max_steps"} {
		v, ok := a.text(key)
		if n, err := strconv.ParseFloat(v, 64); ok && (err != nil || n == 0) {
			note(key, "may mean that nothing is trained")
		}
	}
}

// maxCLMBlock is the length to which run_clm.py cuts its blocks where --block_size is not given. It cuts further
// where the tokenizer's model_max_length is less, which no file of the job says
// (examples/pytorch/language-modeling/run_clm.py of transformers 4.57).
const maxCLMBlock = 1024

// blocks are shorter than --block_size where the tokenizer says so: the job may mean that, too.
func (a *trainerArgs) blocks(job map[string]any) {
	training := job["training"].(map[string]any)
	if n, ok := training["sequence_length"].(int64); ok && n > maxCLMBlock {
		shorter := maps.Clone(training)
		shorter["sequence_length"] = int64(maxCLMBlock)
		a.program.others = append(a.program.others, reading{map[string]any{"model": job["model"], "training": shorter},
			"run_clm.py cuts --block_size to the tokenizer's model_max_length, which is not known"})
	}
}

// model is a directory with a config.json, or a name of the catalog.
func (a *trainerArgs) model() (map[string]any, error) {
	name, ok := a.text("config_name", "model_name_or_path", "model_name", "model_id")
	if !ok {
		return nil, unclear("the arguments of %s do not say which model is trained", clip(a.program.name))
	}
	if a.err != nil {
		return nil, a.err
	}
	config := name
	if path.Base(name) != "config.json" {
		config = path.Join(name, "config.json")
	}
	text, err := a.program.read(config)
	if err != nil {
		return nil, err
	}
	if text == nil {
		switch topic, _ := readers.TopicOf(name); topic {
		// a checkpoint such as …-bnb-4bit holds less than its base
		case "adapters and frozen weights", "quantisation", "precision":
			arg := a.args["model_name_or_path"]
			a.program.doubt(Doubt{File: arg.file, Line: arg.line, Word: name, Why: "may be a checkpoint of " + topic})
		}
		if strings.HasPrefix(name, "/") || strings.HasPrefix(name, ".") {
			return nil, unclear("the model's %s is not there", clip(config))
		}
		return map[string]any{"preset": name}, nil
	}
	if !json.Valid(text) {
		return nil, unclear("%s is not a JSON document", clip(config))
	}
	gjson.ParseBytes(text).ForEach(func(key, value gjson.Result) bool {
		switch key.Str {
		case "quantization_config", "auto_map", "compression_config", "peft_config":
			a.program.doubtKey(config, lineOf(text, key.Str), key.Str)
		}
		return true
	})
	return map[string]any{"hf_config": json.RawMessage(text)}, nil
}

// sequence is the length of the longest batch. Only some programs have a default that is known: run_clm.py
// groups texts into blocks of 1,024 tokens at most, TRL's sft.py cuts at 1,024.
func (a *trainerArgs) sequence(training map[string]any) error {
	n, ok := a.number("block_size", "max_seq_length", "max_length", "model_max_length", "max_seq_len", "cutoff_len",
		"max_source_length")
	if !ok && a.err == nil {
		switch path.Base(a.program.name) {
		case "run_clm.py", "sft.py":
			n = maxCLMBlock
		default:
			return unclear("the arguments of %s do not say how long the sequences are", clip(a.program.name))
		}
	}
	training["sequence_length"] = n
	return nil
}

// precision follows the Trainer: --bf16 computes under autocast, and what is stored has the
// type that the model was loaded in. Releases differ in what they load where nothing is said
// (float32 before 5, the checkpoint's own type since), so the smaller is taken.
func (a *trainerArgs) precision(training map[string]any) {
	dtype, _ := a.text("torch_dtype", "dtype")
	stored := map[string]string{"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "": "", "auto": ""}[dtype]
	switch {
	case a.flag("bf16"):
		training["precision"] = "amp-bf16"
		if stored == "" {
			stored = "bf16"
		}
	case a.flag("fp16"):
		training["precision"] = "amp-fp16"
		stored = "" // its GradScaler refuses weights in float16
	case stored == "bf16" || stored == "fp16":
		training["precision"], stored = stored, ""
	case stored == "fp32" || a.flag("tf32"):
		training["precision"] = "fp32"
	default:
		training["precision"] = "bf16"
	}
	if stored == "bf16" || stored == "fp16" {
		training["states"] = map[string]any{"weights": stored, "gradients": stored, "optimizer": stored}
	}
}

// adapter reads TRL's ModelConfig: --use_peft and its fields. Without the switch its fields mean something to other
// programs.
func (a *trainerArgs) adapter(training map[string]any) {
	if !a.flag("use_peft", "use_lora") {
		for _, key := range []string{"use_peft", "use_lora", "lora_r", "lora_rank", "lora_target_modules",
			"load_in_4bit", "load_in_8bit"} {
			if arg, ok := a.args[key]; ok && !isFalse(arg.value) {
				a.program.doubtKey(arg.file, arg.line, arg.written)
			}
		}
		return
	}
	if path.Base(a.program.name) == "run_clm.py" {
		arg, ok := a.args["use_peft"]
		if !ok {
			arg = a.args["use_lora"]
		}
		a.program.doubtKey(arg.file, arg.line, arg.written)
	}
	lora := map[string]any{"rank": int64(16)} // ModelConfig's default
	if r, ok := a.number("lora_r", "lora_rank"); ok {
		lora["rank"] = r
	}
	if v, ok := a.text("lora_target_modules"); ok {
		lora["target_modules"] = strings.Split(v, ",")
	}
	switch {
	case a.flag("load_in_4bit"):
		lora["base_precision"] = "nf4"
	case a.flag("load_in_8bit"):
		lora["base_precision"] = "int8"
	}
	training["lora"] = lora
}
