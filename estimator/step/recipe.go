package step

import "github.com/vramplan/vramplan/estimator/release"

// Attention is which implementation of attention the model runs.
type Attention uint8

// The attention implementations: torch's scaled_dot_product_attention, which chooses a
// kernel, the formula written out, and the flash-attn package, which runs torch's flash kernel
// and computes sliding windows in it, where the others want them as a mask.
const (
	AttentionSDPA Attention = iota
	AttentionEager
	AttentionFlash
)

// Shape is the size of a micro-batch: B sequences of T tokens.
type Shape struct {
	Batch  int64 // B
	Tokens int64 // T
	Target int64 // tokens of the decoder and of the logits where an encoder reads the others
	// Images is how many pictures stand in a sequence, Height and Width how many pixels each has.
	Images, Height, Width int64
}

// LogitTokens is how many tokens of a sequence get logits.
func (s Shape) LogitTokens() int64 {
	if s.Target > 0 {
		return s.Target
	}
	return s.Tokens
}

// N is the number of tokens in a micro-batch.
func (s Shape) N() int64 { return s.Batch * s.Tokens }

// Recipe is how a micro-step computes: what decides allocations besides the model, in parts that can be asked for by
// themselves.
type Recipe struct {
	Numerics
	Loop
	Checkpointing
	Compilation
	Versions
	Hardware

	Attention Attention
	Kernels   Kernels
	// UpdatesInBackward runs the optimizer Updates on every parameter as soon as its gradient is there.
	UpdatesInBackward bool
	Updates           Updates
	// Objective is what the trainer makes of a micro-step; nil is the model with the loss that it returns.
	Objective Objective
	// Strategy is how the job is spread over several GPUs; nil is one GPU.
	Strategy Strategy
	// Received is how many rows come to this GPU's experts for each that it sends to those of others; 0 is one.
	Received float64
}

// Numerics is in which types numbers are stored and computed.
type Numerics struct {
	// Stored is the type of the parameters; Compute that of matrix products.
	Stored, Compute DType
	// Autocast runs the forward under torch.autocast(Compute).
	Autocast bool
	// GradScaler scales the loss (float16).
	GradScaler bool
	// States is what is stored in other types than the parameters.
	States States
}

// Loop is what the training loop does around the model, and what it keeps.
type Loop struct {
	// LinearKeepsInput says that linear layers save their input whether their weight is trained or not, as a function
	// of DeepSpeed's does in place of torch.nn.functional.linear under ZeRO-3.
	// Source: deepspeed/runtime/zero/linear.py (LinearFunctionForZeroStage3), 0.19.8.
	LinearKeepsInput bool
	// Evaluation runs a model that was put into evaluation mode, under torch.no_grad.
	Evaluation bool
	// GroupsByDecay says that the optimizer meets matrices before norms and biases.
	GroupsByDecay bool
	// ExplicitMask says that some tokens of a batch are padding, so that attention needs its mask.
	ExplicitMask bool
	// Loss is how the loss over the vocabulary is computed. LogitsFloat makes a float32 copy of the logits in the
	// model, which then has no others, LossFloat in a decoder's loss function, whatever it computes from it.
	Loss                   Loss
	LogitsFloat, LossFloat bool
	// SmoothsLabels says that the Trainer keeps the labels to itself, and computes the loss of the logits that it gets.
	SmoothsLabels bool
	// AddsNoise says that NEFTune's hook is on the input embedding.
	AddsNoise bool
	// HoldLogits keeps the model's output in a variable until the next forward has returned;
	// HoldFloat32 keeps a float32 copy instead (accelerate).
	HoldLogits, HoldFloat32 bool
	// WidensOutputs makes the model return float32 copies, which a loop that keeps the loss alone drops at once:
	// whoever lets accelerate wrap a model under autocast. Source: accelerate/accelerator.py (prepare_model,
	// convert_outputs_to_fp32), 1.15.
	WidensOutputs bool
	// UnpacksOutputs takes the loss out of what the model returned, which holds it no longer (nanoGPT).
	UnpacksOutputs bool
	// FloatsOutputs makes float32 copies of a compiled model's outputs, which go when the model has returned: a
	// trainer that keeps the loss alone lets accelerate wrap its model.
	FloatsOutputs bool
	// Trainer says that the loop is transformers' Trainer itself. It keeps the batch until the next one is there, and
	// fetches those of all micro-steps of an optimizer step at once; what it counts and adds up are numbers on the
	// device: the labels of a step, the losses since the last log, the norm of the gradients. The loss is divided
	// twice, by the labels and by accelerate. Source: transformers/trainer.py (_inner_training_loop, get_batch_samples,
	// training_step), 4.57.6 and 5.23.0, accelerate/accelerator.py (backward), 1.15.
	Trainer bool
	// NextBatchEarly fetches the next batch before backward (nanoGPT), not after it.
	NextBatchEarly bool
	// InputGradients makes the output of a frozen input embedding require a gradient (peft with checkpointing).
	InputGradients bool
	// Accumulation divides the loss by the number of micro-steps when it is above 1.
	Accumulation int64
	// UseCache fills a key/value cache that the model returns.
	UseCache bool
}

