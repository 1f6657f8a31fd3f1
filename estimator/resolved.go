package estimator

import (
	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/evidence"
	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// work is the step that is to be replayed: the model, what is computed with it, and on how much.
type work struct {
	arch model.Architecture
	// decisions are what the recipe is composed of.
	decisions
	recipe    step.Recipe
	shape     step.Shape
	optimizer *optim.Optimizer
	rank      int64 // of galore-adamw
	clip      bool
	// expand is expandable_segments:True.
	expand bool
	// sequences is how many sequences a micro-batch of one has.
	sequences int64
	// sequence is how many tokens a sequence has of which this GPU has a part; 0 where it has all.
	sequence int64
	// evaluation is the pass between two steps, nil for none.
	evaluation *Evaluation
	// adapted says that the job trains adapters.
	adapted bool
	// flash: FlashAttention was asked for by name. asked is the attention that the job asks for, also where the library
	// has only another.
	flash bool
	asked step.Attention
	// widened says that half precision was asked for and is not computed in.
	widened     bool
	byNumbers   bool // the model is given as model.dimensions
	kernelNames int  // of training.kernels
	likeLiger   bool // trl's loss without logits is replayed as Liger's
	// pictureTokens are those of a sequence that stand for pictures.
	pictureTokens int64
	// pictures are those of a micro-batch, and pictureParts is within how many windows or pictures of it the layers of
	// the tower attend one by one.
	pictures, pictureParts int64
	// pictureNotes say what was assumed of the pictures that the model reads.
	pictureNotes []Note
}

// software is the framework that trains, its releases, and what they do otherwise than others.
type software struct {
	framework string
	by        *framework // its row
	ownLoop   bool       // Input.OwnLoop
	trl       bool       // the trainer is trl's
	// ownModules says that the framework writes its models itself.
	ownModules bool
	// filled says that the model's configuration asks for a key/value cache, whatever the framework makes of that.
	filled bool
	// unties says that the framework gives the head a matrix of its own, where the model's configuration ties it.
	unties bool
	// given is training.versions, and versions says that it has any.
	given    map[string]string
	versions bool
	held     map[release.Switch]bool // of [EventsHolding]
	// changes are what the named versions do otherwise. stack has the releases of what is not named; provenOn is the
	// stack whose traces show the family and the recipe with the job's releases, "" where none does.
	changes  []string
	stack    *release.Stack
	provenOn string
	// reentranceBy is the library whose release decided that checkpoints are not reentrant, where one did.
	reentranceBy string
	// idle says what the job asked for and the library leaves undone.
	idle []string
}

// layout is how the job is spread over GPUs.
type layout struct {
	// copies is how many GPUs hold the job, 0 for one.
	copies int64
	// parallel is the strategy, nil on one GPU; fsdp is the same where it is one of the FSDPs.
	parallel manyGPUs
	fsdp     *fsdp
	// ring is how many GPUs share a sequence, 0 for one.
	ring int64
	// exchanges says that rows go to the experts of other GPUs.
	exchanges bool
	// linearKeepsInput says that linear layers are those that DeepSpeed puts in the place of torch's.
	linearKeepsInput bool
	// wraps says that accelerate wraps each copy of the job, and looksForUnused that its DistributedDataParallel looks
	// for parameters that a forward left out.
	wraps, looksForUnused bool
}

// card is what a GPU holds besides the allocator's, and how sure its verdicts have to be.
type card struct {
	// cuda is what the context takes, nccl what a communicator of several GPUs takes on each.
	cuda, nccl memory.Context
	// confidence and reserve are Job.Confidence and Job.ReserveBytes.
	confidence float64
	reserve    int64
	vllm       *job.Colocated // nil where none is on the card
}

// company is the models that are there besides the trained one.
type company struct {
	// beside are those that stand beside it, together the one that is trained with it, nil for none.
	beside   []companion
	together *companion
	// readFirst says that the text encoders of a diffusion pipeline read one prompt before training and go.
	readFirst bool
}

// proof is what measurements and traces say about the answer.
type proof struct {
	// calibration is the one that is not built in, and key what of the job it goes by; the card is missing there.
	calibration *calibration.Calibration
	key         calibration.Key
	// missing are the cells of the job that no trace has shown.
	missing []evidence.Cell
}
