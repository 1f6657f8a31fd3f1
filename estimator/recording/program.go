package recording

import (
	"fmt"
	"strconv"
	"strings"
)

// precisions are the kinds: autocast over float32, all in half precision, all in float32, autocast over weights in half
// precision, and over float32 around linear layers that return the type that they are given.
var precisions = []string{"amp", "half", "fp32", "mixed", Packed}

// Packed is the kind for a quantised base under autocast, of which peft's prepare_model_for_kbit_training made the rest
// float32.
const Packed = "packed"

// The limits of a program. What a node of the tape has room for decides those of a node.
const (
	maxLines     = 200_000
	maxEdges     = 250
	maxSaved     = 250
	maxOutputs   = 120
	maxRegisters = 120
	unknownGrad  = maxRegisters
)

// scope is what a stretch may refer to.
type scope struct {
	// own says which values are there: not yet freed.
	own   []bool
	nodes []int // outputs of each
	outer *scope
	input bool
	freed bool // the input was
	model int
	layer int
	// alias says that the line before was a cast or an attention, whose node may follow.
	alias  Kind
	shared map[int]bool
	// noGraph says that no node of autograd's graph may stand there.
	noGraph bool
	// region is the module that is open, regions those that were.
	region  *Region
	regions []*Region
	// blocks are the program's, bases those of the one that is read.
	blocks *blocks
	bases  bases
	// sizes are those that were read, by their text; read and fields are the line's.
	sizes  map[string]Size
	read   Instruction
	fields [mostFields + 1]string
}

// stretch reads lines and continues s.
func (s *scope) stretch(lines []string) ([]Instruction, error) {
	lines, uses, err := s.blocks.unfold(lines)
	if err != nil {
		return nil, err
	}
	list := make([]Instruction, 0, forwardOf(lines))
	for i, line := range lines {
		uses = s.at(i, uses)
		in, err := s.line(line, len(list))
		if err != nil {
			return nil, fmt.Errorf("line %d, %.80q: %w", i+1, line, err)
		}
		if in.Kind >= 'a' || in.Kind == SendSaved {
			n := len(list) - 1
			if n < 0 || list[n].Kind != Node || list[n].Alias {
				return nil, fmt.Errorf("line %d, %.80q: stands behind no node", i+1, line)
			}
			if list[n].Backward == nil {
				list[n].Backward = make([]Instruction, 0, backwardOf(lines[i:]))
			}
			if err := list[n].backward(in); err != nil {
				return nil, fmt.Errorf("line %d, %.80q: %w", i+1, line, err)
			}
			continue
		}
		if in.Alias && in.Kind == Node && len(list) > 0 && list[len(list)-1].Attention != nil {
			list[len(list)-1].Attention.Edges, list[len(list)-1].Attention.Copies = in.Edges, in.Copies
		}
		list = append(list, *in)
	}
	s.bases = bases{}
	if s.region != nil {
		return nil, fmt.Errorf("the module %.80q is not closed", s.region.Name)
	}
	return list, nil
}

// forms is how many fields a line has behind its letter.
var forms = map[Kind]int{Allocate: 4, Free: 1, Product: 1, Reduce: 3, CastParam: 2, Attend: 14, Part: 1, Node: 4,
	Leaf: 4, Use: 1,
	Take: 4, Give: 1, Multiply: 0, Sum: 3, Embedding: 5, SortIndices: 2, Validate: 0, Send: 2, SendView: 2,
	SendAgain: 2, Pass: 2, PassView: 2, SendSaved: 2, SendUnknown: 1, ViewOf: 3, Open: 8, Close: 2}

