package release

import "slices"

// Switch names what a change sets in the replay.
type Switch string

// The switches, each of which one function of package estimator sets.
const (
	ShiftsLogits         Switch = "shifts-logits"
	UpcastInModel        Switch = "upcast-in-model"
	LossInModel          Switch = "loss-in-model"
	BuffersMasks         Switch = "buffers-masks"
	RepeatsKVForSDPA     Switch = "repeats-kv-for-sdpa"
	RepeatsKVForFlash    Switch = "repeats-kv-for-flash"
	KeepsSoftmaxInput    Switch = "keeps-softmax-input"
	KeepsGradients       Switch = "keeps-gradients"
	TwoTemporaries       Switch = "two-temporaries"
	LoadsAllKernels      Switch = "loads-all-kernels"
	LoadsAllKernels11    Switch = "loads-all-kernels-cuda-11"
	KeepsPackedInputs    Switch = "keeps-packed-inputs"
	CarvesSections       Switch = "carves-sections"
	WidensShards         Switch = "widens-shards"
	FlattensAdapters     Switch = "flattens-adapters"
	LosesWideShards      Switch = "loses-wide-shards"
	CheckpointsWrappers  Switch = "checkpoints-wrappers"
	ReturnsWorkspace     Switch = "returns-workspace"
	UnifiesWorkspaces    Switch = "unifies-workspaces"
	CopiesUpdates        Switch = "copies-updates"
	FreesGathersFirst    Switch = "frees-gathers-first"
	HooksTowers          Switch = "hooks-towers"
	DropsCacheFirst      Switch = "drops-cache-first"
	ReturnsStatesAlone   Switch = "returns-states-alone"
	PacksNorms           Switch = "packs-norms"
	SeedsEfficient       Switch = "seeds-memory-efficient-attention"
	GroupsEfficient      Switch = "groups-memory-efficient-attention"
	SortsFewerBits       Switch = "sorts-fewer-bits"
	AccumulatesAtomic    Switch = "accumulates-atomically"
	TiesT5               Switch = "ties-t5"
	MasksMinimumFirst    Switch = "masks-minimum-first"
	SharesClampTies      Switch = "shares-clamp-ties"
	PadsScans            Switch = "pads-scans"
	LeavesVolta          Switch = "leaves-volta"
	LeavesBase           Switch = "leaves-quantised-base"
	LeavesBaseInRLOO     Switch = "leaves-quantised-base-in-rloo"
	LeavesBaseInDPO      Switch = "leaves-quantised-base-in-dpo"
	LeavesBaseInKTO      Switch = "leaves-quantised-base-in-kto"
	RoundsFlashHeads     Switch = "rounds-flash-heads"
	WidensWorkspaces     Switch = "widens-workspaces"
	PrefersCuDNN         Switch = "prefers-cudnn-attention"
	InterfacesNemotron   Switch = "interfaces-nemotron"
	SolvesDeltaRule      Switch = "solves-delta-rule"
	RepeatsWideHeads     Switch = "repeats-wide-heads"
	ComputesPixtral      Switch = "computes-pixtral-positions"
	LoadsCUDA13          Switch = "loads-cuda-13"
	BroadcastsMask       Switch = "broadcasts-mask"
	ReturnsTower         Switch = "returns-tower"
	PlainPictureLoss     Switch = "plain-picture-loss"
	SumsMask             Switch = "sums-mask"
	OffsetsPositions     Switch = "offsets-positions"
	IgnoresCheckpointing Switch = "ignores-checkpointing"
	HandsOnProjections   Switch = "hands-on-projections"
	KeepsFrequencies     Switch = "keeps-frequencies"
	ScalesInEmbedding    Switch = "scales-in-embedding"
	UntiesBias           Switch = "unties-bias"
	GathersSegments      Switch = "gathers-segments"
	RenamesViT           Switch = "renames-vit"
	ProjectsTowers       Switch = "projects-towers"
	UnscriptsBuckets     Switch = "unscripts-buckets"
	LaysKeysOutFirst     Switch = "lays-keys-out-first"
	DropsMaskBuffers     Switch = "drops-mask-buffers"
	MasksByLibrary       Switch = "masks-by-library"
	DeclaresHeadsFirst   Switch = "declares-heads-first"
	ReassignsScores      Switch = "reassigns-scores"
	ReturnsProbabilities Switch = "returns-probabilities"
	InterfacesT5         Switch = "interfaces-t5"
	LaysT5BiasOut        Switch = "lays-t5-bias-out"
	InterfacesStableLM   Switch = "interfaces-stablelm"
	TypesXIELU           Switch = "types-xielu"
	BuffersPositions     Switch = "buffers-positions"
	ViewsHeadsFirst      Switch = "views-heads-first"
	LeavesLogits         Switch = "leaves-logits"
	CachesLatents        Switch = "caches-latents"
	NarrowsSinks         Switch = "narrows-sinks"
	InterfacesModernBERT Switch = "interfaces-modernbert"
	MasksIdleWindow      Switch = "masks-idle-window"
	GroupsExperts        Switch = "groups-experts"
	MasksConvolutions    Switch = "masks-convolutions"
	CachesConvolutions   Switch = "caches-convolutions"
	ConvolvesByFunction  Switch = "convolves-by-function"
	InterfacesBART       Switch = "interfaces-bart"
	InterfacesElectra    Switch = "interfaces-electra"
	GroupsGranite        Switch = "groups-granite"
	InterfacesGranite    Switch = "interfaces-granite"
	FillsIdleRows        Switch = "fills-idle-rows"
	CopiesExperts        Switch = "copies-experts"
	ConvertsTargets      Switch = "converts-targets"
	ConvertsAllLinear    Switch = "converts-all-linear"
	ConvertsQwen2MoE     Switch = "converts-qwen2-moe"
	FoldsFactors         Switch = "folds-factors"
	CachesWindow         Switch = "caches-window"
	CachesInTraining     Switch = "caches-in-training"
	SetsUseCache         Switch = "sets-use-cache"
	DealsByFSDP2         Switch = "deals-by-fsdp2"
	MultipliesAngles     Switch = "multiplies-angles"
	CapsWrittenOut       Switch = "caps-written-out"
	CapsSeenLogits       Switch = "caps-seen-logits"
	KeepsLogits          Switch = "keeps-logits"
	ChunksSFTLoss        Switch = "chunks-sft-loss"
	FusesTRLHead         Switch = "fuses-trl-head"
	NotReentrant         Switch = "checkpoints-without-reentrance"
	NotReentrantInTRL    Switch = "checkpoints-without-reentrance-in-trl"
)

