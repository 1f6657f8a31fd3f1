package arch

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// Architecture is a model in numbers: everything that its parameters and the
// allocations of a training step follow from.
type Architecture struct {
	Name      string
	Family    string
	Described *Family
	// Own is what only the family's own file understands.
	Own any
	// Class is the end of the class's name, such as ForCausalLM.
	Class string
	// TextOf is the model with towers whose text model this is; nil for others.
	TextOf *Whole
	// towers are those that stand beside it and that a batch of text does not run; nil for none.
	Beside Beside
	// Labels is how many a classification head tells apart.
	Labels int64
	// Choices is how many answers a question of multiple choice has, each a sequence; 0 for other heads.
	Choices int64
	// ScoreDropout is what a decoder that gives every token a class drops before its score.
	ScoreDropout float64
	// Pooled says that the class has a pooler over the first token.
	Pooled bool

	Layers       int64 // L, of both stacks
	Decoder      int64 // how many of them are the decoder's behind an encoder, 0 in models of one stack
	Hidden       int64 // d
	Heads        int64 // h
	KVHeads      int64 // h for multi-head attention
	HeadDim      int64 // h·HeadDim need not be d
	FFN          int64 // f
	Vocabulary   int64 // V, rows of the embedding
	MaxPositions int64
	Tied         bool // the head is the embedding
	headAdapted  bool
	// Scored puts a score of one label in the place of the head (ForSequenceClassification with num_labels 1).
	Scored bool
	LitGPT bool // written as litgpt writes its models
	// Written is the library that writes the model in a way of its own; nil for transformers.
	Written Library
	// Castless says that an adapter of that library takes its input in the type that it has.
	Castless bool
	frozen   frozen
	plan     int64 // GPUs that share the layers by transformers' tp_plan; 0 where they do not

	Activation string // gelu, gelu_new, gelu_pytorch_tanh, relu or silu
	NormBias   bool
	QKVBias    bool
	OutBias    bool
	MLPBias    bool
	QKNorm     bool
	// SlidingWindow is in tokens; 0 when every token sees all before it.
	SlidingWindow int64
	// Sliding says which layers of a pattern that repeats have the window, nil that all have it.
	Sliding []bool
	// NoRotaryEvery leaves rotary positions out of every n-th layer (SmolLM3); 0 for none.
	NoRotaryEvery int64

	EmbeddingDropout, AttentionDropout, ResidualDropout float64
	// UndroppedAttention says that attention drops nothing, whatever a configuration says.
	UndroppedAttention bool
	// Software is what the job's releases write otherwise.
	Software release.Set
	// CachesInTrainingLater is what UseCache is in releases whose models fill a cache in training, too.
	CachesInTrainingLater bool
	// CachesInEvaluation is what UseCache is in evaluation mode, where it is false in training.
	CachesInEvaluation bool
	// CopiesConfig says that the decoder reads a copy of the configuration, which nobody reaches who sets use_cache
	// over that of the model.
	CopiesConfig bool
	// UseCache is config.use_cache: the forward fills a key/value cache even in training.
	UseCache bool
	// BufferSide is the side of the square causal mask that every layer carries as a buffer; 0 without.
	BufferSide int64
	// LearnedPositions says that there are no more than MaxPositions positions.
	LearnedPositions bool
	// Rotary says that positions turn queries and keys, which takes heads of an even size.
	Rotary bool
	// Gated says that the MLP has a gate: three matrices instead of two.
	Gated bool
	// FixedTokens is the length of every sequence where the inputs decide it, as pictures do.
	FixedTokens int64
	// FreeHeadDim says that the size of a head is given and heads need not divide d.
	FreeHeadDim bool
	// EagerOnly says that transformers has no attention but the written-out formula for the family.
	EagerOnly bool
	// EagerBefore is the change before which the same is so, 0 for none.
	EagerBefore release.ID
	// CapsScores says that attention scores are bounded, for which later releases have no sdpa.
	CapsScores bool
	// WholeLogits says that the class takes no logits_to_keep in former releases.
	WholeLogits bool
	// NoFlash says that transformers refuses FlashAttention for the family as it is configured.
	NoFlash bool
	// SDPAOnly says that it has none but torch's own choice.
	SDPAOnly bool
	// Interfaced is the change from which neither is so, 0 for none: attention goes through the library's interfaces.
	Interfaced release.ID
	// NeverCheckpoints says that transformers accepts gradient checkpointing for the family and does nothing.
	NeverCheckpoints bool
	// Uncheckpointed says that transformers refuses gradient checkpointing for the family.
	Uncheckpointed bool
	// CheckpointsApart says why checkpointing is not modelled for the family as it is configured; empty where it is.
	CheckpointsApart string
	// Flattened says that frozen parameters of a layer are parts of the flat tensor of those that are trained.
	Flattened bool
	// Irregular says that the layers differ in more than a pattern that repeats, so that each is replayed.
	Irregular bool
	// Period is after how many layers a recording's layers repeat; 0 and 1 are for layers that are alike.
	Period int64
	// Lead is how many layers at the front are unlike the others, which are alike.
	Lead int64
	// CheckpointEvery is of how many layers the job's checkpointing takes one; 0 and 1 leave the layers alike.
	CheckpointEvery int64
	// Reentrant says that the library whose model it is checkpoints as transformers does: reentrantly, before a release
	// of it.
	Reentrant bool
	// NeverReentrant says why the other way alone works, empty where both do.
	NeverReentrant string
	// LoRA are the adapters that are trained instead of the parameters; nil without.
	LoRA *LoRA
	// Quantised is the method by which the published weights are quantised, where adapters have to be trained on them;
	// empty otherwise.
	Quantised string
	// Dequantised says that the published weights are in MXFP4, which transformers does not train: they are made bf16
	// or what else the job stores while they are loaded. Source: transformers/quantizers/quantizer_mxfp4.py
	// (is_trainable), 4.57.
	Dequantised bool
	// EveryExpert declares every expert of a mixture by itself, and not five that stand for all.
	EveryExpert bool
	// Generic marks a family that nobody described and that goes through the nearest block.
	Generic bool
	// Uncounted says that nobody compared the parameters of such a family with what its configuration says.
	Uncounted bool
	// Unread are the keys of its configuration that change activations in a way that is not modelled.
	Unread []string
}

