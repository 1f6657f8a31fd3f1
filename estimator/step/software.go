package step

// Software is what releases of torch and transformers do otherwise than torch 2.9 and transformers 4.57, as far as it
// moves an allocation. Which releases do is a table of the package estimator; here is what each of them means.
type Software struct {
	// ReturnsWorkspace gives cuBLAS's workspace back after each product instead of keeping one for each thread.
	ReturnsWorkspace bool
	// UnifiesWorkspaces lets cuBLASLt, which adds the bias of a product, work where cuBLAS does.
	UnifiesWorkspaces bool
	// CopiesUpdates is Muon that copies an update in bfloat16, too, before it iterates on it.
	CopiesUpdates bool
	// HooksTowers makes the embeddings of pictures and sounds require a gradient, too, where layers are checkpointed
	// under LoRA.
	HooksTowers bool
	// DropsCacheFirst leaves a checkpointed model without a cache before it makes its masks.
	DropsCacheFirst bool
	// ReturnsStatesAlone lets the probabilities of gpt_bigcode's attention go with the block that formed them.
	ReturnsStatesAlone bool
	// HandsOnProjections lets checkpointed layers of gpt_bigcode return keys and values, too, which are views of all
	// that the projection of queries, keys and values made.
	HandsOnProjections bool
	// PacksNorms lays the norms of the chunks of all gradients out behind one another, with a table of where each
	// gradient's begin, instead of in rows as long as the longest.
	PacksNorms bool
	// SeedsEfficient makes memory-efficient attention keep a seed and an offset without dropout, too.
	SeedsEfficient bool
	// GroupsEfficient lets memory-efficient attention take grouped heads.
	GroupsEfficient bool
	// SortsFewerBits sorts the ids of an embedding's gradient by as many bits as the largest has, instead of all 64.
	SortsFewerBits bool
	// AccumulatesAtomically adds up the gradient of an embedding with few rows without partial sums in memory.
	AccumulatesAtomically bool
	// TiesT5 is T5 and mT5 whose head is always the embedding, whatever the configuration says.
	TiesT5 bool
	// MasksMinimumFirst makes the mask of what is not the least first in the backward of torch.minimum.
	MasksMinimumFirst bool
	// FreesGathersFirst lets go of what the last group was gathered in before the parameters of the next are copied
	// out.
	FreesGathersFirst bool
	// SharesClampTies halves the gradient of what equals a limit of a clamp between tensors.
	SharesClampTies bool
	// PadsScans is the CUB of CUDA 13, whose scans ask for more.
	PadsScans bool
	// RoundsFlashHeads lets FlashAttention round heads wider than 128 to a multiple of 64, instead of 32.
	RoundsFlashHeads bool
	// WidensWorkspaces gives cuBLAS on Blackwell the workspace that it has on Hopper.
	WidensWorkspaces bool
	// PrefersCuDNN takes cuDNN's attention on Hopper and on Blackwell in data centres.
	PrefersCuDNN bool
	// LoadsCUDA13 is PyTorch built for CUDA 13, whose context and kernels were seen to take more on Hopper.
	LoadsCUDA13 bool
	// SumsMask looks at an all-ones mask with a sum instead of all().
	SumsMask bool
	// BroadcastsMask makes masks of rows and columns that are broadcast, not of single indices.
	BroadcastsMask bool
	// ReturnsTower has models that see keep all that their tower returned until the text model has run, and compare
	// how many tokens stand for pictures as numbers on the device.
	ReturnsTower bool
	// PlainPictureLoss has Gemma 3 with pictures compute the loss that all decoders have, not that of tokens that are
	// chosen by the mask.
	PlainPictureLoss bool
	// OffsetsPositions adds what the cache has seen to the positions, which are so made twice.
	OffsetsPositions bool
	// CapsSeenLogits bounds the logits of PaliGemma 2.
	CapsSeenLogits bool
	// MultipliesAngles computes the angles of rotary embeddings by an elementwise product instead of a batched one.
	MultipliesAngles bool
	// KeepsFrequencies registers the frequencies of rotary embeddings once more as they were made, and those of each
	// kind of layer that there is.
	KeepsFrequencies bool
	// UntiesBias leaves the bias of a head for masked words beside that of its last layer where weights are not tied.
	UntiesBias bool
	// ScalesInEmbedding scales Gemma's embeddings in the module of the embedding, by a buffer.
	ScalesInEmbedding bool
	// GathersSegments gathers the segments of BERT and its like by position, and adds positions out of place.
	GathersSegments bool
	// RenamesViT is ViT with q_proj, k_proj and v_proj, in this order, whose attention lets go of its input.
	RenamesViT bool
	// ProjectsTowers is CLIP that projects what one tower made before the other runs, with the masks of all decoders.
	ProjectsTowers bool
	// UnscriptsBuckets is DeBERTa whose buckets of distances are plain Python, not scripted.
	UnscriptsBuckets bool
	// LaysKeysOutFirst lays Whisper's keys out by head before it computes the values.
	LaysKeysOutFirst bool
	// DropsMaskBuffers is GPT-2 without the buffers of its former mask.
	DropsMaskBuffers bool
	// MasksByLibrary lets OPT, Falcon, Bloom, T5, GPT-J, StableLM and the hybrid Granite make their masks as all
	// decoders do.
	MasksByLibrary bool
	// InterfacesT5 is T5 whose attention goes through the library's interfaces, sdpa too, and adds bias and mask apart.
	InterfacesT5 bool
	// DeclaresHeadsFirst names the heads of XLM-RoBERTa and CamemBERT before the model.
	DeclaresHeadsFirst bool
	// ReassignsScores lets go of the scores of BERT's eager attention as soon as they are probabilities.
	ReassignsScores bool
	// ReturnsProbabilities keeps the probabilities of OPT's and CLIP's eager attention to the end of a layer.
	ReturnsProbabilities bool
	// ComputesPixtralPositions is the tower of Mistral 3 without a table of the positions of all patches.
	ComputesPixtralPositions bool
	// RepeatsWideHeads repeats grouped keys and values of heads that no kernel of attention takes.
	RepeatsWideHeads bool
	// SolvesDeltaRule is the gated delta rule that solves a triangular system for each chunk of tokens.
	SolvesDeltaRule bool
	// InterfacesNemotron is Nemotron whose masks and attention are the library's.
	InterfacesNemotron bool
	// InterfacesStableLM is StableLM with one rotary embedding for all layers, whose attention is the library's.
	InterfacesStableLM bool
	// TypesXIELU is Apertus whose activation has its parameters in the type of the model.
	TypesXIELU bool
	// BuffersPositions is GPT-J whose layers load their tables of positions as buffers.
	BuffersPositions bool
	// ViewsHeadsFirst is the hybrid Granite that lays queries, keys and values out by heads one after the other, and
	// hands its layers no positions.
	ViewsHeadsFirst bool
	// LeavesLogits is GPT-J and the hybrid Granite without a cast of the logits in the model.
	LeavesLogits bool
	// CachesLatents is DeepSeek that caches keys and values as they are compressed.
	CachesLatents bool
	// NarrowsSinks is GPT-OSS that brings its probabilities into the type of the values.
	NarrowsSinks bool
	// InterfacesModernBERT is ModernBERT whose masks and attention are the library's, without parts that compile
	// themselves.
	InterfacesModernBERT bool
	// MasksIdleWindow is Qwen2-MoE that makes the mask of a window, too, although no layer looks through one.
	MasksIdleWindow bool
	// MasksConvolutions is masks for LFM2's convolutions, CachesConvolutions what the library's cache keeps of them,
	// and ConvolvesByFunction a function of the library that they go through.
	MasksConvolutions, CachesConvolutions, ConvolvesByFunction bool
	// InterfacesBART is BART's and mBART's masks by the library, and tables of both stacks of an untied model.
	InterfacesBART bool
	// InterfacesElectra is ELECTRA's attention and masks by the library's interfaces.
	InterfacesElectra bool
	// GroupsGranite is the same of Granite's mixtures, and InterfacesGranite is masks of theirs that the library makes.
	GroupsGranite, InterfacesGranite bool
	// GroupsExperts is mixtures whose experts are two tensors and run as grouped products.
	GroupsExperts bool
	// FillsIdleRows zeroes the rows of a mixture that belong to no expert, before and behind its products, where there
	// are none, too.
	FillsIdleRows bool
	// CopiesExperts is grouped products that copy the transposed weights of all experts.
	CopiesExperts bool
	// ConvertsTargets is peft that adapts the tensors of transformers 5's experts where a job names the linear layers
	// that transformers 4 had in their place, ConvertsAllLinear does so for "all-linear", and ConvertsQwen2MoE counts
	// Qwen2-MoE among the mixtures that changed.
	ConvertsTargets, ConvertsAllLinear, ConvertsQwen2MoE bool
	// FoldsFactors adds the product of an adapter's two matrices to the weights of experts in the product itself.
	FoldsFactors bool
	// CachesWindow keeps the length of the window as a tensor beside the cache of each layer that has one.
	CachesWindow bool
	// CachesInTraining lets Gemma 2 and 3, Cohere 2 and the hybrid Granite fill a cache in training, too.
	CachesInTraining bool
}
