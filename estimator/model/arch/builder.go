package arch

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
)

// Builder collects the parameters of a model while its modules are declared: in the order in which
// module.to(device) moves them, the children of a module before its own.
// Source: torch/nn/modules/module.py (Module._apply).
type Builder struct {
	A           *Architecture
	Dtype       step.DType      // in which parameters are stored
	Recorded    int64           // of the layers that repeat, how many are declared one by one
	Inputs      []string        // the names of the embeddings
	shared      step.Weight     // the matrix of the first of them, which a tied head has, too
	linears     []string        // under LoRA, the names of the linear layers
	adapted     int             // and how many of them have an adapter
	headAdapted bool            // the head is one of them
	folded      bool            // a parameter that is no linear layer has one
	dropped     bool            // a linear layer has none since its name means experts
	Others      []string        // the names of the modules that are not linear layers
	modules     []string        // and those of modules that hold tensors or layers, which peft cannot adapt
	Paths       []Path          // under LoRA, what stands before the names of modules of a model that sees
	OfLayers    int64           // and how many layers the part has that is being declared
	partly      string          // the module that a target adapts in some of the layers
	Foreign     string          // the module that a target means and that peft cannot adapt
	Freezing    bool            // what is declared is not trained
	path        string          // what stands before the number of a layer, empty where it is not known
	layer       int64           // the number of the layer that is being declared, counted from 1, 0 outside
	stacked     bool            // there is a stack of layers
	used        map[string]bool // the keys of a rank pattern that a module's name matches; nil when nobody asks
	ambiguous   string          // a module that several keys of a rank pattern match
	Expert      int32           // the number of the one that is being declared, 0 outside
	saved       map[string]bool // the names in LoRA.Saved that a module bears; nil when nobody asks
	torn        map[string]bool // those of a module in which another gets an adapter; nil when nobody asks
	P           step.Parameters
}

// Declare adds a parameter or buffer, and returns its place in the list.
func (b *Builder) Declare(p step.Parameter) int32 {
	p.Expert = b.Expert
	b.P.List = append(b.P.List, p)
	return int32(len(b.P.List) - 1)
}

// Parameter is a tensor of rows × cols elements; cols is 1 for a vector. It is frozen under LoRA, unless the job
// has its module trained in full.
func (b *Builder) Parameter(name string, rows, cols int64) step.Weight {
	return b.Trained(name, b.Original(name, rows, cols))
}

// Original is a parameter of the model as it is loaded.
func (b *Builder) Original(name string, rows, cols int64) step.Weight {
	i := b.Declare(step.Parameter{})
	p := &b.P.List[i]
	p.Name, p.Numel, p.Rows, p.Cols, p.Dtype = name, rows*cols, rows, cols, b.Dtype
	p.Frozen = b.Freezing
	if l := b.A.LoRA; l != nil {
		b.Others = append(b.Others, name)
		p.Frozen = true
		p.Loading, p.Dtype = l.loading(name, b.Dtype)
	}
	return step.Weight{Index: i, Rows: rows, Cols: cols}
}

// Pair is the weight of a module and, where it has one, its bias, with as many elements as the weight has rows.
func (b *Builder) Pair(name string, rows, cols int64, bias bool) (w, second step.Weight) {
	w, second = b.Original(name, rows, cols), step.NoWeight
	if bias {
		second = b.originalBias(name, rows)
	}
	return b.Trained(name, w), b.Trained(name, second)
}

// Bias is the bias of a module, one element for each of n.
func (b *Builder) Bias(name string, n int64) step.Weight {
	return b.Trained(name, b.originalBias(name, n))
}

// originalBias is Bias as it is loaded. Source: peft/tuners/tuners_utils.py (_mark_only_adapters_as_trainable), 0.21.
func (b *Builder) originalBias(name string, n int64) step.Weight {
	w := b.Original(name, n, 1)
	if l := b.A.LoRA; l != nil && l.Biases == AllBiases {
		b.P.List[w.Index].Frozen = false
	}
	return w
}

