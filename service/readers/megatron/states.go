package megatron

import (
	"fmt"

	"github.com/vramplan/vramplan/service/readers/draft"
	"github.com/vramplan/vramplan/service/readers/setting"
)

// precision reads the type of the weights. Without a switch it is float32.
func (r *job) precision() {
	const pointer = "/training/precision"
	bf16, fp16 := r.Flag("bf16"), r.Flag("fp16")
	switch {
	case bf16.On() && fp16.On():
		r.Out.Refuse("cannot-start", bf16.Origin.At, "both --bf16 and --fp16 are given: Megatron stops")
	case bf16.On():
		r.Out.Put(pointer, "bf16", bf16)
	case fp16.On():
		r.Out.Put(pointer, "fp16", fp16)
	default:
		r.Out.Fall(pointer, "fp32", "bf16, fp16", refMegatron)
	}
	for _, key := range []string{"fp8", "fp8_format", "fp8_hybrid", "fp8_e4m3", "fp4", "fp4_format"} {
		if v, ok := r.In.Get(key); ok && !v.Off() {
			r.Out.Put(pointer, key[:3], v)
			r.Out.Refuse("unsupported", v.Origin.At, "%s: what Transformer Engine keeps in %s is not modelled",
				v.Origin.Key, key[:3])
			r.In.Read("fp8_*", "fp4_*")
			return
		}
	}
}

// optimizerShards reads the distributed optimizer, and what is stored in which type: gradients are summed in
// float32 with bf16 (arguments.py validate_args sets accumulate_allreduce_grads_in_fp32), and in the weights' type with
// fp16.
func (r *job) optimizerShards() {
	s := r.In
	if v, ok := r.In.FirstOn("use_distributed_optimizer"); ok {
		r.Out.Put("/training/distributed/data", "zero1", v)
	}
	if v, ok := r.In.FirstOn("use_torch_fsdp2"); ok {
		r.Out.Put("/training/distributed/data", "fsdp", v)
		r.Out.Put("/training/distributed/fsdp_version", int64(2), v)
	}
	if v, ok := r.In.FirstOn("optimizer_cpu_offload", "cpu_optimizer"); ok {
		r.Out.Put("/training/distributed/offload_optimizer", true, v)
		if part, given := s.Get("optimizer_offload_fraction"); given {
			if f, isFloat := part.Float(); !isFloat || f != 1 {
				r.Out.AskWord(part)
			}
		}
	}
	precision := r.Out.Text("/training/precision")
	if precision != "bf16" && precision != "fp16" {
		return
	}
	gradients, from := "fp32",
		setting.Value{Origin: setting.Origin{Kind: setting.Derived, How: "gradients are summed in float32 with --bf16"}}
	if precision == "fp16" {
		gradients, from.Origin.How = "fp16", "gradients are summed in the weights' type with --fp16"
	}
	if v, ok := r.In.FirstOn("accumulate_allreduce_grads_in_fp32"); ok {
		gradients, from = "fp32", v
	}
	if v, ok := r.In.FirstOn("grad_reduce_in_bf16"); ok {
		gradients, from = "bf16", v
	}
	r.Out.Put("/training/states/gradients", gradients, from)
	if gradients != "fp32" {
		r.Out.Derive("/training/states/master_gradients", "fp32",
			"the optimizer copies gradients of two bytes to float32")
	}
	r.Out.Derive("/training/states/master_weights", "fp32", "Megatron's mixed precision")
	r.Out.Derive("/training/states/optimizer", "fp32", "Megatron's mixed precision")
	if _, ok := r.In.FirstOn("use_precision_aware_optimizer"); ok {
		r.aware()
	}
}

