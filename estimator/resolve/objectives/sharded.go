package objectives

import (
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/resolve/strategies"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/step"
)

// refusing adds an error where is says that one applies.
type refusing func(is bool, pointer, format string, args ...any)

// shareObjective refuses a trainer of trl on several GPUs where no trace has shown it: whatever is neither a copy of
// the whole job on each nor DeepSpeed's ZeRO or FSDP, PPOTrainer, and what ends in an error.
func (r Pursuer) shareObjective(kind string, t *job.Training, refuse refusing) {
	if t.Distributed == nil || t.Distributed.WorldSize <= 1 {
		return
	}
	const pointer = "/training/distributed"
	answered := kind != PPOKind
	switch r.Parallel.(type) {
	case strategies.DDP:
	case *strategies.ZeRO, *strategies.FSDP:
		if answered {
			r.dealObjective(kind, t, refuse)
		}
	default:
		answered = false
	}
	refuse(!answered, pointer, "the objective %s is modelled on one GPU and, but for ppo, with a copy of the whole job on "+
		"each (data ddp), under DeepSpeed's ZeRO and under FSDP; leave one of them out", kind)
	refuse(r.ReadyTwice(), "/training/gradient_checkpointing/reentrant", "reentrant checkpoints fail under "+
		"DistributedDataParallel that looks for unused parameters, as the Trainer has it do with adapters (\"marked as "+
		"ready twice\"): say reentrant false here, or distributed.find_unused_parameters false")
}

// dealObjective refuses what a trainer does not do, or was not traced doing, where the job is dealt out. What is said
// to fail was seen to: trl 0.26.2, accelerate 1.15, torch 2.9.1.
func (r Pursuer) dealObjective(kind string, t *job.Training, refuse refusing) {
	d, o := t.Distributed, t.Objective
	_, flat := r.Parallel.(*strategies.FSDP)
	adapters, former := t.LoRA != nil, r.FormerTRL()
	beside := separate(kind, t)
	compares := kind == "dpo" || kind == "kto"
	precomputes := compares && o.Reference == "precomputed"
	refuse(precomputes, fields.ObjectivePointer+"/reference", "precomputed is not answered under %s: trl 0.26 computes the "+
		"log-probabilities before the model is on the GPU, which fails, or refuses to, and what later releases do was not "+
		"traced; leave the field out", d.Data)
	refuse(flat && !former && compares && adapters, "/training/lora", "trl %s gathers the head of a model with adapters "+
		"by itself under FSDP, in each pass of the objective %s, which is not replayed; zero1, zero2, zero3 and ddp are "+
		"answered", r.TRLVersion(), kind)
	refuse(!former && kind == gkdKind, "/training/versions", "the objective gkd under %s is modelled as trl before 1.0 "+
		"runs it, and here it is %s; name the release in training.versions.trl", d.Data, r.TRLVersion())
	refuse(flat && !former && beside && !strategies.On(r.Job).FlatShards(t), "/training/distributed/fsdp_version", "trl %s makes one group of "+
		"all parameters of a %s under FSDP2, which is not replayed; fsdp_version 1, zero1, zero2 and zero3 are answered",
		r.TRLVersion(), besideName(kind))
	refuse(flat && former && beside && (kind == "kto" || kind == gkdKind), pointerOfBeside(kind), "trl %s leaves the %s of the "+
		"objective %s in the CPU's memory under FSDP, where its first pass fails; data ddp, zero1, zero2 and zero3 are "+
		"answered%s", r.TRLVersion(), besideName(kind), kind, orAdapters(kind))
	refuse(flat && former && beside && !strategies.On(r.Job).FlatShards(t), "/training/distributed/fsdp_version", "trl %s wraps the reference in "+
		"FSDP1 with the mixed precision of FSDP2, which fails; fsdp_version 1 is answered, and adapters, whose base is "+
		"the reference", r.TRLVersion())
	l := r.Arch.LoRA
	mixes := l != nil && len(l.Saved) > 0 && strategies.On(r.Job).AdaptersStay(t) && r.Numerics.Stored.Half()
	refuse(t.ZeROStage() == 3 && mixes, "/training/lora", "adapters and what is trained in full beside them (modules_to_save, the score of a reward model) "+
		"are of two types under zero3 with trl %s, which DeepSpeed refuses; zero1, zero2 and ddp are answered, and "+
		"distributed.zero_init false", r.TRLVersion())
	writes := (kind == "grpo" || kind == "rloo") && (o.Rollout == "" || o.Rollout == "transformers")
	refuse(flat && former && adapters && writes, "/training/lora", "trl %s fails in generation where it trains adapters "+
		"under FSDP: what writes the completions is outside autocast, with weights of two types; zero1, zero2, zero3 and "+
		"ddp are answered, and vllm-server", r.TRLVersion())
	refuse(t.ZeROStage() == 3 && adapters && writes && r.MicroSteps > 1, "/training/gradient_accumulation", "the "+
		"objective %s with adapters and several micro-steps under zero3 gathers less than is replayed: a traced rank held "+
		"14 %% less; one micro-step, zero1, zero2 and ddp are answered", kind)
	refuse(beside && d.ShardGroup > 0, "/training/distributed/shard_group", "a %s beside the model was not traced with "+
		"groups of GPUs; leave the field out", besideName(kind))
	refuse(t.Evaluation != nil, "/training/evaluation", "an evaluation was not traced with the objective %s under %s; "+
		"leave one of them out", kind, d.Data)
	refuse(r.Criterion.Kind == step.LossFusedLinear, "/training/loss", "Liger's loss was not traced with the objective "+
		"%s under %s; leave the field out", kind, d.Data)
	offloads := d.OffloadParameters || d.OffloadOptimizer
	if z, deals := r.Parallel.(*strategies.ZeRO); deals {
		offloads = z.Words.OffloadsOptimizer || z.Words.OffloadsParameters
	}
	refuse(offloads, "/training/distributed", "offloading was not traced with the objective %s; leave it out", kind)
	refuse(adapters && r.Arch.LoRA != nil && r.Arch.LoRA.Base != step.NotQuantised, "/training/lora/base_precision",
		"a quantised base was not traced with the objective %s under %s; bf16, fp16 and fp32 are answered", kind, d.Data)
	refuse(o.Rollout == job.VLLMColocated, fields.ObjectivePointer+"/rollout", "a vLLM on the trainer's card was not traced where the "+
		"job is dealt out; transformers and vllm-server are answered")
}