// Ahead says that the optimizer meets w before first, though it is moved later.
func (b *Builder) Ahead(w, first step.Weight) {
	b.P.List[w.Index].Ahead = int(w.Index - first.Index)
}

// Outer says that the first dimension of w is n.
func (b *Builder) Outer(w step.Weight, n int64) { b.P.List[w.Index].Outer = n }

// Stacked says that w is n matrices in one tensor of three dimensions.
func (b *Builder) Stacked(w step.Weight, n int64) {
	p := &b.P.List[w.Index]
	p.Outer, p.Matrices, p.Rows = n, n, p.Rows/n
	b.Others = slices.DeleteFunc(b.Others, func(name string) bool { return name == p.Name }) // it is no module
}

// Module notes a module that is no linear layer, where targets could mean it.
func (b *Builder) Module(name string) {
	if b.A.LoRA != nil {
		b.modules = append(b.modules, name)
	}
}

// Buffer is a tensor that moves with the model and has no gradient.
func (b *Builder) Buffer(name string, numel int64, d step.DType) {
	b.Declare(step.Parameter{Name: name, Numel: numel, Dtype: d, Buffer: true})
}

// KeepsFrequencies registers the frequencies of rotary embeddings once more as they were made, and those of each kind
// of layer that there is.
var KeepsFrequencies = release.Declare("keeps-frequencies", release.Change{
	Library: "transformers", After: "4.57", From: "5.0",
	What:   "transformers 5.23 registers the frequencies of rotary embeddings a second time, as they were made",
	Source: "models/llama/modeling_llama.py (LlamaRotaryEmbedding), 4.57.6 and 5.23.0",
	Shown:  "traces of all decoders",
})

// Frequencies are a rotary embedding's, which later releases register once more as they are made.
// Source: transformers/models/llama/modeling_llama.py (LlamaRotaryEmbedding), 4.57 and 5.23.
func (b *Builder) Frequencies(prefix string, numel int64) {
	b.Buffer(prefix+"inv_freq", numel, step.F32)
	if b.A.Software.Has(KeepsFrequencies) {
		b.Buffer(prefix+"original_inv_freq", numel, step.F32)
	}
}

// Scalar is a buffer of one element in the type of the parameters.
func (b *Builder) Scalar(name string) step.Weight {
	return step.Weight{Index: b.Declare(step.Parameter{Name: name, Numel: 1, Dtype: b.Dtype, Buffer: true}), Rows: 1,
		Cols: 1}
}

// Loaded is the type in which the model is built, and in which its buffers stay.
func (b *Builder) Loaded() step.DType {
	if l := b.A.LoRA; l != nil {
		return l.Half
	}
	return b.Dtype
}

// Embedding is nn.Embedding(rows, cols). The first one is the model's input embedding, whose output LoRA makes
// require a gradient when layers are checkpointed.
func (b *Builder) Embedding(name string, rows, cols int64) step.Weight {
	if len(b.Inputs) == 0 && rows == b.A.Vocabulary {
		rows = b.A.vocabularyRows()
	}
	w := b.Original(name, rows, cols)
	b.Embeds(w)
	if len(b.Inputs) == 0 {
		b.shared = w
		w.Embeds = step.OfInput
		if b.A.LoRA != nil {
			w.Embeds = step.OfInputHooked
		}
	}
	b.Inputs = append(b.Inputs, name)
	return b.Trained(name, w)
}

// Embeds says that w is the weight of an nn.Embedding.
func (b *Builder) Embeds(w step.Weight) { b.P.List[w.Index].Embedding = true }

// Section says that what was declared last belongs to a section outside the layers.
func (b *Builder) Section(s step.Section) { b.P.List[len(b.P.List)-1].Section = s }

