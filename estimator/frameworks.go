package estimator

import (
	"sort"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/recordings"
	"github.com/vramplan/vramplan/estimator/model/rewritten"
	"github.com/vramplan/vramplan/estimator/release"
)

// framework is what a training framework does where the job does not say. A row of frameworks says all of it: what is
// left out of a row is an error (TestEveryFrameworkSaysEverything).
type framework struct {
	// output is what its loop does with the model's output when the loss is there.
	output output
	// cache is who says whether a model fills a key/value cache.
	cache cache
	modules
	checkpoints
	// states is what it stores beside weights in half precision.
	states *States
	// wideEmbeddings: it may keep the moments of embeddings in float32 under bitsandbytes' optimizers of eight bits, as
	// the Trainer does, and who builds on it, with one that it makes itself.
	// Source: transformers/trainer.py 4.57.6 and 5.23.0 (Trainer.create_optimizer, register_module_override).
	wideEmbeddings said
	// releases are those of libraries that it holds back.
	releases map[string]string
	replicas
	sharding
	adapts
}

// modules is whose models it trains.
type modules struct {
	// ownModules: it writes its models itself, without a key/value cache in training. They are replayed as transformers
	// writes them, with wider bounds.
	ownModules said
	// writesLlama: its own Llama is replayed as torchtitan writes it, and writesTune: as torchtune does. rewritten: so
	// are all of its models, whose loss reads a list of parts of the logits.
	writesLlama, writesTune, rewritten said
}

// Whose models there are.
var (
	// of transformers
	theirs  = modules{ownModules: no, writesLlama: no, writesTune: no, rewritten: no}
	itsOwn  = modules{ownModules: yes, writesLlama: no, writesTune: no, rewritten: no}
	titans  = modules{ownModules: yes, writesLlama: yes, writesTune: no, rewritten: no}
	tunes   = modules{ownModules: yes, writesLlama: no, writesTune: yes, rewritten: no}
	litgpts = modules{ownModules: yes, writesLlama: no, writesTune: no, rewritten: yes}
)

// checkpoints is which of torch.utils.checkpoint's two ways it takes.
type checkpoints struct {
	// asks is the kind that it asks for; always is what it takes whatever is asked, by job.
	asks   kind
	always func(t *Training) kind
	// notReentrantFrom is the change from which its checkpoints are of the other kind, beside transformers' own.
	notReentrantFrom release.ID
}

// Which kinds are asked for. Sources: axolotl core/builders/base.py (_configure_gradient_checkpointing), LLaMA-Factory
// hparams/model_args.py (use_reentrant_gc), unsloth_zoo/training_utils.py (prepare_model_for_training), Megatron-LM
// core/tensor_parallel/random.py (CheckpointFunction), llm-foundry models/hf and composer's FSDP
// (activation_checkpointing_reentrant); torchtune, torchtitan and litgpt wrap blocks with torch's checkpoint_wrapper,
// whose default is CheckpointImpl.NO_REENTRANT.
var (
	askNothing   = checkpoints{asks: asAsked, always: never, notReentrantFrom: checkpointsWithout}
	asTRL        = checkpoints{asks: asAsked, always: reentrantUnderZeRO3, notReentrantFrom: checkpointsWithoutInTRL}
	askReentrant = checkpoints{asks: reentrant, always: never, notReentrantFrom: checkpointsWithout}
	askOther     = checkpoints{asks: notReentrant, always: never, notReentrantFrom: checkpointsWithout}
	asFactory    = checkpoints{asks: reentrant, always: notReentrantUnderFSDP2, notReentrantFrom: checkpointsWithout}
)

// said is a property that a row has or has not. Its zero value is one that nobody thought of.
type said uint8

const (
	no said = iota + 1
	yes
	formerly // in releases before a row of the table of releases
)

// output is what a loop does with the model's output.
type output uint8

const (
	goes     output = iota + 1
	held            // a variable keeps it through backward and into the next forward
	widened         // a variable keeps a float32 copy of it
	unpacked        // it is a tuple that is taken apart: variables keep the logits and the loss
)

// cache is who says whether a model fills a key/value cache in training and in evaluation.
type cache uint8

const (
	configured   cache = iota + 1 // the model's configuration
	trainersWord                  // the Trainer, in releases whose argument use_cache is set over the configuration's
	switchedOff                   // nobody: it sets use_cache to false in every model that it trains
)

