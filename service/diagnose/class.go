package diagnose

// Class is what a failure is put down to.
type Class string

// The classes of causes.
const (
	ClassLogits             Class = "logits"
	ClassAttentionScores    Class = "attention-scores"
	ClassActivations        Class = "activations"
	ClassWeightsLoad        Class = "weights-load"
	ClassWeightsFlat        Class = "weights-flat"
	ClassGradients          Class = "gradients"
	ClassPrecisionCopies    Class = "precision-copies"
	ClassOptimizerState     Class = "optimizer-state"
	ClassOptimizerTemporary Class = "optimizer-temporary"
	ClassEval               Class = "eval"
	ClassInference          Class = "inference"
	ClassResume             Class = "resume"
	ClassDataLoader         Class = "data"
	ClassFragmentation      Class = "fragmentation"
	ClassOtherProcess       Class = "other-process"
	ClassDriverRefused      Class = "driver-refused"
	ClassLimit              Class = "limit"
	ClassContext            Class = "context"
	ClassNCCL               Class = "nccl"
	ClassFloor              Class = "floor"
	ClassHeld               Class = "held-between-steps"
	ClassHost               Class = "host-memory"
	// ClassKernel is a kernel that takes more of the memory inside a multiprocessor than there is.
	ClassKernel Class = "kernel-limit"
	// ClassNone is text without a failure, and ClassUnknown a failure of which the text does not say enough.
	ClassNone    Class = "none"
	ClassUnknown Class = "unknown"
)

// Advice is something to do, or something that looks like a help and is none.
type Advice struct {
	Code string `json:"code"`
	Text string `json:"text"`
}

// account is what is said of a class: in one sentence what it is, what helps, what does not, and what would tell more.
type account struct {
	what    string
	helps   []Advice
	useless []Advice
}

var (
	smallerBatch = Advice{"micro-batch", "Use a smaller micro-batch and more accumulation steps: the " +
		"effective batch stays."}
	shorter = Advice{"sequence-length", "Shorten the sequences, or bound them (packing and padding go " +
		"to the longest)."}
	plan = Advice{"plan", "Give the job (--model …, -f job.json): then the tensor can be named, and the plan " +
		"says which change fits."}

	uselessCache = Advice{"empty-cache", "torch.cuda.empty_cache(): PyTorch gives its cache back by itself " +
		"before it fails."}
	uselessAccumulation = Advice{"accumulation", "More accumulation steps alone: weights, gradients and optimizer " +
		"state stay what they are."}
)

