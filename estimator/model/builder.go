package model

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
)

// builder collects the parameters of a model while its modules are declared: in the order in which
// module.to(device) moves them, the children of a module before its own.
// Source: torch/nn/modules/module.py (Module._apply).
type builder struct {
	a           *Architecture
	dtype       step.DType      // in which parameters are stored
	recorded    int64           // of the layers that repeat, how many are declared one by one
	inputs      []string        // the names of the embeddings
	shared      step.Weight     // the matrix of the first of them, which a tied head has, too
	linears     []string        // under LoRA, the names of the linear layers
	adapted     int             // and how many of them have an adapter
	headAdapted bool            // the head is one of them
	folded      bool            // a parameter that is no linear layer has one
	dropped     bool            // a linear layer has none since its name means experts
	others      []string        // the names of the modules that are not linear layers
	modules     []string        // and those of modules that hold tensors or layers, which peft cannot adapt
	paths       []path          // under LoRA, what stands before the names of modules of a model that sees
	ofLayers    int64           // and how many layers the part has that is being declared
	partly      string          // the module that a target adapts in some of the layers
	foreign     string          // the module that a target means and that peft cannot adapt
	freezing    bool            // what is declared is not trained
	expert      int32           // the number of the one that is being declared, 0 outside
	saved       map[string]bool // the names in LoRA.Saved that a module bears; nil when nobody asks
	torn        map[string]bool // those of a module in which another gets an adapter; nil when nobody asks
	p           step.Parameters
}

func (b *builder) declare(p step.Parameter) int32 {
	p.Expert = b.expert
	b.p.List = append(b.p.List, p)
	return int32(len(b.p.List) - 1)
}

// parameter is a tensor of rows × cols elements; cols is 1 for a vector. It is frozen under LoRA, unless the job
// has its module trained in full.
func (b *builder) parameter(name string, rows, cols int64) step.Weight {
	return b.trained(name, b.original(name, rows, cols))
}

// original is a parameter of the model as it is loaded.
func (b *builder) original(name string, rows, cols int64) step.Weight {
	i := b.declare(step.Parameter{})
	p := &b.p.List[i]
	p.Name, p.Numel, p.Rows, p.Cols, p.Dtype = name, rows*cols, rows, cols, b.dtype
	p.Frozen = b.freezing
	if l := b.a.LoRA; l != nil {
		b.others = append(b.others, name)
		p.Frozen = true
		p.Loading, p.Dtype = l.loading(name, b.dtype)
	}
	return step.Weight{Index: i, Rows: rows, Cols: cols}
}

// pair is the weight of a module and, where it has one, its bias, with as many elements as the weight has rows.
func (b *builder) pair(name string, rows, cols int64, bias bool) (w, second step.Weight) {
	w, second = b.original(name, rows, cols), step.NoWeight
	if bias {
		second = b.original(name, rows, 1)
	}
	return b.trained(name, w), b.trained(name, second)
}

// ahead says that the optimizer meets w before first, though it is moved later.
func (b *builder) ahead(w, first step.Weight) {
	b.p.List[w.Index].Ahead = int(w.Index - first.Index)
}

// outer says that the first dimension of w is n.
func (b *builder) outer(w step.Weight, n int64) { b.p.List[w.Index].Outer = n }

// stacked says that w is n matrices in one tensor of three dimensions.
func (b *builder) stacked(w step.Weight, n int64) {
	p := &b.p.List[w.Index]
	p.Outer, p.Matrices, p.Rows = n, n, p.Rows/n
	b.others = slices.DeleteFunc(b.others, func(name string) bool { return name == p.Name }) // it is no module
}

// module notes a module that is no linear layer, where targets could mean it.
func (b *builder) module(name string) {
	if b.a.LoRA != nil {
		b.modules = append(b.modules, name)
	}
}

// buffer is a tensor that moves with the model and has no gradient.
func (b *builder) buffer(name string, numel int64, d step.DType) {
	b.declare(step.Parameter{Name: name, Numel: numel, Dtype: d, Buffer: true})
}

// frequencies are a rotary embedding's, which later releases register once more as they are made.
// Source: transformers/models/llama/modeling_llama.py (LlamaRotaryEmbedding), 4.57 and 5.23.
func (b *builder) frequencies(prefix string, numel int64) {
	b.buffer(prefix+"inv_freq", numel, step.F32)
	if b.a.Software.KeepsFrequencies {
		b.buffer(prefix+"original_inv_freq", numel, step.F32)
	}
}

// scalar is a buffer of one element in the type of the parameters.
func (b *builder) scalar(name string) step.Weight {
	return step.Weight{Index: b.declare(step.Parameter{Name: name, Numel: 1, Dtype: b.dtype, Buffer: true}), Rows: 1,
		Cols: 1}
}

// loaded is the type in which the model is built, and in which its buffers stay.
func (b *builder) loaded() step.DType {
	if l := b.a.LoRA; l != nil {
		return l.Half
	}
	return b.dtype
}