// Checkpointing is what is dropped in forward and made again in backward.
type Checkpointing struct {
	// CheckpointEvery drops what every n-th layer saves and makes it again in backward; 0 drops nothing.
	// Reentrant is which of torch.utils.checkpoint's two ways does it.
	CheckpointEvery int64
	Reentrant       bool
	// RunsToEnd runs such a layer again to its end, and not only until everything that backward waits for is there.
	RunsToEnd bool
	// CheckpointOffload keeps the input of such a layer in the CPU's memory until backward.
	CheckpointOffload bool
	// SelectiveAttention makes again in backward what the core of attention saves.
	SelectiveAttention bool
	// SelectiveOps keeps of a checkpointed layer what attention and every second matrix product return.
	SelectiveOps bool
}

// Compilation is what torch.compile compiles.
type Compilation struct {
	// Compile runs the model under torch.compile, CompileLoss the loss alone.
	Compile, CompileLoss bool
	// CompileBlocks compiles every layer by itself (torch.compile of a module that repeats), with its checkpoint where
	// it has one; CheckpointsAround leaves that around what is compiled.
	CompileBlocks, CheckpointsAround bool
}

// Compiles says whether anything is compiled.
func (c Compilation) Compiles() bool { return c.Compile || c.CompileLoss || c.CompileBlocks }

// Versions is what former releases do otherwise.
type Versions struct {
	// PacksHalf says that weights in nf4 were packed from float16, to which they are dequantised before they go to the
	// type of the input, as Lightning's BitsandbytesPrecision packs them.
	// Sources: lightning/fabric/plugins/precision/bitsandbytes.py (_Linear4bit.quantize), 2.6; bitsandbytes
	// autograd/_functions.py (MatMul4Bit), 0.42 to 0.45.
	PacksHalf bool
	// LossInModel computes the loss in the model, of logits in their own type without their last row (GPT-2 and others
	// before 4.49).
	LossInModel bool
	// RepeatsKV repeats grouped keys and values for sdpa and flash attention, too (transformers before 4.54).
	RepeatsKV bool
	// KeepsGradients is zero_grad that fills gradients with zeros (torch before 2.0) instead of letting go of them.
	KeepsGradients bool
	// Software is what the job's releases do otherwise.
	Software release.Set
}

// Hardware is the GPU, as far as it decides allocations.
type Hardware struct {
	// The GPU, as far as it decides allocations.
	ComputeCapability                int
	Multiprocessors                  int64
	ThreadsPerMultiprocessor         int64
	WorkspaceBytes, LtWorkspaceBytes int64
}

// States is what is stored of the training's state where that differs from the parameters' type. The zero value is what
// PyTorch does by itself.
type States struct {
	// GradientBuffers says that gradients are added into buffers of the type Gradients, which stay: Megatron's
	// main_grad.
	GradientBuffers bool
	Gradients       DType
	// MasterWeights says that the optimizer updates copies of the parameters in the type Master, which are then copied
	// back.
	MasterWeights bool
	Master        DType
	// MasterGradients makes copies of the gradients in the type of the masters for the update.
	MasterGradients bool
	// OwnMoments says that the optimizer's moments are in the type Moments.
	OwnMoments bool
	Moments    DType
}