var setsUseCache = of(func(r *resolved) bool {
	return r.by.cache == trainersWord && r.filled && !r.ownLoop && !r.readsOtherConfig()
}, release.Declare("sets-use-cache", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What: "the Trainer of transformers 5 sets use_cache of a model's configuration to its own argument of that " +
		"name, false where nothing is said: no key/value cache is filled, neither in training nor in an evaluation, " +
		"whatever the configuration says, but in T5's decoder and in models with towers, which read another one",
	Source: "trainer.py (Trainer.__init__), training_args.py (use_cache), 4.57.6, 5.0.0 and 5.23.0",
	Shown:  "steps and evaluations of decoders in the Trainer itself",
}))

// caches says whether the configuration's use_cache counts. Sources: transformers/trainer.py (Trainer.__init__), which
// trl, sentence-transformers and unsloth run; axolotl 0.18 loaders/utils.py (check_model_config), LLaMA-Factory 0.9.6
// model/model_utils/kv_cache.py (configure_kv_cache), ms-swift 4.6 trainers/mixin.py (_prepare_gradient_checkpointing),
// xtuner 0.1.23 model/sft.py (SupervisedFinetune). copied is that of the model, which the Trainer is given whole.
func (r *software) caches(copied bool) bool {
	switch r.by.cache {
	case switchedOff:
		return false
	case trainersWord:
		return r.ownLoop || copied || !r.holds(setsUseCache)
	}
	return true
}

// kind is which of torch.utils.checkpoint's two ways is taken.
type kind uint8

const (
	asAsked kind = iota + 1 // what the job or transformers says
	reentrant
	notReentrant
)

// replicas is what it does on several GPUs that each hold the model.
type replicas struct {
	// engine is whose engine reduces gradients.
	engine engine
	// looksForUnused: its trainer wraps the model with find_unused_parameters, but for a whole one that is
	// checkpointed.
	// Source: transformers/trainer.py 4.57, Trainer._wrap_model.
	looksForUnused said
	// groupsByDecay: its optimizer has matrices and vectors in groups of their own.
	// Source: transformers/trainer.py 4.57 (Trainer.create_optimizer, get_decay_parameter_names).
	groupsByDecay said
	// startsInZero: whether a model is made under zero.Init is known without being told.
	startsInZero said
	// plansTensors: GPUs share layers by the plan that a model of transformers has.
	plansTensors said
}

// engine reduces gradients.
type engine string

const torchEngine engine = "PyTorch's"

// sharding is what it does under FSDP.
type sharding struct {
	// amp is what mixed precision is.
	amp amp
	// flat: it takes FSDP1 where nothing is said; formerly, until DealsByFSDP2. whole: it leaves gradients whole until
	// the last micro-step (no_sync).
	flat, whole said
	// widens: under mixed precision what is trained is brought to float32, in whichever type it was loaded.
	widens said
	// callsCheckpoints: it trains transformers' models as they are, which decide where checkpointing is called.
	callsCheckpoints said
}

// amp is what mixed precision is under FSDP.
type amp uint8

const (
	autocast amp = iota + 1
	// halves gives FSDP's own mixed precision the half type of autocast, which under FSDP1 is kept around the forward:
	// parameters are stored in float32, gathered and summed in that type.
	halves
	// policy is FSDP's own mixed precision without autocast.
	policy
)

// How frameworks shard: accelerate's FSDP asks for no prefetching, and PyTorch's own default asks for the parameters of
// the layer before while one runs backward. Sources: accelerate/utils/dataclasses.py 1.15
// (FullyShardedDataParallelPlugin, set_mixed_precision), accelerator.py (prepare_model) and utils/fsdp_utils.py
// (fsdp2_prepare_model) for what is brought to float32, transformers 4.57 Trainer.training_step and accelerate 1.15
// Accelerator.no_sync, which trl, axolotl and llama-factory run; composer/distributed/mosaic_parallelism.py,
// get_mixed_precision, for llm-foundry; litgpt pretrain.py, finetune (fabric.no_backward_sync); lightning FSDPStrategy.
var (
	byAccelerate = sharding{amp: halves, flat: yes, whole: yes, widens: yes, callsCheckpoints: yes}
	// of the Trainer, which tell accelerate the version
	byArguments = sharding{amp: halves, flat: formerly, whole: yes, widens: yes, callsCheckpoints: yes}
	byComposer  = sharding{amp: halves, flat: yes, whole: no, widens: no, callsCheckpoints: no}
	byFabric    = sharding{amp: autocast, flat: yes, whole: yes, widens: no, callsCheckpoints: no}
	byLightning = sharding{amp: autocast, flat: yes, whole: no, widens: no, callsCheckpoints: no}
	byTitan     = sharding{amp: policy, flat: no, whole: no, widens: no, callsCheckpoints: no}
	byItself    = sharding{amp: autocast, flat: no, whole: no, widens: no, callsCheckpoints: no}
	// who call transformers' models
	byYou = sharding{amp: autocast, flat: no, whole: no, widens: no, callsCheckpoints: yes}
)