// InputSection puts the embedding, which was declared last, into its section, unless the head is tied to it.
func (b *Builder) InputSection() {
	if !b.shares() {
		b.Section(step.InputSection)
	}
}

// FinalNormSection puts the last norm, which was declared last, with its bias if it has one, with the head. Under
// adapters accelerate does not find it. Source: accelerate/utils/fsdp_utils.py (_find_final_norm), 1.15.
func (b *Builder) FinalNormSection(bias bool) {
	if b.shares() || b.A.LoRA != nil {
		return
	}
	b.Section(step.HeadSection)
	if bias {
		b.P.List[len(b.P.List)-2].Section = step.HeadSection
	}
}

// shares says that the head is tied to the embedding: a score is not.
func (b *Builder) shares() bool { return b.A.Tied && !b.A.Scored }

// HeadSection puts the head into its section, unless it is tied to the embedding.
func (b *Builder) HeadSection(head Linear) {
	if b.shares() {
		return
	}
	b.P.List[head.W.Index].Section = step.HeadSection
}

// Linear is nn.Linear(in, out, bias).
func (b *Builder) Linear(name string, in, out int64, bias bool) Linear {
	var m Linear
	m.W, m.B = b.Pair(name, out, in, bias)
	m.Quantised = b.Quantise(m.W)
	b.adaptLinear(&m, name, in, out)
	return m
}

// adaptLinear declares the adapter of m.
func (b *Builder) adaptLinear(m *Linear, name string, in, out int64) {
	m.Adapter = b.Adapter(name, in, out)
	b.trainBias(m)
}

// trainBias has the bias of a layer trained with its adapter where the job says so.
func (b *Builder) trainBias(m *Linear) {
	if m.Adapter != nil && m.B.Exists() && b.A.LoRA.Biases == BiasesOfAdapted {
		b.P.List[m.B.Index].Frozen = false
	}
}

// Head is the linear layer of the given width onto the vocabulary, whose matrix is that of the input embedding in a
// model that ties them.
func (b *Builder) Head(name string, width int64, bias bool) Linear {
	a, m := b.A, Linear{B: step.NoWeight}
	if a.Scored {
		m.W, m.B = b.Pair("score", 1, width, false)
		return m
	}
	if a.Tied {
		m.W = b.Trained(name, b.shared)
		if bias {
			m.B = b.Bias(name, a.Vocabulary)
		}
	} else {
		m.W, m.B = b.Pair(name, a.vocabularyRows(), width, bias)
	}
	if a.SharesVocabulary() {
		m.gathers = gathering{a.plan, a.Vocabulary}
	}
	if a.LitGPT && !a.Tied { // Lightning's BitsandbytesPrecision replaces every linear layer
		m.Quantised = b.Quantise(m.W)
	}
	m.Adapter = b.HeadAdapter(name, m.W, width)
	b.trainBias(&m)
	return m
}

// OntoWords is the linear layer onto the vocabulary of a head for masked words. Its matrix is the table that words
// declares, or has, in a model that ties them.
func (b *Builder) OntoWords(name string, words func() step.Weight, width int64, bias bool) Linear {
	m := Linear{B: step.NoWeight}
	if b.A.Tied {
		m.W = words()
	} else {
		m.W = b.Parameter(name+".weight", b.A.Vocabulary, width)
	}
	if bias {
		m.B = b.Bias(name+".bias", b.A.Vocabulary)
	}
	m.Adapter = b.HeadAdapter(name, m.W, width)
	b.trainBias(&m)
	return m
}

// Conv1D is transformers' Conv1D(out, in), a linear layer whose matrix is stored as (in, out).
func (b *Builder) Conv1D(name string, in, out int64) Linear {
	m := Linear{W: b.Parameter(name, in, out), B: b.Bias(name, out), Transposed: true}
	if m.Quantised = b.Quantise(m.W); m.Quantised != step.NotQuantised { // and stored like that of a linear layer
		m.W.Rows, m.W.Cols, m.Transposed = out, in, false
		b.P.List[m.W.Index].Rows, b.P.List[m.W.Index].Cols = out, in
	}
	b.adaptLinear(&m, name, in, out)
	return m
}

