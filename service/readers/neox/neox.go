// Package neox reads GPT-NeoX's files.
package neox

import (
	"fmt"
	"path"
	"strings"

	"github.com/vramplan/vramplan/service/readers/argv"
	"github.com/vramplan/vramplan/service/readers/loops"
	"github.com/vramplan/vramplan/service/readers/setting"
	"github.com/vramplan/vramplan/service/readers/tool"
)

// Tool reads GPT-NeoX's files, which hold DeepSpeed's keys beside its own: its marks outweigh all of DeepSpeed's.
var Tool = tool.Tool{
	Name: "gpt-neox",
	Marks: map[string]int{"pipe-parallel-size": 11, "pipe_parallel_size": 11, "model-parallel-size": 11,
		"model_parallel_size": 11, "attention-config": 6, "attention_config": 6,
		"pos-emb": 6, "pos_emb": 6, "no-weight-tying": 6, "no_weight_tying": 6},
	New: func(j *tool.Job) tool.Reader { return &job{Job: loops.Of(j)} },
	Words: tool.Words{"/training/micro_batch": tool.CountWord("train_micro_batch_size_per_gpu"),
		"/training/gradient_accumulation":  tool.CountWord("gradient_accumulation_steps"),
		"/training/sequence_length":        tool.CountWord("seq_length"),
		"/training/gradient_checkpointing": tool.ChoiceWord("checkpoint_activations", tool.OnOff)},
}

// job is one job on its way through this tool.
type job struct {
	loops.Job
}

const refNeoX = "gpt-neox 2.0 megatron/neox_arguments/neox_args.py"

// Starts takes deepy.py train.py [-d DIR] FILE …; the files are read one over the other, and .yml may be left out.
func (r *job) Starts() bool {
	if r.Base() != "deepy.py" || len(r.Args) == 0 || path.Base(r.Args[0].Text) != "train.py" {
		return false
	}
	given, files, open := argv.Options(r.Args[1:], setting.SetOf("eval_only"))
	for _, w := range open {
		r.OpenWord(w)
	}
	dir, named := given.Get("conf_dir", "d")
	if list, isList := dir.Any.([]any); isList && len(list) > 0 { // the files stand behind the directory
		for _, name := range list[1:] {
			v := dir
			v.Any, v.Text = name, fmt.Sprint(name)
			files = append(files, argv.Word{Value: v})
		}
		dir.Any, dir.Text = list[0], fmt.Sprint(list[0])
	}
	r.In = setting.New()
	for _, f := range files {
		v := f.Argument("config")
		name := v.String()
		if path.Ext(name) != ".yml" && path.Ext(name) != ".yaml" && path.Ext(name) != ".json" {
			name += ".yml"
		}
		if named && dir.Unknown == "" {
			name = path.Join(dir.String(), name)
		}
		v.Any, v.Text = name, name
		r.Under(v)
	}
	return true
}

// underscores gives keys of the highest level underscores for dashes, as GPT-NeoX does.
func underscores(s *setting.Settings) *setting.Settings {
	out := setting.New()
	for _, key := range s.Keys() {
		v, _ := s.Peek(key)
		first, rest, nested := strings.Cut(key, ".")
		name := strings.ReplaceAll(first, "-", "_")
		if nested {
			name += "." + rest
		}
		out.Set(name, v)
	}
	return out
}

