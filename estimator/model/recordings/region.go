package recordings

import (
	"strings"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/recording"
	"github.com/vramplan/vramplan/estimator/step"
)

// moduleOf is the module that a parameter belongs to.
func moduleOf(parameter string) string {
	return parameter[:max(strings.LastIndexByte(parameter, '.'), 0)]
}

// recordedSection is the section that a module outside of the layers belongs to, as InputSection, FinalNormSection and
// HeadSection have it for a family.
func recordedSection(b *arch.Builder, module string) step.Section {
	r := Recording(b.A)
	switch {
	case r.TiedHead || module == "":
	case module == r.Modules[recording.EmbeddingRole]:
		return step.InputSection
	case module == r.Modules[recording.HeadRole]:
		return step.HeadSection
	case module == r.Modules[recording.NormRole] && b.A.LoRA == nil:
		return step.HeadSection
	}
	return step.NoSection
}

// recordedLinears has room for a list of linear layers; nil where nothing is put on them.
func recordedLinears(b *arch.Builder, list []recording.Linear) []arch.Linear {
	if b.A.LoRA == nil {
		return nil
	}
	return make([]arch.Linear, len(list))
}

// elsewhere stands for the place of a linear layer whose weight is another module's.
const elsewhere = -1

// placeOf is the last parameter that a linear layer has of its own, behind which peft's come.
func placeOf(l *recording.Linear, parameters []recording.Parameter) int {
	if own := moduleOf(parameters[l.Weight.N].Name); own != l.Name && !strings.HasSuffix(own, "."+l.Name) {
		return elsewhere
	}
	if l.Bias.Scope != recording.Nowhere {
		return max(l.Weight.N, l.Bias.N)
	}
	return l.Weight.N
}

// recordedAdapters makes the linear layers of a list whose place is at, for adapters and quantised weights; weights are
// their parameters, prefix stands before their names.
func recordedAdapters(b *arch.Builder, list []recording.Linear, parameters []recording.Parameter, weights []step.Weight,
	made []arch.Linear, at int, prefix string) {
	for i := range made {
		l, m := &list[i], &made[i]
		if placeOf(l, parameters) != at {
			continue
		}
		m.W, m.B = weights[l.Weight.N], step.NoWeight
		if l.Bias.Scope != recording.Nowhere {
			m.B = weights[l.Bias.N]
		}
		in, out := m.W.Cols, m.W.Rows
		switch name := prefix + l.Name; l.Role {
		case recording.HeadRole:
			m.Adapter = b.HeadAdapter(name, m.W, in)
		case recording.Conv1DRole:
			in, out, m.Transposed = out, in, true
			// and stored like that of a linear layer
			if m.Quantised = b.Quantise(m.W); m.Quantised != step.NotQuantised {
				m.W.Rows, m.W.Cols, m.Transposed = out, in, false
				b.P.List[m.W.Index].Rows, b.P.List[m.W.Index].Cols = out, in
			}
			m.Adapter = b.Adapter(name, in, out)
		default:
			m.Quantised = b.Quantise(m.W)
			m.Adapter = b.Adapter(name, in, out)
		}
	}
}

// refuseUnadaptable names a target that the recorder could not tell from what is around it.
func refuseUnadaptable(a *arch.Architecture, pointer string, errs *invalid.List) {
	for _, name := range Recording(a).Unadaptable {
		if a.LoRA.Adapts(name) {
			errs.Add(pointer, "unsupported", "an adapter on %.100s cannot be planned: the recording does not show it "+
				"as a module that runs by itself", name)
		}
	}
}

// linear is the layer of a region where something was put on it.
func (s *stretch) linear(g *recording.Region) *arch.Linear {
	list := s.m.linears
	if g.Weight.Scope == recording.Layer {
		list = s.linears
	}
	if g.Linear < 0 || g.Linear >= len(list) {
		return nil
	}
	if m := &list[g.Linear]; m.Adapter != nil || m.Quantised != step.NotQuantised {
		return m
	}
	return nil
}

