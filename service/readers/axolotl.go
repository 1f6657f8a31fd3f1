package readers

import (
	"cmp"
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// axolotlTool reads axolotl's YAML.
var axolotlTool = tool{
	name:   "axolotl",
	starts: (*reading).axolotlStarts,
	marks: map[string]int{"base_model": 2, "sequence_len": 3, "micro_batch_size": 2, "sample_packing": 2,
		"val_set_size": 1, "adapter": 1, "datasets": 1, "lora_target_linear": 2, "num_epochs": 1},
	read:  (*reading).readAxolotl,
	words: axolotlWords,
}

// axolotl's defaults, at 067b021c of its main branch in 2025.
const (
	refAxolotlLength    = "axolotl@067b021c src/axolotl/utils/schemas/config.py sequence_len"
	refAxolotlMicro     = "axolotl@067b021c src/axolotl/utils/schemas/training.py micro_batch_size"
	refAxolotlOptimizer = "axolotl@067b021c src/axolotl/utils/schemas/training.py:122"
	refAxolotlBF16      = "axolotl@067b021c src/axolotl/utils/schemas/config.py bf16"
	refAxolotlKBit      = "axolotl@067b021c src/axolotl/loaders/model.py: norms, embeddings and head go back to the " +
		"type that is computed in"
	refAxolotlQuant = "axolotl@067b021c src/axolotl/loaders/model.py: bnb_4bit_use_double_quant"
)

// axolotlStarts recognises "axolotl train FILE", "-m axolotl.cli.train FILE" and the old scripts/finetune.py.
func (r *reading) axolotlStarts() bool {
	args := r.args
	switch name := r.program.Text; {
	case path.Base(name) == "axolotl" && len(args) > 0 && args[0].Text == "train":
		args = args[1:]
		r.launcher, r.accelerate = "accelerate", setting.New() // the command starts accelerate launch
	case r.module && (name == "axolotl.cli.train" || name == "axolotl.cli.main"):
		if name == "axolotl.cli.main" && len(args) > 0 {
			args = args[1:]
		}
	case strings.HasSuffix(name, "scripts/finetune.py") || strings.HasSuffix(name, "axolotl/cli/train.py"):
	default:
		return false
	}
	cli, files, open := options(args, nil)
	for _, w := range open {
		r.openWord(w)
	}
	r.s = cli
	if len(files) == 0 {
		return false
	}
	r.under(files[0].argument("config"))
	r.s.Read("num_processes")
	if v, ok := cli.Get("num_processes"); ok {
		if r.accelerate == nil {
			r.accelerate = setting.New()
		}
		r.accelerate.Set("num_processes", v)
	}
	return true
}

// under lays a file of the tool under its arguments; one that is not there is asked for.
func (r *reading) under(v setting.Value) {
	s, full, err := r.load(v)
	if s == nil {
		r.problems = append(r.problems, func(*draft) {
			r.notThere(v, err)
		})
		return
	}
	r.file = full
	merged := s.Clone()
	merged.Over(r.s)
	r.s = merged
}

func (r *reading) readAxolotl() {
	s := r.s
	r.d.derive("/training/framework", "axolotl", "the tool")
	if v, ok := s.Get("rl"); ok && !v.Off() {
		r.refuseObjective(v.String(), v.Origin.At)
	}
	if v, ok := r.s.FirstOn("reward_model", "process_reward_model"); ok {
		r.refuseObjective("a reward model", v.Origin.At)
	}
	r.model("base_model")
	r.axolotlPictures()
	r.configOfModel()
	r.axolotlBatch()
	if !r.number("/training/sequence_length", askLength, "sequence_len") {
		r.d.fall("/training/sequence_length", int64(512), "sequence_len", refAxolotlLength)
	}
	r.axolotlShards()
	r.axolotlAdapter()
	r.axolotlPrecision()
	r.axolotlOptimizer()
	r.axolotlCheckpointing()
	r.axolotlKernels()
	if v, ok := s.Get("torch_compile"); ok && v.On() {
		r.d.put("/training/compile", true, v)
	}
	if v, ok := r.axolotlEvaluates(); ok {
		if e, given := s.Get("eval_batch_size"); given {
			r.numberOf("/training/evaluation/micro_batch", "How many sequences does one GPU evaluate at a time?", e)
		} else if n, set := r.d.int("/training/micro_batch"); set {
			r.d.put("/training/evaluation/micro_batch", n, v)
		}
	}
	s.Still(axolotlStill...)
	s.Read("model_type", "tokenizer_*", "test_datasets*", "trust_remote_code", "strict", "special_tokens*", "tokens*",
		"dataset_*", "sample_packing*", "pad_to_sequence_len", "eval_sample_packing", "fsdp_config*",
		"gradient_checkpointing_kwargs*", "lora_fan_in_fan_out", "lora_model_dir", "tf32", "base_model_ignore_patterns",
		"loraplus_*", "eval_strategy", "evaluation_strategy", "evals_per_epoch", "eval_table_size", "eval_max_new_tokens",
		"resume_from_checkpoint", "auto_resume_from_checkpoints", "load_best_model_at_end", "num_epochs", "max_steps",
		"chat_template*", "eot_tokens", "is_preprocess", "preprocess_iterable", "skip_prepare_dataset", "type", "debug",
		"merge_lora", "merge_method", "low_cpu_mem_usage", "shuffle_*", "streaming*", "pretrain_multipack_*",
		"multipack_real_batches", "curriculum_sampling", "max_prompt_len", "include_tokens_per_second", "include_tkps",
		"gptq_disable_exllama", "profiler_*", "bench_*", "ddp", "ddp_find_unused_parameters", "flash_optimum",
		"fix_untrained_tokens", "use_kernels")
	r.loose("model_quantization_config*", "experimental_skip_move_to_device", "device_map", "rope_scaling*",
		"embedding_lr*", "lr_groups*", "gc_steps", "gc_collect_steps", "added_tokens_overrides*",
		"mean_resizing_embeddings", "optim_args*", "optim_target_modules", "cosine_*", "lr_*")
	r.loose(trainerLoose...)
}

func (r *reading) axolotlBatch() {
	if !r.number("/training/micro_batch", askMicroBatch, "micro_batch_size") {
		r.d.fall("/training/micro_batch", int64(1), "micro_batch_size", refAxolotlMicro)
	}
	if !r.number("/training/gradient_accumulation", askAccumulation, "gradient_accumulation_steps") {
		r.d.fall("/training/gradient_accumulation", int64(1), "gradient_accumulation_steps", refAxolotlMicro)
	}
	r.s.Read("batch_size", "eval_batch_size", "auto_find_batch_size")
}

// axolotlShards reads deepspeed, fsdp and the degrees of parallelism.
func (r *reading) axolotlShards() {
	s := r.s
	if v, ok := s.Get("deepspeed"); ok && !v.Off() {
		if v.Any == true { // axolotl's own zero1
			r.d.ask("/training/distributed/deepspeed", "Which DeepSpeed configuration?", v.Origin.At.Where())
		} else {
			r.deepspeed(v)
		}
	}
	fsdp, hasFSDP := s.Get("fsdp")
	config, hasConfig := s.Get("fsdp_config")
	if hasFSDP && !fsdp.Off() || hasConfig && !config.Off() {
		if !hasFSDP || fsdp.Off() {
			fsdp = config
			fsdp.Any, fsdp.Text = "full_shard", ""
		}
		r.trainerFSDP(fsdp)
		c := s.Under("fsdp_config")
		if v, ok := c.Get("reshard_after_forward", "fsdp_reshard_after_forward", "fsdp_sharding_strategy",
			"sharding_strategy"); ok {
			if on, isBool := v.Bool(); isBool {
				r.d.put("/training/distributed/reshard_after_forward", on, v)
			} else {
				r.strategy(v)
			}
		}
		if v, ok := c.Get("offload_params", "fsdp_offload_params"); ok && v.On() {
			r.d.put("/training/distributed/offload_parameters", true, v)
		}
		if v, ok := c.Get("activation_checkpointing", "fsdp_activation_checkpointing"); ok && v.On() {
			r.d.put("/training/gradient_checkpointing", "full", v)
		}
	}
	s.Read("fsdp_version")
	product, how := int64(1), []string{}
	for _, p := range []struct{ key, pointer string }{
		{"dp_shard_size", ""}, {"dp_replicate_size", ""},
		{"tensor_parallel_size", "/training/distributed/tensor_parallel"},
		{"context_parallel_size", "/training/distributed/context_parallel"},
		{"sequence_parallel_degree", "/training/distributed/context_parallel"},
		{"expert_parallel_size", "/training/distributed/expert_parallel"},
	} {
		v, ok := s.Get(p.key)
		n, isInt := v.Int()
		if !ok || !isInt || n < 1 {
			continue
		}
		if p.pointer != "" && n > 1 {
			r.d.put(p.pointer, n, v)
		}
		if p.key != "expert_parallel_size" {
			product *= n
			how = append(how, p.key+" "+v.Text)
		}
	}
	if s.Has("dp_shard_size") && product > 1 {
		r.d.derive("/training/distributed/world_size", product, "%s", strings.Join(how, " × "))
	}
	r.shards()
}

func (r *reading) axolotlAdapter() {
	s := r.s
	v, ok := s.Get("adapter")
	name := strings.ToLower(v.String())
	gptq, isGPTQ := r.s.FirstOn("gptq")
	if !ok || v.Off() {
		s.Read("lora_*", "peft_*", "load_in_8bit", "load_in_4bit", "adapter", "gptq")
		if q, on := r.s.FirstOn("load_in_4bit", "load_in_8bit"); on {
			r.d.refuse("cannot-start", q.Origin.At, "%s without an adapter: axolotl does not train a "+
				"quantized model whole", q.Origin.Key)
		}
		return
	}
	if v.Unknown != "" || name != "lora" && name != "qlora" {
		r.d.refuse("unsupported", v.Origin.At, "the adapter %s is not modelled", cmp.Or(v.String(), v.Unknown))
		return
	}
	if rank, given := s.Get("lora_r"); given {
		r.numberOf("/training/lora/rank", "Of which rank are the adapters?", rank)
	} else {
		r.d.derive("/training/lora/dropout", 0.0, "adapter %s", name)
		r.d.ask("/training/lora/rank", "Of which rank are the adapters?", v.Origin.At.Where()+
			" trains adapters, and lora_r is not there")
	}
	if d, given := s.Get("lora_dropout"); given {
		if f, isFloat := d.Float(); isFloat {
			r.d.put("/training/lora/dropout", f, d)
		}
	}
	if linear, on := r.s.FirstOn("lora_target_linear"); on {
		r.d.put("/training/lora/target_modules", []string{"all-linear"}, linear)
		s.Read("lora_target_modules")
	} else if t, given := s.Get("lora_target_modules"); given && !t.Off() {
		r.d.put("/training/lora/target_modules", targets(t), t)
	}
	if m, given := s.Get("lora_modules_to_save"); given && !m.Off() {
		r.d.put("/training/lora/modules_to_save", m.Strings(), m)
	}
	if dora, on := r.s.FirstOn("peft_use_dora"); on {
		r.d.put("/training/lora/dora", true, dora)
	}
	four, isFour := r.s.FirstOn("load_in_4bit")
	eight, isEight := r.s.FirstOn("load_in_8bit")
	s.Read("load_in_8bit", "load_in_4bit", "bnb_config_kwargs*", "lora_target_linear", "lora_target_modules")
	const base = "/training/lora/base_precision"
	switch {
	case isGPTQ:
		r.d.put(base, "gptq-int4", gptq)
	case isFour:
		r.d.put(base, "nf4", four)
		r.d.fall("/training/lora/double_quantization", true, "bnb_4bit_use_double_quant", refAxolotlQuant)
		r.d.fall("/training/lora/upcast_base", false, "prepare_model_for_kbit_training", refAxolotlKBit)
	case isEight:
		r.d.put(base, "int8", eight)
		r.d.fall("/training/lora/upcast_base", false, "prepare_model_for_kbit_training", refAxolotlKBit)
	case name == "qlora":
		r.d.refuse("cannot-start", v.Origin.At, "adapter: qlora without load_in_4bit: axolotl stops (Require "+
			"cfg.load_in_4bit to be True for qlora)")
	default:
		if !quantizedName(r.d, base) {
			r.d.put(base, r.axolotlLoaded(), v)
		}
	}
}

// axolotlLoaded is the type that the model is loaded in (src/axolotl/utils/config/__init__.py normalize_config:
// torch_dtype).
func (r *reading) axolotlLoaded() string {
	bf16, given := r.s.Get("bf16")
	switch {
	case given && (bf16.String() == "auto" || bf16.String() == "full" || bf16.On()), !given &&
		!r.s.On("fp16", "float16"), r.s.On("bfloat16"):
		return "bf16"
	case r.s.On("fp16"), r.s.On("float16"):
		return "fp16"
	}
	return "fp32"
}

// axolotlPrecision: the model is loaded in half precision, and full fine-tuning keeps it so but under FSDP, where the
// shards are float32; adapters are float32 under autocast.
func (r *reading) axolotlPrecision() {
	s := r.s
	bf16, given := s.Get("bf16")
	mixed := ""
	from := bf16
	switch {
	case given && (bf16.String() == "auto" || bf16.On()):
		mixed = "bf16"
	case given && bf16.String() == "full":
		r.d.put("/training/precision", "bf16", bf16)
		return
	case s.On("fp16"):
		mixed, from = "fp16", r.flag("fp16")
	case s.On("bfloat16"):
		r.d.put("/training/precision", "bf16", r.flag("bfloat16"))
		return
	case s.On("float16"):
		r.d.put("/training/precision", "fp16", r.flag("float16"))
		return
	case !given:
		mixed = "bf16"
		from = setting.Value{Origin: setting.Origin{Kind: setting.Default, Key: "bf16: auto", Ref: refAxolotlBF16}}
	default:
		r.d.put("/training/precision", "fp32", bf16)
		return
	}
	s.Read("bf16", "fp16", "float16", "bfloat16")
	if r.adapters() || r.d.text("/training/distributed/data") == "fsdp" {
		r.d.put("/training/precision", "amp-"+mixed, from)
		return
	}
	if mixed == "fp16" && r.ds == nil {
		mixed = "amp-fp16"
	}
	r.d.put("/training/precision", mixed, from)
}

func (r *reading) axolotlOptimizer() {
	v, ok := r.s.Get("optimizer")
	if !ok {
		r.d.fall("/training/optimizer", trainerOptimizers["adamw_torch_fused"], "optimizer", refAxolotlOptimizer)
		return
	}
	name := strings.ToLower(v.String())
	if own, ao := strings.CutPrefix(name, "ao_adamw_"); ao { // torchao's, as the Trainer's adamw_torch_8bit
		name = "adamw_torch_" + own
	}
	o, known := trainerOptimizers[name]
	if !known || v.Unknown != "" {
		r.d.refuse("unsupported", v.Origin.At, "the optimizer %s is not modelled", v.String())
		return
	}
	r.d.put("/training/optimizer", o, v)
}

func (r *reading) axolotlCheckpointing() {
	const pointer = "/training/gradient_checkpointing"
	v, ok := r.s.Get("gradient_checkpointing")
	offload, offloads := r.s.Get("activation_offloading")
	offloads = offloads && !offload.Off()
	switch {
	case ok && (v.String() == "offload" || v.String() == "unsloth" || v.String() == "offload_disk"):
		r.d.put(pointer, offloaded, v)
	case ok && v.On() && offloads:
		r.d.put(pointer, offloaded, v)
	case ok && v.On():
		kind, _ := r.s.Get("gradient_checkpointing_kwargs.use_reentrant")
		r.d.put(pointer, ofKind(kind), v)
	case r.d.has(pointer):
	case ok:
		r.d.put(pointer, "none", v)
	default:
		r.d.fall(pointer, "none", "gradient_checkpointing", "axolotl@067b021c src/axolotl/utils/schemas/config.py "+
			"gradient_checkpointing")
	}
}
