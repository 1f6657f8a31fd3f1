package readers

import (
	"cmp"
	"path"
	"strings"
)

// megatronModel reads the sizes. Megatron's own defaults are those of GPT-2: LayerNorm, GELU, biases, learned positions
// and tied embeddings; a job document's dimensions are Llama's where they say nothing, so that all of them are said.
func (r *reading) megatronModel(deepspeed bool) {
	const d = "/model/dimensions/"
	s, ref := r.s, refMegatronConfig
	if deepspeed {
		ref = refMegatronDeepSpeed
	}
	if v, ok := r.s.FirstOn("multi_latent_attention", "mtp_num_layers", "experimental_attention_variant",
		"is_hybrid_model"); ok {
		r.d.refuse("model-kind", v.Origin.At, "%s makes a model whose sizes a job document cannot say", v.Origin.Key)
	}
	if v, ok := s.Get("mtp_num_layers", "hybrid_override_pattern", "hybrid_layer_pattern"); ok && !v.Off() &&
		!v.On() {
		r.d.refuse("model-kind", v.Origin.At, "%s makes a model whose sizes a job document cannot say", v.Origin.Key)
	}
	for _, size := range []struct{ pointer, key string }{{"layers", "num_layers"}, {"hidden", "hidden_size"},
		{"heads", "num_attention_heads"}} {
		if !r.number(d+size.pointer, "What is --"+strings.ReplaceAll(size.key, "_", "-")+"?", size.key) {
			why := "it is not given"
			if v, ok := r.s.FirstOn("use_checkpoint_args"); ok {
				why = v.Origin.At.Where() + " takes it from the checkpoint"
			}
			r.d.ask(d+size.pointer, "What is --"+strings.ReplaceAll(size.key, "_", "-")+"?", why)
		}
	}
	if on, ok := r.s.FirstOn("group_query_attention"); ok {
		if !r.number(d+"kv_heads", "How many heads have keys and values?", "num_query_groups") {
			r.d.put(d+"kv_heads", int64(1), on) // the default of --num-query-groups
		}
	} else if deepspeed {
		r.number(d+"kv_heads", "How many heads have keys and values?", "num_key_value_heads")
	}
	s.Read("num_query_groups")
	r.number(d+"head_dim", "How wide is a head?", "kv_channels")
	r.number(d+"max_positions", "How many positions are there?", "max_position_embeddings")
	r.megatronMLP(ref)
	r.megatronNorm(ref)
	r.megatronPosition(ref)
	r.megatronBias()
	if v, ok := r.s.FirstOn("untie_embeddings_and_output_weights"); ok {
		r.d.put(d+"tied_embeddings", false, v)
	} else {
		r.d.fall(d+"tied_embeddings", true, "untie_embeddings_and_output_weights", ref)
	}
	r.megatronExperts()
	r.megatronVocabulary()
}

// megatronActivations are switches by the MLP that they make.
var megatronActivations = []struct{ key, mlp string }{
	{"swiglu", "swiglu"}, {"geglu", "geglu"}, {"quick_geglu", "geglu"}, {"squared_relu", "relu2"},
	{"openai_gelu", "gelu_new"},
}

// megatronMLP: with SwiGLU an MLP whose width is not given is two thirds as wide, in steps of 64 (arguments.py
// validate_args).
func (r *reading) megatronMLP(ref string) {
	const d = "/model/dimensions/"
	mlp := ""
	for _, a := range megatronActivations {
		if v, ok := r.s.FirstOn(a.key); ok {
			mlp = a.mlp
			r.d.put(d+"mlp", mlp, v)
			break
		}
	}
	if v, ok := r.s.Get("glu_activation"); ok {
		switch v.String() {
		case "swiglu", "geglu":
			r.d.put(d+"mlp", v.String(), v)
		default:
			r.d.refuse("model-kind", v.Origin.At, "--glu-activation %s is not modelled", clip(v.String()))
		}
	} else if mlp == "" {
		r.d.fall(d+"mlp", "gelu", "swiglu", ref)
	}
	if r.number(d+"ffn", "How wide is the MLP?", "ffn_hidden_size") {
		return
	}
	hidden, ok := r.d.int(d + "hidden")
	if ok && mlp == "swiglu" && hidden <= 1<<24 {
		r.d.derive(d+"ffn", hidden*8/3/64*64, "4 × %d × 2/3 in steps of 64", hidden)
	}
}

func (r *reading) megatronNorm(ref string) {
	const pointer = "/model/dimensions/norm"
	v, ok := r.s.Get("normalization")
	switch {
	case !ok && r.s.On("rmsnorm"):
		r.d.derive(pointer, "rmsnorm", "--rmsnorm")
	case !ok:
		r.d.fall(pointer, "layernorm", "normalization", ref)
	case strings.EqualFold(v.String(), "rmsnorm"):
		r.d.put(pointer, "rmsnorm", v)
	case strings.EqualFold(v.String(), "layernorm"):
		r.d.put(pointer, "layernorm", v)
	default:
		r.d.ask(pointer, "layernorm or rmsnorm?", v.Origin.At.Where()+" says "+cmp.Or(v.Unknown, clip(v.String())))
	}
	if v, ok := r.s.FirstOn("qk_layernorm"); ok {
		r.d.put("/model/dimensions/qk_norm", true, v)
	}
	if v, ok := r.s.FirstOn("embed_layernorm"); ok {
		r.d.assume("/model/dimensions", "the norm behind the embedding (%s) is left out: two vectors, and one "+
			"tensor of activations", v.Origin.At.Where())
	}
}

