package strategies

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/estimator/doubt"
	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/optim"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// zeroWords are the fields of DeepSpeed's zero_optimization that decide memory, with their defaults.
// Source: deepspeed/runtime/zero/config.py, DeepSpeed 0.19.8.
type zeroWords struct {
	bucket                                   int64
	overlaps, contiguous, scatters           bool
	OffloadsOptimizer, OffloadsParameters    bool
	prefetch, persistence, live, reuse, subs int64
	efficientLinear                          bool
	// besidePrefetch and besidePersistence are those of a model beside the trained one, for whom nobody fills in
	// "auto": trl hands DeepSpeed what it wants to put there under names that it does not read.
	// Source: trl/models/utils.py (prepare_deepspeed), 0.26 and 1.16.
	besidePrefetch, besidePersistence int64
}

// harmlessWords change no bytes, or only where a checkpoint is written.
var harmlessWords = map[string]bool{"stage": true, "allgather_partitions": true, "allgather_bucket_size": true,
	"use_multi_rank_bucket_allreduce": true,
	"compute_grad_norm":               true, "load_from_fp32_weights": true, "elastic_checkpoint": true,
	"round_robin_gradients":                     true,
	"stage3_gather_16bit_weights_on_model_save": true, "stage3_gather_fp16_weights_on_model_save": true,
	"gather_16bit_weights_on_model_save": true,
	"model_persistence_threshold":        true, "ignore_unused_parameters": true, "legacy_stage1": true,
	"pipeline_loading_checkpoint": true,
	"override_module_apply":       true, "log_trace_cache_warnings": true, "enable_sanity_checks": true,
	"cpu_offload_use_pin_memory":             true,
	"stage3_use_all_reduce_for_fetch_params": true, "stage3_allgather_sequential": true,
	"save_muon_momentum_buffer_in_memory": true}

