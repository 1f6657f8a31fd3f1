package job

import (
	"encoding/json"

	"github.com/vramplan/vramplan/estimator/model/arch"
)

// Job is one training job: a model, how it is trained and where it should run.
// It is the document that every entrance of vramplan takes.
//
// The zero value of an optional field means "the default"; pointers are used
// where zero, false or an empty object would mean something else.
type Job struct {
	Model    Model    `json:"model"`
	Training Training `json:"training"`

	// GPUs names the cards to judge: catalog ids, aliases, driver names, "*"
	// for the whole catalog, or a card given by its memory.
	GPUs []GPURef `json:"gpus,omitempty" validate:"omitempty,max=512,dive"`
	// ReserveBytes is what other processes or a display hold on the card.
	ReserveBytes int64 `json:"reserve_bytes,omitempty" validate:"gte=0,lte=9007199254740991"`
	// Display says whether the card drives a display, whose programs hold memory that nobody counts: a plan then
	// recommends a pair that leaves room for them. Not given, it is true of desktop and laptop cards, unless
	// ReserveBytes says what is held.
	Display *bool `json:"display,omitempty"`
	// Confidence is the share of runs that low_bytes…high_bytes should cover; 0.95 where it is left out.
	Confidence float64 `json:"confidence,omitempty" validate:"omitempty,gte=0.5,lte=0.999"`
}

// Model says what is trained. Exactly one of Preset, HFConfig, NanoGPT,
// Dimensions, Recorded and Diffusion is given.
type Model struct {
	// Preset is a model of the catalog: an id, an alias or a name such as "meta-llama/Llama-3.1-8B".
	Preset string `json:"preset,omitempty" validate:"omitempty,max=200"`
	// HFConfig is the object in a Hugging Face config.json, as it is; keys that do not matter are ignored.
	HFConfig json.RawMessage `json:"hf_config,omitempty"`
	// NanoGPT is the model keys of a nanoGPT configuration.
	NanoGPT *arch.NanoGPT `json:"nanogpt,omitempty"`
	// Dimensions describes a model by its numbers.
	Dimensions *arch.Dimensions `json:"dimensions,omitempty"`
	// Recorded is what vramplan_record wrote of a module (docs/recording.md). It is read strictly.
	Recorded json.RawMessage `json:"recorded,omitempty"`
	// Diffusion is a diffusion pipeline, as its folder on the hub has it.
	Diffusion *Diffusion `json:"diffusion,omitempty"`
	// Head is what stands on top of the model; the family's own where it is left out.
	Head *arch.Head `json:"head,omitempty"`
}

