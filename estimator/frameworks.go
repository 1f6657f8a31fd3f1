package estimator

import (
	"sort"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// loop is what a framework's training loop does where the job does not say.
type loop struct {
	// holdLogits: a variable keeps the model's output through backward and into the next forward; holdFloat32: as
	// a float32 copy.
	holdLogits, holdFloat32 bool
	// ownModules: the framework writes its models itself, without a key/value cache in training. They are replayed
	// as transformers writes them, with wider bounds.
	ownModules bool
	// reentrant is the kind of its checkpoints where it does not leave that to transformers.
	reentrant *bool
	// states is what it stores beside weights in half precision; nil for nothing of its own.
	states *States
}

// Mixed precision with half-precision weights as these frameworks do it. Sources: Megatron-LM
// core/optimizer/distrib_optimizer.py and core/distributed/param_and_grad_buffer.py (grad_reduce_in_fp32, which bf16
// sets); DeepSpeed runtime/fp16/fused_optimizer.py; nanotron optim/gradient_accumulator.py (FP32GradientAccumulator).
var (
	masterStates      = States{MasterWeights: "fp32", Optimizer: "fp32"}
	accumulatedStates = States{Gradients: "fp32", MasterWeights: "fp32", Optimizer: "fp32"}
)

// The kinds of checkpoints of frameworks that ask for one. Sources: axolotl core/builders/base.py
// (_configure_gradient_checkpointing), LLaMA-Factory hparams/model_args.py (use_reentrant_gc),
// unsloth_zoo/training_utils.py (prepare_model_for_training), Megatron-LM core/tensor_parallel/random.py
// (CheckpointFunction), llm-foundry models/hf and composer's FSDP (activation_checkpointing_reentrant); torchtune,
// torchtitan and litgpt wrap blocks with torch's checkpoint_wrapper, whose default is CheckpointImpl.NO_REENTRANT.
var reentrantByDefault, notReentrant = true, false

// frameworks are the loops by name. Sources: nanoGPT train.py; transformers 4.57 Trainer.training_step (trl, axolotl,
// llama-factory, ms-swift, unsloth and xtuner run it or keep the loss alone, as it does); accelerate 1.x
// (convert_outputs_to_fp32); torchtune recipes/full_finetune_single_device.py and torchtitan train.py (both delete the
// logits before backward); litgpt finetune/lora.py (the list of logits stays in a variable); composer's Trainer, which
// llm-foundry runs, keeps state.outputs; Lightning's training_step returns the loss.
var frameworks = map[string]loop{
	"nanogpt":               {holdLogits: true},
	"pytorch":               {holdLogits: true},
	"accelerate":            {holdLogits: true, holdFloat32: true},
	"hf-trainer":            {},
	"trl":                   {},
	"sentence-transformers": {},
	"diffusers":             {},
	"axolotl":               {reentrant: &notReentrant},
	"llama-factory":         {reentrant: &reentrantByDefault},
	"ms-swift":              {},
	"unsloth":               {reentrant: &reentrantByDefault},
	"xtuner":                {},
	"lightning":             {},
	"deepspeed":             {states: &masterStates},
	"llm-foundry":           {holdLogits: true, ownModules: true, reentrant: &reentrantByDefault},
	"litgpt":                {holdLogits: true, ownModules: true, reentrant: &notReentrant},
	"torchtune":             {ownModules: true, reentrant: &notReentrant},
	"torchtitan":            {ownModules: true, reentrant: &notReentrant},
	"megatron":              {ownModules: true, reentrant: &reentrantByDefault, states: &accumulatedStates},
	"nanotron":              {ownModules: true, reentrant: &reentrantByDefault, states: &accumulatedStates},
}

func frameworkNames() []string {
	names := make([]string, 0, len(frameworks))
	for n := range frameworks {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// loop takes the defaults of the framework where the job does not say.
func (r *resolved) loop(t *Training, errs *invalid.List) {
	r.framework = t.Framework
	if r.framework == "" {
		r.framework = "hf-trainer"
		switch rec := r.arch.Recording(); {
		case r.arch.NanoGPT():
			r.framework = "nanogpt"
		case rec != nil && !r.arch.Reentrant:
			r.framework = "pytorch"
		}
	}
	f, ok := frameworks[r.framework]
	if !ok {
		errs.Add("/training/framework", "unknown_value", "framework is %.40q; %s are accepted", r.framework,
			strings.Join(frameworkNames(), ", "))
	}
	r.recipe.HoldLogits, r.recipe.HoldFloat32 = f.holdLogits, f.holdFloat32
	if t.HoldLogits != nil {
		r.recipe.HoldLogits = *t.HoldLogits
		r.recipe.HoldFloat32 = r.recipe.HoldFloat32 && *t.HoldLogits
	}
	r.recipe.NextBatchEarly = r.recipe.HoldLogits
	r.ownModules = f.ownModules
	r.recipe.PacksHalf = r.framework == "litgpt"
	compiled := t.Compile != nil && t.Compile.Model // what inductor makes of its modules was not traced
	r.arch.LitGPT = r.recipe.PacksHalf && !compiled
}