// deepSpeed reads training.distributed.deepspeed. "auto" is what transformers' Trainer makes of it.
// Source: transformers/integrations/deepspeed.py 4.57 (HfTrainerDeepSpeedConfig.trainer_config_finalize).
func (r Spreader) deepSpeed(t *job.Training, errs *invalid.List) zeroWords {
	const pointer = "/training/distributed/deepspeed"
	d, stage := t.Distributed, t.ZeROStage()
	w := zeroWords{bucket: 5e8, overlaps: stage == 3, contiguous: true, scatters: true,
		OffloadsOptimizer: d.OffloadOptimizer, OffloadsParameters: d.OffloadParameters,
		prefetch: 5e7, persistence: 1e5, live: 1e9, reuse: 1e9, subs: 1e9, efficientLinear: true}
	w.besidePrefetch, w.besidePersistence = w.prefetch, w.persistence
	if len(d.DeepSpeed) == 0 || string(d.DeepSpeed) == "null" {
		return w
	}
	var words map[string]json.RawMessage
	if err := json.Unmarshal(d.DeepSpeed, &words); err != nil {
		errs.Add(pointer, "wrong_type", "deepspeed is an object, the zero_optimization of a DeepSpeed configuration")
		return w
	}
	hidden := r.Arch.Hidden
	beside := map[string]*int64{"stage3_prefetch_bucket_size": &w.besidePrefetch,
		"prefetch_bucket_size":               &w.besidePrefetch,
		"stage3_param_persistence_threshold": &w.besidePersistence,
		"param_persistence_threshold":        &w.besidePersistence}
	numbers := map[string]struct {
		to   *int64
		auto int64
	}{
		"reduce_bucket_size":                 {&w.bucket, hidden * hidden},
		"stage3_prefetch_bucket_size":        {&w.prefetch, hidden * hidden * 9 / 10},
		"prefetch_bucket_size":               {&w.prefetch, hidden * hidden * 9 / 10},
		"stage3_param_persistence_threshold": {&w.persistence, 10 * hidden},
		"param_persistence_threshold":        {&w.persistence, 10 * hidden},
		"stage3_max_live_parameters":         {&w.live, 1e9}, "max_live_parameters": {&w.live, 1e9},
		"stage3_max_reuse_distance": {&w.reuse, 1e9},
		"max_reuse_distance":        {&w.reuse, 1e9}, "sub_group_size": {&w.subs, 1e9},
	}
	switches := map[string]*bool{"overlap_comm": &w.overlaps, "contiguous_gradients": &w.contiguous,
		"reduce_scatter":          &w.scatters,
		"memory_efficient_linear": &w.efficientLinear, "cpu_offload": &w.OffloadsOptimizer,
		"cpu_offload_param": &w.OffloadsParameters, "cpu_offload_params": &w.OffloadsParameters}
	for _, name := range slices.Sorted(maps.Keys(words)) {
		value, at := bytes.TrimSpace(words[name]), pointer+"/"+name
		auto := string(value) == `"auto"`
		if string(value) == "null" || harmlessWords[name] {
			continue
		}
		if n, ok := numbers[name]; ok {
			var x float64
			switch {
			case auto:
				*n.to = n.auto
			case json.Unmarshal(value, &x) != nil || x < 0 || x > 1e15:
				errs.Add(at, "out_of_range", "%s is %.40s; it is a number from 0 to 1e15, or \"auto\"", name, value)
			default:
				*n.to = int64(x)
				if b := beside[name]; b != nil {
					*b = int64(x)
				}
			}
			continue
		}
		if s, ok := switches[name]; ok {
			if !auto && json.Unmarshal(value, s) != nil {
				errs.Add(at, "wrong_type", "%s is %.40s; it is true, false or \"auto\"", name, value)
			}
			continue
		}
		switch name {
		case "offload_optimizer", "offload_param":
			to := &w.OffloadsOptimizer
			if name == "offload_param" {
				to = &w.OffloadsParameters
			}
			var where struct {
				Device string  `json:"device"`
				Ratio  float64 `json:"ratio"`
			}
			if json.Unmarshal(value, &where) != nil {
				errs.Add(at, "wrong_type", "%s is an object with a device: none, cpu or nvme", name)
			} else if where.Ratio > 0 && where.Ratio < 1 {
				errs.Add(at+"/ratio", "unsupported", "an optimizer of which a part stays on the GPU (twin "+
					"flow) is not modelled")
			}
			*to = *to || where.Device == "cpu" || where.Device == "nvme"
		default:
			if s := string(value); s != "false" && s != "0" && s != "1" && s != "-1" && s != "{}" {
				errs.Add(at, "unsupported", "%.60s is not modelled, and may change memory; leave it out", name)
			}
		}
	}
	if w.bucket < 1 {
		errs.Add(pointer+"/reduce_bucket_size", "out_of_range", "reduce_bucket_size is %d; it is at least 1", w.bucket)
	}
	return w
}

// ZeroStates is training.states under DeepSpeed, whose engine brings the whole model to the half type: nothing runs
// under autocast, and masters are float32. Source: deepspeed/runtime/engine.py 0.19.8 (_configure_distributed_model);
// accelerate/accelerator.py 1.15 (native_amp).
func ZeroStates(given job.States, half step.DType, errs *invalid.List) {
	for _, x := range []struct {
		field, given string
		want         step.DType
	}{{"weights", given.Weights, half}, {"gradients", given.Gradients, half},
		{"master_weights", given.MasterWeights, step.F32}, {"optimizer", given.Optimizer, step.F32}} {
		if d, ok := fields.ReadState(x.field, x.given, x.field == "master_weights", errs); ok && d != x.want {
			errs.Add("/training/states/"+x.field, "unsupported",
				"under DeepSpeed's ZeRO with this precision %s are %s, and others are not modelled", x.field,
				result.Dtype(x.want))
		}
	}
}

