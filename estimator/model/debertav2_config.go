package model

import "strings"

// bidirectional: its attention is written out, and no kernel has to be told.
func (o *debertaOptions) bidirectional() bool { return false }

// encodes: it is none of BERT's kind.
func (o *debertaOptions) encodes() bool { return false }

// debertaOptions is what DeBERTa-v2 and -v3 have besides the numbers of every architecture.
type debertaOptions struct {
	encoderOptions
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

func (a *Architecture) deberta() *debertaOptions { return a.own.(*debertaOptions) }

var debertaV2Family = family{modelType: "deberta-v2",
	undealt: "FSDP on layers that share a trained tensor, here the relative positions, is not modelled yet; ddp is",

	uncompiled: "a compiled DeBERTa is not modelled; its attention is scripted, which breaks the graph",
	keys:       commonKeys,
	classes:    []string{classMaskedLM, classClassification, classTokens, classQuestions, classChoices, classBase},
	defaults: map[string]any{
		"vocab_size": 128100.0, "hidden_size": 1536.0, "num_hidden_layers": 24.0, "num_attention_heads": 24.0,
		"intermediate_size": 6144.0, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
		"attention_probs_dropout_prob": 0.1,
		"max_position_embeddings":      512.0, "type_vocab_size": 0.0, "relative_attention": false,
		"position_biased_input": true,
		"pooler_dropout":        0.0, "pooler_hidden_act": "gelu", "tie_word_embeddings": true, "legacy": true,
		"share_att_key": false},
	read:    (*config).debertaV2,
	spelled: bertSpelled,
	numbers: func(p *Preset, c map[string]any) { // the catalog has DeBERTa-v3
		bertNumbers(p, c)
		c["relative_attention"], c["position_buckets"], c["pos_att_type"] = true, 256.0, "p2c|c2p"
		c["norm_rel_ebd"], c["share_att_key"], c["position_biased_input"] = "layer_norm", true, false
	},
	build: buildDebertaV2,
}

func (c *config) debertaV2(a *Architecture) {
	a.Layers = c.integer("num_hidden_layers", maxLayers)
	a.Hidden = c.integer("hidden_size", maxWidth)
	a.Heads = c.integer("num_attention_heads", maxWidth)
	a.KVHeads = a.Heads
	if a.Heads > 0 {
		a.HeadDim = a.Hidden / a.Heads
	}
	a.FFN = c.integer("intermediate_size", maxRows)
	a.Vocabulary = c.integer("vocab_size", maxRows)
	a.MaxPositions = c.integer("max_position_embeddings", maxRows)
	known := []string{"gelu", "gelu_new", "gelu_pytorch_tanh", "relu", "silu", "swish"}
	a.Activation = c.activation("hidden_act", known...)
	a.ResidualDropout, a.AttentionDropout = c.probability("hidden_dropout_prob"),
		c.probability("attention_probs_dropout_prob")
	a.EmbeddingDropout = a.ResidualDropout
	a.Tied, a.EagerOnly = c.boolean("tie_word_embeddings"), true
	a.Labels = c.labels()
	o := &debertaOptions{encoderOptions: encoderOptions{positionRows: a.MaxPositions},
		relative:          c.boolean("relative_attention"),
		sharedProjections: c.boolean("share_att_key"), positionsInInput: c.boolean("position_biased_input"),
		poolerDropout: c.probability("pooler_dropout"), poolerActivation: c.activation("pooler_hidden_act", known...),
		classifierDropping: a.ResidualDropout}
	a.LearnedPositions = o.positionsInInput
	if v, _ := c.value("type_vocab_size"); v != 0.0 {
		o.typeVocabulary = c.integer("type_vocab_size", maxRows)
	}
	if _, given := c.value("cls_dropout"); given {
		o.classifierDropping = c.probability("cls_dropout")
	}
	c.relativePositions(a, o)
	c.refuseDeberta(a)
	if o.relative {
		a.NeverReentrant = throughPositions
	}
	a.own = o
}

const throughPositions = "reentrant checkpointing goes backward through the graph of the relative positions once for " +
	"each layer, which autograd refuses"

// relativePositions reads how positions take part in the attention.
func (c *config) relativePositions(a *Architecture, o *debertaOptions) {
	o.span = c.positiveOr("max_relative_positions", a.MaxPositions)
	if buckets := c.positiveOr("position_buckets", 0); buckets > 0 {
		o.span, o.buckets = buckets, true
	}
	switch v, _ := c.value("pos_att_type"); kinds := v.(type) {
	case nil:
	case string:
		o.contentToPosition, o.positionToContent = strings.Contains(kinds, "c2p"), strings.Contains(kinds, "p2c")
	case []any:
		for _, kind := range kinds {
			o.contentToPosition = o.contentToPosition || kind == "c2p"
			o.positionToContent = o.positionToContent || kind == "p2c"
		}
	default:
		c.errs.Add(c.pointer+"/pos_att_type", "wrong_type", "pos_att_type is a list such as [\"p2c\", \"c2p\"], not %s",
			describe(v))
	}
	if v, _ := c.value("norm_rel_ebd"); v != nil {
		name, _ := v.(string)
		o.normedPositions = strings.Contains(strings.ToLower(name), "layer_norm")
	}
}

// positiveOr is the whole number under key, or otherwise where it is absent, zero or -1.
func (c *config) positiveOr(key string, otherwise int64) int64 {
	if v, ok := c.value(key); !ok || v == -1.0 || v == 0.0 {
		return otherwise
	}
	return c.integer(key, maxRows)
}

// refuseDeberta names what the configuration can ask for and is not modelled.
func (c *config) refuseDeberta(a *Architecture) {
	for _, key := range []string{"embedding_size", "pooler_hidden_size"} {
		if v, ok := c.value(key); ok && v != float64(a.Hidden) {
			c.errs.Add(c.pointer+"/"+key, "unsupported", "%s is modelled where it is hidden_size", key)
		}
	}
	if v, ok := c.value("attention_head_size"); ok && v != float64(a.HeadDim) {
		c.errs.Add(c.pointer+"/attention_head_size", "unsupported",
			"attention_head_size is modelled where it is hidden_size / num_attention_heads")
	}
	if v, ok := c.value("conv_kernel_size"); ok && v != 0.0 {
		c.errs.Add(c.pointer+"/conv_kernel_size", "unsupported",
			"the convolution of DeBERTa-v2's first layer is not modelled; set it to 0")
	}
	if a.Class == classMaskedLM && !c.boolean("legacy") {
		c.errs.Add(c.pointer+"/legacy", "unsupported",
			"the newer head for masked words is not modelled; set it to true")
	}
}
