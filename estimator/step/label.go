package step

// Label names what a tensor is, for explanations.
type Label uint8

// The labels. The text of each is in labelText.
const (
	LabelNone Label = iota
	LabelParameter
	LabelBuffer
	LabelInput
	LabelGradient
	LabelGradientSum
	LabelWorkspace
	LabelWeightCopy
	LabelCast
	LabelEmbedding
	LabelPositions
	LabelResidual
	LabelNormOutput
	LabelNormStatistics
	LabelNormScaled
	LabelLinear
	LabelAttentionOutput
	LabelAttentionStatistics
	LabelAttentionScores
	LabelAttentionProbabilities
	LabelAttentionMask
	LabelAttentionScratch
	LabelContiguous
	LabelExpandedKV
	LabelRotary
	LabelCache
	LabelDropoutMask
	LabelDropout
	LabelActivation
	LabelElementwise
	LabelLogits
	LabelLogitsFloat
	LabelLogProbabilities
	LabelLogitsGradient
	LabelLoss
	LabelWeightGradient
	LabelInputGradient
	LabelReduction
	LabelEmbeddingSort
	LabelOptimizerState
	LabelOptimizerScratch
	LabelClip
	LabelScaler
	LabelAdapter
	LabelRouting
	LabelExpertInput
	LabelExpertOutput
	LabelTangent
	LabelDequantised
	LabelQuantised
	LabelMaster
	LabelBucket
	LabelGathered
	LabelGatherInput
	LabelGatherOutput
	LabelReduceInput
	LabelShardScratch
	LabelCollective
	LabelGatheredTokens
	LabelStageBuffer
	LabelMergedLogits
	LabelConvolution
	LabelResized
	LabelFoldedWeight
	labelCount
)

var labelText = [labelCount]string{
	LabelNone:                   "tensor",
	LabelParameter:              "parameter",
	LabelBuffer:                 "buffer",
	LabelInput:                  "batch: token ids, labels, masks",
	LabelGradient:               "gradient",
	LabelGradientSum:            "sum of gradients",
	LabelWorkspace:              "cuBLAS workspace",
	LabelWeightCopy:             "half-precision copy of a weight (autocast cache)",
	LabelCast:                   "copy in another precision",
	LabelEmbedding:              "token embeddings",
	LabelPositions:              "positions",
	LabelResidual:               "residual stream",
	LabelNormOutput:             "output of a norm",
	LabelNormStatistics:         "statistics of a norm",
	LabelNormScaled:             "normalised input of a norm",
	LabelLinear:                 "output of a linear layer",
	LabelAttentionOutput:        "output of attention",
	LabelAttentionStatistics:    "log-sum-exp of attention",
	LabelAttentionScores:        "attention scores",
	LabelAttentionProbabilities: "attention probabilities",
	LabelAttentionMask:          "attention mask",
	LabelAttentionScratch:       "scratch of the attention kernel",
	LabelContiguous:             "contiguous copy",
	LabelExpandedKV:             "keys or values repeated for grouped heads",
	LabelRotary:                 "rotary embedding",
	LabelCache:                  "key/value cache",
	LabelDropoutMask:            "dropout mask",
	LabelDropout:                "output of dropout",
	LabelActivation:             "output of the activation function",
	LabelElementwise:            "intermediate of an unfused formula",
	LabelLogits:                 "logits",
	LabelLogitsFloat:            "float32 copy of the logits",
	LabelLogProbabilities:       "log-probabilities",
	LabelLogitsGradient:         "gradient of the logits",
	LabelLoss:                   "loss",
	LabelWeightGradient:         "gradient of a weight, before it is stored",
	LabelInputGradient:          "gradient of an activation",
	LabelReduction:              "scratch of a reduction",
	LabelEmbeddingSort:          "scratch of the embedding's gradient",
	LabelOptimizerState:         "optimizer state",
	LabelOptimizerScratch:       "temporary of the optimizer",
	LabelClip:                   "temporary of gradient clipping",
	LabelScaler:                 "loss scale",
	LabelAdapter:                "intermediate of an adapter (LoRA)",
	LabelRouting:                "routing of tokens to experts",
	LabelExpertInput:            "tokens gathered for an expert",
	LabelExpertOutput:           "output of the experts",
	LabelTangent:                "zero gradients of outputs that the loss does not use (torch.compile)",
	LabelDequantised:            "dequantised weight",
	LabelQuantised:              "quantised input",
	LabelMaster:                 "master copy of a weight",
	LabelBucket:                 "bucket of gradients (DistributedDataParallel)",
	LabelGathered:               "gathered parameter",
	LabelGatherInput:            "part that an all-gather sends",
	LabelGatherOutput:           "buffer of an all-gather",
	LabelReduceInput:            "buffer of a reduce-scatter",
	LabelShardScratch:           "addresses for the copy of many tensors",
	LabelCollective:             "buffer of a collective between GPUs that share layers",
	LabelGatheredTokens:         "tokens of all GPUs that share layers",
	LabelStageBuffer:            "buffer for what another pipeline stage sends",
	LabelMergedLogits:           "logits of all micro-batches, put together",
	LabelConvolution:            "output of a convolution",
	LabelResized:                "picture in another size",
	LabelFoldedWeight:           "weight with its adapter",
}

func (l Label) String() string {
	if l < labelCount {
		return labelText[l]
	}
	return labelText[LabelNone]
}