// How frameworks replicate.
var (
	byTrainer = replicas{
		engine: torchEngine, looksForUnused: yes, groupsByDecay: yes, startsInZero: no, plansTensors: no,
	}
	likeTrainer = replicas{
		engine: torchEngine, looksForUnused: no, groupsByDecay: yes, startsInZero: no, plansTensors: no,
	}
	byDDP   = replicas{engine: torchEngine, looksForUnused: no, groupsByDecay: no, startsInZero: no, plansTensors: no}
	byTorch = replicas{
		engine: torchEngine, looksForUnused: no, groupsByDecay: no, startsInZero: no, plansTensors: yes,
	}
	byDeepSpeed = replicas{
		engine: "DeepSpeed's", looksForUnused: no, groupsByDecay: no, startsInZero: yes, plansTensors: no,
	}
	byMegatron = replicas{
		engine: "Megatron's", looksForUnused: no, groupsByDecay: no, startsInZero: no, plansTensors: no,
	}
	byNanotron = replicas{
		engine: "nanotron's", looksForUnused: no, groupsByDecay: no, startsInZero: no, plansTensors: no,
	}
)

// What is held back.
var (
	noReleases   = map[string]string{}
	litgptPinned = map[string]string{"bitsandbytes": litgptBitsandbytes}
)

// adapts is what it does with adapters.
type adapts struct {
	// upcasts: its users prepare a quantised model with peft's prepare_model_for_kbit_training.
	upcasts said
	// asBase: adapters are stored as the base is. fuses: it has fused kernels for adapters on a base that is not
	// quantised. decomposes: it has DoRA. usesPEFT: its adapters are peft's.
	asBase, fuses, decomposes, usesPEFT said
	// savesModules: copies of modules may be trained in full beside adapters, peft's modules_to_save.
	savesModules said
	// runsTRL: its trainers are trl's, whose release counts, and which bring embeddings and head of a quantised base
	// back to half precision.
	runsTRL said
	// listsLinears: it hands peft the last parts of the names of linear layers where its user wants all of them.
	// Sources: axolotl 0.19 loaders/adapter.py (find_all_linear_names), LLaMA-Factory 0.9.5 model/model_utils/misc.py
	// (find_all_linear_modules), ms-swift 4.6 utils/transformers_utils.py (find_all_linears).
	listsLinears said
}

// How frameworks adapt. torchtune and litgpt train what is an adapter and nothing else: torchtune
// recipes/lora_finetune_single_device.py and lora_finetune_distributed.py (set_trainable_params), 0.6.1, litgpt
// finetune/lora.py (mark_only_lora_as_trainable), 0.5.12.
var (
	prepared = adapts{
		upcasts: yes, asBase: no, fuses: no, decomposes: yes, usesPEFT: yes, savesModules: yes, runsTRL: no,
		listsLinears: no,
	}
	preparedTRL = adapts{
		upcasts: yes, asBase: no, fuses: no, decomposes: yes, usesPEFT: yes, savesModules: yes, runsTRL: yes,
		listsLinears: no,
	}
	kbitFused = adapts{
		upcasts: yes, asBase: no, fuses: yes, decomposes: yes, usesPEFT: yes, savesModules: yes, runsTRL: no,
		listsLinears: yes,
	}
	loaded = adapts{
		upcasts: no, asBase: no, fuses: no, decomposes: yes, usesPEFT: yes, savesModules: yes, runsTRL: no,
		listsLinears: no,
	}
	byNames = adapts{
		upcasts: no, asBase: no, fuses: no, decomposes: yes, usesPEFT: yes, savesModules: yes, runsTRL: no,
		listsLinears: yes,
	}
	loadedFused = adapts{
		upcasts: no, asBase: no, fuses: yes, decomposes: yes, usesPEFT: yes, savesModules: yes, runsTRL: no,
		listsLinears: no,
	}
	asBaseIs = adapts{
		upcasts: no, asBase: yes, fuses: no, decomposes: yes, usesPEFT: yes, savesModules: yes, runsTRL: no,
		listsLinears: no,
	}
	byTune = adapts{
		upcasts: no, asBase: no, fuses: no, decomposes: yes, usesPEFT: yes, savesModules: no, runsTRL: no,
		listsLinears: no,
	}
	byLitGPT = adapts{
		upcasts: no, asBase: no, fuses: no, decomposes: no, usesPEFT: no, savesModules: no, runsTRL: no,
		listsLinears: no,
	}
)

