package undescribed

import (
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/decoders"
)

// unknown reads the config.json of a decoder that nobody described: its numbers under the names that configurations
// use for them, and what sets its block apart as far as the file says so.
type unknown struct {
	*arch.Config
	// families are the model types that are described.
	families []string
	kind     string
	// activation is the MLP's, and gated whether a gate comes with it.
	activation string
	gated      bool
}

// unknownKeys are the names of a decoder's numbers, the commonest first, by their names in Dimensions.
var unknownKeys = map[string][]string{
	"layers":        {"num_hidden_layers", "n_layer", "n_layers", "num_layers"},
	"hidden":        {"hidden_size", "n_embd", "d_model", "dim"},
	"heads":         {"num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads"},
	"kv_heads":      {"num_key_value_heads", "n_kv_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"},
	"head_dim":      {"head_dim", "kv_channels", "attention_head_dim"},
	"ffn":           {"intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size", "d_ff"},
	"vocab":         {"vocab_size", "padded_vocab_size", "n_vocab"},
	"max_positions": {"max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "n_ctx"},
	"mlp":           {"hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act", "activation"},
	"experts":       {"num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"},
	"per_token":     {"num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k"},
	"expert_ffn":    {"moe_intermediate_size", "expert_ffn_hidden_size"},
	"shared":        {"n_shared_experts", "num_shared_experts", "moe_num_shared_experts"},
	"shared_ffn":    {"shared_expert_intermediate_size", "shared_intermediate_size"},
	"fraction":      {"partial_rotary_factor", "rotary_pct", "rotary_percentage"},
	"residual":      {"residual_dropout", "resid_pdrop", "hidden_dropout", "hidden_dropout_prob", "dropout"},
	"attention":     {"attention_dropout", "attn_pdrop", "attention_probs_dropout_prob"},
}

// required are the numbers that no decoder is without; of the others, 0 means none.
var required = arch.MakeSet("layers", "hidden", "heads", "vocab")

// notUnderstood are keys that say that the model is more than a stack of layers with attention and an MLP.
var notUnderstood = map[string]string{
	"kv_lora_rank": "latent attention", "text_config": "a model of several parts",
	"vision_config": "a model of several parts",
	"audio_config":  "a model of several parts", "state_size": "layers without attention",
	"ssm_state_size": "layers without attention",
	"mamba_d_state":  "layers without attention", "mamba_d_conv": "layers without attention",
	"conv_L_cache":   "layers without attention",
	"time_step_rank": "layers without attention", "attention_hidden_size": "layers without attention",
	"linear_num_value_heads": "layers without attention",
	"lru_width":              "layers without attention", "block_configs": "layers of different sizes",
	"layers_block_type": "layers of different kinds",
	"block_types":       "layers of different kinds", "attn_layer_indices": "layers of different kinds",
	"decoder_layers": "an encoder and a decoder",
}

// FromUnknown puts a decoder of a family that nobody described together from its configuration, or says why not.
func FromUnknown(c *arch.Config, kind string, families []string) arch.Architecture {
	u := &unknown{Config: c, kind: kind, families: families}
	// transformers/configuration_utils.py, 4.57
	c.Defaults = map[string]any{"tie_word_embeddings": true, "use_cache": true}
	a := arch.Architecture{Family: strings.ToLower(kind)}
	family := &genericFamily
	if _, plain := PlainDecoders[a.Family]; plain {
		family = &scoringFamily
	}
	a = c.Head(family, a)
	u.refuse()
	known, ok := u.known()
	if !ok {
		return arch.Architecture{} // whatever else its file lacks
	}
	d := u.dimensions(&known)
	known.numbers(u, d)
	if c.Errs.List.Err() != nil {
		return arch.Architecture{}
	}
	s := &sizes{Dimensions: d, pointer: c.Pointer, errs: c.Errs.List, families: families,
		key: u.given, extraRows: known.extraRows,
		activation: u.activation, gated: u.gated}
	made := s.decide(kind)
	made.EagerOnly, made.Uncounted = known.eager, !known.counted
	made.Class, made.Labels, made.ScoreDropout = a.Class, a.Labels, a.ScoreDropout
	made.Generic, made.Tied, made.UseCache = true, *d.TiedEmbeddings, c.Boolean("use_cache")
	made.AttentionDropout = u.share("attention")
	made = u.windows(made)
	made.Unread = u.unread()
	return made
}

// refuse adds an error for everything that cannot be understood.
func (u *unknown) refuse() {
	for key, what := range notUnderstood {
		if v := u.Config.Given[key]; v != nil && v != false && v != 0.0 {
			u.Read[key] = true
			u.Errs.Add(u.Pointer+"/"+key, "unsupported", "model_type %.60q is not described, and %s says that it is "+
				"%s, which cannot be put together from its dimensions", u.kind, key, what)
		}
	}
	if both, _ := u.says("is_encoder_decoder"); both {
		u.Errs.Add(u.Pointer+"/is_encoder_decoder", "unsupported",
			"model_type %.60q is not described; of undescribed families, decoders are understood", u.kind)
	}
}

// name is the key under which the file has a number, or else the commonest.
func (u *unknown) name(field string) (string, bool) {
	names := unknownKeys[field]
	for _, n := range names {
		if v := u.Config.Given[n]; v != nil && (v != 0.0 || required[field]) {
			u.Read[n] = true
			return n, true
		}
	}
	if len(names) == 0 {
		return field, false
	}
	return names[0], false
}

// given is what the file calls a field of Dimensions.
func (u *unknown) given(field string) string {
	name, _ := u.name(field)
	return name
}

// number is what the file says of a field, 0 for nothing.
func (u *unknown) number(field string, limit float64) int64 {
	name, ok := u.name(field)
	if !ok {
		return 0
	}
	return u.Whole(name, u.Config.Given[name], limit)
}

func (u *unknown) share(field string) float64 {
	name, ok := u.name(field)
	if !ok {
		return 0
	}
	return u.Probability(name)
}

// says reports the first of some booleans that the file has.
func (u *unknown) says(keys ...string) (value, ok bool) {
	for _, k := range keys {
		u.Read[k] = true
		if v, is := u.Config.Given[k].(bool); is {
			return v, true
		}
	}
	return false, false
}

func (u *unknown) has(keys ...string) bool {
	for _, k := range keys {
		u.Read[k] = true
		if u.Config.Given[k] != nil {
			return true
		}
	}
	return false
}

// dimensions are the file's numbers.
func (u *unknown) dimensions(known *plainDecoder) *arch.Dimensions {
	d := &arch.Dimensions{Family: strings.ToLower(u.kind), KVHeads: u.number("kv_heads", arch.MaxWidth),
		HeadDim: u.number("head_dim", arch.MaxWidth), FFN: u.number("ffn", arch.MaxRows),
		MaxPositions: u.number("max_positions", arch.MaxRows), Dropout: u.share("residual"),
		Experts: u.number("experts", arch.MaxExperts), ExpertsPerToken: u.number("per_token", arch.MaxExperts),
		ExpertFFN:     u.number("expert_ffn", arch.MaxRows),
		SharedExperts: u.number("shared", arch.MaxExperts), SharedExpertFFN: u.number("shared_ffn", arch.MaxRows)}
	var missing []string
	for _, f := range []struct {
		field string
		to    *int64
		limit float64
	}{{"layers", &d.Layers, arch.MaxLayers}, {"hidden", &d.Hidden, arch.MaxWidth}, {"heads", &d.Heads, arch.MaxWidth},
		{"vocab", &d.Vocabulary, arch.MaxRows}} {
		if _, ok := u.name(f.field); !ok {
			missing = append(missing, strings.Join(unknownKeys[f.field], " or "))
		}
		*f.to = u.number(f.field, f.limit)
	}
	if len(missing) > 0 {
		u.Errs.Add(u.Pointer+"/model_type", "unsupported", "model_type %.60q is not described, and cannot be put "+
			"together from its dimensions without %s; described are %s",
			u.kind, strings.Join(missing, ", "), strings.Join(u.families, ", "))
	}
	tied := u.Boolean("tie_word_embeddings")
	u.Read["tie_word_embeddings"] = true
	d.TiedEmbeddings = &tied
	if on, _ := u.says("multi_query"); on {
		if name, ok := u.name("kv_heads"); ok && d.KVHeads != 1 {
			u.Errs.Add(u.Pointer+"/multi_query", "conflict",
				"multi_query says that there is one head of keys and values, and %s is %d", name, d.KVHeads)
		}
		d.KVHeads = 1
	}
	u.norms(d)
	u.mlp(d, known)
	u.positions(d)
	u.bias(d)
	normed, _ := u.says("use_qk_norm", "qk_norm", "qk_layernorm")
	d.QKNorm = arch.HeadNorms(normed)
	d.ParallelResidual, _ = u.says("use_parallel_residual", "parallel_residual", "parallel_attn")
	d.LMHeadBias, _ = u.says("lm_head_bias")
	return d
}

// norms tells LayerNorm and RMSNorm apart by the name of their epsilon.
func (u *unknown) norms(d *arch.Dimensions) {
	if d.Norm = "rmsnorm"; u.has("layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_epsilon") ||
		!u.has("rms_norm_eps", "rms_norm_epsilon", "norm_eps") {
		d.Norm = "layernorm"
	}
}

// mlp reads the activation, and whether a gate comes with it. The activation's name says that for SwiGLU and GEGLU
// alone; of a class of transformers its source does. Of others it is taken for what every class of transformers 5.23
// has: the 83 whose default is SiLU have a gate, the 45 with GELU or ReLU and a LayerNorm under one of its usual names
// none. With RMSNorm, or norm_eps, there are both (Gemma and ModernBERT, Arcee and Zamba).
func (u *unknown) mlp(d *arch.Dimensions, known *plainDecoder) {
	name, ok := u.name("mlp")
	act, _ := u.Config.Given[name].(string)
	unsaid := false
	switch {
	case !ok, act == "silu", act == "swish", act == "swiglu":
		u.activation, u.gated = "silu", true
	case act == "geglu":
		u.activation, u.gated = "gelu", true
	case act == "gelu", act == "gelu_pytorch_tanh":
		u.activation, unsaid = "gelu", true
	case act == "gelu_new", act == "relu", act == "relu2":
		u.activation, unsaid = act, true
	default:
		u.Errs.Add(u.Pointer+"/"+name, "unsupported", "model_type %.60q is not described, and its activation "+
			"%s is not either", u.kind, arch.Describe(u.Config.Given[name]))
	}
	switch usual := u.has("layer_norm_eps", "layer_norm_epsilon", "layernorm_epsilon", "norm_epsilon"); {
	case known.counted:
		u.gated = known.gated
		if known.siluExperts && u.activation != "silu" {
			u.Errs.Add(u.Pointer+"/"+name, "unsupported",
				"experts of %s have SiLU whatever %s says; here it is %s, and "+
					"understood is silu", u.kind, name, arch.Describe(u.Config.Given[name]))
		}
	case unsaid && !usual && u.has("rms_norm_eps", "rms_norm_epsilon", "norm_eps"):
		u.Errs.Add(u.Pointer+"/"+name, "unsupported", "model_type %.60q is not described, and whether its MLP has a "+
			"gate is not known from %s %s and an RMSNorm; give the model's numbers as dimensions, whose mlp says it",
			u.kind, name, arch.Describe(u.Config.Given[name]))
	}
}

// positions are rotary where a key speaks of them.
func (u *unknown) positions(d *arch.Dimensions) {
	d.Position = "learned"
	rotates := u.has("rotary_dim")
	for key := range u.Config.Given {
		rotates = rotates || strings.HasPrefix(key, "rope_") || strings.Contains(key, "rotary")
	}
	alibi, _ := u.says("alibi", "use_alibi")
	switch {
	case alibi:
		d.Position = "alibi"
	case rotates || d.Norm == "rmsnorm":
		d.Position = "rope"
	}
	if name, ok := u.name("fraction"); ok {
		u.fraction(d, name, u.Config.Given[name])
	}
	u.turnedShare(d)
	if d.Heads > 0 && d.Hidden >= d.Heads && u.has("rotary_dim") {
		d.RotaryFraction = min(float64(u.Integer("rotary_dim", arch.MaxWidth))/float64(d.Hidden/d.Heads), 1)
	}
}

// fraction takes over how much of a head is turned.
func (u *unknown) fraction(d *arch.Dimensions, name string, v any) {
	d.RotaryFraction, _ = u.FactorOf(name, v, 1)
}

// turnedShare reads what transformers 5 writes in place of rope_theta, rope_scaling and partial_rotary_factor: one
// object, or one for each type of layer.
func (u *unknown) turnedShare(d *arch.Dimensions) {
	all, ok := u.Config.Given["rope_parameters"].(map[string]any)
	u.Read["rope_parameters"] = true
	if !ok {
		return
	}
	if v := all["partial_rotary_factor"]; v != nil {
		u.fraction(d, "rope_parameters", v)
	}
	for kind, of := range all {
		one, ok := of.(map[string]any)
		if v := one["partial_rotary_factor"]; ok && v != nil && v != 1.0 {
			u.Errs.Add(u.Pointer+"/rope_parameters/"+kind, "unsupported",
				"model_type %.60q is not described, and a share of a head that is turned in some of the layers "+
					"is not understood", u.kind)
		}
	}
}

// bias reads which matrices have one.
func (u *unknown) bias(d *arch.Dimensions) {
	if all, ok := u.says("attention_bias", "use_bias", "bias", "add_bias_linear"); ok {
		d.AttentionBias = arch.AttentionBiasNone
		if all {
			d.AttentionBias = arch.AttentionBiasAll
		}
	}
	if out, ok := u.says("attention_out_bias"); ok && !out && d.AttentionBias == arch.AttentionBiasAll {
		d.AttentionBias = arch.AttentionBiasQKV
	}
	if on, _ := u.says("qkv_bias", "add_qkv_bias"); on && d.AttentionBias != arch.AttentionBiasAll {
		d.AttentionBias = arch.AttentionBiasQKV
	}
	if on, ok := u.says("mlp_bias", "use_bias", "bias", "add_bias_linear"); ok {
		d.MLPBias = &on
	}
}

// windows takes over a sliding window: Llama's layers may differ in it, those put together share it.
func (u *unknown) windows(a arch.Architecture) arch.Architecture {
	for _, key := range [...]string{"sliding_window", "use_sliding_window", "layer_types"} {
		u.Read[key] = true
	}
	if types, ok := u.Config.Given["layer_types"].([]any); ok {
		for _, kind := range types {
			if kind != arch.FullAttention && kind != arch.SlidingAttention {
				u.Errs.Add(u.Pointer+"/layer_types", "unsupported",
					"model_type %.60q is not described, and a layer of type %s is not understood; %s and %s are",
					u.kind, arch.Describe(kind), arch.FullAttention, arch.SlidingAttention)
				return a
			}
		}
		u.Read["sliding_window_pattern"], u.Read["max_window_layers"] = true, true
	}
	if on, ok := u.says("use_sliding_window"); ok && !on || !u.has("sliding_window") {
		u.Read["sliding_window_pattern"], u.Read["max_window_layers"] = true, true
		return a
	}
	a.SlidingWindow = u.Optional("sliding_window", arch.MaxRows)
	if a.Described == &decoders.LlamaFamily && u.has("layer_types") {
		a = u.LayerTypes(a, func(int64) bool { return true })
	}
	return a
}

// unread refuses every key that was not understood and may change what a step allocates, and returns those that change
// activations alone.
func (u *unknown) unread() []string {
	var scaling []string
	for _, key := range slices.Sorted(maps.Keys(u.Config.Given)) {
		v := u.Config.Given[key]
		switch {
		case u.Read[key] || arch.Idle(key, v) || u.repeats(key, v):
		case arch.ScalingKeys[key]:
			if v != 1.0 {
				scaling = append(scaling, key)
			}
		default:
			u.Errs.Add(u.Pointer+"/"+key, "unsupported", "model_type %.60q is not described, and what %.60s, here %s, "+
				"does to its modules is not known; "+
				"leave it out where it changes none of them", u.kind, key, arch.Describe(v))
		}
	}
	return scaling
}

// repeats says that key is another name for a number, and says of it what was read.
func (u *unknown) repeats(key string, v any) bool {
	for field, names := range unknownKeys {
		if slices.Contains(names, key) {
			chosen, ok := u.name(field)
			return field == "max_positions" || ok && u.Config.Given[chosen] == v
		}
	}
	return strings.HasPrefix(key, "rope_")
}
