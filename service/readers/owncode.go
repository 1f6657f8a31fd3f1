package readers

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"regexp"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/service/readers/decode"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// Programs are training programs that are known by what they consist of: the fingerprints of their releases, by name.
type Programs map[string]map[string]bool

// The files of nanoGPT by which it is known.
const nanoGPTTrain, nanoGPTModelFile = "nanoGPT train.py", "nanoGPT model.py"

// ProgramsOf takes two texts for nanoGPT's train.py and model.py.
func ProgramsOf(train, model []byte) Programs {
	return Programs{nanoGPTTrain: map[string]bool{trainFingerprint(train): true},
		nanoGPTModelFile: map[string]bool{modelFingerprint(model): true}}
}

// released are the programs whose code is known. nanoGPT's are all states of train.py and model.py in karpathy/nanoGPT
// from 5 February 2023 (fused AdamW, scaled_dot_product_attention, a vocabulary of 50,304) to 9 December 2024
// (dc81cb3), each the [fingerprint] of the file at that commit. A newer state of upstream is strange as long as it is
// not listed here.
var released = Programs{
	nanoGPTTrain: set(strings.Fields("1d1d8bc518b23a8d57c7 33a0e4254465d9189ff6 408fe7483efe9ee4562d " +
		"65ea02a31309c9290a0f 67826aa90a5f2705aee4 81da972ef795b6ba2624 94986ee30164098d0ef9 a8bf5207313640dd0af4 " +
		"a93bb1f4b9db2ca92d2e c2978cb3f1b97cb49c02 d7bef37892701adf7937 e32b98fcf8edab30ca7b f4d0b0c907313bfa566b " +
		"f66a3d69aef28f684619")...),
	nanoGPTModelFile: set(strings.Fields("01c86082ef1732f272a7 0a1d8863f6c4f6aefa99 12b158e004fcbd438a9a " +
		"217998920ebbc50bc9f6 39fa6c5e3513896c1fb6 5fa71064231f4a175108 6aa4875fa4dd15b3b57e 87a27636caea8ca1c66d " +
		"95402c7ad58bd050f567 c09b779c51caeeadd5c7 d58410494fb517523048 e50ab10e6d488edf5acb")...),
}

// ownCode compares the program that the job runs with those that are known. A program of a release does what its
// settings say, and nothing else.
func (r *reading) ownCode() {
	r.strangeModel()
	switch base := path.Base(r.program.Text); {
	case r.compare != nil && r.compare():
	case r.program.Text == "", r.launcher == "" && ownCommands[base] && !strings.HasPrefix(r.program.Text, "."):
	default:
		r.strangeAt(r.program.Origin.At, base, "may do more, or something else, than its settings say")
	}
}

// isNanoGPT compares a program that is started, and is false where none is.
func (r *reading) isNanoGPT() bool {
	if r.program.Text == "" {
		return false
	}
	r.compareNanoGPT()
	r.d.exact = true // get_batch cuts blocks of block_size tokens out of one text
	return true
}

// isRunCLM compares transformers' example of language modeling, and is false for other programs.
func (r *reading) isRunCLM() bool {
	if r.d.reader != "hf-trainer" || path.Base(r.program.Text) != "run_clm.py" || r.module {
		return false
	}
	r.compareRunCLM()
	r.d.exact = true // group_texts makes blocks of block_size tokens
	if n, ok := r.d.int("/training/sequence_length"); ok && n > maxCLMBlock {
		r.d.floor("/training/sequence_length", int64(maxCLMBlock), "run_clm.py cuts --block_size to the tokenizer's "+
			"model_max_length, which is not known")
	}
	return true
}

// maxCLMBlock is the length to which run_clm.py cuts its blocks where --block_size is not given. It cuts further
// where the tokenizer's model_max_length is less, which no file of the job says
// (examples/pytorch/language-modeling/run_clm.py of transformers 4.57).
const maxCLMBlock = 1024

// strangeAt notes code at a place; where nobody knows the place it is the command's.
func (r *reading) strangeAt(at setting.Span, word, why string) {
	if !at.Known() {
		at = r.at
	}
	r.d.strange = append(r.d.strange, Doubt{File: at.File, Line: at.Line, Word: word, Why: why})
}

