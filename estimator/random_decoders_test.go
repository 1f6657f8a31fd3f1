package estimator

import (
	"encoding/json"

	"pgregory.net/rapid"
)

// dimensions are the numbers that every family's draw shares.
type dimensions struct {
	layers, heads, dim, vocab int64
	dropout                   float64
}

// olderDecoders are the families whose configurations have keys of their own.
var olderDecoders = map[string]func(t *rapid.T, d dimensions) json.RawMessage{"opt": randomOPT, "bloom": randomBloom,
	"falcon":      randomFalcon,
	"gpt_bigcode": randomBigCode, "mpt": randomMPT, "gptj": randomGPTJ, "gpt_neo": randomGPTNeo}

func randomOPT(t *rapid.T, d dimensions) json.RawMessage {
	c := map[string]any{"model_type": "opt", "num_hidden_layers": d.layers, "num_attention_heads": d.heads,
		"hidden_size": d.heads * d.dim,
		"ffn_dim":     rapid.Int64Range(8, 900).Draw(t, "ffn"), "vocab_size": d.vocab, "max_position_embeddings": 1500,
		"dropout": d.dropout, "attention_dropout": d.dropout, "use_cache": rapid.Bool().Draw(t, "use_cache"),
		"enable_bias": rapid.Bool().Draw(t, "bias"), "do_layer_norm_before": rapid.Bool().Draw(t, "norm first"),
		"tie_word_embeddings": rapid.Bool().Draw(t, "tied")}
	if rapid.Bool().Draw(t, "projects") {
		c["word_embed_proj_dim"] = rapid.Int64Range(8, 300).Draw(t, "word_embed_proj_dim")
	}
	return marshal(t, c)
}

func randomBloom(t *rapid.T, d dimensions) json.RawMessage {
	return marshal(t, map[string]any{"model_type": "bloom", "n_layer": d.layers, "n_head": d.heads,
		"hidden_size": d.heads * d.dim, "vocab_size": d.vocab,
		"hidden_dropout": d.dropout, "attention_dropout": d.dropout, "use_cache": rapid.Bool().Draw(t, "use_cache"),
		"tie_word_embeddings":                      rapid.Bool().Draw(t, "tied"),
		"apply_residual_connection_post_layernorm": rapid.Bool().Draw(t, "normed residual")})
}

func randomFalcon(t *rapid.T, d dimensions) json.RawMessage {
	c := map[string]any{"model_type": "falcon", "num_hidden_layers": d.layers, "num_attention_heads": 2 * d.heads,
		"hidden_size": 2 * d.heads * d.dim, "vocab_size": d.vocab,
		"hidden_dropout": d.dropout, "attention_dropout": d.dropout, "use_cache": rapid.Bool().Draw(t, "use_cache"),
		"bias": rapid.Bool().Draw(t, "bias")}
	if rapid.Bool().Draw(t, "new decoder") {
		c["new_decoder_architecture"], c["num_kv_heads"] = true, 2
		c["num_ln_in_parallel_attn"] = rapid.Int64Range(1, 2).Draw(t, "norms")
	} else {
		c["multi_query"], c["parallel_attn"] = rapid.Bool().Draw(t, "multi-query"), rapid.Bool().Draw(t, "parallel")
	}
	c["alibi"] = c["multi_query"] != true && rapid.Bool().Draw(t, "alibi")
	return marshal(t, c)
}

func randomBigCode(t *rapid.T, d dimensions) json.RawMessage {
	return marshal(t, map[string]any{"model_type": "gpt_bigcode", "n_layer": d.layers, "n_head": d.heads,
		"n_embd": d.heads * d.dim, "n_positions": 1500,
		"vocab_size": d.vocab, "resid_pdrop": d.dropout, "attn_pdrop": d.dropout, "embd_pdrop": d.dropout,
		"use_cache": rapid.Bool().Draw(t, "use_cache"), "multi_query": rapid.Bool().Draw(t, "multi-query"),
		"n_inner": rapid.Int64Range(8, 900).Draw(t, "ffn")})
}

func randomMPT(t *rapid.T, d dimensions) json.RawMessage {
	return marshal(t, map[string]any{"model_type": "mpt", "n_layers": d.layers, "n_heads": d.heads,
		"d_model": d.heads * d.dim, "max_seq_len": 1500,
		"vocab_size": d.vocab, "use_cache": rapid.Bool().Draw(t, "use_cache"),
		"tie_word_embeddings": rapid.Bool().Draw(t, "tied"),
		"attn_config": map[string]any{"attn_pdrop": d.dropout, "clip_qkv": rapid.SampledFrom([]any{nil, 6.0}).Draw(t,
			"clip_qkv")}})
}

func randomGPTJ(t *rapid.T, d dimensions) json.RawMessage {
	return marshal(t, map[string]any{"model_type": "gptj", "n_layer": d.layers, "n_head": d.heads,
		"n_embd": d.heads * d.dim, "vocab_size": d.vocab,
		"rotary_dim": d.dim / rapid.SampledFrom([]int64{1, 2, 4}).Draw(t, "rotary part") / 2 * 2, "n_positions": 2048,
		"n_inner": rapid.SampledFrom([]any{nil, 700}).Draw(t, "n_inner"), "resid_pdrop": d.dropout,
		"embd_pdrop": d.dropout, "attn_pdrop": d.dropout,
		"use_cache": rapid.Bool().Draw(t, "use_cache"), "tie_word_embeddings": rapid.Bool().Draw(t, "tied")})
}

func randomGPTNeo(t *rapid.T, d dimensions) json.RawMessage {
	return marshal(t, map[string]any{"model_type": "gpt_neo", "num_layers": d.layers, "num_heads": d.heads,
		"hidden_size": d.heads * d.dim, "vocab_size": d.vocab, "max_position_embeddings": 1500,
		"intermediate_size": rapid.SampledFrom([]any{nil, 700}).Draw(t, "ffn"), "resid_dropout": d.dropout,
		"embed_dropout": d.dropout, "attention_dropout": d.dropout,
		"use_cache": rapid.Bool().Draw(t, "use_cache"), "tie_word_embeddings": rapid.Bool().Draw(t, "tied")})
}
