// Package torchtitan reads torchtitan's TOML and its registries in Python.
package torchtitan

import (
	"path"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// name is the reader's.
const name = "torchtitan"

// Tool reads torchtitan's TOML with the options of its command line.
var Tool = tool.Tool{
	Name: name,
	Marks: map[string]int{"job.dump_folder": 4, "training.seq_len": 2, "model.flavor": 3,
		"training.local_batch_size": 2},
	New:     func(j *tool.Job) tool.Reader { return &job{Job: j} },
	Words:   words,
	Still:   stillText,
	Program: file,
}

// job is one job on its way through this tool.
type job struct {
	*tool.Job
}

const refTitan = "torchtitan@9810191bb~1 torchtitan/config/job_config.py:282"

// models are model.name and model.flavor by the model that they are.
var models = map[string]string{
	"llama3/8B": "meta-llama/Llama-3.1-8B", "llama3/70B": "meta-llama/Llama-3.1-70B",
	"llama3/405B": "meta-llama/Llama-3.1-405B", "llama2/7B": "meta-llama/Llama-2-7b-hf",
	"llama2/13B": "meta-llama/Llama-2-13b-hf", "llama2/70B": "meta-llama/Llama-2-70b-hf",
	"qwen3/0.6B": "Qwen/Qwen3-0.6B", "qwen3/1.7B": "Qwen/Qwen3-1.7B", "qwen3/4B": "Qwen/Qwen3-4B",
	"qwen3/8B": "Qwen/Qwen3-8B", "qwen3/14B": "Qwen/Qwen3-14B", "qwen3/32B": "Qwen/Qwen3-32B",
	"llama3/1B": "meta-llama/Llama-3.2-1B", "llama3/3B": "meta-llama/Llama-3.2-3B",
	"qwen3/30B-A3B": "Qwen/Qwen3-30B-A3B", "qwen3/235B-A22B": "Qwen/Qwen3-235B-A22B",
	"gpt_oss/20b": "openai/gpt-oss-20b", "gpt_oss/120b": "openai/gpt-oss-120b",
	"deepseek_v3/671B": "deepseek-ai/DeepSeek-V3", "deepseek_v3/16B": "deepseek-ai/DeepSeek-V2-Lite",
}

// Starts recognises the tool in a command, and gathers its settings.
func (r *job) Starts() bool {
	s, _, _ := argv.Options(r.Args, nil)
	base := r.Base()
	v, ok := s.Get("job.config_file")
	if module, function, named := r.function(s); named && !ok {
		r.In = s
		r.counted()
		r.built(module, function)
		return true
	}
	if !ok && strings.HasPrefix(base, "run_") && strings.HasSuffix(base, ".sh") {
		w, given := r.Env("CONFIG_FILE")
		if !given {
			return false
		}
		v, ok = launch.Environment(w, "CONFIG_FILE"), true
		r.counted()
	}
	if !ok || path.Ext(v.String()) != ".toml" {
		return false
	}
	r.In = s
	r.Under(v)
	return true
}

// counted counts the processes as run_train.sh starts them.
func (r *job) counted() {
	if !strings.HasSuffix(r.Base(), ".sh") {
		return
	}
	r.Counted = func() launch.Count {
		if w, given := r.Env("NGPU"); given {
			return launch.CountOf(launch.Environment(w, "NGPU"))
		}
		return launch.Count{N: 8, Known: true, How: "NGPU is 8 in run_train.sh", From: setting.Value{
			Origin: setting.Origin{Kind: setting.Default, Key: "NGPU", Ref: "torchtitan run_train.sh"}}}
	}
}

// Read maps the settings to fields.
func (r *job) Read() {
	s := r.In
	r.Out.Derive("/training/framework", "torchtitan", "the tool")
	r.model()
	r.Number("/training/micro_batch", tool.AskMicroBatch, "training.local_batch_size", "training.batch_size")
	r.Number("/training/sequence_length", tool.AskLength, "training.seq_len")
	if v, ok := s.Get("optimizer.name"); ok {
		fused := setting.Value{Any: true}
		if i, given := s.Get("optimizer.implementation"); given {
			fused.Any = i.String() == "fused"
		} else if f, given := s.Get("optimizer.fused"); given {
			fused = f
		}
		r.OptimizerClass(v, fused)
	}
	r.Out.Fall("/training/precision", "bf16", "training.mixed_precision_param", refTitan)
	r.Out.Fall("/training/states/weights", "fp32", "training.dtype", refTitan)
	r.Out.Fall("/training/states/gradients", "fp32", "training.mixed_precision_reduce", refTitan)
	if v, ok := s.Get("training.mixed_precision_param"); ok && draft.Dtype(v.String()) == "fp32" {
		r.Out.Drop("/training/states")
		r.Out.Put("/training/precision", "fp32", v)
	}
	if v, ok := s.Get("training.dtype"); ok && draft.Dtype(v.String()) == "bf16" {
		r.Out.Put("/training/states/weights", "bf16", v)
	}
	r.checkpointing()
	r.shards()
	if v, ok := s.Get("compile.enable", "training.compile"); ok && v.On() {
		components, given := s.Get("compile.components")
		model, loss := true, true
		if given {
			model, loss = slices.Contains(components.Strings(), "model"), slices.Contains(components.Strings(), "loss")
		}
		if model && loss {
			r.Out.Put("/training/compile", true, v)
		} else {
			r.Out.Put("/training/compile", map[string]bool{"model": model, "loss": loss}, v)
		}
	}
	if v, ok := r.In.FirstOn("float8.enable_float8_linear"); ok {
		r.Out.Refuse("unsupported", v.Origin.At, "float8 linear layers are not modelled")
	}
	if v, ok := s.Get("model.converters"); ok && !v.Off() {
		r.Out.Refuse("unsupported", v.Origin.At, "the converters %s change the model's layers, which is not modelled",
			strings.Join(v.Strings(), ", "))
	}
	s.Still(still...)
	s.Read("profiling*", "metrics*", "checkpoint*", "lr_scheduler*", "job*", "validation*", "comm*", "fault_tolerance*",
		"float8*", "quantize*", "mx*", "dataloader*", "optimizer*", "training.dataset*",
		"training.max_norm", "training.steps", "training.warmup_steps", "training.data_processing_style",
		"training.representation_type", "experimental.custom_*", "model*", "training.seed", "training.gc_freq",
		"debug*")
}

func (r *job) model() {
	name, ok := r.In.Get("model.name")
	flavor := r.In.Text("model.flavor")
	if !ok {
		r.Out.Ask("/model", "Which model is trained?", "model.name is not there")
		return
	}
	if preset, known := models[name.String()+"/"+flavor]; known {
		r.Out.Put("/model/preset", preset, name)
		return
	}
	r.Out.Ask("/model", "What is "+name.String()+" "+flavor+"? Give its config.json.", name.Origin.At.Where()+
		" names a model of torchtitan's own, or of a fork")
}

func (r *job) checkpointing() {
	const pointer = "/training/gradient_checkpointing"
	v, ok := r.In.Get("activation_checkpoint.mode")
	option, _ := r.In.Get("activation_checkpoint.selective_ac_option")
	n, isInt := option.Int()
	switch {
	case !ok:
		r.Out.Fall(pointer, "selective-op", "activation_checkpoint.mode",
			"torchtitan@9810191bb~1 torchtitan/config/job_config.py ActivationCheckpoint")
	case v.String() == "selective" && isInt:
		r.Out.Put(pointer, map[string]any{"every": n}, option)
	case v.String() == "selective":
		r.Out.Put(pointer, "selective-op", v)
	case v.String() == "full" || v.String() == "none":
		r.Out.Put(pointer, v.String(), v)
	default:
		r.Out.Refuse("unsupported", v.Origin.At, "activation checkpointing of mode %s is not modelled", v.String())
	}
	r.In.Read("activation_checkpoint*")
}

func (r *job) shards() {
	s := r.In
	r.Out.Fall("/training/distributed/data", "fsdp", "parallelism.data_parallel_shard_degree", refTitan)
	r.Out.Fall("/training/distributed/fsdp_version", int64(2), "fully_shard", refTitan)
	tp := r.Degree("/training/distributed/tensor_parallel", "parallelism.tensor_parallel_degree",
		"training.tensor_parallel_degree")
	if tp > 1 {
		v, _ := s.Get("parallelism.tensor_parallel_degree", "training.tensor_parallel_degree")
		if off, given := s.Get("parallelism.disable_loss_parallel"); !given || !off.On() {
			r.Out.Put("/training/distributed/sequence_parallel", true, v)
		}
	}
	cp := r.Degree("/training/distributed/context_parallel", "parallelism.context_parallel_degree",
		"experimental.context_parallel_degree")
	pp := r.Degree("/training/distributed/pipeline_parallel", "parallelism.pipeline_parallel_degree",
		"experimental.pipeline_parallel_degree")
	ep := r.Degree("/training/distributed/expert_parallel", "parallelism.expert_parallel_degree")
	if v, ok := s.Get("parallelism.expert_tensor_parallel_degree"); ok && ep > 1 {
		if n, _ := v.Int(); n != 1 {
			r.Out.Refuse("unsupported", v.Origin.At, "experts that GPUs share by their matrices, too "+
				"(expert_tensor_parallel_degree %s), are not modelled; 1 is", v.String())
		}
	}
	if v, ok := r.In.FirstOn("parallelism.enable_async_tensor_parallel"); ok && tp > 1 {
		r.Out.Put("/training/distributed/async_tensor_parallel", true, v)
	}
	if v, ok := s.Get("parallelism.fsdp_reshard_after_forward"); ok && v.String() != "default" {
		r.Out.Put("/training/distributed/reshard_after_forward", v.String() == "always", v)
	}
	if r.Degree("", "parallelism.data_parallel_replicate_degree") > 1 {
		v, _ := s.Get("parallelism.data_parallel_replicate_degree")
		if r.Degree("/training/distributed/shard_group", "parallelism.data_parallel_shard_degree") < 2 {
			r.Out.Ask("/training/distributed/data", "Over how many GPUs is one copy of the model dealt out?",
				v.Origin.At.Where())
		}
	}
	if v, ok := r.In.FirstOn("training.enable_cpu_offload"); ok {
		r.Out.Put("/training/distributed/offload_parameters", true, v)
	}
	if pp > 1 { // a schedule goes through one batch; where several make a step they follow each other
		r.pipeline(pp)
	} else if v, ok := s.Get("training.gradient_accumulation_steps"); ok {
		r.NumberOf("/training/gradient_accumulation", tool.AskAccumulation, v)
	} else if v, ok := s.Get("training.global_batch_size"); ok && !strings.HasPrefix(v.Text, "-") {
		r.Accumulate(v, tp*cp*pp)
	}
	s.Read("parallelism.data_parallel_shard_degree", "training.data_parallel_degree") // what the others leave
	r.Loose("parallelism*", "training.pipeline_parallel_degree", "training.context_parallel_degree",
		"training.expert_parallel_degree", "experimental*")
}

var words = tool.Words{"/training/micro_batch": tool.CountWord("training.local_batch_size"),
	"/training/sequence_length": tool.CountWord("training.seq_len")}