// open runs a module with an adapter whole and says so, or begins another one.
func (s *stretch) open(list []recording.Instruction, i int) bool {
	t, g := s.t, list[i].Region
	if base := s.linear(g); base != nil {
		x := s.of(g.Given.Value).Sized(s.elements(g.Size), recordedType(g.Type, s.half), s.edge(g.Given.Edge))
		m, ran := *base, false
		m.Matrix = g.Matrix
		m.Replayed = func() step.T {
			ran = true
			s.run(list, i+1, g.End)
			return s.result(g)
		}
		y := m.Forward(t, x)
		if !ran {
			s.skip(list, i+1, g.End)
		}
		s.returns(g, y)
		s.close(g)
		return true
	}
	switch {
	case g.Role == recording.EmbeddingRole:
		s.seen = t.OpenSection(step.InputSection, t.Hold(s.of(g.Given.Value)))
	case g.Role == recording.NormRole && g.Given.Value.Scope == recording.Input &&
		(g.Given.Edge.Scope == recording.Input || t.Recipe.Evaluation) && s.outer == nil:
		s.input = t.OpenSection(step.HeadSection, s.input)
	}
	return false
}

// close ends a module.
func (s *stretch) close(g *recording.Region) {
	t := s.t
	switch g.Role {
	case recording.EmbeddingRole:
		y := t.CloseSection(step.InputSection, s.result(g))
		if s.m.adapted {
			y = t.InputGradient(y)
		}
		s.returns(g, y)
		t.Drop(s.seen)
	case recording.HeadRole:
		s.returns(g, t.CloseSection(step.HeadSection, s.result(g)))
	}
}

// result is what a module returned.
func (s *stretch) result(g *recording.Region) step.T {
	return s.of(g.Gave.Value).Attached(s.edge(g.Gave.Edge))
}

// returns puts y in the place of what a module returned.
func (s *stretch) returns(g *recording.Region, y step.T) {
	if g.Gave.Value.Scope == recording.Own {
		s.values[g.Gave.Value.N] = y
	}
	if g.Gave.Edge.Scope == recording.Own && g.Gave.Edge.Out == 0 {
		s.nodes[g.Gave.Edge.N], s.made[g.Gave.Edge.N] = y, y
	}
}

// skip leaves instructions out whose values nothing refers to but what stands in their place.
func (s *stretch) skip(list []recording.Instruction, from, to int) {
	for i := from; i < to; i++ {
		switch list[i].Kind {
		case recording.Allocate, recording.CastParam, recording.Attend:
			s.add(step.NoTensor)
		case recording.Node, recording.Leaf:
			s.addNode(step.NoTensor)
		case recording.Free:
			if list[i].Ref.Scope == recording.Own {
				s.kept[list[i].Ref.N] = false
			}
		}
	}
}

// frozenCast is autocast's copy of a weight that is not trained, which is not kept: it is made for one operation.
type frozenCast struct {
	w    step.Weight
	held bool
}

// cast makes autocast's copy of a weight.
func (s *stretch) cast(in *recording.Instruction) {
	t, w := s.t, s.model
	if in.Ref.Scope == recording.Layer {
		w = s.layer
	}
	x := t.HalfCopy(w[in.Ref.N])
	s.add(x)
	s.kept[in.N] = false
	switch {
	case t.Cached(w[in.Ref.N]):
		t.Drop(x)
		return
	case t.Recipe.Compile:
		s.read = append(s.read, x)
		return
	}
	if s.casts == nil {
		s.casts = map[int]*frozenCast{}
	}
	s.casts[in.N] = &frozenCast{w[in.Ref.N], true}
}

// uncast lets go of the copies that an operation got, before the next instruction in.
func (s *stretch) uncast(in *recording.Instruction) {
	switch {
	case len(s.casts) == 0 || !s.used:
		s.used = s.used || in.Kind == recording.Allocate && in.Name != "_to_copy"
		return
	case in.Kind == recording.Product || in.Kind == recording.Reduce:
		return
	}
	s.used = in.Kind == recording.Allocate && in.Name != "_to_copy"
	for n, c := range s.casts {
		if c.held {
			s.t.Drop(s.values[n])
			c.held = false
		}
	}
}

// again is value n, a copy of a weight that was let go of, made once more.
func (s *stretch) again(n int) step.T {
	if c := s.casts[n]; c != nil && !c.held {
		s.values[n], c.held = s.t.HalfCopy(c.w), true
	}
	return s.values[n]
}