// Training says how the model is trained.
type Training struct {
	// MicroBatch is the number of sequences in one forward pass on one GPU, or of pictures with the objective
	// diffusion.
	MicroBatch int64 `json:"micro_batch,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// SequenceLength is in tokens; the model's context where it is left out.
	SequenceLength int64 `json:"sequence_length,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// TargetSequenceLength is the decoder's length in an encoder-decoder model.
	TargetSequenceLength int64 `json:"target_sequence_length,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// Resolution is how many pixels the pictures of a diffusion training have a side, or [height, width].
	Resolution Resolution `json:"resolution,omitempty" validate:"omitempty,max=2,dive,gte=8,lte=16384"`
	// Script is diffusers' training script, as its examples have it, whose loop is replayed; where it is left out, that
	// of the model and of what is trained.
	Script string `json:"script,omitempty" validate:"omitempty,max=200"`
	// GradientAccumulation is the number of micro-steps in an optimizer step; 1 where it is left out.
	GradientAccumulation int64 `json:"gradient_accumulation,omitempty" validate:"omitempty,gte=1,lte=1073741824"`

	// Objective is the kind of training; the loss that the model returns where it is left out.
	Objective *Objective `json:"objective,omitempty"`

	// Precision is how tensors are stored and computed; amp-bf16 where it is left out.
	// The amp values keep float32 weights, or those that the framework loads, and compute under torch.autocast.
	Precision Precision `json:"precision,omitempty" validate:"omitempty,oneof=amp-bf16 amp-fp16 fp32 tf32 bf16 fp16"`
	// FP8 is refused: training in fp8 is not modelled yet.
	FP8 *FP8 `json:"fp8,omitempty"`
	// States says in which types weights, gradients and optimizer state are stored, apart from what is computed in.
	States *States `json:"states,omitempty"`
	// Optimizer is a name or an object; AdamW where it is left out.
	Optimizer *Optimizer `json:"optimizer,omitempty"`
	// GradientCheckpointing says which blocks are computed again in backward; none where it is left out.
	GradientCheckpointing *Checkpointing `json:"gradient_checkpointing,omitempty"`
	// Attention is PyTorch's scaled_dot_product_attention (sdpa), FlashAttention (flash), or eager, which stores the
	// scores; sdpa where it is left out.
	Attention string `json:"attention,omitempty" validate:"omitempty,oneof=sdpa flash eager"`
	// AttentionMask is explicit where some tokens of a batch are padding; none where it is left out.
	AttentionMask string `json:"attention_mask,omitempty" validate:"omitempty,oneof=none explicit"`
	// Loss is how the cross-entropy over the vocabulary is computed; standard where it is left out.
	Loss *Loss `json:"loss,omitempty"`
	// LabelSmoothing is the Trainer's label_smoothing_factor, from 0 to 1: where it is above 0, the Trainer computes
	// the loss, of the logits that the model returns.
	LabelSmoothing float64 `json:"label_smoothing,omitempty" validate:"omitempty,gte=0,lte=1"`
	// NEFTuneNoiseAlpha is the Trainer's neftune_noise_alpha: where it is above 0, noise is added to embeddings.
	NEFTuneNoiseAlpha float64 `json:"neftune_noise_alpha,omitempty" validate:"omitempty,gte=0,lte=1000000"`
	// LogitsDtype is fp32 where the model or trainer makes a float32 copy of the logits before the loss.
	LogitsDtype string `json:"logits_dtype,omitempty" validate:"omitempty,oneof=compute fp32"`
	// HoldLogits says whether a variable keeps the logits alive through backward; as the framework's loop does where it
	// is left out.
	HoldLogits *bool `json:"hold_logits,omitempty"`
	// Kernels are the fused kernels in use: they keep fewer tensors for backward than the modules that they stand for.
	// gated-delta-rule is that of the package flash-linear-attention, which transformers calls where it is installed.
	Kernels []string `json:"kernels,omitempty" validate:"omitempty,max=16,dive,oneof=rmsnorm layernorm rope swiglu bias-gelu bias-dropout-add softmax lora gated-delta-rule"`
	// Compile is torch.compile: false, true, or what is compiled.
	Compile *Compile `json:"compile,omitempty"`
	// Dropout is a probability, or one for hidden states and one for attention; the model's where it is left out.
	Dropout *Dropout `json:"dropout,omitempty"`
	// LoRA trains low-rank adapters on a frozen base; without it all parameters are trained.
	LoRA *LoRA `json:"lora,omitempty"`
	// Freeze leaves parameters out of training: those in whose name, as named_parameters has it, one of these stands as
	// whole parts: embed_tokens, layers.3, layers.0-15 or layers.*.mlp.
	Freeze []string `json:"freeze,omitempty" validate:"omitempty,max=16,dive,min=1,max=200"`
	// Distributed spreads the job over GPUs; one GPU where it is left out.
	Distributed *Distributed `json:"distributed,omitempty"`
	// ClipGradNorm says whether gradients are clipped by their norm; true where it is left out and the optimizer does
	// not run in backward.
	ClipGradNorm *bool `json:"clip_grad_norm,omitempty"`
	// Save says whether the run writes checkpoints; as the framework does where it is left out, which the Trainer and
	// who builds on it do.
	Save *bool `json:"save,omitempty"`
	// Resume says that the run starts from a checkpoint: the optimizer's states are there before the first forward.
	Resume bool `json:"resume,omitempty"`
	// Allocator sets PyTorch's caching allocator.
	Allocator *Allocator `json:"allocator,omitempty"`
	// Evaluation is an evaluation pass between training steps, which can hold the peak.
	Evaluation *Evaluation `json:"evaluation,omitempty"`
	// Framework says whose loop runs and, for hf-trainer, trl, axolotl, llama-factory and ms-swift, whose defaults
	// count for the fields that are left out, by release: micro_batch 8, fp32 or the checkpoint's type. A field that is
	// given always wins, and without lora no adapters are trained. Where it is left out, the loop is nanogpt's for
	// nanoGPT's models and hf-trainer's for others, and defaults are those said here.
	Framework string `json:"framework,omitempty" validate:"omitempty,oneof=pytorch nanogpt hf-trainer accelerate trl torchtune torchtitan litgpt megatron nanotron deepspeed llm-foundry unsloth llama-factory ms-swift xtuner axolotl lightning sentence-transformers diffusers"`
	// Versions are the releases of libraries that the job runs with, by name ("torch", "transformers", …); those of the
	// reference where they are left out.
	Versions map[string]string `json:"versions,omitempty" validate:"omitempty,max=32,dive,keys,max=64,endkeys,max=64"`
}

// Precision is how tensors are stored and computed. Values: PrecisionAMPBF16 and the others below.
type Precision string

// The precisions. "amp" keeps float32 weights and computes under torch.autocast.
const (
	PrecisionAMPBF16 Precision = "amp-bf16"
	PrecisionAMPFP16 Precision = "amp-fp16"
	PrecisionFP32    Precision = "fp32"
	PrecisionTF32    Precision = "tf32"
	PrecisionBF16    Precision = "bf16"
	PrecisionFP16    Precision = "fp16"
	PrecisionFP8     Precision = "fp8"
)

// FP8 selects the scaling recipe when precision is fp8.
type FP8 struct {
	// Recipe is the scaling recipe, such as "tensorwise" or "rowwise".
	Recipe string `json:"recipe,omitempty" validate:"omitempty,max=64"`
	// AllGather says whether FSDP gathers weights in fp8.
	AllGather bool `json:"all_gather,omitempty"`
}

// States overrides what is stored, apart from what is computed in. Each is
// "fp32", "bf16", "fp16" or "none"; empty follows Precision.
type States struct {
	// Weights are the parameters that the model computes with.
	Weights string `json:"weights,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16 none"`
	// Gradients are those that the optimizer reads.
	Gradients string `json:"gradients,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16 none"`
	// MasterWeights are the copy that the optimizer changes; none where it changes the weights themselves.
	MasterWeights string `json:"master_weights,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16 none"`
	// MasterGradients are the copy that micro-steps are added into.
	MasterGradients string `json:"master_gradients,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16 none"`
	// Optimizer is the optimizer's own state, such as AdamW's moments.
	Optimizer string `json:"optimizer,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16 none"`
}

// Or is s with what it leaves out taken from defaults.
func (s States) Or(defaults States) States {
	for _, f := range [...]struct{ own, other *string }{
		{&s.Weights, &defaults.Weights}, {&s.Gradients, &defaults.Gradients},
		{&s.MasterWeights, &defaults.MasterWeights},
		{&s.MasterGradients, &defaults.MasterGradients}, {&s.Optimizer, &defaults.Optimizer},
	} {
		if *f.own == "" {
			*f.own = *f.other
		}
	}
	return s
}

// Optimizer is a name or an object: "adamw" means {"name": "adamw"}.
type Optimizer struct {
	// Name is the optimizer; the names of PyTorch, bitsandbytes and transformers are understood.
	Name string `json:"name,omitempty" validate:"omitempty,oneof=adamw adam sgd sgd-momentum adafactor lion adamw-8bit paged-adamw paged-adamw-8bit adamw-4bit lion-8bit muon galore-adamw amsgrad nadam radam adamax adadelta schedule-free-adamw rmsprop adagrad"`
	// Implementation is how the step runs; where it is left out, what the optimizer's library does on a GPU (PyTorch:
	// foreach).
	Implementation string `json:"implementation,omitempty" validate:"omitempty,oneof=foreach fused for-loop bitsandbytes torchao transformers torch"`
	// InBackward runs the step of each parameter as soon as its gradient is there, and frees the gradient.
	InBackward bool `json:"in_backward,omitempty"`
	// Rank is GaLore's; 128 where it is left out.
	Rank int64 `json:"rank,omitempty" validate:"omitempty,gte=1,lte=1048576"`
}

// Checkpointing is a mode, or an object such as {"every": n}, {"mode": …, "offload": true} or {"mode": …, "reentrant":
// false}.
type Checkpointing struct {
	// Mode says what is computed again: whole blocks (full), attention (selective), or all but attention and every
	// second matrix product (selective-op).
	Mode string `json:"mode,omitempty" validate:"omitempty,oneof=none full selective selective-op"`
	// Every checkpoints one block in so many, with the mode full; 1 where it is left out.
	Every int64 `json:"every,omitempty" validate:"omitempty,gte=1,lte=100000"`
	// Offload keeps the inputs of checkpointed blocks in host memory.
	Offload bool `json:"offload,omitempty"`
	// Reentrant is the use_reentrant of torch.utils.checkpoint, with the mode full; as the framework and its release of
	// transformers do where it is left out.
	Reentrant *bool `json:"reentrant,omitempty"`
}

// Loss is a kind or an object.
type Loss struct {
	// Kind is standard, fused (the gradient is written over the logits), chunked, or fused-linear (no logits are kept:
	// Liger, Cut Cross Entropy).
	Kind string `json:"kind,omitempty" validate:"omitempty,oneof=standard fused chunked fused-linear"`
	// Chunks is into how many parts a chunked loss divides the tokens; 8 where neither their number nor their size is
	// given.
	Chunks int64 `json:"chunks,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// ChunkTokens is how many tokens a chunk has.
	ChunkTokens int64 `json:"chunk_tokens,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// Head says whether the output layer of a chunked loss runs chunk by chunk too, or whole.
	Head string `json:"head,omitempty" validate:"omitempty,oneof=chunked whole"`
	// VocabParallel divides the vocabulary over tensor-parallel ranks; torchtitan does where it is left out.
	VocabParallel *bool `json:"vocab_parallel,omitempty"`
}

// Compile is torch.compile: false, true, or what is compiled.
type Compile struct {
	// Model says whether the model is compiled.
	Model bool `json:"model,omitempty"`
	// Loss says whether the loss is compiled.
	Loss bool `json:"loss,omitempty"`
}

// Dropout is one probability for both, or one each.
type Dropout struct {
	// Hidden is the probability after projections and embeddings.
	Hidden *float64 `json:"hidden,omitempty" validate:"omitempty,gte=0,lt=1"`
	// Attention is the probability in attention.
	Attention *float64 `json:"attention,omitempty" validate:"omitempty,gte=0,lt=1"`
}

// LoRA trains low-rank adapters on a frozen base.
type LoRA struct {
	// Rank is the adapters' inner dimension, r; as the framework takes it where it is left out.
	Rank int64 `json:"rank,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// Alpha scales what the adapters add. It changes no byte, but on the experts of a mixture, where a gradient is
	// multiplied by alpha/rank unless that is one.
	Alpha float64 `json:"alpha,omitempty"`
	// TargetModules are the modules that get adapters: a list of names, or "all-linear".
	TargetModules Targets `json:"target_modules,omitempty" validate:"omitempty,max=64,dive,min=1,max=200"`
	// Dropout is the probability at the adapters' inputs; the framework's, or none, where it is left out.
	Dropout *float64 `json:"dropout,omitempty" validate:"omitempty,gte=0,lt=1"`
	// AdapterDtype is the type that adapters are stored in; fp32 where it is left out.
	AdapterDtype string `json:"adapter_dtype,omitempty" validate:"omitempty,oneof=fp32 bf16 fp16"`
	// BasePrecision is how the frozen base is stored; nf4 is QLoRA's. What the framework loads, or the
	// computation's type, where it is left out.
	BasePrecision string `json:"base_precision,omitempty" validate:"omitempty,oneof=bf16 fp16 fp32 int8 nf4 gptq-int4 gptq-int8"`
	// DoubleQuantization says whether nf4's scales are quantised too; as the framework does, or not, where it is left
	// out.
	DoubleQuantization *bool `json:"double_quantization,omitempty"`
	// UpcastBase is what peft's prepare_model_for_kbit_training does: what is not quantised in float32. As the
	// framework's users do where it is left out.
	UpcastBase *bool `json:"upcast_base,omitempty"`
	// UseRSLoRA scales what the adapters add by alpha over the root of the rank (use_rslora). It changes no byte, but
	// where alpha does.
	UseRSLoRA bool `json:"use_rslora,omitempty"`
	// Bias says which biases are trained beside the adapters: none, all of the model's, or those of the layers that
	// have adapters (lora_only); none where it is left out.
	Bias string `json:"bias,omitempty" validate:"omitempty,oneof=none all lora_only"`
	// LayersToTransform are the numbers of the layers that get adapters, from 0; all where it is left out.
	LayersToTransform []int64 `json:"layers_to_transform,omitempty" validate:"omitempty,max=4096,dive,gte=0,lte=1048576"`
	// RankPattern gives the modules that a key matches, the end of a name or a regular expression, a rank of their own.
	RankPattern map[string]int64 `json:"rank_pattern,omitempty" validate:"omitempty,max=256,dive,keys,max=256,endkeys,gte=1,lte=1048576"`
	// AlphaPattern gives modules an alpha of their own. It changes no byte.
	AlphaPattern map[string]float64 `json:"alpha_pattern,omitempty" validate:"omitempty,max=256,dive,keys,max=256,endkeys"`
	// ExcludeModules are modules that get no adapter though target_modules mean them, by the ends of their names.
	ExcludeModules Targets `json:"exclude_modules,omitempty" validate:"omitempty,max=64,dive,min=1,max=200"`
	// ModulesToSave are modules that are trained whole beside the adapters.
	ModulesToSave []string `json:"modules_to_save,omitempty" validate:"omitempty,max=64,dive,min=1,max=200"`
	// DoRA says whether adapters have a magnitude vector.
	DoRA bool `json:"dora,omitempty"`
}