// Geometry is the attention's.
func (a *Architecture) Geometry() step.Heads {
	own, ok := a.Own.(bidirectional)
	return step.Heads{Query: a.Heads, KV: a.KVHeads, Dim: a.HeadDim,
		Bidirectional: ok && own.Bidirectional() || a.FixedTokens > 0,
		Drops:         a.AttentionDropout > 0}
}

// NanoGPT says whether the model is karpathy/nanoGPT's own and so trained by its train.py.
func (a *Architecture) NanoGPT() bool { return a.Described != nil && a.Described.TrainPy }

// TargetTokens says whether the decoder's tokens are counted apart from the encoder's.
func (a *Architecture) TargetTokens() bool { return a.Decoder > 0 }

// Undealt says why FSDP is not modelled for a; empty where it is.
func (a *Architecture) Undealt() string {
	if a.Decoder > 0 {
		return UndealtStacks
	}
	if a.Described == nil {
		return ""
	}
	return a.Described.Undealt
}

// UndealtStacks is why FSDP is not modelled for models of two stacks.
const UndealtStacks = "FSDP on a model of two stacks is not modelled yet; ddp is"

// Uncompiled says why torch.compile is not modelled for a; empty where it is.
func (a *Architecture) Uncompiled() string {
	switch {
	case a.ChosenWidth() > 0:
		return "compiled mixtures of experts are not modelled yet; the experts' routing breaks the graph"
	case a.classesOfDecoder():
		return "a compiled decoder with a head for classes is not modelled; leave compile out"
	case a.Sees():
		return UncompiledSeeing
	case a.Described != nil:
		return a.Described.Uncompiled
	}
	return ""
}

// FlashTakesHeads says whether PyTorch's flash attention takes the heads of a as they are.
func (a *Architecture) FlashTakesHeads() bool {
	const widest, multiple = 256, 8
	return a.HeadDim <= widest && a.HeadDim%multiple == 0
}

