package frameworks

import (
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/release"
)

// Framework is what a training framework does where the job does not say. A row of frameworks says all of it: what is
// left out of a row is an error (TestEveryFrameworkSaysEverything).
type Framework struct {
	// Output is what its loop does with the model's output when the loss is there.
	Output output
	// Cache is who says whether a model fills a key/value cache.
	Cache cache
	modules
	checkpoints
	// States is what it stores beside weights in half precision.
	States *job.States
	// WideEmbeddings: it may keep the moments of embeddings in float32 under bitsandbytes' optimizers of eight bits, as
	// the Trainer does, and who builds on it, with one that it makes itself.
	// Source: transformers/trainer.py 4.57.6 and 5.23.0 (Trainer.create_optimizer, register_module_override).
	WideEmbeddings said
	// Releases are those of libraries that it holds back.
	Releases map[string]string
	replicas
	sharding
	adapts
}

// EvaluatesAsTrainer says whether its evaluation is that of transformers' Trainer: those alone have a word on the
// key/value cache that is the Trainer's or their own.
func (f *Framework) EvaluatesAsTrainer() bool {
	return f.Cache == TrainersWord || f.Cache == SwitchedOff
}

// Saves says whether it writes checkpoints where nobody says so: the Trainer does, every 500 steps, and who builds
// on it takes that or another number. What others do depends on their scripts.
// Source: transformers/training_args.py 4.57.6 and 5.23.0 (save_strategy, save_steps).
func (f *Framework) Saves() bool { return f.EvaluatesAsTrainer() }

// modules is whose models it trains.
type modules struct {
	// OwnModules: it writes its models itself, without a key/value cache in training. They are replayed as transformers
	// writes them, with wider bounds.
	OwnModules said
	// WritesLlama: its own Llama is replayed as torchtitan writes it, and WritesTune: as torchtune does. Rewritten: so
	// are all of its models, whose loss reads a list of parts of the logits.
	WritesLlama, WritesTune, Rewritten said
}

// Whose models there are.
var (
	// of transformers
	theirs  = modules{OwnModules: No, WritesLlama: No, WritesTune: No, Rewritten: No}
	itsOwn  = modules{OwnModules: Yes, WritesLlama: No, WritesTune: No, Rewritten: No}
	titans  = modules{OwnModules: Yes, WritesLlama: Yes, WritesTune: No, Rewritten: No}
	tunes   = modules{OwnModules: Yes, WritesLlama: No, WritesTune: Yes, Rewritten: No}
	litgpts = modules{OwnModules: Yes, WritesLlama: No, WritesTune: No, Rewritten: Yes}
)

// checkpoints is which of torch.utils.checkpoint's two ways it takes.
type checkpoints struct {
	// Asks is the kind that it asks for; always is what it takes whatever is asked, by job.
	Asks   kind
	Always func(t *job.Training) kind
	// NotReentrantFrom is the change from which its checkpoints are of the other kind, beside transformers' own.
	NotReentrantFrom release.ID
}

// Which kinds are asked for. Sources: axolotl core/builders/base.py (_configure_gradient_checkpointing), LLaMA-Factory
// hparams/model_args.py (use_reentrant_gc), unsloth_zoo/training_utils.py (prepare_model_for_training), Megatron-LM
// core/tensor_parallel/random.py (CheckpointFunction), llm-foundry models/hf and composer's FSDP
// (activation_checkpointing_reentrant); torchtune, torchtitan and litgpt wrap blocks with torch's checkpoint_wrapper,
// whose default is CheckpointImpl.NO_REENTRANT.
var (
	askNothing   = checkpoints{Asks: AsAsked, Always: never, NotReentrantFrom: CheckpointsWithout}
	asTRL        = checkpoints{Asks: AsAsked, Always: reentrantUnderZeRO3, NotReentrantFrom: CheckpointsWithoutInTRL}
	askReentrant = checkpoints{Asks: Reentrant, Always: never, NotReentrantFrom: CheckpointsWithout}
	askOther     = checkpoints{Asks: notReentrant, Always: never, NotReentrantFrom: CheckpointsWithout}
	asFactory    = checkpoints{Asks: Reentrant, Always: notReentrantUnderFSDP2, NotReentrantFrom: CheckpointsWithout}
)

// said is a property that a row has or has not. Its zero value is one that nobody thought of.
type said uint8

const (
	No said = iota + 1
	Yes
	Formerly // in releases before a row of the table of releases
)

// output is what a loop does with the model's output.
type output uint8