// Dropped is the probability of the adapters' dropout, none where it is left out.
func (l *LoRA) Dropped() float64 {
	if l.Dropout == nil {
		return 0
	}
	return *l.Dropout
}

// Doubles says whether nf4's scales are quantised too, which they are not where it is left out.
func (l *LoRA) Doubles() bool { return l.DoubleQuantization != nil && *l.DoubleQuantization }

// Distributed spreads a job over GPUs.
type Distributed struct {
	// WorldSize is the number of GPUs.
	WorldSize int64 `json:"world_size,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// Data is how data-parallel GPUs share the state: each holds all of it (ddp), DeepSpeed's ZeRO, or FSDP.
	Data string `json:"data,omitempty" validate:"omitempty,oneof=ddp zero1 zero2 zero3 fsdp"`
	// FSDPVersion is 1 (FullyShardedDataParallel) or 2 (fully_shard). Where it is not said, it is what the framework
	// takes: 2 in the Trainer and in trl from transformers 5.10, 1 in accelerate, axolotl and llama-factory.
	FSDPVersion int64 `json:"fsdp_version,omitempty" validate:"omitempty,oneof=1 2"`
	// ReshardAfterForward says whether FSDP frees gathered weights after forward.
	ReshardAfterForward *bool `json:"reshard_after_forward,omitempty"`
	// LimitAllGathers is FSDP1's limit_all_gathers.
	LimitAllGathers *bool `json:"limit_all_gathers,omitempty"`
	// DeepSpeed is the zero_optimization object of a DeepSpeed configuration, as it is; keys that do not matter are
	// ignored.
	DeepSpeed json.RawMessage `json:"deepspeed,omitempty"`
	// TensorParallel is the number of GPUs that share each layer.
	TensorParallel int64 `json:"tensor_parallel,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// SequenceParallel divides activations between tensor-parallel layers by sequence, as Megatron does.
	SequenceParallel bool `json:"sequence_parallel,omitempty"`
	// AsyncTensorParallel overlaps communication with matmuls.
	AsyncTensorParallel bool `json:"async_tensor_parallel,omitempty"`
	// PipelineParallel is the number of stages that the layers are divided into.
	PipelineParallel int64 `json:"pipeline_parallel,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// PipelineSchedule is the order of micro-batches: "1f1b" (the default), "gpipe", "interleaved-1f1b",
	// "interleaved-zero-bubble", "zb-v" or "dualpipe-v", or PyTorch's name of one of them.
	PipelineSchedule string `json:"pipeline_schedule,omitempty" validate:"omitempty,max=64"`
	// VirtualPipeline is the number of stages that a GPU has in an interleaved schedule; two in zb-v and dualpipe-v.
	VirtualPipeline int64 `json:"virtual_pipeline,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// PipelineStage is the stage to answer for, from 0; the words first, middle and last are accepted, too. The fullest
	// where it is left out.
	PipelineStage *Stage `json:"pipeline_stage,omitempty" validate:"omitempty,lte=1048576"`
	// Rank is the GPU to answer for, from 0, which says the stage of a pipeline and the place among GPUs that share a
	// sequence; the fullest where it is left out.
	Rank *int64 `json:"rank,omitempty" validate:"omitempty,gte=0,lte=1048576"`
	// ContextParallel is the number of GPUs that share each sequence.
	ContextParallel int64 `json:"context_parallel,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// ContextParallelKind is how they exchange keys and values, such as "ring" or "ulysses".
	ContextParallelKind string `json:"context_parallel_kind,omitempty" validate:"omitempty,max=64"`
	// ExpertParallel is the number of GPUs that share a layer's experts.
	ExpertParallel int64 `json:"expert_parallel,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// OffloadOptimizer keeps the optimizer state in host memory.
	OffloadOptimizer bool `json:"offload_optimizer,omitempty"`
	// OffloadParameters keeps the parameters in host memory between uses.
	OffloadParameters bool `json:"offload_parameters,omitempty"`
	// NoSync says whether gradients are exchanged in the last micro-step alone.
	NoSync *bool `json:"no_sync,omitempty"`
	// ZeroInit says whether the model was made under DeepSpeed's zero.Init; false is a model that was there before the
	// configuration was known.
	ZeroInit *bool `json:"zero_init,omitempty"`
	// FindUnusedParameters is DistributedDataParallel's find_unused_parameters.
	FindUnusedParameters *bool `json:"find_unused_parameters,omitempty"`
	// StaticGraph is DistributedDataParallel's static_graph.
	StaticGraph bool `json:"static_graph,omitempty"`
	// GradientAsBucketView is DistributedDataParallel's gradient_as_bucket_view.
	GradientAsBucketView bool `json:"gradient_as_bucket_view,omitempty"`
	// BucketCapMB is DistributedDataParallel's bucket_cap_mb, in MiB.
	BucketCapMB int64 `json:"bucket_cap_mb,omitempty" validate:"omitempty,gte=1,lte=1048576"`
	// ShardGroup is how many GPUs share one copy of the state (HSDP); the others hold further copies.
	ShardGroup int64 `json:"shard_group,omitempty" validate:"omitempty,gte=1,lte=1048576"`
}

