package huggingface

import (
	"path"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
)

// IsRunCLM compares transformers' example of language modeling, and is false for other programs.
func (r *Job) IsRunCLM() bool {
	if r.Out.Reader != "hf-trainer" || path.Base(r.Program.Text) != "run_clm.py" || r.Module {
		return false
	}
	r.compareRunCLM()
	r.Out.Exact = true // group_texts makes blocks of block_size tokens
	if n, ok := r.Out.Int("/training/sequence_length"); ok && n > maxCLMBlock {
		r.Out.Floor("/training/sequence_length", int64(maxCLMBlock), "run_clm.py cuts --block_size to the tokenizer's "+
			"model_max_length, which is not known")
	}
	return true
}

// maxCLMBlock is the length to which run_clm.py cuts its blocks where --block_size is not given. It cuts further
// where the tokenizer's model_max_length is less, which no file of the job says
// (examples/pytorch/language-modeling/run_clm.py of transformers 4.57).
const maxCLMBlock = 1024

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
	{clmModel, setting.SetOf("resize_token_embeddings", "get_input_embeddings", "parameters", "config", "generation_config")},
	{clmSet, setting.SetOf("AutoModelForCausalLM.from_pretrained", "AutoModelForCausalLM.from_config",
		"AutoConfig.from_pretrained", "CONFIG_MAPPING", "Trainer")},
	{clmClass, setting.SetOf("ModelArguments", "DataTrainingArguments")},
	{clmImport, setting.SetOf("logging", "math", "os", "sys", "dataclasses", "itertools", "typing", "datasets", "evaluate",
		"torch", "transformers", "warnings", "json", "random", "collections")},
	{clmOption, setting.SetOf("model_name_or_path", "model_type", "config_overrides", "config_name", "tokenizer_name",
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
var clmArguments = setting.SetOf(strings.Fields(`per_device_train_batch_size per_gpu_train_batch_size per_device_eval_batch_size
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
func (r *Job) compareRunCLM() {
	for _, key := range r.In.Keys() {
		v, _ := r.In.Peek(key)
		switch {
		case key == "trust_remote_code" && !v.Off():
			r.StrangeAt(v.Origin.At, v.Origin.Key, "runs code of the model's own")
		case !clmArguments[key] && (v.Origin.Kind == setting.Argument || v.Origin.Kind == setting.File):
			d := draft.NotUnderstood(v.Origin.At.File, v.Origin.At.Line, v.Origin.Key)
			r.Out.Strange = append(r.Out.Strange, d)
		}
	}
	_, text, err := r.OpenProgram(r.Program.Text)
	switch {
	case text == nil:
		return
	case r.Code == nil || err != nil:
		r.StrangeAt(r.Program.Origin.At, r.Program.Text, "cannot be compared with a release")
		return
	}
	type key struct{ text source.Text }
	strange := source.Once(r.Files, key{source.TextOf(text)}, func() draft.Doubt { return clmDoubt(r.Code.File, text) })
	if strange.Why != "" {
		r.StrangeAt(setting.Span{File: strange.File, Line: strange.Line}, strange.Word, strange.Why)
	}
}

// clmDoubt is about the first line of a program that is in no release's; its reason is "" where there is none.
func clmDoubt(file string, text []byte) draft.Doubt {
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
			return draft.Doubt{File: file, Line: i + 1, Word: strings.TrimSpace(raw),
				Why: "is not in the program of a release that is known"}
		}
	}
	if !parses {
		return draft.Doubt{File: file, Word: "run_clm.py", Why: "is not that of transformers"}
	}
	return draft.Doubt{}
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