// strangeModel notes what is about the model and the optimizer, and that the document does not hold: a checkpoint that
// is stored otherwise than its name's family, and states that may leave the GPU.
func (r *reading) strangeModel() {
	if f, ok := r.d.fields["/model/hf_config"]; ok {
		text, _ := f.value.(json.RawMessage)
		for _, key := range []string{"quantization_config", "compression_config", "peft_config", "auto_map"} {
			if gjson.GetBytes(text, key).Exists() {
				r.strangeAt(f.origin.At, f.text, "has a config.json with "+key+", which is not followed")
			}
		}
	}
	if f, ok := r.d.fields["/model/preset"]; ok {
		switch topic, _ := TopicOf(f.word()); topic {
		case "adapters and frozen weights", "quantisation", "precision":
			r.strangeAt(f.origin.At, f.word(), "may be a checkpoint of "+topic)
		}
	}
	if o, ok := r.d.fields["/training/optimizer"].value.(optimizer); ok && strings.HasPrefix(o.Name, "paged-") {
		f := r.d.fields["/training/optimizer"]
		r.strangeAt(f.origin.At, cmp.Or(f.text, o.Name), "may move its state to the host when the GPU is full")
	}
}

// compareNanoGPT holds train.py and model.py against those of the releases: a fork may train anything under the same
// keys. A file of assignments is a program, too, and may hold more than them.
func (r *reading) compareNanoGPT() {
	programs := r.files.source.Programs
	if programs == nil {
		programs = released
	}
	for _, name := range r.assigned {
		if text, err := r.files.read(name); err == nil {
			r.onlyAssigns(r.files.shown(name), text)
		}
	}
	at := func(file string) setting.Span { return setting.Span{File: file} }
	_, train, trainErr := r.openProgram(r.program.Text)
	model := path.Join(path.Dir(r.program.Text), "model.py")
	_, text, err := r.open(model)
	switch {
	case train == nil:
		r.strangeAt(r.program.Origin.At, r.program.Text, "is not there to be compared with nanoGPT's")
	case r.code == nil || trainErr != nil:
		r.strangeAt(r.program.Origin.At, r.program.Text, "cannot be compared with nanoGPT's")
	case !programs[nanoGPTTrain][trainFingerprint(r.code.Source)]:
		r.strangeAt(at(r.code.File), "train.py", "is not one of nanoGPT's own")
	case text == nil:
		r.strangeAt(at(model), "model.py", "is not there to be compared with nanoGPT's")
	case err != nil:
		r.strangeAt(at(model), "model.py", "cannot be compared with nanoGPT's: "+err.Error())
	case !programs[nanoGPTModelFile][modelFingerprint(text)]:
		r.strangeAt(at(model), "model.py", "is not one of nanoGPT's own")
	}
}