// gkdKind is the kind that distils.
const gkdKind = "gkd"

// separate says whether a model stands beside the trained one.
func separate(kind string, t *job.Training) bool {
	o, adapters := t.Objective, t.LoRA != nil
	switch kind {
	case gkdKind:
		return true
	case "dpo", "kto":
		return o.ReferenceResident || o.Reference == "separate" || o.Reference == "" && !adapters
	case "grpo":
		return !adapters && o.Beta != nil && *o.Beta != 0
	case "rloo":
		return !adapters && (o.Beta == nil || *o.Beta != 0)
	}
	return false
}

// besideName is what that model is, pointerOfBeside the field that decides it.
func besideName(kind string) string {
	if kind == gkdKind {
		return teacherName
	}
	return resolved.ReferenceName
}

func pointerOfBeside(kind string) string {
	if kind == gkdKind {
		return fields.ObjectivePointer + "/teacher"
	}
	return fields.ObjectivePointer + "/reference"
}

// orAdapters is what else there is where a reference cannot stand beside.
func orAdapters(kind string) string {
	if kind == gkdKind {
		return ""
	}
	return ", and adapters, whose base is the reference"
}

// besideType is in what a model beside the trained one is stored that was loaded in the given type: DeepSpeed's engine
// brings it to the type that it computes in.
// Source: deepspeed/runtime/engine.py (_configure_distributed_model), 0.19.8.
func (r Pursuer) besideType(loaded step.DType) step.DType {
	if _, deals := r.Parallel.(*strategies.ZeRO); deals {
		return r.Numerics.Stored
	}
	return loaded
}

// loadedType is in what models are loaded where nothing else is said of them.
func (r Pursuer) loadedType() step.DType {
	if f, dealt := r.Parallel.(*strategies.FSDP); dealt {
		return f.Beside
	}
	return r.Numerics.Stored
}
