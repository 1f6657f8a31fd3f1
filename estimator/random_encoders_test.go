package estimator

import (
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator/model"
)

// encoderHeads are the text encoders and the heads that they have.
var encoderHeads = map[string][]string{
	"bert":        {"language-model", "masked-lm", "classification", "none"},
	"roberta":     {"language-model", "masked-lm", "classification", "none"},
	"xlm-roberta": {"language-model", "masked-lm", "classification", "none"},
	"electra":     {"masked-lm", "classification", "none"},
	"albert":      {"masked-lm", "classification", "none"},
	"distilbert":  {"masked-lm", "classification", "none"},
	"modernbert":  {"masked-lm", "classification", "none"},
	"deberta-v2":  {"masked-lm", "classification", "none"},
}

// randomEncoder draws the config.json of a text encoder and its head, where family is one.
func randomEncoder(t *rapid.T, job *Job, family string, layers, heads, dim, vocab int64,
	dropout float64) (map[string]any, bool) {
	kinds, ok := encoderHeads[family]
	if !ok {
		return nil, false
	}
	job.Model.Head = &model.Head{Kind: rapid.SampledFrom(kinds).Draw(t, "head")}
	if family == "distilbert" {
		return map[string]any{"model_type": family, "n_layers": layers, "n_heads": heads, "dim": heads * dim,
			"hidden_dim": rapid.Int64Range(8, 900).Draw(t, "ffn"),
			"vocab_size": vocab, "max_position_embeddings": 1600, "dropout": dropout, "attention_dropout": dropout,
			"sinusoidal_pos_embds": rapid.Bool().Draw(t, "sines")}, true
	}
	if family == "modernbert" {
		return map[string]any{"model_type": family, "num_hidden_layers": layers, "num_attention_heads": heads,
			"hidden_size":       heads * dim,
			"intermediate_size": rapid.Int64Range(8, 900).Draw(t, "ffn"), "vocab_size": vocab,
			"tie_word_embeddings": rapid.Bool().Draw(t, "tied"),
			"attention_dropout":   dropout, "mlp_dropout": dropout,
			"reference_compile": rapid.Bool().Draw(t, "compiled"),
			"decoder_bias":      rapid.Bool().Draw(t, "bias"), "global_attn_every_n_layers": rapid.Int64Range(1,
				4).Draw(t,
				"global")}, true
	}
	encoder := map[string]any{"model_type": family, "num_hidden_layers": layers, "num_attention_heads": heads,
		"hidden_size":       heads * dim,
		"intermediate_size": rapid.Int64Range(8, 900).Draw(t, "ffn"), "vocab_size": vocab,
		"max_position_embeddings": 1600,
		"hidden_dropout_prob":     dropout, "attention_probs_dropout_prob": dropout,
		"tie_word_embeddings": rapid.Bool().Draw(t, "tied"),
		"hidden_act":          rapid.SampledFrom([]string{"gelu", "gelu_new", "relu"}).Draw(t, "activation")}
	if family == "deberta-v2" {
		encoder["relative_attention"] = rapid.Bool().Draw(t, "relative")
		encoder["pos_att_type"] = rapid.SampledFrom([]string{"c2p", "p2c", "c2p|p2c", ""}).Draw(t, "positions")
		encoder["share_att_key"] = rapid.Bool().Draw(t, "shared")
		encoder["position_buckets"] = rapid.SampledFrom([]int64{-1, 32, 256}).Draw(t, "buckets")
		encoder["norm_rel_ebd"] = rapid.SampledFrom([]string{"none", "layer_norm"}).Draw(t, "normed")
	}
	if family == "albert" {
		job.Training.GradientCheckpointing = nil
		encoder["num_hidden_groups"] = rapid.Int64Range(1, layers).Draw(t, "groups")
		encoder["inner_group_num"] = rapid.Int64Range(1, 2).Draw(t, "in a group")
	}
	if family == "electra" || family == "albert" {
		encoder["embedding_size"] = rapid.SampledFrom([]int64{heads * dim, 24}).Draw(t, "embedding")
	}
	classes := map[string]string{"bert": "Bert", "roberta": "Roberta", "deberta-v2": "DebertaV2", "electra": "Electra", "albert": "Albert",
		"xlm-roberta": "XLMRoberta"}
	if end := rapid.SampledFrom([]string{"", "ForTokenClassification", "ForQuestionAnswering"}).Draw(t, "class"); end != "" {
		job.Model.Head = nil
		encoder["architectures"] = []string{classes[family] + end}
	}
	return encoder, true
}