// UnitLayers is how many layers make one unit that repeats.
func (a *Architecture) UnitLayers() int64 {
	unit := common(max(a.NoRotaryEvery, 1), max(int64(len(a.Sliding)), 1))
	return common(common(unit, max(a.Period, 1)), max(a.CheckpointEvery, 1))
}

// common is the least common multiple of a and b.
func common(a, b int64) int64 {
	g, rest := a, b
	for rest != 0 {
		g, rest = rest, g%rest
	}
	return a / g * b
}

// Slides says whether layer i has the window while others have none.
func (a *Architecture) Slides(i int64) bool {
	return len(a.Sliding) > 0 && a.Sliding[i%int64(len(a.Sliding))]
}

// Windowed says whether layer i looks through a window.
func (a *Architecture) Windowed(i int64) bool {
	return a.Slides(i) || len(a.Sliding) == 0 && a.SlidingWindow > 0
}

// Mixes says whether there are layers of both kinds.
func (a *Architecture) Mixes() bool {
	slides, sees := false, false
	for i := range min(a.Layers, int64(len(a.Sliding))) {
		slides, sees = slides || a.Slides(i), sees || !a.Slides(i)
	}
	return slides && sees
}

// Build is the model with the first layers layers, as the replay runs it, and its parameters and buffers stored in d,
// in the order in which module.to(device) moves them. Those of the layers are listed for these layers only. The list is
// made in storage, if that is given.
func (a *Architecture) Build(layers int64, d step.DType, storage []step.Parameter) (step.Network, step.Parameters) {
	b := Builder{A: a, Dtype: d, Recorded: layers}
	b.P.List = slices.Grow(storage[:0], int(8+layers*16))
	net := a.Modules(&b)
	return net, b.P
}

// BuildBehind is the whole model as Build makes it, for one that stands beside another: its parameters are numbered
// from first on.
func (a *Architecture) BuildBehind(first int, d step.DType) (step.Network, []step.Parameter) {
	b := Builder{A: a, Dtype: d, Recorded: a.Layers}
	b.P.List = make([]step.Parameter, first, first+int(8+a.Layers*16))
	net := a.Modules(&b)
	return net, b.P.List[first:]
}

// Library is one that writes models in a way of its own.
type Library interface {
	// Modules declares the modules.
	Modules(b *Builder) step.Network
	// Whole is a before it was cut to what one GPU has.
	Whole(a *Architecture) *Architecture
}

// Modules declares the modules of the library whose model it is.
func (a *Architecture) Modules(b *Builder) step.Network {
	defer b.freeze()
	if a.Written != nil {
		return a.Written.Modules(b)
	}
	return a.Published(b)
}

// Published declares the modules of transformers, or of the code that the weights come with.
func (a *Architecture) Published(b *Builder) step.Network {
	if a.Beside != nil {
		return a.Beside.Modules(b)
	}
	return a.Described.Build(b)
}

// whole is a before it was cut to what one GPU has.
func (a *Architecture) whole() *Architecture {
	switch {
	case a.Written != nil:
		return a.Written.Whole(a)
	case a.plan > 0:
		w := *a
		w.plan, w.Heads, w.KVHeads, w.FFN = 0, a.Heads*a.plan, a.KVHeads*a.plan, a.FFN*a.plan
		return &w
	}
	return a
}

// ParameterCount is the exact number of parameters, a tied matrix counted once.
func (a *Architecture) ParameterCount() int64 {
	return a.count(func(p *step.Parameter) bool { return !p.Buffer })
}

// TrainedCount is how many of them are trained.
func (a *Architecture) TrainedCount() int64 { return a.count((*step.Parameter).Trained) }

// distinctLayers is how many layers stand for all of them, as far as their modules go.
func (a *Architecture) distinctLayers() int64 {
	if a.Irregular {
		return a.Layers
	}
	return min(a.Layers, a.Lead+1)
}

func (a *Architecture) count(counts func(*step.Parameter) bool) int64 {
	a = a.whole()
	_, parameters := a.Build(a.distinctLayers(), step.F32, nil)
	total := int64(0)
	parameters.Distinct(func(p *step.Parameter, times int64) {
		if counts(p) {
			total += times * p.Numel
		}
	})
	return total
}
