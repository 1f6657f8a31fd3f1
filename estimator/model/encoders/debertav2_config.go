package encoders

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/model/arch"
)

// Bidirectional: its attention is written out, and no kernel has to be told.
func (o *debertaOptions) Bidirectional() bool { return false }

// Encodes: it is none of BERT's kind.
func (o *debertaOptions) Encodes() bool { return false }

// debertaOptions is what DeBERTa-v2 and -v3 have besides the numbers of every architecture.
type debertaOptions struct {
	EncoderOptions
	relative           bool // attention by relative positions
	buckets            bool // of which distant ones share a bucket
	span               int64
	contentToPosition  bool
	positionToContent  bool
	sharedProjections  bool // the projections of the content serve the positions, too
	normedPositions    bool
	positionsInInput   bool
	poolerDropout      float64
	poolerActivation   string
	classifierDropping float64
}

func deberta(a *arch.Architecture) *debertaOptions { return a.Own.(*debertaOptions) }

// DebertaV2Family is DeBERTa-v2 and -v3.
var DebertaV2Family = arch.Family{ModelType: "deberta-v2",
	Undealt: "FSDP on layers that share a trained tensor, here the relative positions, is not modelled yet; ddp is",

	Uncompiled: "a compiled DeBERTa is not modelled; its attention is scripted, which breaks the graph",
	Keys:       arch.CommonKeys,
	Classes: []string{arch.ClassMaskedLM, arch.ClassClassification, arch.ClassTokens, arch.ClassQuestions,
		arch.ClassChoices, arch.ClassBase},
	Defaults: map[string]any{
		"vocab_size": 128100.0, "hidden_size": 1536.0, "num_hidden_layers": 24.0, "num_attention_heads": 24.0,
		"intermediate_size": 6144.0, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
		"attention_probs_dropout_prob": 0.1,
		"max_position_embeddings":      512.0, "type_vocab_size": 0.0, "relative_attention": false,
		"position_biased_input": true,
		"pooler_dropout":        0.0, "pooler_hidden_act": "gelu", "tie_word_embeddings": true, "legacy": true,
		"share_att_key": false},
	Read:    readDebertaV2,
	Spelled: bertSpelled,
	Numbers: func(p *arch.Preset, c map[string]any) { // the catalog has DeBERTa-v3
		bertNumbers(p, c)
		c["relative_attention"], c["position_buckets"], c["pos_att_type"] = true, 256.0, "p2c|c2p"
		c["norm_rel_ebd"], c["share_att_key"], c["position_biased_input"] = "layer_norm", true, false
	},
	Build: buildDebertaV2,
}

func readDebertaV2(c *arch.Config, a arch.Architecture) arch.Architecture {
	a.Layers = c.Integer("num_hidden_layers", arch.MaxLayers)
	a.Hidden = c.Integer("hidden_size", arch.MaxWidth)
	a.Heads = c.Integer("num_attention_heads", arch.MaxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.Integer("intermediate_size", arch.MaxRows)
	a.Vocabulary = c.Integer("vocab_size", arch.MaxRows)
	a.MaxPositions = c.Integer("max_position_embeddings", arch.MaxRows)
	known := []string{"gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish"}
	a.Activation = c.Activation("hidden_act", known...)
	a.ResidualDropout, a.AttentionDropout = c.Probability("hidden_dropout_prob"),
		c.Probability("attention_probs_dropout_prob")
	a.EmbeddingDropout = a.ResidualDropout
	a.Tied, a.EagerOnly = c.Boolean("tie_word_embeddings"), true
	a.Labels = c.Labels()
	o := &debertaOptions{EncoderOptions: EncoderOptions{PositionRows: a.MaxPositions},
		relative:          c.Boolean("relative_attention"),
		sharedProjections: c.Boolean("share_att_key"), positionsInInput: c.Boolean("position_biased_input"),
		poolerDropout: c.Probability("pooler_dropout"), poolerActivation: c.Activation("pooler_hidden_act", known...),
		classifierDropping: a.ResidualDropout}
	a.LearnedPositions = o.positionsInInput
	if v, _ := c.Value("type_vocab_size"); v != 0.0 {
		o.TypeVocabulary = c.Integer("type_vocab_size", arch.MaxRows)
	}
	if _, given := c.Value("cls_dropout"); given {
		o.classifierDropping = c.Probability("cls_dropout")
	}
	relativePositions(c, &a, o)
	refuseDeberta(c, &a)
	if o.relative {
		a.NeverReentrant = throughPositions
	}
	a.Own = o
	return a
}

const throughPositions = "reentrant checkpointing goes backward through the graph of the relative positions once for " +
	"each layer, which autograd refuses"

// relativePositions reads how positions take part in the attention.
func relativePositions(c *arch.Config, a *arch.Architecture, o *debertaOptions) {
	o.span = positiveOr(c, "max_relative_positions", a.MaxPositions)
	if buckets := positiveOr(c, "position_buckets", 0); buckets > 0 {
		o.span, o.buckets = buckets, true
	}
	switch v, _ := c.Value("pos_att_type"); kinds := v.(type) {
	case nil:
	case string:
		o.contentToPosition, o.positionToContent = strings.Contains(kinds, "c2p"), strings.Contains(kinds, "p2c")
	case []any:
		for _, kind := range kinds {
			o.contentToPosition = o.contentToPosition || kind == "c2p"
			o.positionToContent = o.positionToContent || kind == "p2c"
		}
	default:
		c.Errs.Add(c.Pointer+"/pos_att_type", "wrong_type", "pos_att_type is a list such as [\"p2c\", \"c2p\"], not %s",
			arch.Describe(v))
	}
	if v, _ := c.Value("norm_rel_ebd"); v != nil {
		name, _ := v.(string)
		o.normedPositions = strings.Contains(strings.ToLower(name), "layer_norm")
	}
}

// positiveOr is the whole number under key, or otherwise where it is absent, zero or -1.
func positiveOr(c *arch.Config, key string, otherwise int64) int64 {
	if v, ok := c.Value(key); !ok || v == -1.0 || v == 0.0 {
		return otherwise
	}
	return c.Integer(key, arch.MaxRows)
}

// refuseDeberta names what the configuration can ask for and is not modelled.
func refuseDeberta(c *arch.Config, a *arch.Architecture) {
	for _, key := range []string{"embedding_size", "pooler_hidden_size"} {
		if v, ok := c.Value(key); ok && v != float64(a.Hidden) {
			c.Errs.Add(c.Pointer+"/"+key, "unsupported", "%s is modelled where it is hidden_size", key)
		}
	}
	if v, ok := c.Value("attention_head_size"); ok && v != float64(a.HeadDim) {
		c.Errs.Add(c.Pointer+"/attention_head_size", "unsupported",
			"attention_head_size is modelled where it is hidden_size / num_attention_heads")
	}
	if v, ok := c.Value("conv_kernel_size"); ok && v != 0.0 {
		c.Errs.Add(c.Pointer+"/conv_kernel_size", "unsupported",
			"the convolution of DeBERTa-v2's first layer is not modelled; set it to 0")
	}
	if a.Class == arch.ClassMaskedLM && !c.Boolean("legacy") {
		c.Errs.Add(c.Pointer+"/legacy", "unsupported",
			"the newer head for masked words is not modelled; set it to true")
	}
}