// Convolution is the kernel of nn.Conv1d or nn.Conv2d over height × width inputs of every channel.
func (b *Builder) Convolution(name string, in, out, height, width int64, bias bool) Convolution {
	m := Convolution{W: b.Parameter(name, out, in*height*width), B: step.NoWeight}
	p := &b.P.List[m.W.Index]
	p.Rows, p.Cols, p.Matrices, p.Outer = height, width, out*in, out
	if height == 1 {
		p.Rows, p.Matrices = in, out
	}
	if bias {
		m.B = b.Bias(name, out)
	}
	return m
}

// Convolution is a kernel with a row for every output channel.
type Convolution struct{ W, B step.Weight }

// Norm is a norm's gain over width elements, and its bias.
func (b *Builder) Norm(name string, width int64, bias bool) Norm {
	var m Norm
	m.W, m.B = b.Pair(name, width, 1, bias)
	return m
}

// InLayers marks what was declared from start on as parts of layers.
func (b *Builder) InLayers(start int) {
	mixed := slices.ContainsFunc(b.P.List[start:], func(p step.Parameter) bool { return p.Trained() })
	for i := start; i < len(b.P.List); i++ {
		p := &b.P.List[i]
		p.InLayer, p.Carried = true, p.Frozen && mixed && b.A.Flattened
	}
}

// StackAt is Stack of layers whose modules are called path, a point, their number, and a name within the layer.
func (b *Builder) StackAt(path string, layer func(i int64)) {
	b.path = path
	b.Stack(layer)
}

// Stack declares the layers that repeat; there is one such stack in a model.
func (b *Builder) Stack(layer func(i int64)) {
	start := len(b.P.List)
	declare := layer
	b.stacked = true
	layer = func(i int64) {
		first := len(b.P.List)
		b.layer = i + 1
		declare(i)
		b.layer = 0
		if first < len(b.P.List) {
			b.P.List[first].First = true
		}
	}
	defer b.InLayers(start)
	lead := min(b.A.Lead, b.Recorded)
	if b.A.Irregular {
		lead = b.Recorded
	}
	for i := range lead { // each stands in the list for itself
		layer(i)
	}
	b.P.LayerStart, b.P.Recorded, b.P.Layers = len(b.P.List), b.Recorded-lead, b.A.Layers-lead
	if b.P.Recorded == 0 {
		return
	}
	for i := range b.P.Recorded {
		layer(lead + i)
	}
	b.P.PerLayer = (len(b.P.List) - b.P.LayerStart) / int(b.P.Recorded)
}

// Linear is a linear layer, and the adapter that LoRA put on it.
type Linear struct {
	W, B       step.Weight
	Transposed bool
	Matrix     bool // runs on a matrix, not on a batch of sequences
	Apart      bool // the product and the bias are two operations
	Relays     bool // the gradient of the result is copied before a product takes it
	Side       side // along which GPUs share it
	gathers    gathering
	Quantised  step.Quantisation
	Adapter    *adapter
	Replayed   func() step.T // runs the layer as it was recorded
}

// Forward is the layer applied to x.
func (m *Linear) Forward(t *step.Tape, x step.T) step.T {
	if m.Adapter != nil {
		return m.Adapter.forward(t, m, x)
	}
	if m.Side != uncut {
		return m.shared(t, x)
	}
	return m.base(t, x)
}

// Logits is the layer as the model's head.
func (m *Linear) Logits(t *step.Tape, x step.T) step.T {
	if m.gathers.gpus > 0 {
		return t.HeadOf(x, func(x step.T) step.T { return m.gathers.logits(t, m, x) })
	}
	if m.Adapter == nil && m.Quantised == step.NotQuantised {
		return t.Head(x, m.W, m.B)
	}
	return t.HeadOf(x, func(x step.T) step.T { return m.Forward(t, x) })
}

