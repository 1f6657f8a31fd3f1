// Package shards reads how a model is dealt out to GPUs: by DeepSpeed, by FSDP, by what accelerate launch says.
package shards

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/launch"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/source"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Job is a job whose model DeepSpeed, FSDP or accelerate may deal out.
type Job struct {
	*tool.Job
	// DeepSpeed is DeepSpeed's configuration; nil where there is none.
	DeepSpeed *setting.Settings
	// Shipped are the DeepSpeed files that the tool comes with, by their names below its repository.
	Shipped map[string]string
}

// Of is a job before anything is read of it.
func Of(j *tool.Job) Job { return Job{Job: j} }

// ReadFile reads the file of accelerate launch with the command line's options over it. Names are those of
// the options: zero_stage for deepspeed_config.zero_stage, fsdp_version for fsdp_config.fsdp_version.
func ReadFile(l *launch.Launch) {
	if l.Launcher != "accelerate" {
		return
	}
	l.Accelerate = setting.New()
	v, ok := l.Own.Get("config_file")
	if !ok {
		l.Problems = append(l.Problems, func(d *draft.Draft) {
			d.Assume("", "accelerate launch names no --config_file: the file in the user's home, which it takes then, "+
				"changes nothing")
		})
	}
	if ok {
		if v.Unknown != "" {
			why := fmt.Sprintf("%s is not known: %s", v.Origin.Key, v.Unknown)
			if at := v.Origin.At.Where(); at != "" {
				why += " (" + at + ")"
			}
			l.Problems = append(l.Problems, func(d *draft.Draft) {
				d.Ask("/training/distributed", "How is the model dealt out to the GPUs?", why)
			})
		} else if s, _, err := l.LoadName(v.String()); err != nil {
			l.Problems = append(l.Problems, func(d *draft.Draft) { MissingShards(d, v, err) })
		} else {
			l.Accelerate = Flat(s)
		}
	}
	l.Accelerate.Over(l.Own)
}

// Flat takes the prefixes of groups off an accelerate file's keys.
func Flat(s *setting.Settings) *setting.Settings {
	out := setting.New()
	for _, key := range s.Keys() {
		v, _ := s.Peek(key)
		name := key
		for _, group := range []string{"deepspeed_config.", "fsdp_config.", "dynamo_config.", "megatron_lm_config."} {
			name = strings.TrimPrefix(name, group)
		}
		if _, object := v.Any.(map[string]any); !object || name == "parallelism_config" {
			out.Set(name, v)
		}
	}
	return out
}

var stageInName = regexp.MustCompile(`(?i)(?:zero|stage|ds_?z|_z|deepspeed)[_-]?(?:stage)?[_-]?([0-3])`)

// MissingShards asks for a launcher's or DeepSpeed's file that is not there. Its name usually tells the stage, which is
// taken while the question stays open.
func MissingShards(d *draft.Draft, v setting.Value, err error) {
	name, at := v.String(), v.Origin.At
	if m := stageInName.FindStringSubmatch(name); m != nil && m[1] != "0" {
		d.Derive("/training/distributed/data", "zero"+m[1], "the name of %s", name)
		d.Assume("/training/distributed/data", "%s is of ZeRO stage %s, as its name says", name, m[1])
	} else if strings.Contains(strings.ToLower(name), "fsdp") {
		d.Derive("/training/distributed/data", "fsdp", "the name of %s", name)
		d.Assume("/training/distributed/data", "%s is of FSDP, as its name says", name)
	}
	d.Ask("/training/distributed/deepspeed", fmt.Sprintf("What does %s say?", name),
		fmt.Sprintf("%s names it, and %v", at.Where(), err))
}