// olderDeepSpeed says that a release of DeepSpeed replaces torch's linear layers only in models that are made under
// zero.Init: 0.14 and before do, 0.19 replaces them in finished models too. Of those between nothing was looked at;
// they count as newer. Source: deepspeed/runtime/zero/partition_parameters.py (Init.__init__), 0.14.2 and 0.19.8.
func olderDeepSpeed(version string) bool {
	major, rest, _ := strings.Cut(version, ".")
	minor, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(minor)
	return major == "0" && err == nil && n <= 14
}

// zero is training.distributed with data zero1, zero2 or zero3.
func (r Spreader) zero(t *job.Training, errs *invalid.List) {
	d, stage := t.Distributed, t.ZeROStage()
	w := r.deepSpeed(t, errs)
	for _, x := range []struct {
		applies     bool
		field, what string
	}{
		{w.OffloadsParameters && stage != 3, "distributed/offload_parameters",
			"parameters are offloaded under zero3 only"},
		{r.Compilation.Compiles(), "compile",
			"torch.compile under DeepSpeed is not modelled; leave one of them out"},
		{r.UpdatesInBackward, "optimizer/in_backward", "an optimizer in backward under DeepSpeed is not modelled; " +
			"leave one of them out"},
		{!r.Optimizer.Sharded && !w.OffloadsOptimizer, "optimizer/name", "under DeepSpeed " +
			fields.Enumeration(fields.OptimizerNames(func(o *optim.Optimizer) bool {
				return o.Sharded
			})) + " are modelled"},
		{r.Arch.LitGPT, "framework", "litgpt under DeepSpeed is not modelled"},
	} {
		if x.applies {
			errs.Add("/training/"+x.field, "unsupported", "%s", x.what)
		}
	}
	if l := r.Arch.LoRA; t.LoRA != nil && l != nil && !r.AdaptersStay(t) {
		l.Dtype = r.Numerics.Compute
	}
	if d.ZeroInit != nil && stage != 3 {
		errs.Add("/training/distributed/zero_init", "conflict", "zero.Init belongs to zero3, and data is %s", d.Data)
	}
	w.efficientLinear = w.efficientLinear && (d.ZeroInit == nil || *d.ZeroInit || !olderDeepSpeed(r.Given["deepspeed"]))
	r.Parallel = &ZeRO{r: r.Job, stage: stage, world: d.WorldSize, Words: w, initUnknown: d.ZeroInit == nil &&
		r.By.StartsInZero == frameworks.No}
	r.LinearKeepsInput = stage == 3 && w.efficientLinear
}

// Strategy is what package step/parallel replays.
func (z *ZeRO) Strategy() step.Strategy {
	w, accumulates, grouped := &z.Words, z.r.MicroSteps > 1, z.r.By.GroupsByDecay == frameworks.Yes
	if z.stage == 3 {
		return parallel.ZeRO3{World: z.world, Accumulates: accumulates, Bucket: w.bucket,
			Prefetch: w.prefetch, Persistence: w.persistence, Live: w.live, Reuse: w.reuse,
			BesidePrefetch: w.besidePrefetch, BesidePersistence: w.besidePersistence,
			Group: max(w.subs, 1), Overlaps: w.overlaps, Contiguous: w.contiguous, Sums: z.r.Numerics.Compute,
			Grouped: grouped, Keeps: !w.efficientLinear,
			OffloadsOptimizer: w.OffloadsOptimizer, OffloadsParameters: w.OffloadsParameters}
	}
	return parallel.ZeRO{World: z.world, Whole: z.stage == 1, Bucket: w.bucket, Overlaps: w.overlaps,
		Contiguous: w.contiguous, Scatters: w.scatters,
		Grouped: grouped, Accumulates: accumulates, OffloadsOptimizer: w.OffloadsOptimizer}
}