// Scores is the layer as a head that gives a matrix of scores, one row a sequence.
func (m *Linear) Scores(t *step.Tape, x step.T) step.T {
	if m.Adapter == nil {
		return t.LinearMatrix(x, m.W, m.B, step.LabelLogits)
	}
	return m.Forward(t, x)
}

// ScaledLogits is the layer as the model's head and what its output goes through, which takes it over.
// Source: transformers/models/granite/modeling_granite.py (GraniteForCausalLM.forward) and Cohere's and Gemma 2's,
// 4.45.
func (m *Linear) ScaledLogits(t *step.Tape, x step.T, scale func(t *step.Tape, logits step.T) step.T) step.T {
	return t.HeadOf(x, func(x step.T) step.T {
		if m.Adapter == nil && m.Quantised == step.NotQuantised {
			return scale(t, t.Linear(x, m.W, m.B, step.LabelLogits))
		}
		return scale(t, m.Forward(t, x))
	})
}

// Keys is the layer for the keys of attention that is written out. Their gradient comes transposed; where copies says
// that it has to be laid out anew for a product, each product has its own copy made: the layer's and its adapter's.
func (m *Linear) Keys(t *step.Tape, x step.T, copies bool) step.T {
	own := *m
	own.Relays = copies
	return own.Forward(t, x)
}

// base is the layer without its adapter.
func (m *Linear) base(t *step.Tape, x step.T) step.T {
	if m.Relays {
		return t.Heads(m.plain(t, x), true)
	}
	return m.plain(t, x)
}

func (m *Linear) plain(t *step.Tape, x step.T) step.T {
	switch m.Quantised {
	case step.NotQuantised:
		if m.Replayed != nil {
			return m.Replayed()
		}
	case step.Int8:
		return t.Linear8bit(x, m.W)
	default:
		return t.LinearPacked(x, m.W, m.B, m.Quantised == step.NF4Double)
	}
	if m.Apart {
		return t.Module(func() step.T { return m.falcon(t, x) })
	}
	if m.Transposed {
		return t.Conv1D(x, m.W, m.B, step.LabelLinear)
	}
	if m.Matrix {
		return t.LinearMatrix(x, m.W, m.B, step.LabelLinear)
	}
	return t.Linear(x, m.W, m.B, step.LabelLinear)
}

// Norm is a LayerNorm or an RMSNorm.
type Norm struct{ W, B step.Weight }

// Layer is nn.LayerNorm.
func (m Norm) Layer(t *step.Tape, x step.T) step.T { return t.LayerNorm(x, m.W, m.B) }

// RMS is the RMSNorm that transformers writes in Python for Llama.
func (m Norm) RMS(t *step.Tape, x step.T) step.T { return t.RMSNorm(x, m.W) }

// Wide is Olmo2RMSNorm.
func (m Norm) Wide(t *step.Tape, x step.T) step.T { return t.WideRMSNorm(x, m.W) }

// Cohere is CohereLayerNorm.
func (m Norm) Cohere(t *step.Tape, x step.T) step.T { return t.CohereLayerNorm(x, m.W, m.W.Rows) }

// Gemma is GemmaRMSNorm.
func (m Norm) Gemma(t *step.Tape, x step.T) step.T { return t.GemmaRMSNorm(x, m.W) }

// falcon is FalconLinear.forward: the product and the bias are two operations.
func (m *Linear) falcon(t *step.Tape, x step.T) step.T {
	y := t.LinearUncached(x, m.W, step.LabelLinear)
	if !m.B.Exists() {
		return y
	}
	biased := t.Add(y, t.Parameter(m.B), step.LabelLinear)
	t.Drop(y)
	return biased
}
