package recordings

import (
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/recording"
	"github.com/vramplan/vramplan/estimator/step"
)

// recordedFamily is a model that a recording shows.
var recordedFamily = arch.Family{Build: buildRecorded, RefuseTargets: refuseUnadaptable}

// FamilyRecorded is the family of a model that a recording shows.
const FamilyRecorded = "recorded"

// FromRecording is the architecture of a model that was recorded.
func FromRecording(text []byte, pointer string, errs *invalid.List) arch.Architecture {
	r, err := recording.Read(text)
	if err != nil {
		where := pointer
		if e, ok := err.(*recording.Error); ok {
			where, err = pointer+e.Pointer, e.Err
		}
		errs.Add(where, "invalid_recording", "%s", err)
		return arch.Architecture{}
	}
	a := arch.Architecture{Name: r.Name, Family: FamilyRecorded, Described: &recordedFamily, Own: r,
		Layers:    max(r.Layers, 1),
		Reentrant: strings.HasPrefix(r.Source, "transformers."), FixedTokens: r.Sequence, Period: int64(len(r.Order)),
		Irregular: !r.Alike()}
	return a
}

// Recording is what a recorded model was read from; nil for others.
func Recording(a *arch.Architecture) *recording.Recording {
	r, _ := a.Own.(*recording.Recording)
	return r
}

// RecordedPrecision is the kind of precision whose program is taken.
func RecordedPrecision(a *arch.Architecture, r *step.Numerics) string {
	packed := a.LoRA != nil && a.LoRA.Base != step.NotQuantised && Recording(a).Programs[recording.Packed] != nil
	switch {
	case packed && r.Autocast && r.Stored == step.F32:
		return recording.Packed
	case r.Autocast && r.Stored != step.F32:
		return "mixed"
	case r.Autocast:
		return "amp"
	case r.Stored == step.F32:
		return "fp32"
	}
	return "half"
}

// recordedModel runs the programs of a recording.
type recordedModel struct {
	a      *arch.Architecture
	r      *recording.Recording
	model  []step.Weight
	layers [][]step.Weight
	// linears are the layers outside those that repeat on which something may have been put, layerLinears those inside.
	linears      []arch.Linear
	layerLinears [][]arch.Linear
	adapted      bool
	// origins are those of the lists that have run compiled, by their first instructions.
	origins map[*recording.Instruction][]int
	// selections are what checkpointing attention alone changes of lists, by the same.
	selections map[*recording.Instruction]*selecting
}

func buildRecorded(b *arch.Builder) step.Network {
	r := Recording(b.A)
	m := &recordedModel{a: b.A, r: r, model: make([]step.Weight, len(r.Parameters)),
		layers: make([][]step.Weight, b.Recorded), layerLinears: make([][]arch.Linear, b.Recorded),
		adapted: b.A.LoRA != nil}
	m.linears = recordedLinears(b, r.Linears)
	for i := range r.LayersAfter {
		m.model[i] = recordedParameter(b, &r.Parameters[i])
		recordedAdapters(b, r.Linears, r.Parameters, m.model, m.linears, i, "")
	}
	b.Stack(func(i int64) {
		if r.Layers == 0 {
			return
		}
		kind := &r.Kinds[r.KindOf(i)]
		m.layers[i] = make([]step.Weight, len(kind.Parameters))
		prefix := fmt.Sprintf("%s.%d.", r.LayersName, i)
		m.layerLinears[i] = recordedLinears(b, kind.Linears)
		for k := range kind.Parameters {
			m.layers[i][k] = recordedParameter(b, &kind.Parameters[k])
			recordedAdapters(b, kind.Linears, kind.Parameters, m.layers[i], m.layerLinears[i], k, prefix)
		}
		recordedAdapters(b, kind.Linears, kind.Parameters, m.layers[i], m.layerLinears[i], elsewhere, prefix)
	})
	for i := r.LayersAfter; i < len(r.Parameters); i++ {
		m.model[i] = recordedParameter(b, &r.Parameters[i])
		recordedAdapters(b, r.Linears, r.Parameters, m.model, m.linears, i, "")
	}
	recordedAdapters(b, r.Linears, r.Parameters, m.model, m.linears, elsewhere, "")
	if b.A.LoRA == nil {
		recordedOrder(b)
	}
	return m
}

// recordedOrder says which parameters the optimizer meets before those that are moved before them: a module's own,
// which model.parameters() lists before those of its children.
// Source: torch/nn/modules/module.py (_named_members, Module._apply), torch 2.9.
func recordedOrder(b *arch.Builder) {
	p := &b.P
	end := p.LayerStart + p.PerLayer*int(p.Recorded)
	place := func(i int) int {
		if i >= end {
			i += int(p.Layers-p.Recorded) * p.PerLayer
		}
		return i
	}
	for i := range p.List {
		q := &p.List[i]
		if q.Buffer {
			continue
		}
		module := moduleOf(q.Name)
		behind := i // the children; its own before it have gone before them already
		for behind > 0 && !(q.InLayer && p.List[behind].First) && moduleOf(p.List[behind-1].Name) == module {
			behind--
		}
		first := behind
		for first > 0 && !(q.InLayer && p.List[first].First) && within(p.List[first-1].Name, module) {
			first--
		}
		q.Ahead = place(behind) - place(first)
	}
}