// accounts are what is said of each class.
var accounts = map[Class]account{
	ClassLogits: {"the logits (tokens × vocabulary) or a copy of them that the loss makes",
		[]Advice{smallerBatch, {"loss", "Use a loss that does not keep the logits: a fused linear cross-entropy " +
			"(Liger, Cut Cross Entropy) or a chunked one."}, shorter},
		[]Advice{uselessCache}},
	ClassAttentionScores: {"attention scores or a mask of tokens × tokens: quadratic in the sequence",
		[]Advice{{"attention", "Use an attention that does not write the scores out: attn_implementation=\"sdpa\" or " +
			"\"flash_attention_2\"."}, shorter, smallerBatch},
		[]Advice{uselessCache}},
	ClassActivations: {"activations that the forward pass leaves for backward",
		[]Advice{{"checkpointing", "Switch gradient checkpointing on: only the inputs of layers are kept."},
			smallerBatch, shorter},
		[]Advice{uselessCache}},
	ClassWeightsLoad: {"the weights themselves, while the model is loaded: nothing is trained yet",
		[]Advice{
			{"dtype", "Load them in a smaller type: dtype=torch.bfloat16 instead of float32, or quantised to 8 or 4 " +
				"bits under an adapter."},
			{"shard", "Share the weights among the cards: ZeRO stage 3 (zero3) or FSDP; lower stages keep a whole " +
				"copy on each card. No batch fits where the weights do not."},
			{"larger-card", "Take a card that holds the weights."}},
		nil},
	ClassWeightsFlat: {"one buffer for all parameters at once: a flat copy for the optimizer, the " +
		"gradients or a broadcast",
		[]Advice{
			{"shard", "Share what full fine-tuning holds among the cards (ZeRO stage 3, zero3, or FSDP), or move the " +
				"optimizer off the card."},
			{"lora", "Train an adapter (LoRA) instead of all parameters: the buffer is of what is trained."}},
		nil},
	ClassGradients: {"a gradient of a parameter",
		[]Advice{{"shard", "Share gradients and optimizer state among the cards (ZeRO stage 2, FSDP), or train " +
			"an adapter (LoRA)."}},
		[]Advice{uselessAccumulation}},
	ClassPrecisionCopies: {"a half-precision copy of a weight, which autocast makes and keeps",
		[]Advice{{"dtype", "Keep the weights in bfloat16: autocast then makes no copies."},
			{"larger-card", "Take a larger card, or share the weights among several (FSDP)."}},
		nil},
	ClassOptimizerState: {"optimizer state, which is made at the first step",
		[]Advice{
			{"optimizer", "Use an optimizer with a smaller state: 8-bit AdamW (bitsandbytes), Adafactor, or SGD."},
			{"lora", "Train an adapter (LoRA): state is kept for what is trained alone."},
			{"shard", "Share the state among the cards: ZeRO stage 1 or FSDP."}},
		[]Advice{uselessAccumulation}},
	ClassOptimizerTemporary: {"a temporary of the optimizer's step, as large as what it steps: foreach makes lists " +
		"as large as all parameters",
		[]Advice{{"fused", "Use the fused implementation (fused=True, optim=\"adamw_torch_fused\"), which makes none, " +
			"or foreach=False, which makes one tensor at a time."}},
		nil},
	ClassEval: {"an evaluation, not the training step: predictions of one tensor after the other are kept on the card",
		[]Advice{
			{"eval", "Bound what evaluation keeps: eval_accumulation_steps moves the logits off the card, " +
				"preprocess_logits_for_metrics keeps less of them, prediction_loss_only keeps none; or use a smaller " +
				"per_device_eval_batch_size."}},
		nil},
	ClassInference: {"generation or inference, not training",
		[]Advice{{"inference", "Use a smaller model type (quantised), shorter outputs, or fewer sequences or a " +
			"smaller picture at once; vramplan plans training."}},
		nil},
	ClassResume: {"reading a checkpoint back: it is on the card beside what the run holds already",
		[]Advice{{"map-location", "Load it to the host: torch.load(…, map_location=\"cpu\"), and let go of it after " +
			"load_state_dict."}},
		nil},
	ClassDataLoader: {"a batch on its way to the card",
		[]Advice{smallerBatch},
		nil},
	ClassFragmentation: {"fragmentation: the allocator holds enough in pieces, and none of them is large enough",
		[]Advice{
			{"expandable-segments", "Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True (PYTORCH_ALLOC_CONF " +
				"since torch 2.10)."},
			{"fixed-lengths", "Pad to a few fixed lengths: each new length leaves pieces of its own."}},
		nil},
	ClassOtherProcess: {"another process: it holds memory of this card",
		[]Advice{
			{"find-process", "Find it with nvidia-smi (or fuser -v /dev/nvidia*), and end it or take another card."},
			{"ranks", "If it is a rank of the same run, each rank has to take a card of its own: " +
				"torch.cuda.set_device(local_rank)."}},
		nil},
	ClassDriverRefused: {"the driver: it refused although the card has enough free",
		[]Advice{
			{"pagefile", "Under Windows enlarge the pagefile: the driver promises memory of the machine for all " +
				"that is on the card."},
			{"cgroup", "On Linux look for limits of the host (cgroup, ulimit -v, locked memory), another process that " +
				"took and gave it back in between, or MIG and MPS limits."}},
		nil},
	ClassLimit: {"a limit that was set for this process, not the card",
		[]Advice{{"limit", "Raise the limit: torch.cuda.set_per_process_memory_fraction, or " +
			"PYTORCH_MPS_HIGH_WATERMARK_RATIO on Apple's; or use a smaller model or batch below that limit."}},
		nil},
	ClassContext: {"the CUDA context or a library's handle, outside PyTorch's allocator: the card was full before",
		[]Advice{
			{"find-process", "Look at nvidia-smi: the card is full already, held by another process or by this " +
				"one's allocator."},
			{"reserve", "If PyTorch itself filled it, leave a few hundred MiB free: a smaller micro-batch, or " +
				"set_per_process_memory_fraction."}},
		nil},
	ClassNCCL: {"NCCL: its buffers are outside PyTorch's allocator",
		[]Advice{
			{"reserve", "Leave 1 to 2 GiB a card free for NCCL: a smaller micro-batch, or more cards to " +
				"share the states."},
			{"nccl-buffers", "Make its buffers smaller (NCCL_BUFFSIZE, fewer channels with NCCL_MAX_NCHANNELS) or " +
				"have fewer communicators."}},
		nil},
	ClassFloor: {"the floor of the job: weights + gradients + optimizer state fill the card before any batch does",
		[]Advice{
			{"floor", "No batch fits: what has to become smaller is what is trained (LoRA, QLoRA), the optimizer's " +
				"state (8-bit AdamW, Adafactor), or each card's share (ZeRO, FSDP); or take a larger card, this " +
				"card is too small."}},
		nil},
	ClassHeld: {"tensors kept from one step to the next: more is allocated than this job's step makes",
		[]Advice{{"detach", "Look for tensors that outlive their step: losses summed without .item() or .detach(), " +
			"outputs kept in lists, figures logged with their graph."}},
		nil},
	ClassHost: {"memory of the machine, not of the card",
		[]Advice{{"host", "Give the job more memory (Slurm: --mem, Kubernetes: limits.memory, containers: --shm-size " +
			"for data loaders), use fewer data loader workers, or load weights with low_cpu_mem_usage=True."}},
		nil},
	ClassKernel: {"a kernel that needs more shared memory of a multiprocessor than the card's have: the " +
		"card's own memory is " +
		"not what is short",
		[]Advice{{"kernel", "Use a smaller block or fewer stages of that kernel (its message says which), " +
			"a release of its " +
			"library that knows this card, or an attention without it: attn_implementation=\"sdpa\"."}},
		[]Advice{{"micro-batch", "A smaller batch: the tiles of a kernel do not depend on it."}}},
	ClassNone:    {"no shortage of memory", nil, nil},
	ClassUnknown: {"not to be told from this text", []Advice{plan}, nil},
}
