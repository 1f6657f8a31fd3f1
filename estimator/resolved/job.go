package resolved

import (
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/evidence"
	"github.com/vramplan/vramplan/estimator/frameworks"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/result"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/optim"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// Job is a job with every default filled in: its parts. A method stands with the part that is all it needs.
type Job struct {
	Work
	Software
	Layout
	Card
	company
	Proof
}

// DefaultConfidence is what low_bytes…high_bytes cover where the job does not say.
const DefaultConfidence = 0.95

// Work is the step that is to be replayed: the model, what is computed with it, and on how much.
type Work struct {
	Arch model.Architecture
	// decisions are what the recipe is composed of.
	decisions
	Recipe    step.Recipe
	Shape     step.Shape
	Optimizer *optim.Optimizer
	Rank      int64 // of galore-adamw
	Clip      bool
	// Allocator is how PyTorch's caching allocator is set.
	Allocator memory.Settings
	// Sequences is how many sequences a micro-batch of one has.
	Sequences int64
	// Sequence is how many tokens a sequence has of which this GPU has a part; 0 where it has all.
	Sequence int64
	// Evaluation is the pass between two steps, nil for none.
	Evaluation *job.Evaluation
	// Saves says that the run writes checkpoints, Resumes that it starts from one.
	Saves, Resumes bool
	// Adapted says that the job trains adapters.
	Adapted bool
	// Flash: FlashAttention was asked for by name. asked is the attention that the job asks for, also where the library
	// has only another.
	Flash bool
	Asked step.Attention
	// Unsaid says that the job asks for none, and has the one that its releases take then.
	Unsaid bool
	// Widened says that half precision was asked for and is not computed in.
	Widened     bool
	ByNumbers   bool   // the model is given as model.dimensions
	KernelNames int    // of training.kernels
	Script      string // of diffusers, whose loop is replayed
	LikeLiger   bool   // trl's loss without logits is replayed as Liger's
	// PictureTokens are those of a sequence that stand for pictures.
	PictureTokens int64
	// Pictures are those of a micro-batch, and PictureParts is within how many windows or pictures of it the layers of
	// the tower attend one by one.
	Pictures, PictureParts int64
	// PictureNotes say what was assumed of the pictures that the model reads.
	PictureNotes []result.Note
}

// Software is the framework that trains, its releases, and what they do otherwise than others.
type Software struct {
	Framework string
	By        *frameworks.Framework // its row
	OwnLoop   bool                  // Input.OwnLoop
	AddsNoise bool                  // NEFTune's hook is on the input embedding
	Trl       bool                  // the trainer is Trl's
	// OwnModules says that the framework writes its models itself.
	OwnModules bool
	// Filled says that the model's configuration asks for a key/value cache, whatever the framework makes of that.
	Filled bool
	// Unties says that the framework gives the head a matrix of its own, where the model's configuration ties it.
	Unties bool
	// Given is training.versions, and versions says that it has any.
	Given    map[string]string
	Versions bool
	Held     map[release.Switch]bool // of [EventsHolding]
	// Changes are what the named versions do otherwise. stack has the releases of what is not named; provenOn is the
	// stack whose traces show the family and the recipe with the job's releases, "" where none does.
	Changes  []string
	Stack    *release.Stack
	ProvenOn string
	// ReentranceBy is the library whose release decided that checkpoints are not reentrant, where one did.
	ReentranceBy string
	// Idle says what the job asked for and the library leaves undone.
	Idle []string
}

// Shards are the parts of a model that one of the two FSDPs deals out.
type Shards struct {
	parallel.Sharding
	// Unsaid says that the job names no version. Flat is FSDP1, and Prefetches whether its backward asks for the layer
	// before.
	Unsaid, Flat, Prefetches bool
	// KeepsReruns says that FSDP1 keeps the inputs of layers that checkpointing runs again.
	KeepsReruns bool
	// Widened says that weights were given in half precision, and the framework brings them to float32.
	Widened bool
	// Halved says that mixed precision is FSDP's own, in the half type of autocast.
	Halved bool
	// Groups is how many groups of GPUs hold the state; 0 where it was not asked for.
	Groups int64
}

// Layout is how the job is spread over GPUs.
type Layout struct {
	// Copies is how many GPUs hold the job, 0 for one.
	Copies int64
	// Parallel is the strategy, nil on one GPU; fsdp is what is dealt out where it is one of the FSDPs.
	Parallel ManyGPUs
	Fsdp     *Shards
	// Ring is how many GPUs share a sequence, 0 for one.
	Ring int64
	// Exchanges says that rows go to the experts of other GPUs.
	Exchanges bool
	// LinearKeepsInput says that linear layers are those that DeepSpeed puts in the place of torch's.
	LinearKeepsInput bool
	// Wraps says that accelerate wraps each copy of the job, and LooksForUnused that its DistributedDataParallel looks
	// for parameters that a forward left out.
	Wraps, LooksForUnused bool
}

// Card is what a GPU holds besides the allocator's, and how sure its verdicts have to be.
type Card struct {
	// Cuda is what the context takes, Nccl what a communicator of several GPUs takes on each.
	Cuda, Nccl memory.Context
	// Confidence and reserve are Job.Confidence and Job.ReserveBytes.
	Confidence float64
	Reserve    int64
	Vllm       *job.Colocated // nil where none is on the card
}

// company is the models that are there besides the trained one.
type company struct {
	// Beside are those that stand beside it, together the one that is trained with it, nil for none.
	Beside   []Companion
	Together *Companion
	// ReadFirst says that the text encoders of a diffusion pipeline read one prompt before training and go.
	ReadFirst bool
}

// Proof is what measurements and traces say about the answer.
type Proof struct {
	// Calibration is the one that is not built in, and key what of the job it goes by; the card is missing there.
	Calibration *calibration.Calibration
	Key         calibration.Key
	// Missing are the cells of the job that no trace has shown.
	Missing []evidence.Cell
}