// within says whether a parameter belongs to a module or to one inside of it.
func within(parameter, module string) bool {
	return module == "" || strings.HasPrefix(parameter, module) && strings.HasPrefix(parameter[len(module):], ".")
}

func recordedParameter(b *arch.Builder, p *recording.Parameter) step.Weight {
	if p.Buffer {
		b.Buffer(p.Name, p.Numel(), storedType(p, b.Dtype))
		return step.Weight{Index: int32(len(b.P.List) - 1), Rows: p.Numel(), Cols: 1}
	}
	n := len(p.Shape)
	rows, cols := p.Shape[0], int64(1)
	for _, d := range p.Shape[1:] {
		cols *= d
	}
	module := moduleOf(p.Name)
	w := b.Original(p.Name, rows, cols)
	if b.A.LoRA != nil {
		b.Others = append(b.Others, module)
	}
	if n > 2 {
		q := &b.P.List[w.Index]
		q.Rows, q.Cols, q.Outer = p.Shape[n-2], p.Shape[n-1], rows
		q.Matrices = max(w.Rows*w.Cols/max(q.Rows*q.Cols, 1), 1)
	}
	if p.Frozen {
		b.P.List[w.Index].Frozen = true
	}
	if q := &b.P.List[w.Index]; p.Own && q.Quantised == step.NotQuantised {
		q.Dtype = recordedType(p.Type, b.Dtype)
	}
	b.P.List[w.Index].Section = recordedSection(b, module)
	return b.Trained(module, w)
}

// storedType is the type of a buffer in a model whose weights have the given one.
func storedType(p *recording.Parameter, stored step.DType) step.DType {
	if p.Type == recording.Half && !p.Own {
		return stored
	}
	return recordedType(p.Type, stored)
}

// recordedType is a recorded type where half precision is the given one. What is in half precision where nothing else
// is was made so by the module itself.
func recordedType(t recording.Type, half step.DType) step.DType {
	switch t {
	case recording.Half:
		if !half.Half() {
			return step.BF16
		}
		return half
	case recording.Int64:
		return step.I64
	case recording.Byte:
		return step.Bool
	case recording.Float64:
		return step.F64
	}
	return step.F32
}

// Batch is what the recorder's batch was. A model that is in half precision without autocast gets its pictures and
// sounds in that precision, as its weights refuse another.
func (m *recordedModel) Batch(t *step.Tape) []step.T {
	half := t.Recipe.Stored
	batch := make([]step.T, len(m.r.Batch))
	for i, x := range m.r.Batch {
		kind := recordedType(x.Type, half)
		if x.Type == recording.Half || x.Type == recording.Float32 &&
			RecordedPrecision(m.a, &t.Recipe.Numerics) == "half" {
			kind = half
		}
		batch[i] = t.Input(x.Size.Elements(t.Shape.Batch, t.Shape.Tokens), kind)
	}
	return batch
}

// stretch is a part of a program while it runs.
type stretch struct {
	t      *step.Tape
	values []step.T
	// kept are the values that nothing has let go of.
	kept []bool
	// nodes are the first outputs of each, made what these are, with its memory.
	nodes, made []step.T
	// read are copies of weights for the next operation that Inductor does not fuse.
	read []step.T
	// takenBack says that the product that was asked for last is one that checkpointing kept.
	takenBack bool
	// parallel says that the norms of a layer read one tensor.
	parallel bool
	// lastCast is what was cast last, and to what.
	lastCast struct{ from, to step.T }
	outer    *stretch
	input    step.T
	model    []step.Weight
	layer    []step.Weight
	half     step.DType
	b, n     int64
	part     string
	ofEnd    bool
	// m is the model; linears are those of the layer.
	m       *recordedModel
	linears []arch.Linear
	// opened is the module that runs, seen the input of the embedding.
	opened *recording.Region
	seen   step.T
	// casts are autocast's copies of weights that are not trained, used that an operation got them.
	casts map[int]*frozenCast
	used  bool
	// tokensFirst are the results of attention in which the card's kernel put the tokens first.
	tokensFirst map[recording.Ref]bool
	// stays are the values that the model keeps to the next step, where each is assigned as soon as it is made.
	stays map[int]bool
}