// line reads one line, the n-th that is no node's backward.
func (s *scope) line(line string, place int) (*Instruction, error) {
	if line == "" {
		return nil, fmt.Errorf("is empty")
	}
	in := &s.read
	*in = Instruction{Kind: Kind(line[0])}
	n, known := forms[in.Kind]
	if !known {
		return nil, fmt.Errorf("%q is no instruction", line[0])
	}
	r := reader{sizes: s.sizes}
	if i := strings.LastIndex(line, " ="); i > 0 && (in.Kind == Take || in.Kind == Embedding) {
		in.Only, line = r.only(line[i+1:]), line[:i]
	}
	extra := 0
	if (in.Kind == Allocate || in.Kind == Node) && strings.Count(line, " ") == n+1 { // of attention
		extra = 1
	}
	n += extra
	f, err := fields(line, &s.fields, n)
	if err != nil {
		return nil, err
	}
	before := s.alias
	s.alias = 0
	if s.noGraph && (in.Kind == Node || in.Kind == Leaf) {
		return nil, fmt.Errorf("an evaluation has no graph")
	}
	switch in.Kind {
	case Allocate:
		in.N, in.Size, in.Type, in.Name = s.value(&r, f[0]), r.size(f[1]), r.kind(f[2]), r.name(f[3])
		if extra > 0 {
			in.Ref = s.used(&r, f[4])
		}
	case Free:
		in.Ref = s.used(&r, f[0])
		switch {
		case r.err != nil:
		case in.Ref.Scope == Own:
			s.own[in.Ref.N] = false
		case in.Ref.Scope == Input && s.outer == nil:
			s.freed = true
		default:
			r.fail("%.20q cannot be freed here", f[0])
		}
	case Product:
		in.Bias = r.flag(f[0])
	case Reduce, Sum:
		in.Over, in.Rows, in.Cols = r.over(f[0]), r.size(f[1]), r.size(f[2])
	case CastParam:
		in.N, in.Ref = s.value(&r, f[0]), s.parameter(&r, f[1])
		s.alias = CastParam
	case Attend:
		in.Attention = s.attention(&r, f)
		in.N = s.value(&r, f[0])
		s.alias = Attend
	case Part:
		if in.Name = f[0]; len(in.Name) != 1 || !strings.Contains("anmeo", in.Name) {
			r.fail("%.20q is no part", f[0])
		}
	case Node:
		in.Alias = f[3] == "cast" && before == CastParam || f[3] == "attention" && before == Attend
		if extra > 0 {
			in.Copies = r.copies(f[4], before)
		}
		s.node(&r, in, f)
	case Leaf:
		in.Ref, in.Size, in.Type = s.used(&r, f[1]), r.size(f[2]), r.kind(f[3])
		in.N = s.numbered(&r, f[0], 1)
	case Use:
		in.Ref = s.parameter(&r, f[0])
	case Open:
		in.Region = s.open(&r, f)
	case Close:
		s.close(&r, f, place)
	case Take:
		in.N, in.Size, in.Type, in.Name = r.register(f[0]), r.size(f[1]), r.kind(f[2]), r.name(f[3])
	case Give:
		in.N = r.register(f[0])
	case Embedding:
		in.N, in.Size, in.Rows, in.Cols, in.Type = r.register(f[0]), r.size(f[1]), r.size(f[2]), r.size(f[3]),
			r.kind(f[4])
	case SortIndices:
		in.Size, in.Rows = r.size(f[0]), r.size(f[1])
	case Send, SendView, SendAgain:
		in.N, in.K = r.register(f[0]), r.number(f[1], maxEdges-1)
	case Pass, PassView:
		in.N, in.K = r.number(f[0], maxOutputs-1), r.number(f[1], maxEdges-1)
	case SendSaved:
		in.N, in.K = r.number(f[0], maxSaved-1), r.number(f[1], maxEdges-1)
	case SendUnknown:
		in.K = r.number(f[0], maxEdges-1)
	case ViewOf:
		in.Size, in.Type, in.K = r.size(f[0]), r.kind(f[1]), r.number(f[2], maxEdges-1)
	}
	return in, r.err
}