// embedding is nn.Embedding(rows, cols). The first one is the model's input embedding, whose output LoRA makes
// require a gradient when layers are checkpointed.
func (b *builder) embedding(name string, rows, cols int64) step.Weight {
	w := b.original(name, rows, cols)
	b.embeds(w)
	if len(b.inputs) == 0 {
		b.shared = w
		w.Hooked = b.a.LoRA != nil
	}
	b.inputs = append(b.inputs, name)
	return b.trained(name, w)
}

// embeds says that w is the weight of an nn.Embedding.
func (b *builder) embeds(w step.Weight) { b.p.List[w.Index].Embedding = true }

// section says that what was declared last belongs to a section outside the layers.
func (b *builder) section(s step.Section) { b.p.List[len(b.p.List)-1].Section = s }

// inputSection puts the embedding, which was declared last, into its section, unless the head is tied to it.
func (b *builder) inputSection() {
	if !b.shares() {
		b.section(step.InputSection)
	}
}

// finalNormSection puts the last norm, which was declared last, with its bias if it has one, with the head. Under
// adapters accelerate does not find it. Source: accelerate/utils/fsdp_utils.py (_find_final_norm), 1.15.
func (b *builder) finalNormSection(bias bool) {
	if b.shares() || b.a.LoRA != nil {
		return
	}
	b.section(step.HeadSection)
	if bias {
		b.p.List[len(b.p.List)-2].Section = step.HeadSection
	}
}

// shares says that the head is tied to the embedding: a score is not.
func (b *builder) shares() bool { return b.a.Tied && !b.a.Scored }

// headSection puts the head into its section, unless it is tied to the embedding.
func (b *builder) headSection(head linear) {
	if b.shares() {
		return
	}
	b.p.List[head.w.Index].Section = step.HeadSection
}

// linear is nn.Linear(in, out, bias).
func (b *builder) linear(name string, in, out int64, bias bool) linear {
	var m linear
	m.w, m.b = b.pair(name, out, in, bias)
	m.quantised = b.quantise(m.w)
	m.adapter = b.adapter(name, in, out)
	return m
}

// head is the linear layer of the given width onto the vocabulary, whose matrix is that of the input embedding in a
// model that ties them.
func (b *builder) head(name string, width int64, bias bool) linear {
	a, m := b.a, linear{b: step.NoWeight}
	if a.Scored {
		m.w, m.b = b.pair("score", 1, width, false)
		return m
	}
	if a.Tied {
		m.w = b.trained(name, b.shared)
		if bias {
			m.b = b.parameter(name, a.Vocabulary, 1)
		}
	} else {
		m.w, m.b = b.pair(name, a.Vocabulary, width, bias)
	}
	if a.LitGPT && !a.Tied { // Lightning's BitsandbytesPrecision replaces every linear layer
		m.quantised = b.quantise(m.w)
	}
	m.adapter = b.headAdapter(name, m.w, width)
	return m
}

// conv1D is transformers' Conv1D(out, in), a linear layer whose matrix is stored as (in, out).
func (b *builder) conv1D(name string, in, out int64) linear {
	m := linear{w: b.parameter(name, in, out), b: b.parameter(name, out, 1), transposed: true}
	if m.quantised = b.quantise(m.w); m.quantised != step.NotQuantised { // and stored like that of a linear layer
		m.w.Rows, m.w.Cols, m.transposed = out, in, false
		b.p.List[m.w.Index].Rows, b.p.List[m.w.Index].Cols = out, in
	}
	m.adapter = b.adapter(name, in, out)
	return m
}

// convolution is the kernel of nn.Conv1d or nn.Conv2d over height × width inputs of every channel.
func (b *builder) convolution(name string, in, out, height, width int64, bias bool) convolution {
	m := convolution{w: b.parameter(name, out, in*height*width), b: step.NoWeight}
	p := &b.p.List[m.w.Index]
	p.Rows, p.Cols, p.Matrices, p.Outer = height, width, out*in, out
	if height == 1 {
		p.Rows, p.Matrices = in, out
	}
	if bias {
		m.b = b.parameter(name, out, 1)
	}
	return m
}

// convolution is a kernel with a row for every output channel.
type convolution struct{ w, b step.Weight }

// norm is a norm's gain over width elements, and its bias.
func (b *builder) norm(name string, width int64, bias bool) norm {
	var m norm
	m.w, m.b = b.pair(name, width, 1, bias)
	return m
}

// inLayers marks what was declared from start on as parts of layers.
func (b *builder) inLayers(start int) {
	mixed := slices.ContainsFunc(b.p.List[start:], func(p step.Parameter) bool { return p.Trained() })
	for i := start; i < len(b.p.List); i++ {
		p := &b.p.List[i]
		p.InLayer, p.Carried = true, p.Frozen && mixed && b.a.Flattened
	}
}