// Shards reads how the model is dealt out: DeepSpeed's file or FSDP's options of the tool, then those of the launcher.
func (r *Job) Shards() {
	a := r.Accelerate
	if a == nil {
		return
	}
	kind := strings.ToUpper(a.Text("distributed_type"))
	a.Read("compute_environment", "debug", "downcast_bf16", "enable_cpu_affinity", "machine_rank", "main_*",
		"num_machines", "rdzv_backend", "same_network", "tpu_*", "mixed_precision", "use_deepspeed", "use_fsdp", "zero3_*")
	if a.On("use_cpu", "cpu") {
		r.Out.Refuse("no-gpu", r.At, "it trains on the CPU")
	}
	if file, ok := a.Get("deepspeed_config_file"); ok && (kind == "" || kind == "DEEPSPEED" || a.On("use_deepspeed")) {
		r.ReadDeepSpeed(file)
		return
	}
	switch {
	case r.Out.Has("/training/distributed/data"):
	case kind == "DEEPSPEED" || a.On("use_deepspeed"):
		r.acceleratePlugin(a)
	case kind == "FSDP" || a.On("use_fsdp"):
		r.accelerateFSDP(a)
	case kind == "MEGATRON_LM" || a.On("use_megatron_lm"):
		r.Out.Refuse("unsupported", r.At, "accelerate hands the model to Megatron-LM (distributed_type MEGATRON_LM); "+
			"its options there are not read")
	case kind == "TP" || a.Text("tp_size") != "" && a.Text("tp_size") != "1":
		r.Out.Refuse("unsupported", r.At, "accelerate's tensor parallelism (tp_size) is not read")
	}
	if v, ok := a.Get("dynamo_backend"); ok && v.Unknown == "" && !strings.EqualFold(v.String(), "no") {
		r.Out.Put("/training/compile", true, v)
	}
	if v, ok := a.Peek("parallelism_config"); ok && !v.Off() && !r.copies(v) {
		r.Out.AskWord(v)
	}
}

// copies reads a parallelism_config that deals a copy of the model out over some of the GPUs, and does nothing else.
// Source: accelerate 1.15, commands/config/config_args.py and parallelism_config.py (ParallelismConfig).
func (r *Job) copies(v setting.Value) bool {
	sizes, isObject := v.Any.(map[string]any)
	shard := int64(1)
	for key, any := range sizes {
		n, isInt := setting.Value{Any: any}.Int()
		switch strings.TrimPrefix(key, "parallelism_config_") {
		case "dp_shard_size":
			shard = n
		case "dp_replicate_size":
		default:
			isObject = isObject && isInt && n == 1
		}
		isObject = isObject && isInt && n >= 1
	}
	if !isObject || shard < 2 {
		return false
	}
	r.Out.Put("/training/distributed/shard_group", shard, v)
	return true
}

// acceleratePlugin reads accelerate's own DeepSpeed options. accelerate 1.12 utils/dataclasses.py DeepSpeedPlugin:
// zero_stage is 2 where it is not given.
func (r *Job) acceleratePlugin(a *setting.Settings) {
	stage := int64(2)
	if v, ok := a.Get("zero_stage"); ok {
		n, isInt := v.Int()
		if !isInt || n < 0 || n > 3 {
			r.Out.Ask("/training/distributed/data", "Which ZeRO stage?", v.Origin.At.Where()+" says "+v.Text)
			return
		}
		if stage = n; n > 0 {
			r.Out.Put("/training/distributed/data", fmt.Sprintf("zero%d", n), v)
		}
	} else {
		r.Out.Fall("/training/distributed/data", "zero2", "zero_stage",
			"accelerate 1.12 utils/dataclasses.py DeepSpeedPlugin")
	}
	r.Sharded = stage > 0
	for key, pointer := range map[string]string{"offload_optimizer_device": "/training/distributed/offload_optimizer",
		"offload_param_device": "/training/distributed/offload_parameters"} {
		if v, ok := a.Get(key); ok && v.Unknown == "" && v.String() != "none" && v.String() != "" {
			r.Out.Put(pointer, true, v)
		}
	}
}

// shardingStrategies are FSDP1's, by name and by accelerate's number (accelerate 1.12 utils/constants.py).
var shardingStrategies = map[string]string{
	"1": "FULL_SHARD", "2": "SHARD_GRAD_OP", "3": "NO_SHARD", "4": "HYBRID_SHARD", "5": "HYBRID_SHARD_ZERO2",
}

func (r *Job) accelerateFSDP(a *setting.Settings) {
	version := int64(1) // accelerate 1.12 utils/dataclasses.py FullyShardedDataParallelPlugin
	v, given := a.Get("fsdp_version")
	if n, ok := v.Int(); given && ok {
		version = n
		r.Out.Put("/training/distributed/fsdp_version", n, v)
	} else {
		r.Out.Fall("/training/distributed/fsdp_version", int64(1), "fsdp_version",
			"accelerate 1.12 utils/dataclasses.py FullyShardedDataParallelPlugin")
	}
	kind, _ := a.Get("distributed_type", "use_fsdp")
	r.Out.Put("/training/distributed/data", "fsdp", kind)
	if v, ok := a.Get("fsdp_reshard_after_forward"); ok && version == 2 {
		on, isBool := v.Bool()
		if isBool {
			r.Out.Put("/training/distributed/reshard_after_forward", on, v)
		}
	} else if v, ok := a.Get("fsdp_sharding_strategy", "fsdp_reshard_after_forward"); ok {
		r.Strategy(v)
	} else {
		r.Out.Fall("/training/distributed/reshard_after_forward", true, "fsdp_sharding_strategy",
			"accelerate 1.12 utils/dataclasses.py FullyShardedDataParallelPlugin")
	}
	if v, ok := a.Get("fsdp_offload_params"); ok {
		on, _ := v.Bool()
		r.Out.Put("/training/distributed/offload_parameters", on, v)
	}
	if a.On("fsdp_activation_checkpointing") {
		v, _ := a.Get("fsdp_activation_checkpointing")
		r.Out.Put("/training/gradient_checkpointing", "full", v)
	}
	a.Read("fsdp_*")
}