const (
	Goes     output = iota + 1
	held            // a variable keeps it through backward and into the next forward
	Widened         // a variable keeps a float32 copy of it
	Unpacked        // it is a tuple that is taken apart: variables keep the logits and the loss
)

// cache is who says whether a model fills a key/value cache in training and in evaluation.
type cache uint8

const (
	configured   cache = iota + 1 // the model's configuration
	TrainersWord                  // the Trainer, in releases whose argument use_cache is set over the configuration's
	SwitchedOff                   // nobody: it sets use_cache to false in every model that it trains
)

// kind is which of torch.utils.checkpoint's two ways is taken.
type kind uint8

const (
	AsAsked kind = iota + 1 // what the job or transformers says
	Reentrant
	notReentrant
)

// replicas is what it does on several GPUs that each hold the model.
type replicas struct {
	// Engine is whose engine reduces gradients.
	Engine engine
	// LooksForUnused: its trainer wraps the model with find_unused_parameters, but for a whole one that is
	// checkpointed.
	// Source: transformers/trainer.py 4.57, Trainer._wrap_model.
	LooksForUnused said
	// GroupsByDecay: its optimizer has matrices and vectors in groups of their own.
	// Source: transformers/trainer.py 4.57 (Trainer.create_optimizer, get_decay_parameter_names).
	GroupsByDecay said
	// StartsInZero: whether a model is made under zero.Init is known without being told.
	StartsInZero said
	// PlansTensors: GPUs share layers by the plan that a model of transformers has.
	PlansTensors said
}

// engine reduces gradients.
type engine string

// TorchEngine is that of a framework that leaves several GPUs to PyTorch.
const TorchEngine engine = "PyTorch's"

// sharding is what it does under FSDP.
type sharding struct {
	// Amp is what mixed precision is.
	Amp amp
	// Flat: it takes FSDP1 where nothing is said; formerly, until DealsByFSDP2. Whole: it leaves gradients whole until
	// the last micro-step (no_sync).
	Flat, Whole said
	// Syncs: FSDP1 sends the first GPU's parameters and buffers to the others while it wraps (sync_module_states).
	Syncs said
	// Widens: under mixed precision what is trained is brought to float32, in whichever type it was loaded.
	Widens said
	// CallsCheckpoints: it trains transformers' models as they are, which decide where checkpointing is called.
	CallsCheckpoints said
}

// amp is what mixed precision is under FSDP.
type amp uint8

const (
	autocast amp = iota + 1
	// Halves gives FSDP's own mixed precision the half type of autocast, which under FSDP1 is kept around the forward:
	// parameters are stored in float32, gathered and summed in that type.
	Halves
	// Policy is FSDP's own mixed precision without autocast.
	Policy
)

// How frameworks shard: accelerate's FSDP asks for no prefetching, and PyTorch's own default asks for the parameters of
// the layer before while one runs backward. Sources: accelerate/utils/dataclasses.py 1.15
// (FullyShardedDataParallelPlugin, set_mixed_precision), accelerator.py (prepare_model) and utils/fsdp_utils.py
// (fsdp2_prepare_model) for what is brought to float32, transformers' training_args.py and accelerate's
// commands/config/cluster.py for sync_module_states, transformers 4.57 Trainer.training_step and accelerate 1.15
// Accelerator.no_sync, which trl, axolotl and llama-factory run; composer/distributed/mosaic_parallelism.py,
// get_mixed_precision, for llm-foundry; litgpt pretrain.py, finetune (fabric.no_backward_sync); lightning FSDPStrategy.
var (
	byAccelerate = sharding{Amp: Halves, Flat: Yes, Whole: Yes, Syncs: Yes, Widens: Yes, CallsCheckpoints: Yes}
	// of the Trainer, which tell accelerate the version
	byArguments = sharding{Amp: Halves, Flat: Formerly, Whole: Yes, Syncs: Yes, Widens: Yes, CallsCheckpoints: Yes}
	byComposer  = sharding{Amp: Halves, Flat: Yes, Whole: No, Syncs: No, Widens: No, CallsCheckpoints: No}
	byFabric    = sharding{Amp: autocast, Flat: Yes, Whole: Yes, Syncs: No, Widens: No, CallsCheckpoints: No}
	byLightning = sharding{Amp: autocast, Flat: Yes, Whole: No, Syncs: No, Widens: No, CallsCheckpoints: No}
	byTitan     = sharding{Amp: Policy, Flat: No, Whole: No, Syncs: No, Widens: No, CallsCheckpoints: No}
	byItself    = sharding{Amp: autocast, Flat: No, Whole: No, Syncs: No, Widens: No, CallsCheckpoints: No}
	// who call transformers' models
	byYou = sharding{Amp: autocast, Flat: No, Whole: No, Syncs: No, Widens: No, CallsCheckpoints: Yes}
)