// stack declares the layers that repeat; there is one such stack in a model.
func (b *builder) stack(layer func(i int64)) {
	start := len(b.p.List)
	declare := layer
	layer = func(i int64) {
		first := len(b.p.List)
		declare(i)
		if first < len(b.p.List) {
			b.p.List[first].First = true
		}
	}
	defer b.inLayers(start)
	lead := min(b.a.Lead, b.recorded)
	if b.a.Irregular {
		lead = b.recorded
	}
	for i := range lead { // each stands in the list for itself
		layer(i)
	}
	b.p.LayerStart, b.p.Recorded, b.p.Layers = len(b.p.List), b.recorded-lead, b.a.Layers-lead
	if b.p.Recorded == 0 {
		return
	}
	for i := range b.p.Recorded {
		layer(lead + i)
	}
	b.p.PerLayer = (len(b.p.List) - b.p.LayerStart) / int(b.p.Recorded)
}

// linear is a linear layer, and the adapter that LoRA put on it.
type linear struct {
	w, b       step.Weight
	transposed bool
	matrix     bool // runs on a matrix, not on a batch of sequences
	apart      bool // the product and the bias are two operations
	relays     bool // the gradient of the result is copied before a product takes it
	side       side // along which GPUs share it
	quantised  step.Quantisation
	adapter    *adapter
	replayed   func() step.T // runs the layer as it was recorded
}

// forward is the layer applied to x.
func (m *linear) forward(t *step.Tape, x step.T) step.T {
	if m.adapter != nil {
		return m.adapter.forward(t, m, x)
	}
	if m.side != uncut {
		return m.shared(t, x)
	}
	return m.base(t, x)
}

// logits is the layer as the model's head.
func (m *linear) logits(t *step.Tape, x step.T) step.T {
	if m.adapter == nil && m.quantised == step.NotQuantised {
		return t.Head(x, m.w, m.b)
	}
	return t.HeadOf(x, func(x step.T) step.T { return m.forward(t, x) })
}

// scores is the layer as a head that gives a matrix of scores, one row a sequence.
func (m *linear) scores(t *step.Tape, x step.T) step.T {
	if m.adapter == nil {
		return t.LinearMatrix(x, m.w, m.b, step.LabelLogits)
	}
	return m.forward(t, x)
}

// scaledLogits is the layer as the model's head and what its output goes through, which takes it over.
// Source: transformers/models/granite/modeling_granite.py (GraniteForCausalLM.forward) and Cohere's and Gemma 2's,
// 4.45.
func (m *linear) scaledLogits(t *step.Tape, x step.T, scale func(t *step.Tape, logits step.T) step.T) step.T {
	return t.HeadOf(x, func(x step.T) step.T {
		if m.adapter == nil && m.quantised == step.NotQuantised {
			return scale(t, t.Linear(x, m.w, m.b, step.LabelLogits))
		}
		return scale(t, m.forward(t, x))
	})
}

// keys is the layer for the keys of attention that is written out. Their gradient comes transposed; where copies says
// that it has to be laid out anew for a product, each product has its own copy made: the layer's and its adapter's.
func (m *linear) keys(t *step.Tape, x step.T, copies bool) step.T {
	own := *m
	own.relays = copies
	return own.forward(t, x)
}

// base is the layer without its adapter.
func (m *linear) base(t *step.Tape, x step.T) step.T {
	if m.relays {
		return t.Heads(m.plain(t, x), true)
	}
	return m.plain(t, x)
}

func (m *linear) plain(t *step.Tape, x step.T) step.T {
	switch m.quantised {
	case step.NotQuantised:
		if m.replayed != nil {
			return m.replayed()
		}
	case step.Int8:
		return t.Linear8bit(x, m.w)
	default:
		return t.LinearPacked(x, m.w, m.b, m.quantised == step.NF4Double)
	}
	if m.apart {
		return t.Module(func() step.T { return m.falcon(t, x) })
	}
	if m.transposed {
		return t.Conv1D(x, m.w, m.b, step.LabelLinear)
	}
	if m.matrix {
		return t.LinearMatrix(x, m.w, m.b, step.LabelLinear)
	}
	return t.Linear(x, m.w, m.b, step.LabelLinear)
}

// norm is a LayerNorm or an RMSNorm.
type norm struct{ w, b step.Weight }

// layer is nn.LayerNorm.
func (m norm) layer(t *step.Tape, x step.T) step.T { return t.LayerNorm(x, m.w, m.b) }

// rms is the RMSNorm that transformers writes in Python for Llama.
func (m norm) rms(t *step.Tape, x step.T) step.T { return t.RMSNorm(x, m.w) }

// wide is Olmo2RMSNorm.
func (m norm) wide(t *step.Tape, x step.T) step.T { return t.WideRMSNorm(x, m.w) }

// cohere is CohereLayerNorm.
func (m norm) cohere(t *step.Tape, x step.T) step.T { return t.CohereLayerNorm(x, m.w, m.w.Rows) }

// gemma is GemmaRMSNorm.
func (m norm) gemma(t *step.Tape, x step.T) step.T { return t.GemmaRMSNorm(x, m.w) }

// falcon is FalconLinear.forward: the product and the bias are two operations.
func (m *linear) falcon(t *step.Tape, x step.T) step.T {
	y := t.LinearUncached(x, m.w, step.LabelLinear)
	if !m.b.Exists() {
		return y
	}
	biased := t.Add(y, t.Parameter(m.b), step.LabelLinear)
	t.Drop(y)
	return biased
}
