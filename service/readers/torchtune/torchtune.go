// Package torchtune reads torchtune's recipes.
package torchtune

import (
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/shards"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads torchtune's YAML with the overrides of "tune run".
var Tool = tool.Tool{
	Name: "torchtune",
	Marks: map[string]int{"model._component_": 5, "tokenizer._component_": 2, "checkpointer._component_": 2,
		"loss._component_": 1},
	New:   func(j *tool.Job) tool.Reader { return &job{Job: shards.Of(j)} },
	Words: words,
	Still: stillText,
}

// job is one job on its way through this tool.
type job struct {
	shards.Job
}

// models are torchtune's builders (0.6 torchtune/models) by the model that they build.
var models = map[string]string{
	"llama2_7b": "meta-llama/Llama-2-7b-hf", "llama2_13b": "meta-llama/Llama-2-13b-hf",
	"llama2_70b": "meta-llama/Llama-2-70b-hf",
	"llama3_8b":  "meta-llama/Meta-Llama-3-8B", "llama3_70b": "meta-llama/Meta-Llama-3-70B",
	"llama3_1_8b": "meta-llama/Llama-3.1-8B", "llama3_1_70b": "meta-llama/Llama-3.1-70B",
	"llama3_1_405b": "meta-llama/Llama-3.1-405B", "llama3_2_1b": "meta-llama/Llama-3.2-1B",
	"llama3_2_3b": "meta-llama/Llama-3.2-3B", "llama3_3_70b": "meta-llama/Llama-3.3-70B-Instruct",
	"code_llama2_7b": "codellama/CodeLlama-7b-hf", "code_llama2_13b": "codellama/CodeLlama-13b-hf",
	"code_llama2_70b": "codellama/CodeLlama-70b-hf", "mistral_7b": "mistralai/Mistral-7B-v0.1",
	"gemma_2b": "google/gemma-2b", "gemma_7b": "google/gemma-7b", "gemma2_2b": "google/gemma-2-2b",
	"gemma2_9b": "google/gemma-2-9b", "gemma2_27b": "google/gemma-2-27b",
	"phi3_mini": "microsoft/Phi-3-mini-4k-instruct", "phi4_14b": "microsoft/phi-4", "qwen2_0_5b": "Qwen/Qwen2-0.5B",
	"qwen2_1_5b": "Qwen/Qwen2-1.5B", "qwen2_7b": "Qwen/Qwen2-7B",
	"qwen2_5_0_5b": "Qwen/Qwen2.5-0.5B", "qwen2_5_1_5b": "Qwen/Qwen2.5-1.5B", "qwen2_5_3b": "Qwen/Qwen2.5-3B",
	"qwen2_5_7b": "Qwen/Qwen2.5-7B", "qwen2_5_14b": "Qwen/Qwen2.5-14B",
	"qwen2_5_32b": "Qwen/Qwen2.5-32B", "qwen2_5_72b": "Qwen/Qwen2.5-72B", "qwen3_0_6b": "Qwen/Qwen3-0.6B",
	"qwen3_1_7b": "Qwen/Qwen3-1.7B", "qwen3_4b": "Qwen/Qwen3-4B", "qwen3_8b": "Qwen/Qwen3-8B",
	"qwen3_14b": "Qwen/Qwen3-14B", "qwen3_32b": "Qwen/Qwen3-32B",
}

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	recipe := r.Base()
	if r.Launcher != "tune" && !strings.HasSuffix(recipe, "_single_device.py") &&
		!strings.HasSuffix(recipe, "_distributed.py") {
		return false
	}
	s, _, open := argv.Options(r.Args, nil)
	for _, w := range open {
		r.OpenWord(w)
	}
	v, ok := s.Get("config")
	if !ok {
		return false
	}
	if list, isList := v.Any.([]any); isList && len(list) > 0 { // the overrides stand behind the file
		v.Any, v.Text = list[0], strings.Fields(v.Text)[0]
	}
	r.In = argv.Overrides(r.Args)
	// tune's own configurations are known by their names, and are looked for first: llama3/8B_full
	if v.Unknown == "" && r.Launcher == "tune" && r.knows(v) {
		return true
	}
	r.Under(v)
	return true
}

