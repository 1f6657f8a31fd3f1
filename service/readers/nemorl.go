package readers

import (
	"cmp"
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// nemoRLTool reads the supervised fine-tuning of NeMo-RL: its YAML with the files that "defaults" names, and overrides.
var nemoRLTool = tool{
	name:   "nemo-rl",
	starts: (*reading).nemoRLStarts,
	marks: map[string]int{"policy.train_micro_batch_size": 5, "policy.max_total_sequence_length": 2,
		"policy.dtensor_cfg*": 2, "policy.model_name": 1},
	read: (*reading).readNemoRL,
	words: words{"/training/micro_batch": countWord("policy.train_micro_batch_size"),
		"/training/sequence_length":        countWord("policy.max_total_sequence_length"),
		"/training/gradient_checkpointing": choiceWord("policy.dtensor_cfg.activation_checkpointing", onOff)},
}

// refNemoRL is where the policy's model is made: weights in float32, FSDP2's mixed precision in policy.precision.
const refNemoRL = "NeMo-RL nemo_rl/models/policy/dtensor_policy_worker.py"

// nemoRLStarts recognises examples/run_sft.py with --config FILE and overrides of the form key=value.
func (r *reading) nemoRLStarts() bool {
	if name := r.base(); name != "run_sft.py" && name != "run_sft" {
		return false
	}
	var v setting.Value
	for i, w := range r.args {
		if text := w.Text; text == "--config" && i+1 < len(r.args) {
			v = r.args[i+1].argument("config")
		} else if value, ok := strings.CutPrefix(text, "--config="); ok && value != "" {
			v = w.cut(len("--config=")).argument("config")
		}
		if w.open() {
			r.openWord(w)
		}
	}
	if v.Text == "" {
		return false
	}
	s, _, err := r.load(v)
	if err == nil && !s.Any("policy", "defaults", "sft", "cluster") {
		return false
	}
	r.s = overrides(r.args)
	r.under(v)
	return true
}

// inherited lays the files that "defaults" names under the settings, theirs under those of the file that names them
// (nemo_rl/utils/config.py load_config_with_inheritance).
func (r *reading) inherited() {
	at := r.file
	for range 5 {
		v, ok := r.s.Get("defaults")
		names := v.Strings()
		if !ok || len(names) == 0 {
			return
		}
		r.s.Replace("defaults", setting.Value{Origin: v.Origin})
		merged := setting.New()
		for _, name := range names {
			s, full, err := r.loadName(name, path.Dir(at))
			if err != nil {
				r.d.refuse("missing-file", v.Origin.At, "the configuration %s, from which this one inherits, is not "+
					"there: hand it over too", name)
				return
			}
			merged.Over(s)
			at = full
		}
		names = merged.Keys()
		for _, key := range names {
			x, _ := merged.Peek(key)
			if old, mine := r.s.Peek(key); !mine || key == "defaults" && !old.Given() {
				r.s.Set(key, x)
			}
		}
	}
}

func (r *reading) readNemoRL() {
	r.inherited()
	s := r.s
	interpolate(s)
	for _, kind := range []string{"grpo", "dpo", "rm", "distillation"} {
		if v, ok := s.Get(kind); ok {
			r.refuseObjective(kind, v.Origin.At)
			return
		}
	}
	if v, ok := r.s.FirstOn("policy.megatron_cfg.enabled"); ok {
		r.d.refuse("unsupported", v.Origin.At, "NeMo-RL hands the model to Megatron (policy.megatron_cfg.enabled), "+
			"whose settings there are not read")
		return
	}
	r.d.derive("/training/framework", "pytorch", "NeMo-RL trains with a loop of its own")
	r.model("policy.model_name")
	r.number("/training/micro_batch", askMicroBatch, "policy.train_micro_batch_size")
	r.number("/training/sequence_length", askLength, "policy.max_total_sequence_length")
	r.nemoRLWorld()
	r.nemoRLPrecision()
	r.nemoRLOptimizer()
	r.nemoRLAdapters()
	if v, ok := s.Get("policy.dtensor_cfg.activation_checkpointing"); ok && v.On() {
		r.d.put("/training/gradient_checkpointing", "full", v)
	} else if ok {
		r.d.put("/training/gradient_checkpointing", "none", v)
	}
	if v, ok := s.Get("sft.val_micro_batch_size"); ok { // one that is not larger holds less than a step of the training
		n, isInt := v.Int()
		if micro, set := r.d.int("/training/micro_batch"); isInt && set && n > micro {
			r.d.put("/training/evaluation/micro_batch", n, v)
		}
	}
	r.asksAll("policy.dynamic_batching.enabled", "policy.sequence_packing.enabled",
		"policy.dtensor_cfg.custom_parallel_plan", "policy.draft.enabled")
	s.Read("sft*", "checkpointing*", "data*", "logger*", "cluster*", "policy.tokenizer*", "policy.dynamic_batching*",
		"policy.sequence_packing*", "policy.megatron_cfg*", "policy.scheduler*", "policy.optimizer*",
		"policy.make_sequence_length_divisible_by", "policy.max_grad_norm", "policy.offload_optimizer_for_logprob",
		"policy.generation*", "policy.dtensor_cfg.env_vars*", "policy.dtensor_cfg.clear_cache*",
		"policy.dtensor_cfg.lora_cfg*", "policy.dtensor_cfg._v2", "policy.dtensor_cfg.enabled",
		"policy.dtensor_cfg.dp_replicate_size", "policy.logprob_batch_size", "policy.hf_config_overrides", "defaults")
	if v, ok := s.Get("policy.hf_config_overrides"); ok && !v.Off() {
		r.d.askWord(v)
	}
}

// nemoRLWorld deals the model out over all GPUs of the cluster by FSDP2.
func (r *reading) nemoRLWorld() {
	s := r.s
	per, okP := s.Get("cluster.gpus_per_node")
	nodes, okN := s.Get("cluster.num_nodes")
	r.counted = func() count {
		if !okP {
			return count{why: "cluster.gpus_per_node is not there"}
		}
		if !okN {
			return known(per)
		}
		return times(known(per), known(nodes))
	}
	parallel := r.degree("/training/distributed/tensor_parallel", "policy.dtensor_cfg.tensor_parallel_size") *
		r.degree("/training/distributed/context_parallel", "policy.dtensor_cfg.context_parallel_size")
	if w := r.gpus(); !w.known || w.n > 1 {
		from, _ := s.Get("policy.dtensor_cfg.enabled")
		r.d.put("/training/distributed/data", "fsdp", from)
		r.d.put("/training/distributed/fsdp_version", int64(2), from)
		if v, ok := r.s.FirstOn("policy.dtensor_cfg.sequence_parallel"); ok && parallel > 1 {
			r.d.put("/training/distributed/sequence_parallel", true, v)
		}
		if v, ok := s.Get("policy.dtensor_cfg.dp_replicate_size"); ok {
			if n, isInt := v.Int(); !isInt || n > 1 {
				r.d.askWord(v)
			}
		}
	}
	r.sharded = true
	if v, ok := r.s.FirstOn("policy.dtensor_cfg.cpu_offload"); ok {
		r.d.put("/training/distributed/offload_parameters", true, v)
	}
	if v, ok := s.Get("policy.train_global_batch_size"); ok {
		r.accumulate(v, parallel)
	}
}

func (r *reading) nemoRLPrecision() {
	v, ok := r.s.Get("policy.precision")
	switch kind := dtype(v.String()); {
	case !ok || v.Unknown != "" || kind == "":
		r.d.ask("/training/precision", "In which precision does it train?", v.Origin.At.Where()+" policy.precision is "+
			cmp.Or(v.Text, "not there"))
	case kind == "fp32":
		r.d.put("/training/precision", kind, v)
	default:
		r.d.put("/training/precision", "amp-"+kind, v)
	}
}

func (r *reading) nemoRLOptimizer() {
	v, ok := r.s.Get("policy.optimizer.name")
	if !ok {
		r.d.ask("/training/optimizer", "Which optimizer?", "policy.optimizer.name is not there")
		return
	}
	fused, _ := r.s.Get("policy.optimizer.kwargs.fused")
	r.optimizerClass(v, fused)
	if each, given := r.s.Get("policy.optimizer.kwargs.foreach"); given && !each.On() && !fused.On() &&
		v.String() == "torch.optim.AdamW" {
		r.d.put("/training/optimizer", optimizer{"adamw", "for-loop"}, v)
	}
}

func (r *reading) nemoRLAdapters() {
	const group = "policy.dtensor_cfg.lora_cfg."
	on, ok := r.s.FirstOn(group + "enabled")
	if !ok {
		return
	}
	if !r.number("/training/lora/rank", "Of which rank are the adapters?", group+"dim") {
		r.d.put("/training/lora/dropout", 0.0, on)
		r.d.ask("/training/lora/rank", "Of which rank are the adapters?", on.Origin.At.Where()+
			" trains adapters, and nothing says their rank")
	}
	if v, given := r.s.Get(group + "dropout"); given {
		if f, isFloat := v.Float(); isFloat {
			r.d.put("/training/lora/dropout", f, v)
		}
	}
	if v, given := r.s.Get(group + "target_modules"); given && !v.Off() && !r.s.On(group+"match_all_linear") {
		r.d.put("/training/lora/target_modules", targets(v), v)
	} else {
		r.d.put("/training/lora/target_modules", []string{"all-linear"}, on)
	}
	r.d.fall("/training/lora/base_precision", "fp32", "policy.precision", refNemoRL)
}

// nemoMarks are keys of the files of NeMo itself, whose models are classes of its own.
var nemoMarks = map[string]int{"exp_manager*": 3, "trainer.devices": 2, "model.micro_batch_size": 2,
	"model.global_batch_size": 2, "model.megatron_amp_O2": 4, "model.tensor_model_parallel_size": 2,
	"step_scheduler.local_batch_size": 4, "step_scheduler.global_batch_size": 2}

// nemoTool names NeMo's own configurations in order to refuse them.
var nemoTool = tool{
	name: "nemo", marks: nemoMarks,
	read: (*reading).readNemo,
}

func (r *reading) readNemo() {
	v, _ := r.s.Get("model.micro_batch_size", "step_scheduler.local_batch_size", "trainer.devices")
	what := "NeMo"
	if strings.HasPrefix(v.Origin.Key, "step_scheduler") {
		what = "NeMo AutoModel"
	}
	r.d.refuse("model-kind", v.Origin.At, "%s's configuration is not read: its model and its engine are "+
		"classes of its own", what)
}