// aware reads the types of the optimizer that keeps its state in fewer bytes.
func (r *job) aware() {
	for key, state := range map[string]string{"main_grads_dtype": "master_gradients",
		"main_params_dtype": "master_weights"} {
		if v, ok := r.In.Get(key); ok {
			if kind := draft.Dtype(v.String()); kind != "" && v.Unknown == "" {
				r.Out.Put("/training/states/"+state, kind, v)
			} else {
				r.Out.AskWord(v)
			}
		}
	}
	first, one := r.In.Get("exp_avg_dtype")
	second, two := r.In.Get("exp_avg_sq_dtype")
	switch {
	case !one && !two:
	case one && two && draft.Dtype(first.String()) != "" && draft.Dtype(first.String()) == draft.Dtype(second.String()):
		r.Out.Put("/training/states/optimizer", draft.Dtype(first.String()), first)
	case one:
		r.Out.AskWord(first)
	default:
		r.Out.AskWord(second)
	}
}

// deepSpeed reads Megatron-DeepSpeed's stage from its configuration, and from --zero-stage where the script
// writes that under a name of its own.
func (r *job) deepSpeed() {
	stage, given := r.In.Get("zero_stage")
	n, isInt := stage.Int()
	v, ok := r.In.Get("deepspeed_config")
	readable := false
	if ok && v.Unknown == "" {
		s, _, err := r.Load(v)
		readable = s != nil || r.Broken(err)
	}
	r.Sharded = true
	switch {
	case ok && readable:
		r.ReadDeepSpeed(v)
	case given && isInt && n >= 0 && n <= 3 && stage.Unknown == "":
		r.Out.Assume("/training/distributed/data", "DeepSpeed's configuration has the stage of %s, %d", stage.Origin.Key,
			n)
		if n > 0 {
			r.Out.Put("/training/distributed/data", fmt.Sprintf("zero%d", n), stage)
		}
	case ok:
		r.ReadDeepSpeed(v)
	default:
		r.Out.Ask("/training/distributed/deepspeed", "Which DeepSpeed configuration?", "--deepspeed_config is not given")
	}
	if v, on := r.In.FirstOn("cpu_optimizer"); on {
		r.Out.Put("/training/distributed/offload_optimizer", true, v)
	}
	r.deepSpeedStates()
}

// deepSpeedStates: without ZeRO DeepSpeed's optimizer for bf16 keeps gradients in float32 and deals its state
// out as stage 1 does (runtime/bf16_optimizer.py); that for fp16 keeps all of it.
func (r *job) deepSpeedStates() {
	precision := r.Out.Text("/training/precision")
	sharded, open := r.Out.Has("/training/distributed/data"), len(r.Out.Questions) > 0
	if precision != "bf16" && precision != "fp16" {
		r.Sharded = r.Sharded && (sharded || open)
		return
	}
	r.Out.Derive("/training/states/master_weights", "fp32", "DeepSpeed's mixed precision")
	r.Out.Derive("/training/states/optimizer", "fp32", "DeepSpeed's mixed precision")
	switch {
	case sharded || r.DeepSpeed == nil && !r.In.Has("zero_stage"):
	case precision == "bf16":
		r.Out.Derive("/training/states/gradients", "fp32", "DeepSpeed's BF16_Optimizer")
		r.Out.Derive("/training/distributed/data", "zero1", "DeepSpeed's BF16_Optimizer deals out its state")
	default:
		r.Out.Derive("/training/states/gradients", "fp16", "DeepSpeed's FP16_Optimizer")
		r.Sharded = false
	}
}

// optimizers are --optimizer's words. Adam is FusedAdam of Transformer Engine or Apex, whose decay is AdamW's.
var optimizers = map[string]draft.Optimizer{"adam": {Name: "adam", Implementation: "fused"}, "sgd": {Name: "sgd-momentum"},
	"lion": {Name: "lion"}}

func (r *job) optimizer() {
	v, ok := r.In.Get("optimizer")
	if !ok {
		r.Out.Fall("/training/optimizer", optimizers["adam"], "optimizer", refMegatron)
		return
	}
	o, known := optimizers[v.String()]
	switch {
	case v.Unknown != "":
		r.Out.Ask("/training/optimizer", "Which optimizer?", v.Origin.At.Where()+": "+v.Unknown)
	case !known:
		r.Out.Refuse("unsupported", v.Origin.At, "the optimizer %s of Megatron is not modelled", draft.Clip(v.String()))
	default:
		r.Out.Put("/training/optimizer", o, v)
	}
}