// Read maps the settings to fields.
func (r *job) Read() {
	r.In = underscores(r.In)
	s := r.In
	r.Out.Derive("/training/framework", "deepspeed", "GPT-NeoX trains with DeepSpeed")
	if v, ok := s.Get("train_impl"); ok && v.String() != "normal" {
		r.RefuseObjective(v.String(), v.Origin.At)
	}
	if v, ok := s.Get("moe_num_experts", "num_experts"); ok {
		if n, isInt := v.Int(); !isInt || n > 1 {
			r.Out.Refuse("unsupported", v.Origin.At, "GPT-NeoX's experts are not modelled")
		}
	}
	r.model()
	r.Number("/training/sequence_length", tool.AskLength, "seq_length")
	r.attention()
	tp := r.Degree("/training/distributed/tensor_parallel", "model_parallel_size")
	pp := r.Degree("/training/distributed/pipeline_parallel", "pipe_parallel_size")
	cp := r.Degree("/training/distributed/context_parallel", "context_parallel_size")
	if v, ok := r.In.FirstOn("sequence_parallel"); ok && tp > 1 {
		r.Out.Put("/training/distributed/sequence_parallel", true, v)
	}
	s.Read("sequence_parallel")
	r.vocabulary(tp)
	if s.Has("zero_optimization") {
		r.DeepSpeedConfig(s)
		r.offload()
	}
	r.world()
	r.batch(tp * pp * cp)
	r.precision()
	r.optimizer()
	r.checkpointing(tp)
	r.dropout()
	if v, ok := r.In.FirstOn("bias_gelu_fusion", "scaled_upper_triang_masked_softmax_fusion",
		"scaled_masked_softmax_fusion", "layernorm_fusion", "rmsnorm_fusion", "rope_fusion", "bias_dropout_fusion"); ok {
		r.Out.Assume("/training/kernels", "%s and other fused kernels are not counted: with them the job needs less",
			v.Origin.Key)
	}
	s.Read("zero_optimization*", "fp16*", "bf16*", "optimizer*", "output_layer_parallelism", "gpt_j_tied",
		"pipe_partition_method", "data_*", "tokenizer_type", "vocab_file", "merge_file", "*_fusion",
		"synchronize_each_layer", "contiguous_checkpointing", "zero_allow_untested_optimizer",
		"make_vocab_size_divisible_by", "checkpoint_num_layers", "partition_activations")
}

// model reads the shape of the model with the defaults of NeoXArgsModel.
func (r *job) model() {
	s := r.In
	for _, d := range [][2]string{{"layers", "num_layers"}, {"hidden", "hidden_size"},
		{"heads", "num_attention_heads"}} {
		if !r.Dimension(d[0], d[1]) {
			r.Out.Ask("/model/dimensions/"+d[0], "What is the model's "+d[0]+"?", d[1]+" is not in the files")
		}
	}
	if !r.Dimension("max_positions", "max_position_embeddings") {
		r.Dimension("max_positions", "seq_length")
	}
	if heads, ok := s.Get("num_kv_heads"); ok {
		r.NumberOf("/model/dimensions/kv_heads", "How many heads have keys and values?", heads)
	}
	r.DimensionSwitch("tied_embeddings", true, true, refNeoX, "no_weight_tying")
	r.DimensionSwitch("parallel_residual", false, false, refNeoX, "gpt_j_residual")
	r.kind("/model/dimensions/position", "pos_emb", "learned", "positions of the kind",
		map[string]string{"learned": "learned", "rotary": "rope", "alibi": "alibi", "none": "none"})
	if v, ok := s.Get("rotary_pct"); ok && r.Out.Text("/model/dimensions/position") == "rope" {
		if f, isFloat := v.Float(); isFloat && f > 0 && f < 1 {
			r.Out.Put("/model/dimensions/rotary_fraction", f, v)
		}
	}
	r.kind("/model/dimensions/norm", "norm", "layernorm", "norms of the kind",
		map[string]string{"layernorm": "layernorm", "te_layernorm": "layernorm", "rmsnorm": "rmsnorm",
			"te_rmsnorm": "rmsnorm"})
	for key, field := range map[string]string{"use_bias_in_attn_linear": "attention_bias",
		"use_bias_in_mlp": "mlp_bias", "use_bias_in_norms": "norm_bias"} {
		if v, ok := s.Get(key); ok && v.Off() {
			r.Out.Put("/model/dimensions/"+field, false, v)
		}
	}
	r.mlp()
}