// Read maps the settings to fields.
func (r *job) Read() {
	s := r.In
	tool.Interpolate(s)
	recipe := ""
	if r.Program.Text != "" {
		recipe = strings.TrimSuffix(r.Base(), ".py")
	}
	r.Out.Derive("/training/framework", "torchtune", "the tool")
	for _, word := range []string{"dpo", "ppo", "grpo", "knowledge_distillation", "qat", "generate", "eval",
		"quantize"} {
		if strings.Contains(recipe, word) {
			r.RefuseObjective(word, r.At)
		}
	}
	if r.File != "" && !s.Any("optimizer._component_", "optimizer", "loss._component_", "loss") {
		r.Out.Refuse("trains-nothing", r.At, "neither an optimizer nor a loss is configured: this recipe "+
			"evaluates, generates "+
			"or quantizes, and trains nothing")
	}
	r.model()
	r.Number("/training/micro_batch", tool.AskMicroBatch, "batch_size")
	if !r.Number("/training/gradient_accumulation", tool.AskAccumulation, "gradient_accumulation_steps") {
		r.Out.Fall("/training/gradient_accumulation", int64(1), "gradient_accumulation_steps", "torchtune 0.6 recipes")
	}
	if !r.Number("/training/sequence_length", tool.AskLength, "tokenizer.max_seq_len") {
		v, _ := s.Peek("tokenizer.max_seq_len")
		why := "tokenizer.max_seq_len is null: the longest sample of the data decides"
		if at := v.Origin.At.Where(); at != "" {
			why = at + ": " + why
		}
		r.Out.Ask("/training/sequence_length", tool.AskLength, why)
	}
	if v, ok := s.Get("dataset.packed"); ok && v.On() {
		r.Out.Put("/training/attention_mask", "explicit", v)
	}
	if v, ok := s.Get("dtype"); ok && draft.Dtype(v.String()) != "" {
		r.Out.Put("/training/precision", draft.Dtype(v.String()), v)
	}
	if v, ok := s.Get("optimizer._component_"); ok {
		fused, _ := s.Get("optimizer.fused")
		r.OptimizerClass(v, fused)
	}
	if v, ok := r.In.FirstOn("optimizer_in_bwd"); ok {
		o, _ := r.Out.Fields["/training/optimizer"].Value.(draft.Optimizer)
		r.Out.Put("/training/optimizer", map[string]any{"name": o.Name, "implementation": o.Implementation,
			"in_backward": true}, v)
	}
	r.checkpointing()
	r.loss()
	if v, ok := s.Get("compile"); ok && v.On() {
		r.Out.Put("/training/compile", true, v)
	}
	r.shards(recipe)
	if v, ok := s.Get("run_val_every_n_steps"); ok && !v.Off() {
		if b, given := s.Get("batch_size_val"); given {
			r.NumberOf("/training/evaluation/micro_batch", "How many sequences does one GPU evaluate at a time?", b)
		}
	}
	s.Still(still...)
	s.Read("model*", "tokenizer*", "dataset*", "checkpointer*", "profiler*", "metric_logger*", "optimizer*", "loss*",
		"custom_sharded_layers", "lr_scheduler*", "ac_mode", "ac_option")
}

func (r *job) model() {
	s := r.In
	v, ok := s.Get("model._component_")
	if !ok {
		r.Out.Ask("/model", "Which model is trained?", "model._component_ is not there")
		return
	}
	builder := v.String()[strings.LastIndexByte(v.String(), '.')+1:]
	name, adapters, quantized, dora := builder, false, s.On("model.quantize_base"), s.On("model.use_dora")
	for _, prefix := range []string{"qlora_", "qdora_", "lora_", "dora_"} {
		if rest, cut := strings.CutPrefix(name, prefix); cut {
			name, adapters = rest, true
			quantized = quantized || prefix[0] == 'q'
			dora = dora || strings.Contains(prefix, "dora")
			break
		}
	}
	name = strings.TrimSuffix(strings.TrimSuffix(name, "_base"), "_instruct")
	preset, known := models[name]
	if known {
		r.Out.Put("/model/preset", preset, v)
	} else if strings.Contains(builder, "vision") || strings.Contains(builder, "flux") ||
		strings.Contains(builder, "clip") {
		r.Out.Refuse("model-kind", v.Origin.At, "%s is a model of pictures and text, which is not turned into a job",
			builder)
	} else {
		r.Out.Ask("/model", "Which model does "+v.String()+" build? Give its config.json.", v.Origin.At.Where())
	}
	if !adapters {
		return
	}
	if rank, given := s.Get("model.lora_rank"); given {
		r.NumberOf("/training/lora/rank", "Of which rank are the adapters?", rank)
	} else {
		r.Out.Fall("/training/lora/rank", int64(8), "lora_rank", "torchtune 0.6 models/llama3/_model_builders.py")
	}
	if d, given := s.Get("model.lora_dropout"); given {
		if f, isFloat := d.Float(); isFloat {
			r.Out.Put("/training/lora/dropout", f, d)
		}
	}
	var list []string
	modules, _ := s.Get("model.lora_attn_modules")
	for _, m := range modules.Strings() {
		if m == "output_proj" { // torchtune's name for o_proj
			m = "o_proj"
		}
		list = append(list, m)
	}
	if s.On("model.apply_lora_to_mlp") {
		list = append(list, "gate_proj", "up_proj", "down_proj")
	}
	if s.On("model.apply_lora_to_output") {
		list = append(list, "lm_head")
	}
	if len(list) > 0 {
		r.Out.Put("/training/lora/target_modules", list, modules)
	}
	if dora {
		r.Out.Put("/training/lora/dora", true, v)
	}
	base := draft.Dtype(s.Text("dtype"))
	if base != "" {
		d, _ := s.Get("dtype")
		r.Out.Put("/training/lora/adapter_dtype", base, d)
		r.Out.Put("/training/lora/base_precision", base, d)
	}
	if quantized {
		r.Out.Put("/training/lora/base_precision", "nf4", v)
	}
}

