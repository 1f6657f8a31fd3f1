package rewritten

import (
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/model/mixtures"
	"github.com/vramplan/vramplan/estimator/step"
)

// titan is torchtitan's own Llama 3: norms in one kernel, rotary positions as complex numbers, keys and values repeated
// with tokens outermost, and a loss outside the model. Source: torchtitan/models/llama3/model/model.py,
// torchtitan/components/loss.py, 0.2.0.
type titan struct {
	a      *arch.Architecture
	cut    *titanCut
	heads  step.Heads
	embed  step.Weight
	layers []titanLayer
	final  arch.Norm
	output arch.Linear
	kind   *titanKind
	// table is the rotary table as a layer gets it.
	table step.T
}

type titanLayer struct {
	q, k, v, out               arch.Linear
	mlp                        arch.GatedMLP
	experts                    *titanMixture // in the place of the MLP
	latent                     *titanLatent
	qNorm, kNorm               arch.Norm
	attentionNorm, forwardNorm arch.Norm
	block                      step.LlamaBlock // of a Llama
}

// Titan says whether the model is written as torchtitan writes it.
func Titan(a *arch.Architecture) bool { return titanOf(a) != nil }

// titanOf is what this GPU has of a model of torchtitan's; nil of others.
func titanOf(a *arch.Architecture) *titanCut {
	c, _ := a.Written.(*titanCut)
	return c
}

// TitanLlama says whether it is torchtitan's Llama 3, whose layers are replayed compiled and in float32, too.
func TitanLlama(a *arch.Architecture) bool {
	c := titanOf(a)
	return c != nil && c.kind.everywhere
}

// TitanShares says whether it is a model of torchtitan's whose sequences GPUs may share.
func TitanShares(a *arch.Architecture) bool {
	c := titanOf(a)
	return c != nil && c.kind.shares
}

// WriteAsTitan makes a a model of torchtitan's, where that has one like it, for sequences of so many tokens. Models
// other than Llama are known in half precision under FSDP on Hopper alone, which fits says.
func WriteAsTitan(a *arch.Architecture, tokens int64, fits bool) {
	kind := titanKindOf(a.Described)
	if kind == nil || !kind.everywhere && !fits || a.Class != arch.ClassCausalLM || a.Tied && !kind.unties ||
		a.QKVBias ||
		a.OutBias || a.MLPBias || a.Activation != "silu" || a.LoRA != nil || a.AttentionDropout > 0 || !kind.takes(a) {
		return
	}
	a.Written = &titanCut{kind: kind, positions: tokens, tensor: 1, experts: 1, layers: a.Layers, first: true,
		last: true}
	a.UseCache, a.Reentrant, a.Tied = false, false, false
}

// titanCut is what of torchtitan's model this GPU has.
type titanCut struct {
	kind      *titanKind
	positions int64 // of the rotary table
	tensor    int64 // GPUs over which the matrices are cut
	experts   int64 // GPUs over which the experts of a layer are dealt out
	// layers are those of the model. first and last say whether this GPU has the embedding and the head, and chunks
	// which layers each of its stages has.
	layers      int64
	first, last bool
	chunks      []StageOf
}

// StageOf is the layers of a stage: how many, and the place of the first in the model.
type StageOf struct{ First, Layers int64 }

// layer is the place in the model of the i-th layer that this GPU has.
func (c *titanCut) layer(i int64) int64 {
	for _, s := range c.chunks {
		if i < s.Layers {
			return s.First + i
		}
		i -= s.Layers
	}
	return i
}

// StageLayers is how many layers each of so many stages has, as torchtitan deals them out: the embedding and the head
// count as one layer each, and the first stages get what is left over. It is nil where a stage would have too little.
// Source: torchtitan/distributed/pipeline_parallel.py (generate_llm_fqn_per_model_part), 0.2.0.
func StageLayers(layers, stages int64) []int64 {
	const ends = 2
	each, more := (layers+ends)/stages, (layers+ends)%stages
	if each < 1 {
		return nil
	}
	all := make([]int64, stages)
	for i := range all {
		if all[i] = each; int64(i) < more {
			all[i]++
		}
	}
	all[0]--
	all[stages-1]--
	return all
}