// settingLine is a line of a configuration that only sets a name.
var settingLine = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_]*)[ \t]*(?::[ \t]*[A-Za-z_.]+[ \t]*)?=[ \t]*([^=].*)$`)

// onlyAssigns notes what in a file of assignments is more than that: the configurator runs it as a program.
func (r *reading) onlyAssigns(name string, text []byte) {
	for i, raw := range strings.Split(string(text), "\n") {
		code := strings.TrimRight(withoutComment(raw), " \t\r")
		if strings.TrimSpace(code) == "" || settingLine.MatchString(code) || strings.HasPrefix(code, "import time") ||
			strings.HasPrefix(code, "print(") || strings.HasPrefix(code, `"""`) {
			continue
		}
		r.strangeAt(setting.Span{File: name, Line: i + 1}, strings.TrimSpace(raw), "is not followed")
	}
}

// fingerprint identifies what a Python program does: comments, blank lines and the values that a reader takes from
// the file itself do not count. skip says which lines are read as such values.
func fingerprint(text []byte, skip func(line string) bool) string {
	h := sha256.New()
	doc := ""
	for _, raw := range strings.Split(string(text), "\n") {
		line := strings.TrimRight(withoutComment(strings.TrimRight(raw, "\r")), " \t")
		if doc != "" {
			if strings.Contains(line, doc) {
				doc = ""
			}
			continue
		}
		trimmed := strings.TrimSpace(line)
		if quotes := trimmed[:min(3, len(trimmed))]; quotes == `"""` || quotes == "'''" {
			if !strings.Contains(trimmed[3:], quotes) {
				doc = quotes
			}
			continue
		}
		if trimmed == "" || skip != nil && skip(line) {
			continue
		}
		h.Write([]byte(line))
		h.Write([]byte{'\n'})
	}
	return hex.EncodeToString(h.Sum(nil)[:10])
}

// withoutComment takes a comment off the end of a line.
func withoutComment(line string) string {
	var quote byte
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case quote != 0 && c == '\\':
			i++
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case c == '#':
			return line[:i]
		}
	}
	return line
}

// trainFingerprint is that of nanoGPT's train.py. What it assigns to its own keys in front of the configurator is
// read, and may differ.
func trainFingerprint(text []byte) string {
	settings := true
	return fingerprint(text, func(line string) bool {
		settings = settings && !strings.HasPrefix(line, "config_keys")
		m := settingLine.FindStringSubmatch(line)
		if !settings || m == nil || !nanoGPTKeys[m[1]] {
			return false
		}
		p, err := decode.Python("", []byte(line), "")
		if err != nil {
			return false
		}
		v, ok := p.Values.Peek(m[1])
		return ok && v.Unknown == ""
	})
}

func modelFingerprint(text []byte) string { return fingerprint(text, nil) }

// What run_clm.py of transformers does with the model, in all releases from 4.6 to 5.0: anything else is a fork's. Each
// pattern finds something that a line does; a line in which one of them finds what is not listed is strange.
var (
	clmModel   = regexp.MustCompile(`\b(?:model|trainer\.model|self\.model)\.(\w+)`)
	clmSet     = regexp.MustCompile(`^\s*(?:model|config|trainer|(?:training|model|data)_args\.\w+)\s*=\s*([\w.]+)`)
	clmClass   = regexp.MustCompile(`^\s*class\s+(\w+)`)
	clmOption  = regexp.MustCompile(`^    (\w+)\s*:\s*[^=]+=\s*field\(`)
	clmImport  = regexp.MustCompile(`^\s*(?:from|import)\s+(\w+)`)
	clmWords   = regexp.MustCompile(`(?i)lora|peft|bitsandbytes|bnb|quantiz|gptq|awq|freez|requires_grad|fsdp|deepspeed|shard|offload|checkpointing|\.half\(|\.to\(|\.cpu\(|device_map|default_dtype|monkey|replace_|setattr|exec\(|eval\(`)
	clmStrings = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'`)
)

var clmLines = []struct {
	pattern *regexp.Regexp
	// known is what the pattern may find.
	known map[string]bool
}{
	{clmModel, set("resize_token_embeddings", "get_input_embeddings", "parameters", "config", "generation_config")},
	{clmSet, set("AutoModelForCausalLM.from_pretrained", "AutoModelForCausalLM.from_config",
		"AutoConfig.from_pretrained", "CONFIG_MAPPING", "Trainer")},
	{clmClass, set("ModelArguments", "DataTrainingArguments")},
	{clmImport, set("logging", "math", "os", "sys", "dataclasses", "itertools", "typing", "datasets", "evaluate",
		"torch", "transformers", "warnings", "json", "random", "collections")},
	{clmOption, set("model_name_or_path", "model_type", "config_overrides", "config_name", "tokenizer_name",
		"cache_dir", "use_fast_tokenizer", "model_revision", "token", "use_auth_token", "trust_remote_code",
		"torch_dtype", "dtype", "low_cpu_mem_usage", "dataset_name", "dataset_config_name", "train_file",
		"validation_file", "max_train_samples", "max_eval_samples", "streaming", "block_size", "overwrite_cache",
		"validation_split_percentage", "preprocessing_num_workers", "keep_linebreaks", "attn_implementation")},
}

// clmArguments are the arguments of run_clm.py and of TrainingArguments (transformers 4.20 to 5.23) that are followed,
// or that change nothing of what a training step holds: saving, logging, data, seeds, rates. Left out on purpose are
// those that may: accelerator_config (split_batches), adafactor, debug, *_kwargs, half_precision_backend,
// jit_mode_eval, label_smoothing_factor, fsdp_config, mp_parameters, neftune_noise_alpha, optim_args,
// optim_target_modules, parallelism_config, past_index, torch_compile_*, torch_empty_cache_steps, torchdynamo, tpu_*,
// use_ipex, use_mps_device, xpu_backend.
var clmArguments = set(strings.Fields(`per_device_train_batch_size per_gpu_train_batch_size per_device_eval_batch_size
	gradient_accumulation_steps gradient_checkpointing activation_checkpointing optim bf16 fp16 tf32 torch_compile
	attn_implementation use_liger_kernel block_size torch_dtype dtype config_name model_name_or_path do_train do_eval
	do_predict no_cuda use_cpu deepspeed fsdp auto_find_batch_size max_train_samples num_train_epochs max_steps
	low_cpu_mem_usage trust_remote_code
	overwrite_output_dir overwrite_cache streaming keep_linebreaks use_fast_tokenizer use_auth_token disable_tqdm
	push_to_hub load_best_model_at_end greater_is_better prediction_loss_only logging_first_step logging_nan_inf_filter
	log_on_each_node ignore_data_skip dataloader_drop_last dataloader_pin_memory dataloader_persistent_workers
	remove_unused_columns skip_memory_metrics hub_private_repo hub_always_push save_on_each_node save_only_model
	save_safetensors full_determinism include_inputs_for_metrics include_tokens_per_second include_num_input_tokens_seen
	eval_on_start eval_do_concat_batches batch_eval_metrics restore_callback_states_from_checkpoint
	ddp_find_unused_parameters ddp_broadcast_buffers average_tokens_across_devices eval_use_gather_object fp16_full_eval
	bf16_full_eval enable_jit_checkpoint use_legacy_prediction_loop
	output_dir tokenizer_name cache_dir model_revision token dataset_name dataset_config_name train_file validation_file
	max_eval_samples validation_split_percentage preprocessing_num_workers eval_strategy evaluation_strategy eval_steps
	eval_delay eval_accumulation_steps learning_rate weight_decay adam_beta1 adam_beta2 adam_epsilon max_grad_norm
	lr_scheduler_type warmup_ratio warmup_steps log_level log_level_replica logging_dir logging_steps logging_strategy
	save_steps save_strategy save_total_limit seed data_seed dataloader_num_workers dataloader_prefetch_factor run_name
	report_to label_names metric_for_best_model hub_model_id hub_strategy hub_token hub_revision push_to_hub_token
	push_to_hub_model_id push_to_hub_organization ddp_backend ddp_timeout ddp_bucket_cap_mb include_for_metrics local_rank
	project trackio_space_id ray_scope length_column_name`)...)

// compareRunCLM holds a run_clm.py that lies there against what the program of the releases does. One that is not there
// is known by its name and its arguments.
func (r *reading) compareRunCLM() {
	for _, key := range r.s.Keys() {
		v, _ := r.s.Peek(key)
		switch {
		case key == "trust_remote_code" && !v.Off():
			r.strangeAt(v.Origin.At, v.Origin.Key, "runs code of the model's own")
		case !clmArguments[key] && (v.Origin.Kind == setting.Argument || v.Origin.Kind == setting.File):
			d := notUnderstood(v.Origin.At.File, v.Origin.At.Line, v.Origin.Key)
			r.d.strange = append(r.d.strange, d)
		}
	}
	_, text, err := r.openProgram(r.program.Text)
	switch {
	case text == nil:
		return
	case r.code == nil || err != nil:
		r.strangeAt(r.program.Origin.At, r.program.Text, "cannot be compared with a release")
		return
	}
	doc, parses := false, false
	for i, raw := range strings.Split(string(text), "\n") {
		if strings.Count(raw, `"""`)%2 == 1 {
			doc = !doc
			continue
		}
		if doc || strings.HasPrefix(strings.TrimSpace(raw), "#") {
			continue
		}
		code := clmStrings.ReplaceAllString(raw, `""`)
		parses = parses || strings.Contains(code, "HfArgumentParser(")
		if !clmLine(code) {
			r.strangeAt(setting.Span{File: r.code.File, Line: i + 1}, strings.TrimSpace(raw),
				"is not in the program of a release that is known")
			return
		}
	}
	if !parses {
		r.strangeAt(setting.Span{File: r.code.File}, "run_clm.py", "is not that of transformers")
	}
}

// clmLine says whether a line does only what such a line does in the releases.
func clmLine(code string) bool {
	for _, c := range clmLines {
		for _, m := range c.pattern.FindAllStringSubmatch(code, -1) {
			if !c.known[m[1]] {
				return false
			}
		}
	}
	return !clmWords.MatchString(code)
}