// value is the number of a new value, which have to follow one another.
func (s *scope) value(r *reader, text string) int {
	if n := s.relative(r, text, s.bases.value, maxLines); r.err == nil && n != len(s.own) {
		r.fail("value %d is made where %d would follow", n, len(s.own))
	}
	s.own = append(s.own, true)
	return len(s.own) - 1
}

// used is a value that is there.
func (s *scope) used(r *reader, text string) Ref {
	switch {
	case text == "x" && s.input && !s.freed:
		return Ref{Scope: Input}
	case strings.HasPrefix(text, "g") && s.outer != nil:
		n := r.number(text[1:], maxLines)
		if r.err == nil && (n >= len(s.outer.own) || !s.outer.own[n]) {
			r.fail("there is no value %.20q", text)
			return Ref{}
		}
		s.shared[n] = true
		return Ref{Scope: Outer, N: n}
	}
	n := s.relative(r, text, s.bases.value, maxLines)
	if r.err == nil && (n >= len(s.own) || !s.own[n]) {
		r.fail("there is no value %.20q", text)
		return Ref{}
	}
	return Ref{Scope: Own, N: n}
}

func (s *scope) parameter(r *reader, text string) Ref {
	scope, most := Model, s.model
	if strings.HasPrefix(text, "l") {
		scope, most = Layer, s.layer
	} else if !strings.HasPrefix(text, "p") {
		r.fail("%.20q is no parameter", text)
		return Ref{}
	}
	n := s.relative(r, text[1:], s.bases.parameters, maxLines)
	if r.err == nil && n >= most {
		r.fail("there is no parameter %.20q", text)
	}
	return Ref{Scope: scope, N: n}
}

// edge is where a gradient goes.
func (s *scope) edge(r *reader, text string) Ref {
	switch {
	case text == "-":
		return Ref{}
	case text == "x" && s.input:
		return Ref{Scope: Input}
	case strings.HasPrefix(text, "p"), strings.HasPrefix(text, "l"):
		return s.parameter(r, text)
	}
	ref, at := Ref{Scope: Own}, s
	if strings.HasPrefix(text, "g") && s.outer != nil {
		ref.Scope, at, text = Outer, s.outer, text[1:]
	}
	number, out, _ := strings.Cut(text, ".")
	base := s.bases.node
	if at != s {
		base = 0
	}
	ref.N, ref.Out = s.relative(r, number, base, maxLines), r.number(out, maxOutputs-1)
	if r.err == nil && (ref.N >= len(at.nodes) || ref.Out >= at.nodes[ref.N]) {
		r.fail("there is no output %.20q of a node", text)
	}
	return ref
}

func (s *scope) node(r *reader, in *Instruction, f []string) {
	in.Outputs = r.number(f[1], maxOutputs)
	if r.err == nil && in.Outputs == 0 {
		r.fail("a node has an output")
	}
	edges := 1 + strings.Count(f[2], ",")
	if edges > maxEdges {
		r.fail("a node has up to %d inputs here, and this one has %d: the operation cannot be replayed", maxEdges,
			edges)
		return
	}
	in.Edges = make([]Ref, 0, edges)
	for e := range strings.SplitSeq(f[2], ",") {
		in.Edges = append(in.Edges, s.edge(r, e))
	}
	in.N = s.numbered(r, f[0], in.Outputs)
	if in.Alias || f[3] == "-" {
		return
	}
	saved := 1 + strings.Count(f[3], ",")
	if saved > maxSaved {
		r.fail("a node saves up to %d tensors here, and this one %d: the operation cannot be replayed", maxSaved, saved)
		return
	}
	in.Saved = make([]Ref, 0, saved)
	for v := range strings.SplitSeq(f[3], ",") {
		v, marked, found := strings.Cut(v, "=")
		if found {
			if in.OnlySaved == nil {
				in.OnlySaved = make([]uint64, saved)
			}
			in.OnlySaved[len(in.Saved)] = r.only("=" + marked)
		}
		in.Saved = append(in.Saved, s.used(r, v))
	}
}