// How frameworks replicate.
var (
	byTrainer = replicas{
		Engine: TorchEngine, LooksForUnused: Yes, GroupsByDecay: Yes, StartsInZero: No, PlansTensors: No,
	}
	likeTrainer = replicas{
		Engine: TorchEngine, LooksForUnused: No, GroupsByDecay: Yes, StartsInZero: No, PlansTensors: No,
	}
	byDDP   = replicas{Engine: TorchEngine, LooksForUnused: No, GroupsByDecay: No, StartsInZero: No, PlansTensors: No}
	byTorch = replicas{
		Engine: TorchEngine, LooksForUnused: No, GroupsByDecay: No, StartsInZero: No, PlansTensors: Yes,
	}
	byDeepSpeed = replicas{
		Engine: "DeepSpeed's", LooksForUnused: No, GroupsByDecay: No, StartsInZero: Yes, PlansTensors: No,
	}
	byMegatron = replicas{
		Engine: "Megatron's", LooksForUnused: No, GroupsByDecay: No, StartsInZero: No, PlansTensors: No,
	}
	byNanotron = replicas{
		Engine: "nanotron's", LooksForUnused: No, GroupsByDecay: No, StartsInZero: No, PlansTensors: No,
	}
)

// What is held back.
var (
	noReleases   = map[string]string{}
	litgptPinned = map[string]string{"bitsandbytes": litgptBitsandbytes}
)

// adapts is what it does with adapters.
type adapts struct {
	// Upcasts: its users prepare a quantised model with peft's prepare_model_for_kbit_training.
	Upcasts said
	// AsBase: adapters are stored as the base is. Fuses: it has fused kernels for adapters on a base that is not
	// quantised. Decomposes: it has DoRA. UsesPEFT: its adapters are peft's.
	AsBase, Fuses, Decomposes, UsesPEFT said
	// SavesModules: copies of modules may be trained in full beside adapters, peft's modules_to_save.
	SavesModules said
	// RunsTRL: its trainers are trl's, whose release counts, and which bring embeddings and head of a quantised base
	// back to half precision.
	RunsTRL said
	// ListsLinears: it hands peft the last parts of the names of linear layers where its user wants all of them.
	// Sources: axolotl 0.19 loaders/adapter.py (find_all_linear_names), LLaMA-Factory 0.9.5 model/model_utils/misc.py
	// (find_all_linear_modules), ms-swift 4.6 utils/transformers_utils.py (find_all_linears).
	ListsLinears said
}

// How frameworks adapt. torchtune and litgpt train what is an adapter and nothing else: torchtune
// recipes/lora_finetune_single_device.py and lora_finetune_distributed.py (set_trainable_params), 0.6.1, litgpt
// finetune/lora.py (mark_only_lora_as_trainable), 0.5.12.
var (
	prepared = adapts{
		Upcasts: Yes, AsBase: No, Fuses: No, Decomposes: Yes, UsesPEFT: Yes, SavesModules: Yes, RunsTRL: No,
		ListsLinears: No,
	}
	preparedTRL = adapts{
		Upcasts: Yes, AsBase: No, Fuses: No, Decomposes: Yes, UsesPEFT: Yes, SavesModules: Yes, RunsTRL: Yes,
		ListsLinears: No,
	}
	// axolotl brings what prepare_model_for_kbit_training made float32, norms, embeddings and head, back to the type
	// that is computed in (0.19 loaders/model.py, _configure_embedding_dtypes).
	kbitFused = adapts{
		Upcasts: No, AsBase: No, Fuses: Yes, Decomposes: Yes, UsesPEFT: Yes, SavesModules: Yes, RunsTRL: No,
		ListsLinears: Yes,
	}
	loaded = adapts{
		Upcasts: No, AsBase: No, Fuses: No, Decomposes: Yes, UsesPEFT: Yes, SavesModules: Yes, RunsTRL: No,
		ListsLinears: No,
	}
	byNames = adapts{
		Upcasts: No, AsBase: No, Fuses: No, Decomposes: Yes, UsesPEFT: Yes, SavesModules: Yes, RunsTRL: No,
		ListsLinears: Yes,
	}
	loadedFused = adapts{
		Upcasts: No, AsBase: No, Fuses: Yes, Decomposes: Yes, UsesPEFT: Yes, SavesModules: Yes, RunsTRL: No,
		ListsLinears: No,
	}
	asBaseIs = adapts{
		Upcasts: No, AsBase: Yes, Fuses: No, Decomposes: Yes, UsesPEFT: Yes, SavesModules: Yes, RunsTRL: No,
		ListsLinears: No,
	}
	byTune = adapts{
		Upcasts: No, AsBase: No, Fuses: No, Decomposes: Yes, UsesPEFT: Yes, SavesModules: No, RunsTRL: No,
		ListsLinears: No,
	}
	byLitGPT = adapts{
		Upcasts: No, AsBase: No, Fuses: No, Decomposes: No, UsesPEFT: No, SavesModules: No, RunsTRL: No,
		ListsLinears: No,
	}
)

