package estimator

import (
	"github.com/vramplan/vramplan/estimator/job"
)

// The job document is package job's; these are its names for users of this package.
type (
	// Job is one training job: a model, how it is trained and where it should run.
	Job = job.Job
	// Model says what is trained.
	Model = job.Model
	// Training says how the model is trained.
	Training = job.Training
	// Precision is how tensors are stored and computed.
	Precision = job.Precision
	// FP8 selects the scaling recipe when precision is fp8.
	FP8 = job.FP8
	// States overrides what is stored, apart from what is computed in.
	States = job.States
	// Optimizer is a name or an object.
	Optimizer = job.Optimizer
	// Checkpointing says which blocks are computed again in backward.
	Checkpointing = job.Checkpointing
	// Loss is a kind or an object.
	Loss = job.Loss
	// Compile is torch.compile.
	Compile = job.Compile
	// Dropout is one probability for both, or one each.
	Dropout = job.Dropout
	// LoRA trains low-rank adapters on a frozen base.
	LoRA = job.LoRA
	// Distributed spreads a job over GPUs.
	Distributed = job.Distributed
	// Allocator sets PYTORCH_CUDA_ALLOC_CONF.
	Allocator = job.Allocator
	// Evaluation is an evaluation pass between training steps.
	Evaluation = job.Evaluation
	// GPURef names a card, or gives one that is not in the catalog.
	GPURef = job.GPURef
	// Targets are LoRA's target modules.
	Targets = job.Targets
	// Objective is the kind of training.
	Objective = job.Objective
	// Companion is a model that stands beside the one that is trained.
	Companion = job.Companion
	// Names are one name or a list of names.
	Names = job.Names
	// Stage is a stage of a pipeline, from 0, or one that is named.
	Stage = job.Stage
	// Diffusion is a diffusion pipeline.
	Diffusion = job.Diffusion
	// Resolution is a number of pixels a side, or [height, width].
	Resolution = job.Resolution
	// GPU is what the estimator needs to know of a card.
	GPU = job.GPU
	// Line is what kind of machine a card is sold for.
	Line = job.Line
)

// The precisions. "amp" keeps float32 weights and computes under torch.autocast.
const (
	PrecisionAMPBF16 = job.PrecisionAMPBF16
	PrecisionAMPFP16 = job.PrecisionAMPFP16
	PrecisionFP32    = job.PrecisionFP32
	PrecisionTF32    = job.PrecisionTF32
	PrecisionBF16    = job.PrecisionBF16
	PrecisionFP16    = job.PrecisionFP16
	PrecisionFP8     = job.PrecisionFP8
)

// The stages that are named where their number depends on how many there are.
const (
	LastStage   = job.LastStage
	MiddleStage = job.MiddleStage
)

// The lines of cards.
const (
	Desktop     = job.Desktop
	Laptop      = job.Laptop
	Workstation = job.Workstation
	DataCenter  = job.DataCenter
	Embedded    = job.Embedded
)

// DisplayBytes is left free for a display and the programs on it.
const DisplayBytes = job.DisplayBytes

// StoredBase is [job.StoredBase].
func StoredBase(j Job) Job { return job.StoredBase(j) }