// CutStages leaves of a model stages of these layers, with the embedding in the first and the head in the last where it
// is told so.
func CutStages(a *arch.Architecture, chunks []StageOf, first, last bool) {
	cut := *titanOf(a)
	cut.first, cut.last, cut.chunks = first, last, chunks
	a.Written, a.Layers = &cut, 0
	for _, s := range chunks {
		a.Layers += s.Layers
	}
}

// CutTensor cuts the matrices over n GPUs.
func CutTensor(a *arch.Architecture, n int64) {
	cut := *titanOf(a)
	cut.tensor = n
	a.Written = &cut
}

// CutExperts deals the experts of every layer out to n GPUs.
func CutExperts(a *arch.Architecture, n int64) {
	cut := *titanOf(a)
	cut.experts = n
	a.Written = &cut
}

// Whole is the model before it was cut.
func (c *titanCut) Whole(a *arch.Architecture) *arch.Architecture {
	w := *a
	w.Written = &titanCut{kind: c.kind, positions: c.positions, tensor: 1, experts: 1, layers: c.layers, first: true,
		last: true}
	w.Layers = c.layers
	return &w
}

func (c *titanCut) Modules(b *arch.Builder) step.Network {
	a, n := b.A, c.tensor
	d := a.Hidden
	m := &titan{a: a, cut: c, kind: c.kind, layers: make([]titanLayer, b.Recorded),
		heads: step.Heads{Query: a.Heads / n, KV: a.KVHeads / n,
			Dim: a.HeadDim}}
	if own, ok := a.Own.(*mixtures.Latent); ok {
		m.heads = own.Heads(a)
		m.heads.Query, m.heads.KV = m.heads.Query/n, m.heads.KV/n
	}
	if c.first {
		m.embed = b.Embedding("tok_embeddings", a.Vocabulary/n, d)
		b.Section(step.InputSection)
	}
	b.Stack(func(i int64) { m.kind.declare(m, b, &m.layers[i], i) })
	if c.last {
		m.final = b.Norm("norm", d, false)
		b.Section(step.HeadSection)
		m.output = b.Linear("output", d, a.Vocabulary/n, false)
		b.Section(step.HeadSection)
	}
	for range max(len(c.chunks), 1) {
		b.Buffer("freqs_cis", c.positions*m.kind.tableWidth(a), step.F32)
	}
	return m
}

// Batch is the tokens and the labels.
func (m *titan) Batch(t *step.Tape) []step.T {
	n := t.Shape.Batch * m.cut.positions * t.MicroBatches() // of whole sequences
	return []step.T{t.Input(n, step.I64), t.Input(n, step.I64)}
}

func (m *titan) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	t.HoldThroughBackward(batch...) // in the generator that brought them
	logits := m.Run(t, step.Stage{To: len(m.layers), First: true, Last: true}, batch[0])
	mean := m.Loss(t, logits, batch[1])
	return mean, []step.T{logits, t.Hold(mean)}
}

// Width is that of the residual stream, of which this GPU may have some of the tokens.
func (m *titan) Width() int64 { return m.a.Hidden / m.cut.tensor }

// Stages are those that this GPU has of the model.
func (m *titan) Stages() []step.Stage {
	stages, to := make([]step.Stage, len(m.cut.chunks)), 0
	for i, s := range m.cut.chunks {
		from := to
		to += int(s.Layers)
		stages[i] = step.Stage{From: from, To: to, First: m.cut.first && i == 0,
			Last: m.cut.last && i == len(stages)-1}
	}
	return stages
}