// Mixed precision with half-precision weights as these frameworks do it. Sources: Megatron-LM
// core/optimizer/distrib_optimizer.py and core/distributed/param_and_grad_buffer.py (grad_reduce_in_fp32, which bf16
// sets); DeepSpeed runtime/fp16/fused_optimizer.py; nanotron optim/gradient_accumulator.py (FP32GradientAccumulator).
var (
	masterStates = job.States{MasterWeights: "fp32", Optimizer: "fp32"}
	addedStates  = job.States{Gradients: "fp32", MasterWeights: "fp32", Optimizer: "fp32"}
)

// Nothing of its own.
var noStates = job.States{}

func never(*job.Training) kind { return AsAsked }

// reentrantUnderZeRO3 is what trl forces for adapters (trl 1.16, SFTTrainer.__init__).
func reentrantUnderZeRO3(t *job.Training) kind {
	if t.LoRA != nil && t.ZeROStage() == 3 {
		return Reentrant
	}
	return AsAsked
}

// notReentrantUnderFSDP2 is what LLaMA-Factory forces (model/model_utils/checkpointing.py).
func notReentrantUnderFSDP2(t *job.Training) kind {
	if d := t.Distributed; d != nil && d.Data == "fsdp" && d.FSDPVersion == 2 {
		return notReentrant
	}
	return AsAsked
}

