package model

import "github.com/vramplan/vramplan/estimator/step"

// Block is the shape of a decoder's layers: which modules they hold and how their
// forward is written. It decides what is allocated and in which order.
type Block uint8

// The blocks that are described, one file each.
const (
	BlockNanoGPT Block = iota
	BlockGPT2
	BlockLlama
)

// Architecture is a model in numbers: everything that its parameters and the
// allocations of a training step follow from.
type Architecture struct {
	Name   string
	Family string
	Block  Block

	Layers       int64 // L
	Hidden       int64 // d
	Heads        int64 // h
	KVHeads      int64 // h for multi-head attention
	HeadDim      int64 // h·HeadDim need not be d
	FFN          int64 // f
	Vocabulary   int64 // V, rows of the embedding
	MaxPositions int64
	Tied         bool // the head is the embedding

	Activation string // gelu, gelu_new, gelu_pytorch_tanh, relu or silu
	NormBias   bool
	QKVBias    bool
	OutBias    bool
	MLPBias    bool
	QKNorm     bool
	// SlidingWindow is in tokens; 0 when every token sees all before it.
	SlidingWindow int64
	// NoRotaryEvery leaves rotary positions out of every n-th layer (SmolLM3); 0 for none.
	NoRotaryEvery int64

	EmbeddingDropout, AttentionDropout, ResidualDropout float64
	// UseCache is config.use_cache: the forward fills a key/value cache even in training.
	UseCache bool
	// BufferSide is the side of the square causal mask that every layer carries as a buffer; 0 without.
	BufferSide int64
	// Generic marks a family that nobody described and that goes through the nearest block.
	Generic bool
}

// geometry is the attention's.
func (a *Architecture) geometry() step.Heads {
	return step.Heads{Query: a.Heads, KV: a.KVHeads, Dim: a.HeadDim}
}

// UnitLayers is how many layers make one unit that repeats.
func (a *Architecture) UnitLayers() int64 {
	if a.NoRotaryEvery > 0 {
		return a.NoRotaryEvery
	}
	return 1
}

// Network is the model with the first layers layers, as the replay runs it.
func (a *Architecture) Network(layers int64) step.Network {
	switch a.Block {
	case BlockNanoGPT:
		return &nanoGPT{decoder: newDecoder(a, layers)}
	case BlockGPT2:
		return &gpt2{decoder: newDecoder(a, layers)}
	}
	return &llama{decoder: newDecoder(a, layers)}
}

// Parameters lists the parameters and buffers of the model, stored in d, in the order in which module.to(device)
// moves them: the children of a module before its own. Those of the layers are listed for the first recorded
// layers only.
// Source: torch/nn/modules/module.py (Module._apply).
func (a *Architecture) Parameters(recorded int64, d step.DType) step.Parameters {
	l := layout{a: a, dtype: d, list: make([]step.Parameter, 0, 8+recorded*16)}
	return l.all(recorded)
}

// ParameterCount is the exact number of parameters, a tied matrix counted once.
func (a *Architecture) ParameterCount() int64 {
	total := int64(0)
	a.Parameters(1, step.F32).Distinct(func(p *step.Parameter, times int64) {
		if !p.Buffer {
			total += times * p.Numel
		}
	})
	return total
}

// layout writes the list of parameters of an architecture.
type layout struct {
	a     *Architecture
	dtype step.DType
	list  []step.Parameter
}

func (l *layout) add(name string, numel int64) {
	l.list = append(l.list, step.Parameter{Name: name, Numel: numel, Dtype: l.dtype})
}

func (l *layout) buffer(name string, numel int64, d step.DType) {
	l.list = append(l.list, step.Parameter{Name: name, Numel: numel, Dtype: d, Buffer: true})
}

// linear is a matrix of in × out elements and, where bias says so, out more.
func (l *layout) linear(name string, in, out int64, bias bool) {
	l.add(name, in*out)
	if bias {
		l.add(name, out)
	}
}

func (l *layout) norm(name string, width int64) {
	l.add(name, width)
	if l.a.NormBias {
		l.add(name, width)
	}
}

func (l *layout) all(recorded int64) step.Parameters {
	a := l.a
	l.add("embedding", a.Vocabulary*a.Hidden)
	if a.Block != BlockLlama {
		l.add("positions", a.MaxPositions*a.Hidden)
	}
	p := step.Parameters{LayerStart: len(l.list), Recorded: recorded, Layers: a.Layers}
	for range recorded {
		l.oneLayer()
	}
	p.PerLayer = (len(l.list) - p.LayerStart) / int(recorded)
	l.norm("final norm", a.Hidden)
	if a.Block == BlockLlama {
		l.buffer("rotary frequencies", a.HeadDim/2, step.F32)
	}
	if !a.Tied {
		l.add("head", a.Vocabulary*a.Hidden)
	}
	p.List = l.list
	return p
}

func (l *layout) oneLayer() {
	a := l.a
	q, kv := a.Heads*a.HeadDim, a.KVHeads*a.HeadDim
	switch a.Block {
	case BlockNanoGPT, BlockGPT2:
		l.norm("ln_1", a.Hidden)
		l.linear("attn.c_attn", a.Hidden, 3*a.Hidden, a.QKVBias)
		l.linear("attn.c_proj", a.Hidden, a.Hidden, a.OutBias)
		if a.Block == BlockGPT2 {
			l.buffer("attn.bias", a.BufferSide*a.BufferSide, step.Bool)
			l.buffer("attn.masked_bias", 1, l.dtype)
		} else if a.BufferSide > 0 {
			l.buffer("attn.mask", a.BufferSide*a.BufferSide, l.dtype)
		}
		l.norm("ln_2", a.Hidden)
		l.linear("mlp.c_fc", a.Hidden, a.FFN, a.MLPBias)
		l.linear("mlp.c_proj", a.FFN, a.Hidden, a.MLPBias)
	case BlockLlama:
		l.linear("self_attn.q_proj", a.Hidden, q, a.QKVBias)
		l.linear("self_attn.k_proj", a.Hidden, kv, a.QKVBias)
		l.linear("self_attn.v_proj", a.Hidden, kv, a.QKVBias)
		l.linear("self_attn.o_proj", q, a.Hidden, a.OutBias)
		if a.QKNorm {
			l.norm("self_attn.q_norm", a.HeadDim)
			l.norm("self_attn.k_norm", a.HeadDim)
		}
		l.linear("mlp.gate_proj", a.Hidden, a.FFN, a.MLPBias)
		l.linear("mlp.up_proj", a.Hidden, a.FFN, a.MLPBias)
		l.linear("mlp.down_proj", a.FFN, a.Hidden, a.MLPBias)
		l.norm("input_layernorm", a.Hidden)
		l.norm("post_attention_layernorm", a.Hidden)
	}
}