// Allocator sets PYTORCH_CUDA_ALLOC_CONF.
type Allocator struct {
	// ExpandableSegments is PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True.
	ExpandableSegments bool `json:"expandable_segments,omitempty"`
	// MaxSplitSizeMB is its max_split_size_mb, in MiB: blocks of as many or more are not divided.
	MaxSplitSizeMB int64 `json:"max_split_size_mb,omitempty" validate:"omitempty,gte=21,lte=1048576"`
	// RoundupPower2Divisions is its roundup_power2_divisions: into how many sizes a power of two and the next are
	// divided, to the next of which every tensor is rounded up.
	RoundupPower2Divisions int64 `json:"roundup_power2_divisions,omitempty" validate:"omitempty,oneof=1 2 4 8 16 32 64"`
	// GarbageCollectionThreshold is its garbage_collection_threshold, which does nothing in a process that may take
	// all of its card.
	GarbageCollectionThreshold float64 `json:"garbage_collection_threshold,omitempty" validate:"omitempty,gt=0,lt=1"`
}

// Evaluation is an evaluation pass between training steps.
type Evaluation struct {
	// MicroBatch is the number of sequences in one evaluation pass; that of training where it is left out.
	MicroBatch int64 `json:"micro_batch,omitempty" validate:"omitempty,gte=1,lte=1073741824"`
	// KeepLogits says whether the logits of a pass stay until those of the next are there, as in a loop that has a
	// variable for them. The Trainer joins those of all passes for its metrics, which is refused over a vocabulary.
	KeepLogits bool `json:"keep_logits,omitempty"`
}

// GPURef names a card, or gives one that is not in the catalog.
type GPURef struct {
	// Name is a catalog id, an alias, a driver name, or any name where its memory is given.
	Name string `json:"name,omitempty" validate:"max=200"`
	// MemoryBytes is the memory of a card that is not in the catalog.
	MemoryBytes int64 `json:"memory_bytes,omitempty" validate:"omitempty,gte=1,lte=9007199254740991"`
	// FreeBytes is what of its memory is free before the job starts, as nvidia-smi says; all that it leaves to a
	// process where it is left out.
	FreeBytes *int64 `json:"free_bytes,omitempty" validate:"omitempty,gte=0,lte=9007199254740991"`
	// PricePerHour is what an hour of one such card costs, in any unit that is the same for all cards of the job. It
	// moves no byte: a plan ranks by it what a run costs on the cards that have one. A card that is named a second time
	// with nothing but a price is given that price.
	PricePerHour *float64 `json:"price_per_hour,omitempty" validate:"omitempty,gte=0.000001,lte=1000000000"`
}

// Targets are LoRA's target modules: a list, or one name such as "all-linear".
type Targets []string