// Frameworks are the rows, by name.
//
// Sources of loops: nanoGPT train.py; transformers 4.57 Trainer.training_step (trl, axolotl,
// llama-factory, ms-swift, unsloth and xtuner run it or keep the loss alone, as it does); accelerate 1.x
// (convert_outputs_to_fp32); torchtune recipes/full_finetune_single_device.py and torchtitan train.py (both delete the
// logits before backward); litgpt finetune/lora.py (the list of logits stays in a variable); composer's Trainer, which
// llm-foundry runs, keeps state.outputs; Lightning's training_step returns the loss.
var Frameworks = map[string]*Framework{
	"nanogpt": {
		Output: Unpacked, Cache: configured, modules: theirs, checkpoints: askNothing, States: &noStates,
		WideEmbeddings: No, Releases: noReleases, replicas: byDDP, sharding: byItself, adapts: loaded,
	},
	"pytorch": {
		Output: held, Cache: configured, modules: theirs, checkpoints: askNothing, States: &noStates,
		WideEmbeddings: No, Releases: noReleases, replicas: byTorch, sharding: byYou, adapts: prepared,
	},
	"accelerate": {
		Output: Widened, Cache: configured, modules: theirs, checkpoints: askNothing, States: &noStates,
		WideEmbeddings: No, Releases: noReleases, replicas: byDDP, sharding: byAccelerate, adapts: prepared,
	},
	"hf-trainer": {
		Output: Goes, Cache: TrainersWord, modules: theirs, checkpoints: askNothing, States: &noStates,
		WideEmbeddings: Yes, Releases: noReleases, replicas: byTrainer, sharding: byArguments, adapts: prepared,
	},
	"trl": {
		Output: Goes, Cache: TrainersWord, modules: theirs, checkpoints: asTRL, States: &noStates,
		WideEmbeddings: Yes, Releases: noReleases, replicas: byTrainer, sharding: byArguments, adapts: preparedTRL,
	},
	"sentence-transformers": {
		Output: Goes, Cache: TrainersWord, modules: theirs, checkpoints: askNothing, States: &noStates,
		WideEmbeddings: Yes, Releases: noReleases, replicas: byDDP, sharding: byItself, adapts: asBaseIs,
	},
	"diffusers": {
		Output: Goes, Cache: configured, modules: theirs, checkpoints: askNothing, States: &noStates,
		WideEmbeddings: No, Releases: noReleases, replicas: byDDP, sharding: byItself, adapts: loaded,
	},
	"axolotl": {
		Output: Goes, Cache: SwitchedOff, modules: theirs, checkpoints: askOther, States: &noStates,
		WideEmbeddings: Yes, Releases: noReleases, replicas: likeTrainer, sharding: byAccelerate, adapts: kbitFused,
	},
	"llama-factory": {
		Output: Goes, Cache: SwitchedOff, modules: theirs, checkpoints: asFactory, States: &noStates,
		WideEmbeddings: Yes, Releases: noReleases, replicas: likeTrainer, sharding: byAccelerate, adapts: byNames,
	},
	"ms-swift": {
		Output: Goes, Cache: SwitchedOff, modules: theirs, checkpoints: askNothing, States: &noStates,
		WideEmbeddings: Yes, Releases: noReleases, replicas: likeTrainer, sharding: byYou, adapts: byNames,
	},
	"unsloth": {
		Output: Goes, Cache: TrainersWord, modules: theirs, checkpoints: askReentrant, States: &noStates,
		WideEmbeddings: Yes, Releases: noReleases, replicas: likeTrainer, sharding: byItself, adapts: loadedFused,
	},
	"xtuner": {
		Output: Goes, Cache: SwitchedOff, modules: theirs, checkpoints: askNothing, States: &noStates,
		WideEmbeddings: No, Releases: noReleases, replicas: byDDP, sharding: byItself, adapts: loaded,
	},
	"lightning": {
		Output: Goes, Cache: configured, modules: theirs, checkpoints: askNothing, States: &noStates,
		WideEmbeddings: No, Releases: noReleases, replicas: byDDP, sharding: byLightning, adapts: loaded,
	},
	"deepspeed": {
		Output: Goes, Cache: configured, modules: theirs, checkpoints: askNothing, States: &masterStates,
		WideEmbeddings: No, Releases: noReleases, replicas: byDeepSpeed, sharding: byItself, adapts: loaded,
	},
	"llm-foundry": {
		Output: held, Cache: configured, modules: itsOwn, checkpoints: askReentrant, States: &noStates,
		WideEmbeddings: No, Releases: noReleases, replicas: byDDP, sharding: byComposer, adapts: loaded,
	},
	"litgpt": {
		Output: held, Cache: configured, modules: litgpts, checkpoints: askOther, States: &noStates,
		WideEmbeddings: No, Releases: litgptPinned, replicas: byDDP, sharding: byFabric, adapts: byLitGPT,
	},
	"torchtune": {
		Output: Goes, Cache: configured, modules: tunes, checkpoints: askOther, States: &noStates,
		WideEmbeddings: No, Releases: noReleases, replicas: byDDP, sharding: byItself, adapts: byTune,
	},
	"torchtitan": {
		Output: Goes, Cache: configured, modules: titans, checkpoints: askOther, States: &noStates,
		WideEmbeddings: No, Releases: noReleases, replicas: byDDP, sharding: byTitan, adapts: loaded,
	},
	"megatron": {
		Output: Goes, Cache: configured, modules: itsOwn, checkpoints: askReentrant, States: &addedStates,
		WideEmbeddings: No, Releases: noReleases, replicas: byMegatron, sharding: byItself, adapts: loaded,
	},
	"nanotron": {
		Output: Goes, Cache: configured, modules: itsOwn, checkpoints: askReentrant, States: &addedStates,
		WideEmbeddings: No, Releases: noReleases, replicas: byNanotron, sharding: byItself, adapts: loaded,
	},
}

// CheckpointsWithout is transformers whose checkpoints are not reentrant where nobody says otherwise.
var CheckpointsWithout = release.Declare("checkpoints-without-reentrance", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What:   "transformers 5 checkpoints without reentrance where nobody says otherwise (use_reentrant False)",
	Source: "modeling_utils.py (gradient_checkpointing_enable), 4.57.6, 5.0.0, 5.10.0 and 5.23.0",
	Shown:  "traces of checkpointed jobs of both kinds",
})

// CheckpointsWithoutInTRL is trl that asks for such checkpoints itself.
var CheckpointsWithoutInTRL = release.Declare("checkpoints-without-reentrance-in-trl", release.Change{
	Library: "trl", After: "0.27", From: "0.28",
	What:   "trl from 0.28 asks for checkpoints without reentrance, with an older transformers, too",
	Source: "trl/trainer/sft_trainer.py (SFTTrainer.__init__), 0.27.0, 0.28.0 and 1.16.0",
	Shown:  "traces of checkpointed jobs of both kinds",
})

// litgptBitsandbytes is the bitsandbytes that litgpt 0.4 asks for.
const litgptBitsandbytes = "0.42.0"
