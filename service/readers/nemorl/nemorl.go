// Package nemorl reads NeMo-RL's configurations of supervised fine-tuning.
package nemorl

import (
	"cmp"
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/loops"
	"github.com/vramplan/vramplan/service/readers/models"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads the supervised fine-tuning of NeMo-RL: its YAML with the files that "defaults" names, and overrides.
var Tool = tool.Tool{
	Name: "nemo-rl",
	Marks: map[string]int{"policy.train_micro_batch_size": 5, "policy.max_total_sequence_length": 2,
		"policy.dtensor_cfg*": 2, "policy.model_name": 1},
	New: func(j *tool.Job) tool.Reader { return &job{Job: loops.Of(j)} },
	Words: tool.Words{"/training/micro_batch": tool.CountWord("policy.train_micro_batch_size"),
		"/training/sequence_length":        tool.CountWord("policy.max_total_sequence_length"),
		"/training/gradient_checkpointing": tool.ChoiceWord("policy.dtensor_cfg.activation_checkpointing", tool.OnOff)},
}

// job is one job on its way through this tool.
type job struct {
	loops.Job
}

// refNemoRL is where the policy's model is made: weights in float32, FSDP2's mixed precision in policy.precision.
const refNemoRL = "NeMo-RL nemo_rl/models/policy/dtensor_policy_worker.py"

// Starts recognises examples/run_sft.py with --config FILE and overrides of the form key=value.
func (r *job) Starts() bool {
	if name := r.Base(); name != "run_sft.py" && name != "run_sft" {
		return false
	}
	var v setting.Value
	for i, w := range r.Args {
		if text := w.Text; text == "--config" && i+1 < len(r.Args) {
			v = r.Args[i+1].Argument("config")
		} else if value, ok := strings.CutPrefix(text, "--config="); ok && value != "" {
			v = w.Cut(len("--config=")).Argument("config")
		}
		if w.Open() {
			r.OpenWord(w)
		}
	}
	if v.Text == "" {
		return false
	}
	s, _, err := r.Load(v)
	if err == nil && !s.Any("policy", "defaults", "sft", "cluster") {
		return false
	}
	r.In = argv.Overrides(r.Args)
	r.Under(v)
	return true
}

// inherited lays the files that "defaults" names under the settings, theirs under those of the file that names them
// (nemo_rl/utils/config.py load_config_with_inheritance).
func (r *job) inherited() {
	at := r.File
	for range 5 {
		v, ok := r.In.Get("defaults")
		names := v.Strings()
		if !ok || len(names) == 0 {
			return
		}
		r.In.Replace("defaults", setting.Value{Origin: v.Origin})
		merged := setting.New()
		for _, name := range names {
			s, full, err := r.LoadName(name, path.Dir(at))
			if err != nil {
				r.Out.Refuse("missing-file", v.Origin.At, "the configuration %s, from which this one inherits, is not "+
					"there: hand it over too", name)
				return
			}
			merged.Over(s)
			at = full
		}
		names = merged.Keys()
		for _, key := range names {
			x, _ := merged.Peek(key)
			if old, mine := r.In.Peek(key); !mine || key == "defaults" && !old.Given() {
				r.In.Set(key, x)
			}
		}
	}
}

// Read maps the settings to fields.
func (r *job) Read() {
	r.inherited()
	s := r.In
	tool.Interpolate(s)
	for _, kind := range []string{"grpo", "dpo", "rm", "distillation"} {
		if v, ok := s.Get(kind); ok {
			r.RefuseObjective(kind, v.Origin.At)
			return
		}
	}
	if v, ok := r.In.FirstOn("policy.megatron_cfg.enabled"); ok {
		r.Out.Refuse("unsupported", v.Origin.At, "NeMo-RL hands the model to Megatron (policy.megatron_cfg.enabled), "+
			"whose settings there are not read")
		return
	}
	r.Out.Derive("/training/framework", "pytorch", "NeMo-RL trains with a loop of its own")
	r.Model("policy.model_name")
	r.Number("/training/micro_batch", tool.AskMicroBatch, "policy.train_micro_batch_size")
	r.Number("/training/sequence_length", tool.AskLength, "policy.max_total_sequence_length")
	r.world()
	r.precision()
	r.optimizer()
	r.adapters()
	if v, ok := s.Get("policy.dtensor_cfg.activation_checkpointing"); ok && v.On() {
		r.Out.Put("/training/gradient_checkpointing", "full", v)
	} else if ok {
		r.Out.Put("/training/gradient_checkpointing", "none", v)
	}
	if v, ok := s.Get("sft.val_micro_batch_size"); ok { // one that is not larger holds less than a step of the training
		n, isInt := v.Int()
		if micro, set := r.Out.Int("/training/micro_batch"); isInt && set && n > micro {
			r.Out.Put("/training/evaluation/micro_batch", n, v)
		}
	}
	r.AsksAll("policy.dynamic_batching.enabled", "policy.sequence_packing.enabled",
		"policy.dtensor_cfg.custom_parallel_plan", "policy.draft.enabled")
	s.Read("sft*", "checkpointing*", "data*", "logger*", "cluster*", "policy.tokenizer*", "policy.dynamic_batching*",
		"policy.sequence_packing*", "policy.megatron_cfg*", "policy.scheduler*", "policy.optimizer*",
		"policy.make_sequence_length_divisible_by", "policy.max_grad_norm", "policy.offload_optimizer_for_logprob",
		"policy.generation*", "policy.dtensor_cfg.env_vars*", "policy.dtensor_cfg.clear_cache*",
		"policy.dtensor_cfg.lora_cfg*", "policy.dtensor_cfg._v2", "policy.dtensor_cfg.enabled",
		"policy.dtensor_cfg.dp_replicate_size", "policy.logprob_batch_size", "policy.hf_config_overrides", "defaults")
	if v, ok := s.Get("policy.hf_config_overrides"); ok && !v.Off() {
		r.Out.AskWord(v)
	}
}

// world deals the model out over all GPUs of the cluster by FSDP2.
func (r *job) world() {
	s := r.In
	per, okP := s.Get("cluster.gpus_per_node")
	nodes, okN := s.Get("cluster.num_nodes")
	r.Counted = func() launch.Count {
		if !okP {
			return launch.Count{Why: "cluster.gpus_per_node is not there"}
		}
		if !okN {
			return launch.CountOf(per)
		}
		return launch.Times(launch.CountOf(per), launch.CountOf(nodes))
	}
	parallel := r.Degree("/training/distributed/tensor_parallel", "policy.dtensor_cfg.tensor_parallel_size") *
		r.Degree("/training/distributed/context_parallel", "policy.dtensor_cfg.context_parallel_size")
	if w := r.GPUs(); !w.Known || w.N > 1 {
		from, _ := s.Get("policy.dtensor_cfg.enabled")
		r.Out.Put("/training/distributed/data", "fsdp", from)
		r.Out.Put("/training/distributed/fsdp_version", int64(2), from)
		if v, ok := r.In.FirstOn("policy.dtensor_cfg.sequence_parallel"); ok && parallel > 1 {
			r.Out.Put("/training/distributed/sequence_parallel", true, v)
		}
		if v, ok := s.Get("policy.dtensor_cfg.dp_replicate_size"); ok {
			if n, isInt := v.Int(); !isInt || n > 1 {
				r.Out.AskWord(v)
			}
		}
	}
	r.Sharded = true
	if v, ok := r.In.FirstOn("policy.dtensor_cfg.cpu_offload"); ok {
		r.Out.Put("/training/distributed/offload_parameters", true, v)
	}
	if v, ok := s.Get("policy.train_global_batch_size"); ok {
		r.Accumulate(v, parallel)
	}
}

func (r *job) precision() {
	v, ok := r.In.Get("policy.precision")
	switch kind := draft.Dtype(v.String()); {
	case !ok || v.Unknown != "" || kind == "":
		r.Out.Ask("/training/precision", "In which precision does it train?", v.Origin.At.Where()+" policy.precision is "+
			cmp.Or(v.Text, "not there"))
	case kind == "fp32":
		r.Out.Put("/training/precision", kind, v)
	default:
		r.Out.Put("/training/precision", "amp-"+kind, v)
	}
}

func (r *job) optimizer() {
	v, ok := r.In.Get("policy.optimizer.name")
	if !ok {
		r.Out.Ask("/training/optimizer", "Which optimizer?", "policy.optimizer.name is not there")
		return
	}
	fused, _ := r.In.Get("policy.optimizer.kwargs.fused")
	r.OptimizerClass(v, fused)
	if each, given := r.In.Get("policy.optimizer.kwargs.foreach"); given && !each.On() && !fused.On() &&
		v.String() == "torch.optim.AdamW" {
		r.Out.Put("/training/optimizer", draft.Optimizer{Name: "adamw", Implementation: "for-loop"}, v)
	}
}

func (r *job) adapters() {
	const group = "policy.dtensor_cfg.lora_cfg."
	on, ok := r.In.FirstOn(group + "enabled")
	if !ok {
		return
	}
	if !r.Number("/training/lora/rank", "Of which rank are the adapters?", group+"dim") {
		r.Out.Put("/training/lora/dropout", 0.0, on)
		r.Out.Ask("/training/lora/rank", "Of which rank are the adapters?", on.Origin.At.Where()+
			" trains adapters, and nothing says their rank")
	}
	if v, given := r.In.Get(group + "dropout"); given {
		if f, isFloat := v.Float(); isFloat {
			r.Out.Put("/training/lora/dropout", f, v)
		}
	}
	if v, given := r.In.Get(group + "target_modules"); given && !v.Off() && !r.In.On(group+"match_all_linear") {
		r.Out.Put("/training/lora/target_modules", models.Targets(v), v)
	} else {
		r.Out.Put("/training/lora/target_modules", []string{"all-linear"}, on)
	}
	r.Out.Fall("/training/lora/base_precision", "fp32", "policy.precision", refNemoRL)
}
