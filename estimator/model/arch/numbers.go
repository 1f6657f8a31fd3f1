package arch

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
)

// plainNumbers are what most configuration classes call a catalog entry's numbers, by the entry's own words.
var plainNumbers = map[string]string{
	"layers": "num_hidden_layers", "hidden": "hidden_size", "heads": "num_attention_heads",
	"kv_heads": "num_key_value_heads", "head_dim": "head_dim", "ffn": "intermediate_size", "vocab": "vocab_size",
	"max_positions": "max_position_embeddings", "tied_embeddings": "tie_word_embeddings", "bias": "attention_bias",
	"bias/mlp": "mlp_bias", "dropout/attention": "attention_dropout", "dropout/residual": "residual_dropout",
	"dropout/embedding": "embedding_dropout", "sliding_window": "sliding_window", "moe/top_k": "num_experts_per_tok",
	"moe/experts": "num_experts", "moe/expert_ffn": "moe_intermediate_size",
	"moe/shared_expert_ffn_total": "shared_expert_intermediate_size", "mla/q_lora_rank": "q_lora_rank",
	"mla/kv_lora_rank": "kv_lora_rank", "mla/qk_nope_head_dim": "qk_nope_head_dim",
	"mla/qk_rope_head_dim": "qk_rope_head_dim", "mla/v_head_dim": "v_head_dim",
}

// FromNumbers is the architecture of a catalog entry without a config.json: its numbers are put under the keys of the
// family's configuration class and are read as a file would be. What is wrong is said under the entry's words.
func (p *Preset) FromNumbers(f *Family, pointer string, errs *invalid.List) Architecture {
	var wrong invalid.List
	c := NewConfig(pointer, &wrong)
	c.Given = p.asConfig(f)
	a := c.Architecture(p.Family, f, FieldNames{Heads: "heads", Hidden: "hidden", KV: "kv_heads", Dim: "head_dim"})
	found, _ := wrong.Err().(*invalid.Error)
	if found == nil {
		return a
	}
	words := map[string]string{}
	for word, key := range plainNumbers {
		words[f.spell(key)] = word
	}
	for _, e := range found.Fields {
		if word, ok := words[strings.TrimPrefix(e.Pointer, pointer+"/")]; ok {
			e.Pointer = pointer + "/" + word
		}
		errs.Append(e)
	}
	return a
}

// spell is the family's own name for what most configuration classes call key.
func (f *Family) spell(key string) string {
	if own, ok := f.Spelled[key]; ok {
		return own
	}
	return key
}

// asConfig is the object of a config.json that says what the entry's numbers say. A number that the entry does not have
// is the class's default.
func (p *Preset) asConfig(f *Family) map[string]any {
	c := map[string]any{}
	for word, value := range map[string]int64{
		"layers": p.Layers, "hidden": p.Hidden, "heads": p.Heads, "kv_heads": p.KVHeads, "head_dim": p.HeadDim,
		"ffn": p.FFN, "vocab": p.Vocabulary, "max_positions": p.MaxPositions, "sliding_window": p.SlidingWindow,
		"moe/experts": p.MoE.Experts, "moe/top_k": p.MoE.TopK, "moe/expert_ffn": p.MoE.ExpertFFN,
		"moe/shared_expert_ffn_total": p.MoE.SharedExpertFFN, "mla/q_lora_rank": p.MLA.QueryRank,
		"mla/kv_lora_rank": p.MLA.KeyValueRank, "mla/qk_nope_head_dim": p.MLA.KeyHeadDim,
		"mla/qk_rope_head_dim": p.MLA.RotaryHeadDim, "mla/v_head_dim": p.MLA.ValueHeadDim,
	} {
		if value != 0 {
			c[f.spell(plainNumbers[word])] = float64(value)
		}
	}
	for word, value := range map[string]any{
		"tied_embeddings": p.TiedEmbeddings, "bias": p.Bias.Q, "bias/mlp": p.Bias.MLP,
		"dropout/attention": p.Dropout.Attention, "dropout/residual": p.Dropout.Residual,
		"dropout/embedding": p.Dropout.Embedding,
	} {
		c[f.spell(plainNumbers[word])] = value
	}
	if p.SlidingWindow > 0 {
		c["use_sliding_window"] = true
	}
	if f.Numbers != nil {
		f.Numbers(p, c)
	}
	return c
}