// megatronPositions are --position-embedding-type's words.
var megatronPositions = map[string]string{"learned_absolute": "learned", "absolute": "learned", "rope": "rope",
	"rotary": "rope", "alibi": "alibi", "none": "none"}

func (r *reading) megatronPosition(ref string) {
	const pointer = "/model/dimensions/position"
	v, ok := r.s.Get("position_embedding_type")
	position, known := megatronPositions[v.String()]
	rotary, old := r.s.FirstOn("use_rotary_position_embeddings")
	switch {
	case old:
		r.d.put(pointer, "rope", rotary)
	case ok && known && v.Unknown == "":
		r.d.put(pointer, position, v)
	case ok:
		r.d.ask(pointer, "Which positions: learned, rope, alibi or none?", v.Origin.At.Where()+" says "+
			cmp.Or(v.Unknown, clip(v.String())))
	default:
		r.d.fall(pointer, "learned", "position_embedding_type", ref)
	}
	if v, ok := r.s.Get("rotary_percent"); ok {
		if f, isFloat := v.Float(); isFloat && f > 0 && f < 1 {
			r.d.put("/model/dimensions/rotary_fraction", f, v)
		}
	}
	r.s.Read("no_position_embedding") // without effect since --position-embedding-type
}

// megatronBias: all matrices have a bias unless --disable-bias-linear; --add-qkv-bias gives it back to three.
func (r *reading) megatronBias() {
	const d = "/model/dimensions/"
	off, isOff := r.s.FirstOn("disable_bias_linear")
	qkv, isQKV := r.s.FirstOn("add_qkv_bias")
	switch {
	case isOff:
		r.d.put(d+"mlp_bias", false, off)
		r.d.put(d+"attention_bias", false, off)
		if isQKV {
			r.d.put(d+"attention_bias", "qkv", qkv)
		}
	// the document's default, too
	case r.d.fields[d+"norm"].value == "layernorm" && !strings.HasSuffix(r.d.text(d+"mlp"), "glu"):
	default:
		r.d.fall(d+"mlp_bias", true, "disable_bias_linear", refMegatronConfig)
		r.d.fall(d+"attention_bias", true, "disable_bias_linear", refMegatronConfig)
	}
}

func (r *reading) megatronExperts() {
	const d = "/model/dimensions/"
	v, ok := r.s.Get("num_experts")
	if n, isInt := v.Int(); !ok || isInt && n <= 1 && v.Unknown == "" {
		return
	}
	r.numberOf(d+"experts", "How many experts are there?", v)
	if !r.number(d+"experts_per_token", "How many experts take a token?", "moe_router_topk", "topk") {
		r.d.fall(d+"experts_per_token", int64(2), "moe_router_topk", refMegatronConfig)
	}
	r.number(d+"expert_ffn", "How wide is an expert?", "moe_ffn_hidden_size")
	if v, ok := r.s.Get("moe_shared_expert_intermediate_size"); ok && !v.Off() {
		r.d.put(d+"shared_experts", int64(1), v)
		r.numberOf(d+"shared_expert_ffn", "How wide is the shared expert?", v)
	}
	if v, ok := r.s.Peek("moe_layer_freq"); ok && v.String() == "1" { // every layer; others are asked about
		r.s.Read("moe_layer_freq")
	}
}

// megatronVocabulary is the tokenizer's, padded so that the GPUs of a layer share it evenly
// (megatron/training/tokenizer/tokenizer.py _vocab_size_with_padding).
func (r *reading) megatronVocabulary() {
	const pointer = "/model/dimensions/vocab"
	s := r.s
	if v, ok := s.Get("padded_vocab_size", "pad_vocab_size_to"); ok {
		r.numberOf(pointer, "How large is the vocabulary?", v)
		return
	}
	step, tensor := int64(128), int64(1)
	if v, ok := s.Get("make_vocab_size_divisible_by"); ok {
		if n, isInt := v.Int(); isInt && n > 0 && n <= 1<<20 {
			step = n
		}
	}
	if v, ok := s.Get("tensor_model_parallel_size"); ok {
		if n, isInt := v.Int(); isInt && n > 0 && n <= 1<<20 {
			tensor = n
		}
	}
	step *= tensor
	kind, merges := s.Text("tokenizer_type"), s.Has("merge_file")
	v, ok := s.Get("vocab_size")
	n, isInt := v.Int()
	tokenizer, named := s.Get("tokenizer_model", "tokenizer_name_or_path", "vocab_file", "tokenizer_type")
	switch {
	case ok && isInt && n > 0 && n <= 1<<30 && n%step == 0:
		r.d.put(pointer, n, v)
	case ok && isInt && n > 0 && n <= 1<<30:
		r.d.derive(pointer, (n+step-1)/step*step, "%s %d in steps of %d", v.Origin.Key, n, step)
		r.d.sources[pointer] = v
	case kind == "GPT2BPETokenizer" || kind == "" && merges:
		r.d.derive(pointer, (50257+step-1)/step*step, "50257 of GPT-2's tokenizer in steps of %d", step)
		r.d.assume(pointer, "the tokenizer's files are GPT-2's")
	case named && tokenizer.Unknown == "":
		r.d.ask(pointer, "How large is the vocabulary?", tokenizer.Origin.At.Where()+" names "+
			clip(path.Base(tokenizer.String())))
	default:
		r.d.ask(pointer, "How large is the vocabulary?", "it is the tokenizer's, and nothing that can "+
			"be read names that")
	}
}
