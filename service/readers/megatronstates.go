package readers

import (
	"fmt"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// megatronPrecision reads the type of the weights. Without a switch it is float32.
func (r *reading) megatronPrecision() {
	const pointer = "/training/precision"
	bf16, fp16 := r.flag("bf16"), r.flag("fp16")
	switch {
	case bf16.On() && fp16.On():
		r.d.refuse("cannot-start", bf16.Origin.At, "both --bf16 and --fp16 are given: Megatron stops")
	case bf16.On():
		r.d.put(pointer, "bf16", bf16)
	case fp16.On():
		r.d.put(pointer, "fp16", fp16)
	default:
		r.d.fall(pointer, "fp32", "bf16, fp16", refMegatron)
	}
	for _, key := range []string{"fp8", "fp8_format", "fp8_hybrid", "fp8_e4m3", "fp4", "fp4_format"} {
		if v, ok := r.s.Get(key); ok && !v.Off() {
			r.d.put(pointer, key[:3], v)
			r.d.refuse("unsupported", v.Origin.At, "%s: what Transformer Engine keeps in %s is not modelled",
				v.Origin.Key, key[:3])
			r.s.Read("fp8_*", "fp4_*")
			return
		}
	}
}

// megatronOptimizerShards reads the distributed optimizer, and what is stored in which type: gradients are summed in
// float32 with bf16 (arguments.py validate_args sets accumulate_allreduce_grads_in_fp32), and in the weights' type with
// fp16.
func (r *reading) megatronOptimizerShards() {
	s := r.s
	if v, ok := r.s.FirstOn("use_distributed_optimizer"); ok {
		r.d.put("/training/distributed/data", "zero1", v)
	}
	if v, ok := r.s.FirstOn("use_torch_fsdp2"); ok {
		r.d.put("/training/distributed/data", "fsdp", v)
		r.d.put("/training/distributed/fsdp_version", int64(2), v)
	}
	if v, ok := r.s.FirstOn("optimizer_cpu_offload", "cpu_optimizer"); ok {
		r.d.put("/training/distributed/offload_optimizer", true, v)
		if part, given := s.Get("optimizer_offload_fraction"); given {
			if f, isFloat := part.Float(); !isFloat || f != 1 {
				r.d.askWord(part)
			}
		}
	}
	precision := r.d.text("/training/precision")
	if precision != "bf16" && precision != "fp16" {
		return
	}
	gradients, from := "fp32",
		setting.Value{Origin: setting.Origin{Kind: setting.Derived, How: "gradients are summed in float32 with --bf16"}}
	if precision == "fp16" {
		gradients, from.Origin.How = "fp16", "gradients are summed in the weights' type with --fp16"
	}
	if v, ok := r.s.FirstOn("accumulate_allreduce_grads_in_fp32"); ok {
		gradients, from = "fp32", v
	}
	if v, ok := r.s.FirstOn("grad_reduce_in_bf16"); ok {
		gradients, from = "bf16", v
	}
	r.d.put("/training/states/gradients", gradients, from)
	if gradients != "fp32" {
		r.d.derive("/training/states/master_gradients", "fp32",
			"the optimizer copies gradients of two bytes to float32")
	}
	r.d.derive("/training/states/master_weights", "fp32", "Megatron's mixed precision")
	r.d.derive("/training/states/optimizer", "fp32", "Megatron's mixed precision")
	if _, ok := r.s.FirstOn("use_precision_aware_optimizer"); ok {
		r.megatronAware()
	}
}

// megatronAware reads the types of the optimizer that keeps its state in fewer bytes.
func (r *reading) megatronAware() {
	for key, state := range map[string]string{"main_grads_dtype": "master_gradients",
		"main_params_dtype": "master_weights"} {
		if v, ok := r.s.Get(key); ok {
			if kind := dtype(v.String()); kind != "" && v.Unknown == "" {
				r.d.put("/training/states/"+state, kind, v)
			} else {
				r.d.askWord(v)
			}
		}
	}
	first, one := r.s.Get("exp_avg_dtype")
	second, two := r.s.Get("exp_avg_sq_dtype")
	switch {
	case !one && !two:
	case one && two && dtype(first.String()) != "" && dtype(first.String()) == dtype(second.String()):
		r.d.put("/training/states/optimizer", dtype(first.String()), first)
	case one:
		r.d.askWord(first)
	default:
		r.d.askWord(second)
	}
}

// megatronDeepSpeed reads Megatron-DeepSpeed's stage from its configuration, and from --zero-stage where the script
// writes that under a name of its own.
func (r *reading) megatronDeepSpeed() {
	stage, given := r.s.Get("zero_stage")
	n, isInt := stage.Int()
	v, ok := r.s.Get("deepspeed_config")
	readable := false
	if ok && v.Unknown == "" {
		s, _, err := r.load(v)
		readable = s != nil || r.broken(err)
	}
	r.sharded = true
	switch {
	case ok && readable:
		r.deepspeed(v)
	case given && isInt && n >= 0 && n <= 3 && stage.Unknown == "":
		r.d.assume("/training/distributed/data", "DeepSpeed's configuration has the stage of %s, %d", stage.Origin.Key,
			n)
		if n > 0 {
			r.d.put("/training/distributed/data", fmt.Sprintf("zero%d", n), stage)
		}
	case ok:
		r.deepspeed(v)
	default:
		r.d.ask("/training/distributed/deepspeed", "Which DeepSpeed configuration?", "--deepspeed_config is not given")
	}
	if v, on := r.s.FirstOn("cpu_optimizer"); on {
		r.d.put("/training/distributed/offload_optimizer", true, v)
	}
	r.megatronDeepSpeedStates()
}

// megatronDeepSpeedStates: without ZeRO DeepSpeed's optimizer for bf16 keeps gradients in float32 and deals its state
// out as stage 1 does (runtime/bf16_optimizer.py); that for fp16 keeps all of it.
func (r *reading) megatronDeepSpeedStates() {
	precision := r.d.text("/training/precision")
	sharded, open := r.d.has("/training/distributed/data"), len(r.d.questions) > 0
	if precision != "bf16" && precision != "fp16" {
		r.sharded = r.sharded && (sharded || open)
		return
	}
	r.d.derive("/training/states/master_weights", "fp32", "DeepSpeed's mixed precision")
	r.d.derive("/training/states/optimizer", "fp32", "DeepSpeed's mixed precision")
	switch {
	case sharded || r.ds == nil && !r.s.Has("zero_stage"):
	case precision == "bf16":
		r.d.derive("/training/states/gradients", "fp32", "DeepSpeed's BF16_Optimizer")
		r.d.derive("/training/distributed/data", "zero1", "DeepSpeed's BF16_Optimizer deals out its state")
	default:
		r.d.derive("/training/states/gradients", "fp16", "DeepSpeed's FP16_Optimizer")
		r.sharded = false
	}
}

// megatronOptimizers are --optimizer's words. Adam is FusedAdam of Transformer Engine or Apex, whose decay is AdamW's.
var megatronOptimizers = map[string]optimizer{"adam": {"adam", "fused"}, "sgd": {"sgd-momentum", ""},
	"lion": {"lion", ""}}

func (r *reading) megatronOptimizer() {
	v, ok := r.s.Get("optimizer")
	if !ok {
		r.d.fall("/training/optimizer", megatronOptimizers["adam"], "optimizer", refMegatron)
		return
	}
	o, known := megatronOptimizers[v.String()]
	switch {
	case v.Unknown != "":
		r.d.ask("/training/optimizer", "Which optimizer?", v.Origin.At.Where()+": "+v.Unknown)
	case !known:
		r.d.refuse("unsupported", v.Origin.At, "the optimizer %s of Megatron is not modelled", clip(v.String()))
	default:
		r.d.put("/training/optimizer", o, v)
	}
}
