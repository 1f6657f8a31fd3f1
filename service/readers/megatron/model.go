package megatron

import (
	"cmp"
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/draft"
)

// model reads the sizes. Megatron's own defaults are those of GPT-2: LayerNorm, GELU, biases, learned positions
// and tied embeddings; a job document's dimensions are Llama's where they say nothing, so that all of them are said.
func (r *job) model(deepspeed bool) {
	const d = "/model/dimensions/"
	s, ref := r.In, refMegatronConfig
	if deepspeed {
		ref = refMegatronDeepSpeed
	}
	if v, ok := r.In.FirstOn("multi_latent_attention", "mtp_num_layers", "experimental_attention_variant",
		"is_hybrid_model"); ok {
		r.Out.Refuse("model-kind", v.Origin.At, "%s makes a model whose sizes a job document cannot say", v.Origin.Key)
	}
	if v, ok := s.Get("mtp_num_layers", "hybrid_override_pattern", "hybrid_layer_pattern"); ok && !v.Off() &&
		!v.On() {
		r.Out.Refuse("model-kind", v.Origin.At, "%s makes a model whose sizes a job document cannot say", v.Origin.Key)
	}
	for _, size := range []struct{ pointer, key string }{{"layers", "num_layers"}, {"hidden", "hidden_size"},
		{"heads", "num_attention_heads"}} {
		if !r.Number(d+size.pointer, "What is --"+strings.ReplaceAll(size.key, "_", "-")+"?", size.key) {
			why := "it is not given"
			if v, ok := r.In.FirstOn("use_checkpoint_args"); ok {
				why = v.Origin.At.Where() + " takes it from the checkpoint"
			}
			r.Out.Ask(d+size.pointer, "What is --"+strings.ReplaceAll(size.key, "_", "-")+"?", why)
		}
	}
	if on, ok := r.In.FirstOn("group_query_attention"); ok {
		if !r.Number(d+"kv_heads", "How many heads have keys and values?", "num_query_groups") {
			r.Out.Put(d+"kv_heads", int64(1), on) // the default of --num-query-groups
		}
	} else if deepspeed {
		r.Number(d+"kv_heads", "How many heads have keys and values?", "num_key_value_heads")
	}
	s.Read("num_query_groups")
	r.Number(d+"head_dim", "How wide is a head?", "kv_channels")
	r.Number(d+"max_positions", "How many positions are there?", "max_position_embeddings")
	r.mlp(ref)
	r.norm(ref)
	r.position(ref)
	r.bias()
	if v, ok := r.In.FirstOn("untie_embeddings_and_output_weights"); ok {
		r.Out.Put(d+"tied_embeddings", false, v)
	} else {
		r.Out.Fall(d+"tied_embeddings", true, "untie_embeddings_and_output_weights", ref)
	}
	r.experts()
	r.vocabulary()
}

// activations are switches by the MLP that they make.
var activations = []struct{ key, mlp string }{
	{"swiglu", "swiglu"}, {"geglu", "geglu"}, {"quick_geglu", "geglu"}, {"squared_relu", "relu2"},
	{"openai_gelu", "gelu_new"},
}

// mlp: with SwiGLU an MLP whose width is not given is two thirds as wide, in steps of 64 (arguments.py
// validate_args).
func (r *job) mlp(ref string) {
	const d = "/model/dimensions/"
	mlp := ""
	for _, a := range activations {
		if v, ok := r.In.FirstOn(a.key); ok {
			mlp = a.mlp
			r.Out.Put(d+"mlp", mlp, v)
			break
		}
	}
	if v, ok := r.In.Get("glu_activation"); ok {
		switch v.String() {
		case "swiglu", "geglu":
			r.Out.Put(d+"mlp", v.String(), v)
		default:
			r.Out.Refuse("model-kind", v.Origin.At, "--glu-activation %s is not modelled", draft.Clip(v.String()))
		}
	} else if mlp == "" {
		r.Out.Fall(d+"mlp", "gelu", "swiglu", ref)
	}
	if r.Number(d+"ffn", "How wide is the MLP?", "ffn_hidden_size") {
		return
	}
	hidden, ok := r.Out.Int(d + "hidden")
	if ok && mlp == "swiglu" && hidden <= 1<<24 {
		r.Out.Derive(d+"ffn", hidden*8/3/64*64, "4 × %d × 2/3 in steps of 64", hidden)
	}
}

func (r *job) norm(ref string) {
	const pointer = "/model/dimensions/norm"
	v, ok := r.In.Get("normalization")
	switch {
	case !ok && r.In.On("rmsnorm"):
		r.Out.Derive(pointer, "rmsnorm", "--rmsnorm")
	case !ok:
		r.Out.Fall(pointer, "layernorm", "normalization", ref)
	case strings.EqualFold(v.String(), "rmsnorm"):
		r.Out.Put(pointer, "rmsnorm", v)
	case strings.EqualFold(v.String(), "layernorm"):
		r.Out.Put(pointer, "layernorm", v)
	default:
		r.Out.Ask(pointer, "layernorm or rmsnorm?", v.Origin.At.Where()+" says "+cmp.Or(v.Unknown, draft.Clip(v.String())))
	}
	if v, ok := r.In.FirstOn("qk_layernorm"); ok {
		r.Out.Put("/model/dimensions/qk_norm", true, v)
	}
	if v, ok := r.In.FirstOn("embed_layernorm"); ok {
		r.Out.Assume("/model/dimensions", "the norm behind the embedding (%s) is left out: two vectors, and one "+
			"tensor of activations", v.Origin.At.Where())
	}
}