// numbered is the number of a new node, which have to follow one another.
func (s *scope) numbered(r *reader, text string, outputs int) int {
	n := s.relative(r, text, s.bases.node, maxLines)
	if r.err == nil && n != len(s.nodes) {
		r.fail("node %d is made where %d would follow", n, len(s.nodes))
	}
	s.nodes = append(s.nodes, outputs)
	return n
}

func (s *scope) attention(r *reader, f []string) *Attention {
	a := &Attention{Query: s.used(r, f[1]), Key: s.used(r, f[2]), Value: s.used(r, f[3])}
	if f[4] != "-" {
		a.Mask = s.used(r, f[4])
	}
	a.Batch, a.Heads, a.KVHeads = r.size(f[5]), r.positive(f[6]), r.positive(f[7])
	a.Queries, a.Keys, a.Width, a.ValueWidth = r.size(f[8]), r.size(f[9]), r.positive(f[10]), r.positive(f[11])
	dropout, err := strconv.ParseFloat(f[12], 64)
	if err != nil || !(dropout >= 0 && dropout < 1) {
		r.fail("%.20q is no dropout", f[12])
	}
	a.Dropout = dropout
	flags := r.number(f[13], 7)
	a.HeadsFirst, a.BooleanMask, a.TokensOutermost = flags&1 != 0, flags&2 != 0, flags&4 != 0
	return a
}

// copies are those of the backward of the attention before a node.
func (r *reader) copies(text string, before Kind) Copies {
	if before != Attend {
		r.fail("%.20q says what attention's backward copies, and stands behind none", text)
		return Copies{}
	}
	flags := r.number(text, 7)
	return Copies{Known: true, Gradient: flags&1 != 0, Output: flags&2 != 0, Flash: flags&4 != 0}
}

// backward adds an instruction to the node's backward.
func (n *Instruction) backward(in *Instruction) error {
	if in.Kind == Send || in.Kind == SendView || in.Kind == SendAgain || in.Kind == Pass || in.Kind == PassView ||
		in.Kind == SendSaved || in.Kind == SendUnknown {
		if in.K >= len(n.Edges) {
			return fmt.Errorf("the node has no input %d", in.K)
		}
		for i := range n.Backward {
			b := &n.Backward[i]
			if b.sends() && b.K == in.K {
				return fmt.Errorf("input %d gets its gradient twice", in.K)
			}
		}
	}
	switch in.Kind {
	case ViewOf:
		if in.K >= len(n.Edges) {
			return fmt.Errorf("the node has no input %d", in.K)
		}
	case Pass, PassView:
		if in.N >= n.Outputs {
			return fmt.Errorf("the node has no output %d", in.N)
		}
	case SendSaved:
		if in.N >= len(n.Saved) {
			return fmt.Errorf("the node has no saved tensor %d", in.N)
		}
	case Take, Embedding:
		if n.holds(in.N) {
			return fmt.Errorf("register %d is taken", in.N)
		}
	case Give, Send, SendView, SendAgain:
		if !n.holds(in.N) {
			return fmt.Errorf("register %d holds nothing", in.N)
		}
		for i := range n.Backward {
			b := &n.Backward[i]
			if in.Kind != SendAgain && (b.Kind == Send || b.Kind == SendView) && b.N == in.N {
				return fmt.Errorf("register %d was handed on", in.N)
			}
		}
	}
	n.Backward = append(n.Backward, *in)
	return nil
}

func (in *Instruction) sends() bool {
	switch in.Kind {
	case Send, SendView, SendAgain, Pass, PassView, SendSaved, SendUnknown:
		return true
	}
	return false
}

// holds says whether a register holds a tensor.
func (n *Instruction) holds(register int) bool {
	for i := len(n.Backward) - 1; i >= 0; i-- {
		switch b := &n.Backward[i]; {
		case (b.Kind == Take || b.Kind == Embedding) && b.N == register:
			return true
		case b.Kind == Give && b.N == register:
			return false
		}
	}
	return false
}
