package readers

import (
	"path"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// torchtitanTool reads torchtitan's TOML with the options of its command line.
var torchtitanTool = tool{
	name:   "torchtitan",
	starts: (*reading).torchtitanStarts,
	marks: map[string]int{"job.dump_folder": 4, "training.seq_len": 2, "model.flavor": 3,
		"training.local_batch_size": 2},
	read:  (*reading).readTorchtitan,
	words: torchtitanWords,
}

const refTitan = "torchtitan@9810191bb~1 torchtitan/config/job_config.py:282"

// torchtitanModels are model.name and model.flavor by the model that they are.
var torchtitanModels = map[string]string{
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

func (r *reading) torchtitanStarts() bool {
	s, _, _ := options(r.args, nil)
	base := r.base()
	v, ok := s.Get("job.config_file")
	if module, function, named := r.titanFunction(s); named && !ok {
		r.s = s
		r.titanCounted()
		r.titanBuilt(module, function)
		return true
	}
	if !ok && strings.HasPrefix(base, "run_") && strings.HasSuffix(base, ".sh") {
		w, given := r.env("CONFIG_FILE")
		if !given {
			return false
		}
		v, ok = environment(w, "CONFIG_FILE"), true
		r.titanCounted()
	}
	if !ok || path.Ext(v.String()) != ".toml" {
		return false
	}
	r.s = s
	r.under(v)
	return true
}

// titanCounted counts the processes as run_train.sh starts them.
func (r *reading) titanCounted() {
	if !strings.HasSuffix(r.base(), ".sh") {
		return
	}
	r.counted = func() count {
		if w, given := r.env("NGPU"); given {
			return known(environment(w, "NGPU"))
		}
		return count{n: 8, known: true, how: "NGPU is 8 in run_train.sh", from: setting.Value{
			Origin: setting.Origin{Kind: setting.Default, Key: "NGPU", Ref: "torchtitan run_train.sh"}}}
	}
}

func (r *reading) readTorchtitan() {
	s := r.s
	r.d.derive("/training/framework", "torchtitan", "the tool")
	r.torchtitanModel()
	r.number("/training/micro_batch", askMicroBatch, "training.local_batch_size", "training.batch_size")
	r.number("/training/sequence_length", askLength, "training.seq_len")
	if v, ok := s.Get("optimizer.name"); ok {
		fused := setting.Value{Any: true}
		if i, given := s.Get("optimizer.implementation"); given {
			fused.Any = i.String() == "fused"
		} else if f, given := s.Get("optimizer.fused"); given {
			fused = f
		}
		r.optimizerClass(v, fused)
	}
	r.d.fall("/training/precision", "bf16", "training.mixed_precision_param", refTitan)
	r.d.fall("/training/states/weights", "fp32", "training.dtype", refTitan)
	r.d.fall("/training/states/gradients", "fp32", "training.mixed_precision_reduce", refTitan)
	if v, ok := s.Get("training.mixed_precision_param"); ok && dtype(v.String()) == "fp32" {
		r.d.drop("/training/states")
		r.d.put("/training/precision", "fp32", v)
	}
	if v, ok := s.Get("training.dtype"); ok && dtype(v.String()) == "bf16" {
		r.d.put("/training/states/weights", "bf16", v)
	}
	r.torchtitanCheckpointing()
	r.torchtitanShards()
	if v, ok := s.Get("compile.enable", "training.compile"); ok && v.On() {
		components, given := s.Get("compile.components")
		model, loss := true, true
		if given {
			model, loss = slices.Contains(components.Strings(), "model"), slices.Contains(components.Strings(), "loss")
		}
		if model && loss {
			r.d.put("/training/compile", true, v)
		} else {
			r.d.put("/training/compile", map[string]bool{"model": model, "loss": loss}, v)
		}
	}
	if v, ok := r.s.FirstOn("float8.enable_float8_linear"); ok {
		r.d.refuse("unsupported", v.Origin.At, "float8 linear layers are not modelled")
	}
	if v, ok := s.Get("model.converters"); ok && !v.Off() {
		r.d.refuse("unsupported", v.Origin.At, "the converters %s change the model's layers, which is not modelled",
			strings.Join(v.Strings(), ", "))
	}
	s.Still(torchtitanStill...)
	s.Read("profiling*", "metrics*", "checkpoint*", "lr_scheduler*", "job*", "validation*", "comm*", "fault_tolerance*",
		"float8*", "quantize*", "mx*", "dataloader*", "optimizer*", "training.dataset*",
		"training.max_norm", "training.steps", "training.warmup_steps", "training.data_processing_style",
		"training.representation_type", "experimental.custom_*", "model*", "training.seed", "training.gc_freq",
		"debug*")
}

func (r *reading) torchtitanModel() {
	name, ok := r.s.Get("model.name")
	flavor := r.s.Text("model.flavor")
	if !ok {
		r.d.ask("/model", "Which model is trained?", "model.name is not there")
		return
	}
	if preset, known := torchtitanModels[name.String()+"/"+flavor]; known {
		r.d.put("/model/preset", preset, name)
		return
	}
	r.d.ask("/model", "What is "+name.String()+" "+flavor+"? Give its config.json.", name.Origin.At.Where()+
		" names a model of torchtitan's own, or of a fork")
}

func (r *reading) torchtitanCheckpointing() {
	const pointer = "/training/gradient_checkpointing"
	v, ok := r.s.Get("activation_checkpoint.mode")
	option, _ := r.s.Get("activation_checkpoint.selective_ac_option")
	n, isInt := option.Int()
	switch {
	case !ok:
		r.d.fall(pointer, "selective-op", "activation_checkpoint.mode",
			"torchtitan@9810191bb~1 torchtitan/config/job_config.py ActivationCheckpoint")
	case v.String() == "selective" && isInt:
		r.d.put(pointer, map[string]any{"every": n}, option)
	case v.String() == "selective":
		r.d.put(pointer, "selective-op", v)
	case v.String() == "full" || v.String() == "none":
		r.d.put(pointer, v.String(), v)
	default:
		r.d.refuse("unsupported", v.Origin.At, "activation checkpointing of mode %s is not modelled", v.String())
	}
	r.s.Read("activation_checkpoint*")
}

func (r *reading) torchtitanShards() {
	s := r.s
	r.d.fall("/training/distributed/data", "fsdp", "parallelism.data_parallel_shard_degree", refTitan)
	r.d.fall("/training/distributed/fsdp_version", int64(2), "fully_shard", refTitan)
	tp := r.degree("/training/distributed/tensor_parallel", "parallelism.tensor_parallel_degree",
		"training.tensor_parallel_degree")
	if tp > 1 {
		v, _ := s.Get("parallelism.tensor_parallel_degree", "training.tensor_parallel_degree")
		if off, given := s.Get("parallelism.disable_loss_parallel"); !given || !off.On() {
			r.d.put("/training/distributed/sequence_parallel", true, v)
		}
	}
	cp := r.degree("/training/distributed/context_parallel", "parallelism.context_parallel_degree",
		"experimental.context_parallel_degree")
	pp := r.degree("/training/distributed/pipeline_parallel", "parallelism.pipeline_parallel_degree",
		"experimental.pipeline_parallel_degree")
	ep := r.degree("/training/distributed/expert_parallel", "parallelism.expert_parallel_degree")
	if v, ok := s.Get("parallelism.expert_tensor_parallel_degree"); ok && ep > 1 {
		if n, _ := v.Int(); n != 1 {
			r.d.refuse("unsupported", v.Origin.At, "experts that GPUs share by their matrices, too "+
				"(expert_tensor_parallel_degree %s), are not modelled; 1 is", v.String())
		}
	}
	if v, ok := r.s.FirstOn("parallelism.enable_async_tensor_parallel"); ok && tp > 1 {
		r.d.put("/training/distributed/async_tensor_parallel", true, v)
	}
	if v, ok := s.Get("parallelism.fsdp_reshard_after_forward"); ok && v.String() != "default" {
		r.d.put("/training/distributed/reshard_after_forward", v.String() == "always", v)
	}
	if r.degree("", "parallelism.data_parallel_replicate_degree") > 1 {
		v, _ := s.Get("parallelism.data_parallel_replicate_degree")
		if r.degree("/training/distributed/shard_group", "parallelism.data_parallel_shard_degree") < 2 {
			r.d.ask("/training/distributed/data", "Over how many GPUs is one copy of the model dealt out?",
				v.Origin.At.Where())
		}
	}
	if v, ok := r.s.FirstOn("training.enable_cpu_offload"); ok {
		r.d.put("/training/distributed/offload_parameters", true, v)
	}
	if pp > 1 { // a schedule goes through one batch; where several make a step they follow each other
		r.torchtitanPipeline(pp)
	} else if v, ok := s.Get("training.gradient_accumulation_steps"); ok {
		r.numberOf("/training/gradient_accumulation", askAccumulation, v)
	} else if v, ok := s.Get("training.global_batch_size"); ok && !strings.HasPrefix(v.Text, "-") {
		r.accumulate(v, tp*cp*pp)
	}
	s.Read("parallelism.data_parallel_shard_degree", "training.data_parallel_degree") // what the others leave
	r.loose("parallelism*", "training.pipeline_parallel_degree", "training.context_parallel_degree",
		"training.expert_parallel_degree", "experimental*")
}
