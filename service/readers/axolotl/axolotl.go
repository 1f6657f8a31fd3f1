// Package axolotl reads axolotl's YAML.
package axolotl

import (
	"cmp"
	"fmt"
	"path"
	"strings"

	"github.com/vramplan/vramplan/estimator/defaults"
	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/huggingface"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads axolotl's YAML.
var Tool = tool.Tool{
	Name: "axolotl",
	Marks: map[string]int{"base_model": 2, "sequence_len": 3, "micro_batch_size": 2, "sample_packing": 2,
		"val_set_size": 1, "adapter": 1, "datasets": 1, "lora_target_linear": 2, "num_epochs": 1},
	New:     func(j *tool.Job) tool.Reader { return &job{Job: huggingface.Of(j)} },
	Words:   words,
	Still:   stillText,
	Command: "axolotl",
}

// job is one job on its way through this tool.
type job struct {
	huggingface.Job
}

// Starts recognises "axolotl train FILE", "-m axolotl.cli.train FILE" and the old scripts/finetune.py.
func (r *job) Starts() bool {
	args := r.Args
	switch name := r.Program.Text; {
	case path.Base(name) == "axolotl" && len(args) > 0 && args[0].Text == "train":
		args = args[1:]
		r.Launcher, r.Accelerate = "accelerate", setting.New() // the command starts accelerate launch
	case r.Module && (name == "axolotl.cli.train" || name == "axolotl.cli.main"):
		if name == "axolotl.cli.main" && len(args) > 0 {
			args = args[1:]
		}
	case strings.HasSuffix(name, "scripts/finetune.py") || strings.HasSuffix(name, "axolotl/cli/train.py"):
	default:
		return false
	}
	cli, files, open := argv.Options(args, nil)
	for _, w := range open {
		r.OpenWord(w)
	}
	r.In = cli
	if len(files) == 0 {
		return false
	}
	r.Under(files[0].Argument("config"))
	r.In.Read("num_processes")
	if v, ok := cli.Get("num_processes"); ok {
		if r.Accelerate == nil {
			r.Accelerate = setting.New()
		}
		r.Accelerate.Set("num_processes", v)
	}
	return true
}

// Read maps the settings to fields.
func (r *job) Read() {
	s := r.In
	r.Out.Derive("/training/framework", "axolotl", "the tool")
	if v, ok := s.Get("rl"); ok && !v.Off() {
		r.RefuseObjective(v.String(), v.Origin.At)
	}
	if v, ok := r.In.FirstOn("reward_model", "process_reward_model"); ok {
		r.RefuseObjective("a reward model", v.Origin.At)
	}
	r.Model("base_model")
	r.pictures()
	r.configOfModel()
	r.batch()
	r.Number("/training/sequence_length", tool.AskLength, "sequence_len")
	r.shards()
	r.adapter()
	r.precision()
	r.optimizer()
	r.checkpointing()
	r.kernels()
	if v, ok := s.Get("torch_compile"); ok && v.On() {
		r.Out.Put("/training/compile", true, v)
	}
	if v, ok := r.evaluates(); ok {
		if e, given := s.Get("eval_batch_size"); given {
			r.NumberOf("/training/evaluation/micro_batch", "How many sequences does one GPU evaluate at a time?", e)
		} else {
			n, set := r.Out.Int("/training/micro_batch")
			if taken, known := defaults.For("axolotl", defaults.MicroBatch, nil); !set && known {
				n = taken.Value.(int64)
			}
			r.Out.Put("/training/evaluation/micro_batch", n, v)
		}
	}
	s.Still(still...)
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
	if v, ok := r.In.Get("model_quantization_config_kwargs.dequantize"); ok && v.On() {
		switch r.In.Text("model_quantization_config") {
		case "Mxfp4Config":
			r.Dequantized = append(r.Dequantized, "mxfp4")
		case "FineGrainedFP8Config":
			r.Dequantized = append(r.Dequantized, "fp8")
		default:
			r.Out.AskWord(v)
		}
		r.In.Read("model_quantization_config")
	}
	r.Loose("model_quantization_config*", "experimental_skip_move_to_device", "device_map", "rope_scaling*",
		"embedding_lr*", "lr_groups*", "gc_steps", "gc_collect_steps", "added_tokens_overrides*",
		"mean_resizing_embeddings", "optim_args*", "optim_target_modules", "cosine_*", "lr_*")
	r.Loose(huggingface.Loose...)
}

func (r *job) batch() {
	r.Number("/training/micro_batch", tool.AskMicroBatch, "micro_batch_size")
	r.Number("/training/gradient_accumulation", tool.AskAccumulation, "gradient_accumulation_steps")
	r.In.Read("batch_size", "eval_batch_size", "auto_find_batch_size")
}

// shards reads deepspeed, fsdp and the degrees of parallelism.
func (r *job) shards() {
	r.Shipped = shipped
	s := r.In
	if v, ok := s.Get("deepspeed"); ok && !v.Off() {
		if v.Any == true { // axolotl's own zero1
			r.Out.Ask("/training/distributed/deepspeed", "Which DeepSpeed configuration?", v.Origin.At.Where())
		} else {
			r.ReadDeepSpeed(v)
		}
	}
	fsdp, hasFSDP := s.Get("fsdp")
	config, hasConfig := s.Get("fsdp_config")
	if hasFSDP && !fsdp.Off() || hasConfig && !config.Off() {
		if !hasFSDP || fsdp.Off() {
			fsdp = config
			fsdp.Any, fsdp.Text = "full_shard", ""
		}
		r.FSDP(fsdp)
		c := s.Under("fsdp_config")
		if v, ok := c.Get("reshard_after_forward", "fsdp_reshard_after_forward", "fsdp_sharding_strategy",
			"sharding_strategy"); ok {
			if on, isBool := v.Bool(); isBool {
				r.Out.Put("/training/distributed/reshard_after_forward", on, v)
			} else {
				r.Strategy(v)
			}
		}
		if v, ok := c.Get("offload_params", "fsdp_offload_params"); ok && v.On() {
			r.Out.Put("/training/distributed/offload_parameters", true, v)
		}
		if v, ok := c.Get("activation_checkpointing", "fsdp_activation_checkpointing"); ok && v.On() {
			r.Out.Put("/training/gradient_checkpointing", "full", v)
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
			r.Out.Put(p.pointer, n, v)
		}
		if p.key != "expert_parallel_size" {
			product *= n
			how = append(how, p.key+" "+v.Text)
		}
	}
	if s.Has("dp_shard_size") && product > 1 {
		r.Out.Derive("/training/distributed/world_size", product, "%s", strings.Join(how, " × "))
	}
	r.Shards()
}

func (r *job) adapter() {
	s := r.In
	v, ok := s.Get("adapter")
	name := strings.ToLower(v.String())
	gptq, isGPTQ := r.In.FirstOn("gptq")
	if !ok || v.Off() {
		s.Read("lora_*", "peft_*", "load_in_8bit", "load_in_4bit", "adapter", "gptq")
		if q, on := r.In.FirstOn("load_in_4bit", "load_in_8bit"); on {
			r.Out.Refuse("cannot-start", q.Origin.At, "%s without an adapter: axolotl does not train a "+
				"quantized model whole", q.Origin.Key)
		}
		return
	}
	if v.Unknown != "" || name != "lora" && name != "qlora" {
		r.Out.Refuse("unsupported", v.Origin.At, "the adapter %s is not modelled", cmp.Or(v.String(), v.Unknown))
		return
	}
	if rank, given := s.Get("lora_r"); given {
		r.NumberOf("/training/lora/rank", "Of which rank are the adapters?", rank)
	} else {
		r.Out.Derive("/training/lora/dropout", 0.0, "adapter %s", name)
		r.Out.Ask("/training/lora/rank", "Of which rank are the adapters?", v.Origin.At.Where()+
			" trains adapters, and lora_r is not there")
	}
	if d, given := s.Get("lora_dropout"); given {
		if f, isFloat := d.Float(); isFloat {
			r.Out.Put("/training/lora/dropout", f, d)
		}
	}
	if linear, on := r.In.FirstOn("lora_target_linear"); on {
		r.Out.Put("/training/lora/target_modules", []string{"all-linear"}, linear)
		s.Read("lora_target_modules")
	} else if t, given := s.Get("lora_target_modules"); given && !t.Off() {
		r.Out.Put("/training/lora/target_modules", models.Targets(t), t)
	}
	if m, given := s.Get("lora_modules_to_save"); given && !m.Off() {
		r.Out.Put("/training/lora/modules_to_save", m.Strings(), m)
	}
	if dora, on := r.In.FirstOn("peft_use_dora"); on {
		r.Out.Put("/training/lora/dora", true, dora)
	}
	four, isFour := r.In.FirstOn("load_in_4bit")
	eight, isEight := r.In.FirstOn("load_in_8bit")
	s.Read("load_in_8bit", "load_in_4bit", "bnb_config_kwargs*", "lora_target_linear", "lora_target_modules")
	const base = "/training/lora/base_precision"
	switch {
	case isGPTQ:
		r.Out.Put(base, "gptq-int4", gptq)
	case isFour:
		r.Out.Put(base, "nf4", four)
	case isEight:
		r.Out.Put(base, "int8", eight)
	case name == "qlora":
		r.Out.Refuse("cannot-start", v.Origin.At, "adapter: qlora without load_in_4bit: axolotl stops (Require "+
			"cfg.load_in_4bit to be True for qlora)")
	default:
		models.QuantizedBase(r.Out, r.Dequantized...)
	}
}

// precision is what is computed in; the type in which the model is loaded follows from it, by the table of defaults.
func (r *job) precision() {
	s := r.In
	bf16, given := s.Get("bf16")
	mixed := ""
	from := bf16
	s.Read("bf16", "fp16", "float16", "bfloat16")
	switch {
	case given && (bf16.String() == "auto" || bf16.On()):
		mixed = "bf16"
	case given && bf16.String() == "full":
		r.Out.Put("/training/precision", "bf16", bf16)
		return
	case s.On("fp16"):
		mixed, from = "fp16", r.Flag("fp16")
	case s.On("bfloat16"):
		r.Out.Put("/training/precision", "bf16", r.Flag("bfloat16"))
		return
	case s.On("float16"):
		r.Out.Put("/training/precision", "fp16", r.Flag("float16"))
		return
	case !given:
		return // of the table, as is the type in which the model is loaded then
	default:
		r.Out.Put("/training/precision", "fp32", bf16)
		return
	}
	if r.Adapters() || r.Out.Text("/training/distributed/data") == "fsdp" {
		r.Out.Put("/training/precision", "amp-"+mixed, from)
		return
	}
	if r.DeepSpeed == nil && !strings.HasPrefix(r.Out.Text("/training/distributed/data"), "zero") {
		mixed = "amp-" + mixed
	}
	r.Out.Put("/training/precision", mixed, from)
}

func (r *job) optimizer() {
	v, ok := r.In.Get("optimizer")
	if !ok {
		return
	}
	name := strings.ToLower(v.String())
	if own, ao := strings.CutPrefix(name, "ao_adamw_"); ao { // torchao's, as the Trainer's adamw_torch_8bit
		name = "adamw_torch_" + own
	}
	o, known := huggingface.Optimizers[name]
	if !known || v.Unknown != "" {
		r.Out.Refuse("unsupported", v.Origin.At, "the optimizer %s is not modelled", v.String())
		return
	}
	r.Out.Put("/training/optimizer", o, v)
}

func (r *job) checkpointing() {
	const pointer = "/training/gradient_checkpointing"
	v, ok := r.In.Get("gradient_checkpointing")
	offload, offloads := r.In.Get("activation_offloading")
	offloads = offloads && !offload.Off()
	switch {
	case ok && (v.String() == "offload" || v.String() == "unsloth" || v.String() == "offload_disk"):
		r.Out.Put(pointer, draft.Offloaded, v)
	case ok && v.On() && offloads:
		r.Out.Put(pointer, draft.Offloaded, v)
	case ok && v.On():
		kind, _ := r.In.Get("gradient_checkpointing_kwargs.use_reentrant")
		r.Out.Put(pointer, draft.OfKind(kind), v)
	case r.Out.Has(pointer):
	case ok:
		r.Out.Put(pointer, "none", v)
	}
}

// configOfModel reads the name under which old releases of axolotl look for the model's configuration: mostly that of
// the model itself.
func (r *job) configOfModel() {
	v, ok := r.In.Peek("base_model_config")
	base, named := r.In.Peek("base_model")
	if ok && named && v.Unknown == "" && strings.TrimSuffix(v.String(), "/") == strings.TrimSuffix(base.String(), "/") {
		r.In.Read("base_model_config")
	}
}

var words = tool.Words{
	"/training/micro_batch":            tool.CountWord("micro_batch_size"),
	"/training/gradient_accumulation":  tool.CountWord("gradient_accumulation_steps"),
	"/training/sequence_length":        tool.CountWord("sequence_len"),
	"/training/gradient_checkpointing": tool.ChoiceWord("gradient_checkpointing", tool.OnOff),
	"/training/evaluation/micro_batch": tool.CountWord("eval_batch_size"),
	"/training/gradient_checkpointing/reentrant": tool.ValueWords(map[string][]tool.Set{
		"false": {{Key: "gradient_checkpointing_kwargs", Text: "{use_reentrant: false}"}}}),
	"/training/optimizer": tool.OptimizerWord("optimizer"),
	"/training/precision": tool.HalfWords,
	"/training/compile":   tool.SwitchWord("torch_compile"),
	"/training/lora":      tool.ValueWords(map[string][]tool.Set{"true": {{Key: "adapter", Text: "lora"}}}),
	"/training/lora/rank": func(value any) ([]tool.Set, bool) {
		n, ok := value.(int64) // peft divides the alpha, which has no default here, by the rank
		return []tool.Set{{Key: "lora_r", Text: fmt.Sprint(n)}, {Key: "lora_alpha", Text: fmt.Sprint(2 * n), Missing: true}}, ok
	},
	"/training/lora/target_modules": tool.TargetWords("lora_target_linear", "true"),
	"/training/lora/base_precision": tool.ValueWords(map[string][]tool.Set{
		"nf4": {{Key: "adapter", Text: "qlora"}, {Key: "load_in_4bit", Text: "true"}}}),
	"/training/lora/double_quantization": tool.ByItself("true"), // loaders/model.py
}