func (m *recordedModel) Forward(t *step.Tape, batch []step.T) (step.T, []step.T) {
	programs := m.r.Programs
	if t.Recipe.Evaluation {
		programs = m.r.Evaluations
	}
	p := programs[RecordedPrecision(m.a, &t.Recipe.Numerics)]
	s := m.stretch(t, p.Values, p.Nodes)
	s.stays = staying(p)
	for _, x := range batch {
		s.add(t.Hold(x))
		s.kept[len(s.kept)-1] = false
	}
	s.ofEnd = m.r.Layers == 0
	s.run(p.Before, 0, len(p.Before))
	var escaped []step.T
	if m.r.Layers > 0 {
		escaped = m.runLayers(t, p, s)
	}
	s.run(p.After, 0, len(p.After))
	for i := range batch {
		t.Drop(s.values[i])
	}
	loss := s.of(p.Loss.Value).Attached(s.edge(p.Loss.Edge))
	s.kept[p.Loss.Value.N] = false
	outputs := make([]step.T, 0, len(p.Outputs)+len(escaped)+1)
	unpacked := t.Recipe.UnpacksOutputs && len(p.Outputs) > 0
	for i, ref := range p.Outputs {
		if i == 1 && !unpacked {
			outputs = append(outputs, t.Hold(loss))
		}
		outputs = append(outputs, t.Written(s.of(ref)).Detached())
		if ref.Scope == recording.Own {
			s.kept[ref.N] = false
		}
		if i > 0 {
			t.MarkCache(outputs[len(outputs)-1])
		}
	}
	if len(p.Outputs) < 2 && !unpacked {
		outputs = append(outputs, t.Hold(loss))
	}
	for i, kept := range s.kept {
		if kept {
			t.KeptByModel(s.values[i])
		}
	}
	return loss, append(outputs, escaped...)
}

func (m *recordedModel) stretch(t *step.Tape, values, nodes int) *stretch {
	half := t.Recipe.Compute
	s := &stretch{m: m, t: t, values: make([]step.T, 0, values), kept: make([]bool, 0, values),
		nodes: make([]step.T, 0, nodes), made: make([]step.T, 0, nodes),
		model: m.model, half: half, b: t.Shape.Batch, n: t.Shape.Tokens}
	s.lastCast.from, s.lastCast.to = step.NoTensor, step.NoTensor
	return s
}

// RunLayers runs the layers on the value that s has for them, and returns what they made beside their outputs and the
// model returns.
func (m *recordedModel) runLayers(t *step.Tape, p *recording.Program, s *stretch) []step.T {
	x := s.of(p.Input.Value).Attached(s.edge(p.Input.Edge))
	if p.Input.Value.Scope == recording.Own && freedLater(p.After, p.Input.Value) ||
		slices.Contains(p.Outputs, p.Input.Value) {
		t.Hold(x)
	} else if p.Input.Value.Scope == recording.Own {
		s.kept[p.Input.Value.N] = false
	}
	var besides step.Besides
	for _, n := range p.Shared {
		besides.Captured = append(besides.Captured, s.values[n])
	}
	var escaped []step.T
	for i := range m.layers {
		x = t.Layer(int32(i/len(m.r.Order)), x, func(t *step.Tape, x step.T) step.T {
			layer := &p.Layers[m.r.KindOf(int64(i))]
			l := m.stretch(t, layer.Values, layer.Nodes)
			l.outer, l.input, l.layer, l.linears = s, x, m.layers[i], m.layerLinears[i]
			if t.Recipe.Compile {
				l.parallel = oneNorm(layer.Instructions, l.origins(layer.Instructions))
			}
			l.run(layer.Instructions, 0, len(layer.Instructions))
			for _, ref := range layer.Escapes {
				y := t.Written(l.values[ref.N]).Detached()
				t.MarkCache(y)
				escaped = append(escaped, y)
			}
			return l.of(layer.Output.Value).Attached(l.edge(layer.Output.Edge))
		}, besides)
	}
	t.EndLayers()
	s.input, s.ofEnd = x, true
	s.lastCast.from, s.lastCast.to = step.NoTensor, step.NoTensor
	return escaped
}

// staying are the values outside of the layers that nothing lets go of and nobody is returned: attributes of the
// module.
func staying(p *recording.Program) map[int]bool {
	stay := map[int]bool{}
	for _, list := range [...][]recording.Instruction{p.Before, p.After} {
		for i := range list {
			switch in := &list[i]; {
			case in.Kind == recording.Allocate:
				stay[in.N] = true
			case in.Kind == recording.Free && in.Ref.Scope == recording.Own:
				delete(stay, in.Ref.N)
			}
		}
	}
	for _, ref := range append([]recording.Ref{p.Input.Value, p.Loss.Value}, p.Outputs...) {
		if ref.Scope == recording.Own {
			delete(stay, ref.N)
		}
	}
	return stay
}

// freedLater says whether a stretch lets go of a value.
func freedLater(list []recording.Instruction, v recording.Ref) bool {
	return slices.ContainsFunc(list, func(in recording.Instruction) bool {
		return in.Kind == recording.Free && in.Ref == v
	})
}