// positions are --position-embedding-type's words.
var positions = map[string]string{"learned_absolute": "learned", "absolute": "learned", "rope": "rope",
	"rotary": "rope", "alibi": "alibi", "none": "none"}

func (r *job) position(ref string) {
	const pointer = "/model/dimensions/position"
	v, ok := r.In.Get("position_embedding_type")
	position, known := positions[v.String()]
	rotary, old := r.In.FirstOn("use_rotary_position_embeddings")
	switch {
	case old:
		r.Out.Put(pointer, "rope", rotary)
	case ok && known && v.Unknown == "":
		r.Out.Put(pointer, position, v)
	case ok:
		r.Out.Ask(pointer, "Which positions: learned, rope, alibi or none?", v.Origin.At.Where()+" says "+
			cmp.Or(v.Unknown, draft.Clip(v.String())))
	default:
		r.Out.Fall(pointer, "learned", "position_embedding_type", ref)
	}
	if v, ok := r.In.Get("rotary_percent"); ok {
		if f, isFloat := v.Float(); isFloat && f > 0 && f < 1 {
			r.Out.Put("/model/dimensions/rotary_fraction", f, v)
		}
	}
	r.In.Read("no_position_embedding") // without effect since --position-embedding-type
}

// bias: all matrices have a bias unless --disable-bias-linear; --add-qkv-bias gives it back to three.
func (r *job) bias() {
	const d = "/model/dimensions/"
	off, isOff := r.In.FirstOn("disable_bias_linear")
	qkv, isQKV := r.In.FirstOn("add_qkv_bias")
	switch {
	case isOff:
		r.Out.Put(d+"mlp_bias", false, off)
		r.Out.Put(d+"attention_bias", false, off)
		if isQKV {
			r.Out.Put(d+"attention_bias", "qkv", qkv)
		}
	// the document's default, too
	case r.Out.Fields[d+"norm"].Value == "layernorm" && !strings.HasSuffix(r.Out.Text(d+"mlp"), "glu"):
	default:
		r.Out.Fall(d+"mlp_bias", true, "disable_bias_linear", refMegatronConfig)
		r.Out.Fall(d+"attention_bias", true, "disable_bias_linear", refMegatronConfig)
	}
}

func (r *job) experts() {
	const d = "/model/dimensions/"
	v, ok := r.In.Get("num_experts")
	if n, isInt := v.Int(); !ok || isInt && n <= 1 && v.Unknown == "" {
		return
	}
	r.NumberOf(d+"experts", "How many experts are there?", v)
	if !r.Number(d+"experts_per_token", "How many experts take a token?", "moe_router_topk", "topk") {
		r.Out.Fall(d+"experts_per_token", int64(2), "moe_router_topk", refMegatronConfig)
	}
	r.Number(d+"expert_ffn", "How wide is an expert?", "moe_ffn_hidden_size")
	if v, ok := r.In.Get("moe_shared_expert_intermediate_size"); ok && !v.Off() {
		r.Out.Put(d+"shared_experts", int64(1), v)
		r.NumberOf(d+"shared_expert_ffn", "How wide is the shared expert?", v)
	}
	if v, ok := r.In.Peek("moe_layer_freq"); ok && v.String() == "1" { // every layer; others are asked about
		r.In.Read("moe_layer_freq")
	}
}

// vocabulary is the tokenizer's, padded so that the GPUs of a layer share it evenly
// (megatron/training/tokenizer/tokenizer.py _vocab_size_with_padding).
func (r *job) vocabulary() {
	const pointer = "/model/dimensions/vocab"
	s := r.In
	if v, ok := s.Get("padded_vocab_size", "pad_vocab_size_to"); ok {
		r.NumberOf(pointer, "How large is the vocabulary?", v)
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
		r.Out.Put(pointer, n, v)
	case ok && isInt && n > 0 && n <= 1<<30:
		r.Out.Derive(pointer, (n+step-1)/step*step, "%s %d in steps of %d", v.Origin.Key, n, step)
		r.Out.Sources[pointer] = v
	case kind == "GPT2BPETokenizer" || kind == "" && merges:
		r.Out.Derive(pointer, (50257+step-1)/step*step, "50257 of GPT-2's tokenizer in steps of %d", step)
		r.Out.Assume(pointer, "the tokenizer's files are GPT-2's")
	case named && tokenizer.Unknown == "":
		r.Out.Ask(pointer, "How large is the vocabulary?", tokenizer.Origin.At.Where()+" names "+
			draft.Clip(path.Base(tokenizer.String())))
	default:
		r.Out.Ask(pointer, "How large is the vocabulary?", "it is the tokenizer's, and nothing that can "+
			"be read names that")
	}
}
