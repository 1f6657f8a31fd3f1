// Package python reads the grammar of Python 3.12 into trees, which nothing executes. The nodes are those of
// CPython's module ast, by the same names, so that its documentation is theirs and its trees can be held against
// them.  What a stranger's file may cost is bounded by construction: a tree is at most maxDepth deep, the parser
// looks at a token at most a fixed number of times, and one statement that cannot be read costs no other: it stands
// in the tree as a Gap, with what follows it.
package python

import "sort"

// Node is one node of a tree.
type Node struct {
	// Kind is the name of the class in CPython's ast, or Gap.
	Kind string
	// Name is the identifier, attribute, argument, module or operator; of a Gap what is wrong.
	Name string
	// Names are the further ones: the operators of a Compare, the names of a Global, the asname of an alias.
	Names []string
	// Number is the level of an import, the conversion of an f-string, whether a comprehension is asynchronous, and
	// whether an annotated target is a plain name.
	Number int
	// Value is that of a Constant: nil, bool, *big.Int, float64, Imaginary, string, Bytes or Ellipsis.
	Value any
	// Start and End are the bytes of the source, and Line the line of the first, from one.
	Start, End, Line int

	parts []part
	depth int
}

type part struct {
	name string
	node *Node
	list []*Node
}

// Imaginary is the value of 2j.
type Imaginary float64

// Bytes is the value of b"…".
type Bytes string

// Ellipsis is the value of three points.
type Ellipsis struct{}

// Unnamed is the value of a string with a character by its Unicode name, whose table is not carried.
type Unnamed struct{}

// Gap is the kind of a statement that cannot be read. Its body is what stands indented under it.
const Gap = "Gap"

// Part is the child of that name in CPython's ast; nil where there is none.
func (n *Node) Part(name string) *Node {
	if n != nil {
		for _, p := range n.parts {
			if p.name == name {
				return p.node
			}
		}
	}
	return nil
}

// List are the children of that name. One is nil where a dictionary is spread, or a keyword has no default.
func (n *Node) List(name string) []*Node {
	if n != nil {
		for _, p := range n.parts {
			if p.name == name {
				return p.list
			}
		}
	}
	return nil
}

// Is reports whether the node is of one of the kinds.
func (n *Node) Is(kinds ...string) bool {
	for _, k := range kinds {
		if n != nil && n.Kind == k {
			return true
		}
	}
	return false
}

// Walk calls visit for the node and everything beneath it, in the order of the grammar, as long as visit says so.
func (n *Node) Walk(visit func(*Node) bool) {
	if n == nil || !visit(n) {
		return
	}
	for _, p := range n.parts {
		p.node.Walk(visit)
		for _, c := range p.list {
			c.Walk(visit)
		}
	}
}

// Children calls visit for each node directly beneath.
func (n *Node) Children(visit func(*Node)) {
	for _, p := range n.parts {
		if p.node != nil {
			visit(p.node)
		}
		for _, c := range p.list {
			if c != nil {
				visit(c)
			}
		}
	}
}

// lines are the places at which lines begin.
type lines []int

func newLines(src []byte) lines {
	out := lines{0}
	for i, c := range src {
		if c == '\n' || c == '\r' && (i+1 == len(src) || src[i+1] != '\n') {
			out = append(out, i+1)
		}
	}
	return out
}

func (l lines) of(at int) int { return sort.SearchInts(l, at+1) }