// Mixed precision with half-precision weights as these frameworks do it. Sources: Megatron-LM
// core/optimizer/distrib_optimizer.py and core/distributed/param_and_grad_buffer.py (grad_reduce_in_fp32, which bf16
// sets); DeepSpeed runtime/fp16/fused_optimizer.py; nanotron optim/gradient_accumulator.py (FP32GradientAccumulator).
var (
	masterStates = States{MasterWeights: "fp32", Optimizer: "fp32"}
	addedStates  = States{Gradients: "fp32", MasterWeights: "fp32", Optimizer: "fp32"}
)

// Nothing of its own.
var noStates = States{}

func never(*Training) kind { return asAsked }

// reentrantUnderZeRO3 is what trl forces for adapters (trl 1.16, SFTTrainer.__init__).
func reentrantUnderZeRO3(t *Training) kind {
	if t.LoRA != nil && t.ZeROStage() == 3 {
		return reentrant
	}
	return asAsked
}

// notReentrantUnderFSDP2 is what LLaMA-Factory forces (model/model_utils/checkpointing.py).
func notReentrantUnderFSDP2(t *Training) kind {
	if d := t.Distributed; d != nil && d.Data == "fsdp" && d.FSDPVersion == 2 {
		return notReentrant
	}
	return asAsked
}

// frameworks are the rows, by name.
//
// Sources of loops: nanoGPT train.py; transformers 4.57 Trainer.training_step (trl, axolotl,
// llama-factory, ms-swift, unsloth and xtuner run it or keep the loss alone, as it does); accelerate 1.x
// (convert_outputs_to_fp32); torchtune recipes/full_finetune_single_device.py and torchtitan train.py (both delete the
// logits before backward); litgpt finetune/lora.py (the list of logits stays in a variable); composer's Trainer, which
// llm-foundry runs, keeps state.outputs; Lightning's training_step returns the loss.
var frameworks = map[string]*framework{
	"nanogpt": {
		output: unpacked, cache: configured, modules: theirs, checkpoints: askNothing, states: &noStates,
		wideEmbeddings: no, releases: noReleases, replicas: byDDP, sharding: byItself, adapts: loaded,
	},
	"pytorch": {
		output: held, cache: configured, modules: theirs, checkpoints: askNothing, states: &noStates,
		wideEmbeddings: no, releases: noReleases, replicas: byTorch, sharding: byYou, adapts: prepared,
	},
	"accelerate": {
		output: widened, cache: configured, modules: theirs, checkpoints: askNothing, states: &noStates,
		wideEmbeddings: no, releases: noReleases, replicas: byDDP, sharding: byAccelerate, adapts: prepared,
	},
	"hf-trainer": {
		output: goes, cache: trainersWord, modules: theirs, checkpoints: askNothing, states: &noStates,
		wideEmbeddings: yes, releases: noReleases, replicas: byTrainer, sharding: byArguments, adapts: prepared,
	},
	"trl": {
		output: goes, cache: trainersWord, modules: theirs, checkpoints: asTRL, states: &noStates,
		wideEmbeddings: yes, releases: noReleases, replicas: byTrainer, sharding: byArguments, adapts: preparedTRL,
	},
	"sentence-transformers": {
		output: goes, cache: trainersWord, modules: theirs, checkpoints: askNothing, states: &noStates,
		wideEmbeddings: yes, releases: noReleases, replicas: byDDP, sharding: byItself, adapts: asBaseIs,
	},
	"diffusers": {
		output: goes, cache: configured, modules: theirs, checkpoints: askNothing, states: &noStates,
		wideEmbeddings: no, releases: noReleases, replicas: byDDP, sharding: byItself, adapts: loaded,
	},
	"axolotl": {
		output: goes, cache: switchedOff, modules: theirs, checkpoints: askOther, states: &noStates,
		wideEmbeddings: yes, releases: noReleases, replicas: likeTrainer, sharding: byAccelerate, adapts: kbitFused,
	},
	"llama-factory": {
		output: goes, cache: switchedOff, modules: theirs, checkpoints: asFactory, states: &noStates,
		wideEmbeddings: yes, releases: noReleases, replicas: likeTrainer, sharding: byAccelerate, adapts: byNames,
	},
	"ms-swift": {
		output: goes, cache: switchedOff, modules: theirs, checkpoints: askNothing, states: &noStates,
		wideEmbeddings: yes, releases: noReleases, replicas: likeTrainer, sharding: byYou, adapts: byNames,
	},
	"unsloth": {
		output: goes, cache: trainersWord, modules: theirs, checkpoints: askReentrant, states: &noStates,
		wideEmbeddings: yes, releases: noReleases, replicas: likeTrainer, sharding: byItself, adapts: loadedFused,
	},
	"xtuner": {
		output: goes, cache: switchedOff, modules: theirs, checkpoints: askNothing, states: &noStates,
		wideEmbeddings: no, releases: noReleases, replicas: byDDP, sharding: byItself, adapts: loaded,
	},
	"lightning": {
		output: goes, cache: configured, modules: theirs, checkpoints: askNothing, states: &noStates,
		wideEmbeddings: no, releases: noReleases, replicas: byDDP, sharding: byLightning, adapts: loaded,
	},
	"deepspeed": {
		output: goes, cache: configured, modules: theirs, checkpoints: askNothing, states: &masterStates,
		wideEmbeddings: no, releases: noReleases, replicas: byDeepSpeed, sharding: byItself, adapts: loaded,
	},
	"llm-foundry": {
		output: held, cache: configured, modules: itsOwn, checkpoints: askReentrant, states: &noStates,
		wideEmbeddings: no, releases: noReleases, replicas: byDDP, sharding: byComposer, adapts: loaded,
	},
	"litgpt": {
		output: held, cache: configured, modules: litgpts, checkpoints: askOther, states: &noStates,
		wideEmbeddings: no, releases: litgptPinned, replicas: byDDP, sharding: byFabric, adapts: byLitGPT,
	},
	"torchtune": {
		output: goes, cache: configured, modules: tunes, checkpoints: askOther, states: &noStates,
		wideEmbeddings: no, releases: noReleases, replicas: byDDP, sharding: byItself, adapts: byTune,
	},
	"torchtitan": {
		output: goes, cache: configured, modules: titans, checkpoints: askOther, states: &noStates,
		wideEmbeddings: no, releases: noReleases, replicas: byDDP, sharding: byTitan, adapts: loaded,
	},
	"megatron": {
		output: goes, cache: configured, modules: itsOwn, checkpoints: askReentrant, states: &addedStates,
		wideEmbeddings: no, releases: noReleases, replicas: byMegatron, sharding: byItself, adapts: loaded,
	},
	"nanotron": {
		output: goes, cache: configured, modules: itsOwn, checkpoints: askReentrant, states: &addedStates,
		wideEmbeddings: no, releases: noReleases, replicas: byNanotron, sharding: byItself, adapts: loaded,
	},
}