func (r *job) checkpointing() {
	const pointer = "/training/gradient_checkpointing"
	v, ok := r.In.Get("enable_activation_checkpointing")
	offload, offloads := r.In.FirstOn("enable_activation_offloading")
	switch {
	case ok && v.On() && offloads:
		r.Out.Put(pointer, draft.Offloaded, offload)
	case ok && v.On():
		r.Out.Put(pointer, "full", v)
	case offloads:
		r.Out.Refuse("unsupported", offload.Origin.At, "enable_activation_offloading without "+
			"checkpointing is not modelled")
	case ok:
		r.Out.Put(pointer, "none", v)
	}
}

// loss: both of its losses work on 8 chunks; one makes the logits chunk by chunk too (0.6 modules/loss).
func (r *job) loss() {
	v, ok := r.In.Get("loss._component_")
	if !ok {
		return
	}
	head := ""
	switch name := v.String()[strings.LastIndexByte(v.String(), '.')+1:]; name {
	case "LinearCrossEntropyLoss":
		head = "chunked"
	case "CEWithChunkedOutputLoss":
		head = "whole"
	case "CrossEntropyLoss":
		r.Out.Put("/training/loss", "standard", v)
		return
	default:
		r.Out.Refuse("objective", v.Origin.At, "the loss %s is not modelled", name)
		return
	}
	chunks := int64(8)
	if n, given := r.In.Get("loss.num_output_chunks"); given {
		if i, isInt := n.Int(); isInt {
			chunks = i
		}
	}
	r.Out.Put("/training/loss", map[string]any{"kind": "chunked", "chunks": chunks, "head": head}, v)
}

func (r *job) shards(recipe string) {
	from := setting.Value{Text: recipe, Origin: setting.Origin{Kind: setting.Argument, Key: "recipe",
		At: r.Program.Origin.At}}
	if key := r.spreads(); recipe == "" && key != "" {
		recipe = "distributed"
		from, _ = r.In.Peek(key)
	}
	if !strings.Contains(recipe, "distributed") {
		if recipe == "" {
			return
		}
		r.Fixed(launch.Count{N: 1, Known: true, How: "a recipe for one device"})
		return
	}
	if r.Launcher == "tune" && len(r.Own.Keys()) == 0 {
		// _cli/run.py _is_distributed_args: without an option of torchrun the recipe runs as it is, and
		// init_process_group finds no rank
		r.Out.Refuse("cannot-start", r.At, "%s is started without --nproc_per_node, and no process group comes about: say "+
			"tune run --nproc_per_node N %s", recipe, recipe)
	}
	r.Out.Put("/training/distributed/data", "fsdp", from)
	r.Out.Fall("/training/distributed/fsdp_version", int64(2), "fully_shard", "torchtune 0.6 training/_distributed.py")
	r.Degree("/training/distributed/tensor_parallel", "tensor_parallel_dim")
	r.Degree("/training/distributed/context_parallel", "context_parallel_dim")
	if v, ok := r.In.Get("fsdp_reshard_after_forward"); ok {
		on, _ := v.Bool()
		r.Out.Put("/training/distributed/reshard_after_forward", on, v)
	}
	if v, ok := r.In.FirstOn("fsdp_cpu_offload"); ok {
		r.Out.Put("/training/distributed/offload_parameters", true, v)
	}
	if r.Degree("", "data_parallel_replicate_dim") > 1 {
		v, _ := r.In.Get("data_parallel_replicate_dim")
		r.Out.Ask("/training/distributed/data", "Over how many GPUs is one copy of the model dealt out?",
			v.Origin.At.Where())
	}
	r.In.Read("data_parallel_shard_dim", "tensor_parallel_plan*")
}

// spreads is a setting that only the recipes for several devices have (torchtune 0.6
// recipes/full_finetune_distributed.py), "" where there is none.
func (r *job) spreads() string {
	for _, key := range []string{"fsdp_cpu_offload", "tensor_parallel_dim", "data_parallel_shard_dim",
		"data_parallel_replicate_dim", "context_parallel_dim", "fsdp_reshard_after_forward"} {
		if r.In.Has(key) {
			return key
		}
	}
	return ""
}

var words = tool.Words{"/training/micro_batch": tool.CountWord("batch_size"),
	"/training/gradient_accumulation":  tool.CountWord("gradient_accumulation_steps"),
	"/training/sequence_length":        tool.CountWord("tokenizer.max_seq_len"),
	"/training/gradient_checkpointing": tool.ChoiceWord("enable_activation_checkpointing", tool.OnOff)}
