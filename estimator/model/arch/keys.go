package arch

import (
	_ "embed"
	"maps"
	"slices"
	"strings"
)

// inertKeys change neither a parameter nor a tensor that a step keeps: they are for tokenizers, generation, initial
// values, saving, losses of other heads and scalars that a kernel takes as an argument.
// Source: transformers/configuration_utils.py and the configuration classes, 4.57 and 5.23.
var inertKeys = MakeSet(
	"model_type", "architectures", "transformers_version", "torch_dtype", "dtype", "auto_map", "_name_or_path",
	"name_or_path", "_commit_hash", "_attn_implementation", "_attn_implementation_autoset", "attn_implementation",
	"torchscript", "use_bfloat16", "tokenizer_class", "tokenizer_model", "prefix", "problem_type", "id2label",
	"label2id", "num_labels", "finetuning_task", "task_specific_params", "return_dict", "return_dict_in_generate",
	"output_past", "cache_implementation", "license", "version", "initializer_range", "initializer_factor",
	"init_std", "init_scale", "init_method", "initializer_cutoff_factor", "gradient_checkpointing", "use_cache",
	"use_return_dict", "pretraining_tp", "unk_token", "pad_token", "rope_theta", "rope_scaling", "rope_base",
	"rotary_emb_base", "rope_local_base_freq", "rope_type", "original_max_position_embeddings", "max_length",
	"min_length", "do_sample", "temperature", "top_k", "top_p", "num_beams", "early_stopping", "length_penalty",
	"repetition_penalty", "no_repeat_ngram_size", "typical_p", "num_beam_groups", "diversity_penalty",
	"encoder_no_repeat_ngram_size", "exponential_decay_length_penalty", "suppress_tokens", "begin_suppress_tokens",
	"remove_invalid_values", "output_scores", "tf_legacy_loss", "bad_words_ids", "num_return_sequences",
	"forced_bos_token", "forced_eos_token", "summary_type", "summary_use_proj", "summary_activation",
	"summary_first_dropout", "summary_last_dropout", "summary_proj_to_labels", "classifier_dropout",
	"classifier_dropout_prob", "classifier_activation", "classifier_bias", "router_aux_loss_coef",
	"router_z_loss_coef", "aux_loss_alpha", "aux_loss_coef", "seq_aux", "norm_topk_prob", "norm_min",
	"routed_scaling_factor", "route_scale", "scoring_func", "topk_method", "n_group", "topk_group", "moe_norm_min",
	"attention_multiplier", "query_pre_attn_scalar", "tensor_parallel_plan", "base_model_tp_plan",
	"generation_config", "ep_size", "tie_encoder_decoder", "rescale_every", "fp32_residual_connection",
	"attention_softmax_in_fp32", "_flash_attn_2_enabled", "use_flash_attn", "use_flash_attention", "flash_attention",
	"long_factor", "short_factor",
)

// inertEnds are how the keys end that name tokens, and small numbers that keep a division from zero.
var inertEnds = []string{"_token_id", "_token_ids", "_token_index", "_token", "_eps", "_epsilon"}

// ScalingKeys multiply, bound or drop activations: no parameter depends on them, a temporary of a step may.
var ScalingKeys = MakeSet(
	"logits_scaling", "logit_scale", "final_logit_softcapping", "attn_logit_softcapping", "logit_softcapping",
	"residual_multiplier", "embedding_multiplier", "scale_embedding", "scale_emb", "scale_depth", "mup_scale",
	"embd_pdrop", "emb_pdrop", "embed_pdrop", "embed_dropout", "embedding_dropout", "activation_dropout",
	"layerdrop", "resid_dropout", "mlp_dropout", "router_jitter_noise", "input_jitter_noise", "output_router_logits",
	"clip_qkv", "swiglu_limit", "attn_temperature_tuning", "attention_value_scale",
)

// MakeSet is a set of keys.
func MakeSet(keys ...string) map[string]bool {
	set := make(map[string]bool, len(keys))
	for _, k := range keys {
		set[k] = true
	}
	return set
}

func inert(key string) bool {
	return inertKeys[key] || slices.ContainsFunc(inertEnds, func(end string) bool {
		return strings.HasSuffix(key, end)
	})
}

// absent says that a value means that there is none of what its key is about: null, false, nothing and 0.
func absent(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case bool:
		return !v
	case float64:
		return v == 0
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// deniedBy are parts of keys of which even false or 0 says something about the block: a gate or a bias that is left
// out, positions, what a token sees.
var deniedBy = []string{"gate", "glu", "bias", "causal", "posit", "rope", "rotary", "norm", "dense", "mlp"}

// Idle says that a key that a decoder put together from its numbers does not read changes none of its tensors.
func Idle(key string, v any) bool {
	if inert(key) || v == nil {
		return true
	}
	return absent(v) && !slices.ContainsFunc(deniedBy, func(part string) bool { return strings.Contains(key, part) })
}

// classKeys are the keys of the configuration classes of the described families, a line each that begins with the
// model type: what a class has and its reader does not ask for changes nothing that is replayed.
//
//go:embed classkeys.txt
var classKeys string

// Strays are the keys of the file that the family's class has not, and that may mean code of another kind than is
// replayed: transformers itself ignores them.
func (c *Config) Strays(f *Family) []string {
	var out []string
	_, class, _ := strings.Cut(classKeys, "\n"+f.ModelType+" ")
	class, _, _ = strings.Cut(class, "\n")
	for _, key := range slices.Sorted(maps.Keys(c.Given)) {
		if !c.Read[key] && !Idle(key, c.Given[key]) && !strings.Contains(" "+class+" ", " "+key+" ") &&
			!slices.Contains(f.Ignored, key) {
			out = append(out, key)
		}
	}
	return out
}

// RopeParameters reads a share of the head that is turned from where transformers 5 writes it.
func (c *Config) RopeParameters() {
	all, ok := c.Given["rope_parameters"].(map[string]any)
	if !ok || all["partial_rotary_factor"] == nil {
		return
	}
	for _, key := range [...]string{"partial_rotary_factor", "rotary_pct"} {
		if _, has := c.Defaults[key]; has && c.Given[key] == nil {
			c.Given[key] = all["partial_rotary_factor"]
		}
	}
}