// Strategy reads FSDP1's sharding strategy.
func (r *Job) Strategy(v setting.Value) {
	name := strings.ToUpper(v.String())
	if long, ok := shardingStrategies[name]; ok {
		name = long
	}
	switch name {
	case "FULL_SHARD", "TRUE":
		r.Out.Put("/training/distributed/reshard_after_forward", true, v)
	case "SHARD_GRAD_OP", "FALSE":
		r.Out.Put("/training/distributed/reshard_after_forward", false, v)
	case "NO_SHARD":
		r.Out.Drop("/training/distributed")
	default:
		if !strings.Contains(name, "HYBRID") {
			r.Out.Ask("/training/distributed/data", fmt.Sprintf("Which sharding strategy is %q? FULL_SHARD, "+
				"SHARD_GRAD_OP, NO_SHARD and HYBRID_SHARD are known.", v.String()), v.Origin.At.Where())
			return
		}
		r.Out.Ask("/training/distributed/data", fmt.Sprintf("%s shards within a node and copies between nodes; over how "+
			"many GPUs is one copy dealt out?", name), v.Origin.At.Where())
	}
}

// ReadDeepSpeed reads a DeepSpeed configuration: a file's name, or JSON as it is.
func (r *Job) ReadDeepSpeed(v setting.Value) {
	r.Sharded = true
	if v.Unknown != "" {
		r.Out.Ask("/training/distributed/deepspeed", "Which DeepSpeed configuration?",
			fmt.Sprintf("%s: %s", v.Origin.At.Where(), v.Unknown))
		return
	}
	var s *setting.Settings
	switch text := strings.TrimSpace(v.String()); {
	case strings.HasPrefix(text, "{"):
		inner, err := source.Decode(".json", v.Origin.At.File+".json", []byte(text))
		if err != nil {
			r.Out.Refuse("not-readable", v.Origin.At, "%s is not JSON", v.Origin.Key)
			return
		}
		s = inner
	default:
		loaded, _, err := r.Load(v)
		if r.Broken(err) {
			return
		}
		if inner, shipped := r.shipped(text); err != nil && shipped {
			r.Out.Assume("/training/distributed/deepspeed", "%s (%s) is the file of that name that the tool comes with: it "+
				"is not there to be read", text, v.Origin.At.Where())
			loaded, err = inner, nil
		}
		if err != nil {
			MissingShards(r.Out, v, err)
			return
		}
		s = loaded
	}
	r.DeepSpeedConfig(s)
}

// shipped is a configuration that the tool comes with.
func (r *Job) shipped(name string) (*setting.Settings, bool) {
	text, ok := r.Shipped[path.Join(path.Base(path.Dir(name)), path.Base(name))]
	if !ok {
		return nil, false
	}
	s, err := source.Decode(".json", name, []byte(text))
	return s, err == nil
}

// DeepSpeedConfig sets what a DeepSpeed configuration says about sharding; "auto" is left to the tool.
func (r *Job) DeepSpeedConfig(s *setting.Settings) {
	if v, ok := s.Peek("zero_optimization"); ok {
		stage, given := s.Get("zero_optimization.stage")
		n, isInt := stage.Int()
		switch {
		case given && (!isInt || n < 0 || n > 3):
			r.Out.Ask("/training/distributed/data", "Which ZeRO stage?", stage.Origin.At.Where()+" says "+stage.Text)
		case n > 0:
			r.Out.Put("/training/distributed/data", fmt.Sprintf("zero%d", n), stage)
			r.Out.Put("/training/distributed/deepspeed", v.Any, v)
		}
	}
	if !r.Out.Has("/training/distributed/data") {
		r.Out.Assume("/training/distributed/data", "DeepSpeed without ZeRO (stage 0) holds what DDP holds")
	}
	r.DeepSpeed = s
}
