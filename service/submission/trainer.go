package submission

import (
	"encoding/json"
	"path"
	"strings"

	"github.com/tidwall/gjson"
)

// trainer reads the arguments of a program that takes those of Hugging Face's TrainingArguments:
// "run_clm.py --model_name_or_path gpt2 --per_device_train_batch_size 8 …", or the name of one
// JSON file that holds them.
func (p program) trainer() (map[string]any, string, error) {
	args := p.arguments()
	from := "the arguments of " + p.name
	if len(p.args) == 1 && p.args[0].known && strings.HasSuffix(p.args[0].text, ".json") {
		text, err := p.read(p.args[0].text)
		if err != nil {
			return nil, "", err
		}
		args, from = jsonArguments(text), p.args[0].text
	}
	if _, ok := args["per_device_train_batch_size"]; !ok {
		return nil, "", ErrNoJob
	}
	if _, ok := args["config"]; ok {
		return nil, "", unclear("%s reads more of its configuration from %s, which is not followed", clip(p.name), clip(args["config"].text))
	}
	a := trainerArgs{program: p, args: args}
	job, err := a.job()
	return job, from, err
}

// arguments reads --key value, --key=value and flags without a value; dashes in
// keys are underscores to the Trainer's parser.
func (p program) arguments() map[string]word {
	args := map[string]word{}
	for i := 0; i < len(p.args); i++ {
		text, ok := strings.CutPrefix(p.args[i].text, "--")
		if !ok || text == "" {
			continue
		}
		key, value, given := strings.Cut(text, "=")
		w := word{value, p.args[i].known}
		if !given {
			w = word{"true", true}
			for first := true; i+1 < len(p.args) && !strings.HasPrefix(p.args[i+1].text, "--"); first = false {
				i++
				if first {
					w = p.args[i]
				} else { // a list
					w = word{w.text + "," + p.args[i].text, w.known && p.args[i].known}
				}
			}
		}
		args[strings.ReplaceAll(key, "-", "_")] = w
	}
	return args
}

func jsonArguments(text []byte) map[string]word {
	args := map[string]word{}
	if len(text) == 0 || !gjson.ValidBytes(text) {
		return args
	}
	gjson.ParseBytes(text).ForEach(func(key, value gjson.Result) bool {
		if value.Type != gjson.Null && len(args) < maxWords {
			args[key.Str] = word{value.String(), !value.IsObject() && !value.IsArray()}
		}
		return true
	})
	return args
}

// trainerArgs are arguments on their way to a job. The first one that cannot be told ends it.
type trainerArgs struct {
	program program
	args    map[string]word
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
			a.err = unclear("--%s depends on something that is only known when the script runs", n)
		}
		return w.text, true
	}
	return "", false
}

func (a *trainerArgs) flag(names ...string) bool {
	v, ok := a.text(names...)
	return ok && !strings.EqualFold(v, "false") && v != "0" && !strings.EqualFold(v, "no")
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
		if v, ok := a.args[n]; ok && v.text != "" && !strings.EqualFold(v.text, "false") {
			return nil, unclear("--%s decides what a GPU holds, and is not followed", n)
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
	return map[string]any{"model": model, "training": training}, a.err
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
		if strings.HasPrefix(name, "/") || strings.HasPrefix(name, ".") {
			return nil, unclear("the model's %s is not there", clip(config))
		}
		return map[string]any{"preset": name}, nil
	}
	if !json.Valid(text) {
		return nil, unclear("%s is not a JSON document", clip(config))
	}
	return map[string]any{"hf_config": json.RawMessage(text)}, nil
}

// sequence is the length of the longest batch. Only some programs have a default that is known: run_clm.py
// groups texts into blocks of 1,024 tokens at most, TRL's sft.py cuts at 1,024.
func (a *trainerArgs) sequence(training map[string]any) error {
	n, ok := a.number("block_size", "max_seq_length", "max_length", "model_max_length", "max_seq_len", "cutoff_len", "max_source_length")
	if !ok && a.err == nil {
		switch path.Base(a.program.name) {
		case "run_clm.py", "sft.py":
			n = 1024
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

// adapter reads TRL's ModelConfig: --use_peft and its fields.
func (a *trainerArgs) adapter(training map[string]any) {
	if !a.flag("use_peft", "use_lora") {
		return
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