// AdaptersStay says that adapters keep the type that they were made in: the engine brings no model to the half type
// that has parameters which zero.Init has dealt out, and adapters come after that. trl's trainers of today
// ask peft for the
// base's type; what they did between 0.26 and 1.16 nobody has looked at.
// Sources: deepspeed/runtime/engine.py (_cast_module_mixed_precision), 0.19.8; trl/trainer/sft_trainer.py
// (autocast_adapter_dtype), 1.16.
func (r Spreader) AdaptersStay(t *job.Training) bool {
	if t.ZeROStage() != 3 || t.Distributed.ZeroInit != nil && !*t.Distributed.ZeroInit {
		return false
	}
	return r.By.RunsTRL != frameworks.Yes || r.FormerTRL()
}

// ZeRO is a job that DeepSpeed's ZeRO deals out.
type ZeRO struct {
	r     *resolved.Job
	stage int
	world int64
	Words zeroWords
	// initUnknown says that nothing tells whether the model was made under zero.Init.
	initUnknown bool
}

// How says where a component's bytes come from in a job that trains p parameters.
func (z *ZeRO) How(name, p string, run *resolved.Replayed) (how string, ok bool) {
	stored := result.InBytes(z.r.Recipe.Stored)
	switch name {
	case "weights":
		return fmt.Sprintf("%s parameters that are trained × %s in flat tensors, and what is frozen as it is", p,
			stored), true
	case "gradients":
		return fmt.Sprintf("whole ones on their way into DeepSpeed's bucket, and those of this GPU's part of %s "+
			"parameters, × %s", p, stored), true
	case "optimizer_state":
		if z.Words.OffloadsOptimizer {
			return "in the CPU's memory (offload_optimizer)", true
		}
		return z.r.HowStates(fmt.Sprintf("%s parameters dealt out to %s GPUs: master weights of 4 B (fp32) and", p,
			result.Grouped(z.world)), step.F32), true
	case "communication":
		return fmt.Sprintf("DeepSpeed's buckets of %s elements, and %s for NCCL outside PyTorch's allocator",
			result.Grouped(z.Words.bucket), result.Bytes(z.r.Nccl.Bytes)), true
	}
	return "", false
}

// Notes say what the job was taken to be.
func (z *ZeRO) Notes() []result.Note {
	what := "the optimizer's state is dealt out"
	switch z.stage {
	case 2:
		what = "gradients and the optimizer's state are dealt out"
	case 3:
		what = "weights, gradients and the optimizer's state are dealt out"
	}
	notes := []result.Note{
		{Code: "sharded", Text: fmt.Sprintf("%s to %d GPUs with DeepSpeed's ZeRO-%d as of 0.19.8; weights are stored "+
			"in %s, with masters in float32, and gradients come together in buckets of %s elements", what,
			z.world, z.stage, result.Dtype(z.r.Recipe.Stored), result.Grouped(z.Words.bucket))},
	}
	if z.stage < 3 {
		notes = append(notes, result.Note{Code: "zero-load", Text: "at load the flat weights are made beside the model, " +
			"twice the weights together; where that does not fit, DeepSpeed makes them in the CPU's memory, so that " +
			"the peak of the answer is that of the steps"})
	}
	return notes
}

// Doubts widen the bounds.
func (z *ZeRO) Doubts() []doubt.Doubt {
	list := []doubt.Doubt{doubt.Zero}
	if z.stage == 3 {
		list[0] = doubt.Zero3
	}
	if z.Words.OffloadsOptimizer {
		list = append(list, doubt.Offloaded)
	}
	if z.stage == 3 && z.initUnknown && z.r.Recipe.CheckpointEvery == 0 {
		list = append(list, doubt.ZeroInit)
	}
	return list
}

// MicroStep is the micro-step that the m-th of the ledger stands for: the third that is walked is the last.
func (z *ZeRO) MicroStep(m int64) int64 {
	if z.stage == 1 && z.r.Recipe.Accumulation > 1 && m == 2 {
		return z.r.Recipe.Accumulation - 1
	}
	return m
}