func frameworkNames() []string {
	names := make([]string, 0, len(frameworks))
	for n := range frameworks {
		names = append(names, n)
	}
	sort.Strings(names)
	return names
}

// follow is the framework that counts, and whether it is known: what else is wrong with the job of another is said as
// under one that does nothing of its own.
func (r *software) follow(name string) (known bool) {
	r.framework = name
	if r.by, known = frameworks[name]; !known {
		r.by = frameworks["xtuner"]
	}
	return known
}

// loop takes the defaults of the framework where the job does not say.
func (r *resolved) loop(t *Training, errs *invalid.List) {
	name := t.Framework
	if name == "" {
		name = "hf-trainer"
		switch rec := recordings.Recording(&r.arch); {
		case r.arch.NanoGPT():
			name = "nanogpt"
		case rec != nil && !r.arch.Reentrant:
			name = "pytorch"
		}
	}
	if !r.follow(name) {
		errs.Add("/training/framework", "unknown_value", "framework is %.40q; %s are accepted", r.framework,
			strings.Join(frameworkNames(), ", "))
	}
	f := r.by
	holds := f.output > goes
	if t.HoldLogits != nil {
		holds = *t.HoldLogits
	}
	r.outputs = outputs{held: holds, widened: holds && f.output == widened, unpacked: f.output == unpacked}
	r.ownModules = f.ownModules == yes
	r.filled = r.arch.UseCache
	if !r.caches(r.readsOtherConfig()) {
		r.arch.UseCache, r.arch.CachesInTrainingLater, r.arch.CachesInEvaluation = false, false, false
	}
	compiled := t.Compile != nil && t.Compile.Model // what inductor makes of its modules was not traced
	if f.rewritten == yes && !compiled {
		rewritten.WriteAsLitGPT(&r.arch)
	}
}

// readsOtherConfig says that the text model reads another configuration than that of the whole, on which the Trainer
// sets use_cache: a copy, or text_config. Source: transformers/utils/generic.py (merge_with_config_defaults), 5.23.
func (r *work) readsOtherConfig() bool { return r.arch.CopiesConfig || r.arch.HasTower() }