// mlp reads the MLP. A gated one is shrunk to two thirds of its width, so that it has as many parameters as one
// that is not, and half of that is its gate (model/transformer.py ParallelMLP): 33024 in the file is 11008. The older
// mlp_type llama takes its width as it is, or 8/3 of the hidden size, rounded up to 256.
func (r *job) mlp() {
	const width, kind = "/model/dimensions/ffn", "/model/dimensions/mlp"
	hidden := r.DimensionInt("hidden")
	act, given := r.In.Get("activation")
	inner, sized := r.In.Get("intermediate_size")
	n, isInt := inner.Int()
	if sized && !isInt {
		r.NumberOf(width, "How wide is the MLP?", inner)
		return
	}
	if old, ok := r.In.Get("mlp_type"); ok && old.String() == "llama" {
		r.Out.Put(kind, "swiglu", old)
		if !sized {
			n = (8*hidden/3 + 255) / 256 * 256
		}
		r.Out.Derive(width, n, "the width of mlp_type llama with hidden_size %d", hidden)
		return
	}
	if !sized {
		n = 4 * hidden
	}
	switch act.String() {
	case "geglu", "swiglu":
		r.Out.Put(kind, act.String(), act)
		if n%3 != 0 {
			r.Out.Ask(width, "How wide is the gated MLP?", fmt.Sprintf("%s: a third of %d is no whole number",
				act.Origin.At.Where(), n))
			return
		}
		n /= 3
	case "", "gelu":
		r.Out.Fall(kind, "gelu", "activation", refNeoX)
		if given {
			r.Out.Put(kind, "gelu", act)
		}
	case "relu":
		r.Out.Put(kind, "relu", act)
	default:
		r.Out.Refuse("unsupported", act.Origin.At, "the activation %s is not modelled", act.String())
		return
	}
	gated := act.String() == "geglu" || act.String() == "swiglu"
	if sized && !gated {
		r.Out.Put(width, n, inner)
	} else if gated && n > 0 { // without a gate and a width it is 4 × hidden, as in a job document
		r.Out.Derive(width, n, "a third of intermediate_size, or of 4 × hidden_size %d", hidden)
	}
}

// vocabulary is the tokenizer's, padded to a multiple of 128 × tensor parallelism.
func (r *job) vocabulary(tp int64) {
	const pointer = "/model/dimensions/vocab"
	if r.Dimension("vocab", "padded_vocab_size") {
		return
	}
	kind, given := r.In.Get("tokenizer_type")
	file := path.Base(r.In.Text("vocab_file"))
	tokens := int64(0)
	switch {
	case !given || kind.String() == "GPT2BPETokenizer":
		tokens = 50257
	case kind.String() == "HFTokenizer" && file == "20B_tokenizer.json":
		tokens = 50277
	default:
		r.Out.Ask(pointer, "How many tokens has the vocabulary, padded?", kind.Origin.At.Where()+
			" names a tokenizer whose file is not here")
		return
	}
	multiple := int64(128)
	if v, ok := r.In.Get("make_vocab_size_divisible_by"); ok {
		if n, isInt := v.Int(); isInt && n > 0 {
			multiple = n
		}
	}
	multiple *= tp
	r.Out.Derive(pointer, (tokens+multiple-1)/multiple*multiple, "the tokenizer's %d tokens, padded to a multiple of %d",
		tokens, multiple)
}

// attention reads attention_config: [[["flash"], 24]], kinds in turn and for how many layers. Without it all are
// global.
func (r *job) attention() {
	v, ok := r.In.Get("attention_config")
	if !ok {
		r.Out.Fall("/training/attention", "eager", "attention_config", refNeoX)
		return
	}
	text := strings.NewReplacer("[", " ", "]", " ", ",", " ", `"`, "", "'", "").Replace(fmt.Sprint(v.Any))
	kinds := map[string]bool{}
	for _, w := range strings.Fields(text) {
		if w != "all" && strings.Trim(w, "0123456789") != "" {
			kinds[w] = true
		}
	}
	switch {
	case len(kinds) == 1 && kinds["flash"]:
		r.Out.Put("/training/attention", "flash", v)
	case len(kinds) == 1 && kinds["global"]:
		r.Out.Put("/training/attention", "eager", v)
	default:
		r.Out.Refuse("unsupported", v.Origin.At, "attention_config mixes kinds of layers, or has some that are not "+
			"modelled: only flash or only global is read")
	}
}

// kind reads which of several kinds a setting names, in GPT-NeoX's words; what are the kinds is for the refusal of
// another one.
func (r *job) kind(pointer, key, otherwise, what string, kinds map[string]string) {
	switch v, ok := r.In.Get(key); {
	case !ok:
		r.Out.Fall(pointer, otherwise, key, refNeoX)
	case kinds[v.String()] == "":
		r.Out.Refuse("unsupported", v.Origin.At, "%s %s are not modelled", what, v.String())
	default:
		r.Out.Put(pointer, kinds[v.String()], v)
	}
}