// Change is one thing that releases of a library do otherwise than the rest.
type Change struct {
	Library string `json:"library"`
	// From is the first release that is known to do so, "" where all before To do; To is the first that does not any
	// more, "" where the latest known one still does.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// After is the last release that is known not to do so yet, where releases lie between it and From.
	After string `json:"after,omitempty"`
	// Unless is a library whose version, where a job names it, decides instead.
	Unless string `json:"unless,omitempty"`
	What   string `json:"what"`
	Switch Switch `json:"switch"`
	// Source is a file of the library and the releases of it that were read; Shown is what of the repository's traces
	// shows it.
	Source string `json:"source"`
	Shown  string `json:"shown"`
}

// Holds says whether the change is in the given release.
func (c *Change) Holds(v Version) bool {
	return c.between().has(point{Version: v})
}

// Unsure says that the release lies where nobody has looked: after the last one that is known not to have the change,
// and before the first one that is known to have it.
func (c *Change) Unsure(v Version) bool {
	after, given := Parse(c.After)
	from, _ := Parse(c.From)
	return given && after.Before(v) && v.Before(from)
}

// In are the changes that hold in a set of releases, by library: what is not in it counts as the default. They are
// shared, and for reading only.
func In(given, defaults map[string]string) []*Change {
	found := make([]*Change, 0, len(changes))
	var library string
	var v point
	known := false
	for i := range changes {
		c := &changes[i]
		if c.Unless != "" {
			if _, named := Parse(given[c.Unless]); named {
				continue
			}
		}
		if c.Library != library {
			library = c.Library
			if v, known = pointOf(given[library]); !known {
				v, known = pointOf(defaults[library])
			}
		}
		if known && spans[i].has(v) {
			found = append(found, c)
		}
	}
	return found
}

// span is between which releases a change holds.
type span struct {
	from, to point
	bounded  bool
}

func (s *span) has(v point) bool { return !v.before(s.from) && (!s.bounded || v.before(s.to)) }

// spans are those of changes, read once.
var spans = func() []span {
	list := make([]span, len(changes))
	for i := range changes {
		list[i] = *changes[i].between()
	}
	return list
}()

func (c *Change) between() *span {
	from, _ := pointOf(c.From)
	to, bounded := pointOf(c.To)
	return &span{from, to, bounded}
}

// Stack is a set of releases whose allocations were traced.
type Stack struct {
	Name     string            `json:"name"`
	Releases map[string]string `json:"releases"`
	// Proven says what the traces have shown. Families are those that were equal event by event; none is all that there
	// are.
	Proven   string   `json:"proven"`
	Families []string `json:"families,omitempty"`
	// Unproven are the families that no trace on the stack shows.
	Unproven []string `json:"unproven,omitempty"`
	// EagerOnly says that neither steps under a compiler nor those over several GPUs were traced.
	EagerOnly bool `json:"eager_only,omitempty"`
}

// Proves says whether the stack's traces show the family, on one GPU and without a compiler where eager, else
// otherwise.
func (s *Stack) Proves(family string, eager bool) bool {
	if !eager && s.EagerOnly || slices.Contains(s.Unproven, family) {
		return false
	}
	return len(s.Families) == 0 || slices.Contains(s.Families, family)
}

// Traced is the stack that has these releases of torch and transformers, up to their minor numbers.
func Traced(torch, transformers Version) (*Stack, bool) {
	for i := range stacks {
		s := &stacks[i]
		if s.release("torch") == torch && s.release("transformers") == transformers {
			return s, true
		}
	}
	return nil, false
}

// Assumed is the stack whose releases count for what a job does not name: the newest one that is not newer than the
// torch and the transformers that it does name, or else the oldest. A job that names an old torch alone is not run with
// today's transformers.
func Assumed(given map[string]string) *Stack {
	for i := range stacks {
		if s := &stacks[i]; !s.newer(given, "torch") && !s.newer(given, "transformers") && !s.newer(given, "trl") {
			return s
		}
	}
	return &stacks[len(stacks)-1]
}

// newer says that the stack's release of a library came out after the given one.
func (s *Stack) newer(given map[string]string, library string) bool {
	v, named := Parse(given[library])
	return named && v.Before(s.release(library))
}

func (s *Stack) release(library string) Version {
	v, _ := Parse(s.Releases[library])
	return v
}
