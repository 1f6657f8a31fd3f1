package recording

import (
	"fmt"
	"slices"
	"strings"
)

// Role is what a module is that stands in a program as a whole.
type Role byte

// The roles: a linear layer, transformers' Conv1D, the head, the input embedding, and the last norm.
const (
	LinearRole    Role = 'l'
	Conv1DRole    Role = 'c'
	HeadRole      Role = 'h'
	EmbeddingRole Role = 'e'
	NormRole      Role = 'n'
)

// Adaptable says whether an adapter can be put on a module of this role.
func (r Role) Adaptable() bool { return r == LinearRole || r == Conv1DRole || r == HeadRole }

// Region is a module between a line [ and a line ].
type Region struct {
	Name string
	Role Role
	// Given is the module's input, and where its gradient goes; Size and Type are those of the view that it gets.
	Given Result
	Size  Size
	Type  Type
	// Gave is what the module returns.
	Gave Result
	// Weight is its parameter; Matrix says that its input has two dimensions.
	Weight Ref
	Matrix bool
	// Linear is its place in Recording.Linears, or of a layer in PerLayerLinears; -1 for a module of another role.
	Linear int
	// End is the place of the line ] in the stretch.
	End int
}

// Linear is a module that an adapter may be put on.
type Linear struct {
	Name string
	Role Role
	// Weight and Bias are its parameters; a Bias of scope [Nowhere] is none.
	Weight, Bias Ref
}

// open reads the line that opens a region.
func (s *scope) open(r *reader, f []string) *Region {
	g := &Region{Name: s.module(r, f[0]), Linear: -1, Size: r.size(f[4]), Type: r.kind(f[5]), Matrix: r.flag(f[7])}
	if len(f[1]) != 1 || !strings.Contains("lchen", f[1]) {
		r.fail("%.20q is no role of a module", f[1])
		return g
	}
	g.Role = Role(f[1][0])
	g.Given = Result{Value: s.used(r, f[2]), Edge: s.edge(r, f[3])}
	if f[6] != "-" {
		g.Weight = s.parameter(r, f[6])
	}
	switch {
	case s.region != nil:
		r.fail("a module is open already")
	case g.Role.Adaptable() && g.Weight.Scope == Nowhere:
		r.fail("a linear layer has a weight")
	case g.Role.Adaptable() && s.outer != nil && g.Weight.Scope != Layer:
		r.fail("a linear layer inside a layer has a weight of the layer")
	}
	s.region = g
	return g
}

// close reads the line that closes it, the n-th of its stretch.
func (s *scope) close(r *reader, f []string, n int) {
	g := s.region
	if g == nil {
		r.fail("no module is open")
		return
	}
	s.region, g.End = nil, n
	g.Gave = Result{Value: s.used(r, f[0]), Edge: s.edge(r, f[1])}
	made := g.Gave.Edge.Scope == Own || s.noGraph
	if g.Role.Adaptable() && (g.Gave.Value.Scope != Own || !made || g.Gave.Edge.Out != 0) {
		r.fail("a linear layer returns what a node of its own makes")
	}
	s.regions = append(s.regions, g)
}

// linears gathers the linear layers of all programs, which have to be the same in each.
func (r *Recording) linears(byProgram [][][]*Region) error {
	if len(byProgram) > 0 {
		r.Modules = map[Role]string{}
		for _, g := range byProgram[0][0] {
			if g.Role == LinearRole || g.Role == Conv1DRole {
				continue
			}
			r.Modules[g.Role] = g.Name
			if g.Role == HeadRole {
				r.TiedHead = r.Parameters[g.Weight.N].Name != g.Name+".weight"
			}
		}
	}
	owned := [][]Parameter{r.Parameters}
	for k := range r.Kinds {
		owned = append(owned, r.Kinds[k].Parameters)
	}
	places := make([]map[string]int, len(owned))
	for k := range owned {
		places[k] = byName(owned[k])
	}
	for i, found := range byProgram {
		lists := make([][]Linear, len(found))
		for k, regions := range found {
			known := map[Linear]int{}
			for _, g := range regions {
				if !g.Role.Adaptable() {
					continue
				}
				from := k
				if g.Weight.Scope == Model {
					from = 0
				}
				l, err := linearOf(g, owned[from], places[from])
				if err != nil {
					return err
				}
				n, seen := known[l]
				if !seen {
					n = len(lists[k])
					known[l], lists[k] = n, append(lists[k], l)
				}
				g.Linear = n
			}
		}
		if i == 0 {
			r.Linears = lists[0]
			for k := range r.Kinds {
				r.Kinds[k].Linears = lists[1+k]
			}
		}
		same := slices.Equal(r.Linears, lists[0])
		for k := range r.Kinds {
			same = same && slices.Equal(r.Kinds[k].Linears, lists[1+k])
		}
		if !same {
			return fmt.Errorf("the programs have different linear layers")
		}
	}
	return nil
}

func byName(list []Parameter) map[string]int {
	places := make(map[string]int, len(list))
	for i := range list {
		places[list[i].Name] = i
	}
	return places
}

// linearOf is the module of a region, whose weight is one of a list.
func linearOf(g *Region, list []Parameter, names map[string]int) (Linear, error) {
	l := Linear{Name: g.Name, Role: g.Role, Weight: g.Weight}
	p := &list[g.Weight.N]
	if p.Buffer || len(p.Shape) != 2 {
		return l, fmt.Errorf("%.80q is no weight of a linear layer", p.Name)
	}
	if module, ok := strings.CutSuffix(p.Name, ".weight"); ok {
		if i, ok := names[module+".bias"]; ok {
			l.Bias = Ref{Scope: g.Weight.Scope, N: i}
		}
	}
	return l, nil
}

// LinearOfFloat32 says whether a linear layer other than the head gets float32. A nil program has none.
func (p *Program) LinearOfFloat32() bool {
	if p == nil {
		return false
	}
	return slices.ContainsFunc(slices.Concat(p.Stretches()...), func(in Instruction) bool {
		return in.Kind == Open && (in.Region.Role == LinearRole || in.Region.Role == Conv1DRole) &&
			in.Region.Type == Float32
	})
}

// only reads =0.2: for the gradients of which inputs of a node something is there; 0 for all of them.
func (r *reader) only(text string) uint64 {
	rest, ok := strings.CutPrefix(text, "=")
	if !ok {
		r.fail("%.20q does not name inputs of a node", text)
		return 0
	}
	mask := uint64(0)
	for _, k := range strings.Split(rest, ".") {
		mask |= 1 << r.number(k, maxMarked-1)
	}
	return mask
}

// maxMarked is how many inputs a node has of which some can be told from others.
const maxMarked = 64