// Run is the forward of a stage.
func (m *titan) Run(t *step.Tape, s step.Stage, x step.T) step.T {
	t.In(step.PartEmbedding)
	if s.First {
		x = t.Section(step.InputSection, x, func(ids step.T) step.T { return t.Cuts().EmbedRows(ids, m.embed) })
	} else {
		x = t.Hold(x)
	}
	unit := int(m.a.UnitLayers())
	for i := s.From; i < s.To; i++ {
		table, besides := m.positions(t)
		x = t.Layer(int32(i/unit), x, func(t *step.Tape, x step.T) step.T {
			m.table = table
			return m.layer(t, i, x)
		}, besides)
		if m.kind.castsTable {
			t.Drop(table)
		}
	}
	t.EndLayers()
	if !s.Last {
		return x
	}
	logits := t.Section(step.HeadSection, x, func(x step.T) step.T {
		t.In(step.PartNorm)
		normed := t.NativeRMSNorm(x, m.final.W)
		entered := t.Cuts().Enter(normed)
		y := t.Cuts().Logits(m.output.Logits(t, entered))
		t.Drop(entered, normed)
		return y
	})
	t.Drop(x)
	return logits
}

// positions is what a layer gets of the rotary table: fully_shard brings what is no complex number to the type of the
// layer's other inputs. Source: torch/distributed/fsdp/_fully_shard/_fsdp_common.py (_cast_fp_tensor), torch 2.9.
func (m *titan) positions(t *step.Tape) (table step.T, besides step.Besides) {
	if m.kind.castsTable {
		table = t.Table(m.cut.positions*m.kind.tableWidth(m.a), t.Recipe.Compute)
		besides.Arguments = []step.T{table}
	}
	return table, besides
}

// Loss is the mean over the micro-batches of an optimizer step.
func (m *titan) Loss(t *step.Tape, logits, targets step.T) step.T {
	var loss step.T
	if t.Recipe.CompileLoss {
		loss = t.CrossEntropy(logits, targets)
	} else {
		wide := t.FloatLogits(logits)
		loss = t.Cuts().CutLoss(wide, targets)
		t.Drop(wide)
	}
	mean := t.MulScalar(loss, step.LabelLoss)
	t.Drop(loss)
	return mean
}

func (m *titan) layer(t *step.Tape, i int, x step.T) step.T {
	if t.CompilesBlocks() {
		return t.CompiledBlock(x, &m.layers[i].block)
	}
	l := &m.layers[i]
	t.In(step.PartNorm)
	normed := t.NativeRMSNorm(x, l.attentionNorm.W)
	t.In(step.PartAttention)
	branch := m.kind.attend(m, t, l, normed)
	t.Drop(normed)
	t.In(step.PartNorm)
	middle := t.Add(x, branch, step.LabelResidual)
	t.Drop(branch)

	normed = t.NativeRMSNorm(middle, l.forwardNorm.W)
	t.In(step.PartMLP)
	branch = m.behind(t, l, normed)
	t.Drop(normed)
	t.In(step.PartNorm)
	y := t.Add(middle, branch, step.LabelResidual)
	t.Drop(middle, branch)
	return y
}

// behind is what a layer does behind its attention.
func (m *titan) behind(t *step.Tape, l *titanLayer, x step.T) step.T {
	if l.experts != nil {
		return l.experts.forward(t, m.a, x)
	}
	entered := t.Cuts().Enter(x)
	y := t.Cuts().Leave(l.mlp.Forward(t, m.a, entered))
	t.Drop(entered)
	return y
}

func (m *titan) attention(t *step.Tape, l *titanLayer, x step.T) step.T {
	entered := t.Cuts().Enter(x)
	q, k, v := l.q.Forward(t, entered), l.k.Forward(t, entered), l.v.Forward(t, entered)
	qr, kr := t.ComplexRotary(q, k, m.heads.Dim)
	t.Drop(q, k)
	out := m.attendTo(t, l, qr, kr, v)
	t.Drop(entered)
	return out
}

// attendTo is attention by queries and keys that are turned, and its projection. It takes all three over.
func (m *titan) attendTo(t *step.Tape, l *titanLayer, q, k, v step.T) step.T {
	keys, values := t.RepeatTokens(k, m.heads), t.RepeatTokens(v, m.heads)
	t.Drop(k, v)
	repeated := m.heads
	repeated.KV = repeated.Query
	y := t.TokensFirst(t.CausalSDPA(q, keys, values, repeated), repeated, false)
	out := t.Cuts().Leave(l.out.Forward(t, y))
	t.Drop(y, q, keys, values)
	return out
}
