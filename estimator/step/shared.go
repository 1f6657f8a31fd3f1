package step

// Shared is a dictionary that the layers of a model hand around: pairs of tensors that earlier layers put in for later
// ones. The closures of checkpointed layers refer to it, so that it lives until the last of them goes; a layer that
// runs again puts its pair in anew.
type Shared struct {
	pairs   map[int64]pair
	holders int
}

// pair is of two tensors and, where they were made when a layer ran again, of what the graph of that run saved for
// them: it is nobody's else, and theirs.
type pair struct {
	a, b  T
	again bool
	saved []int32
}

// NewShared is an empty one, which its maker holds.
func NewShared() *Shared { return &Shared{pairs: map[int64]pair{}, holders: 1} }

// Pair is what stands under key, which s goes on holding.
func (s *Shared) Pair(key int64) (a, b T) {
	p := s.pairs[key]
	return p.a, p.b
}

// Put takes over a and b and lets go of what stood under key.
func (s *Shared) Put(t *Tape, key int64, a, b T) {
	former, had := s.pairs[key]
	s.pairs[key] = pair{a: a, b: b, again: t.transplant}
	if had {
		former.leave(t)
	}
}

// Leave says that one who held s does not any more.
func (s *Shared) Leave(t *Tape) {
	if s.holders--; s.holders > 0 {
		return
	}
	for key := range int64(len(t.Parameters)) { // in order; layers are fewer than parameters
		if p, ok := s.pairs[key]; ok {
			p.leave(t)
		}
	}
}

func (p *pair) leave(t *Tape) {
	t.Drop(p.a, p.b)
	for _, s := range p.saved {
		t.Release(s)
	}
}

// keepGraph holds what the nodes from base on, of a layer that has just run again, saved for the pairs that it put in.
// Source: torch/utils/checkpoint.py (_recomputation_hook, which returns what it is given to the second graph, too),
// torch 2.15.
func (s *Shared) keepGraph(t *Tape, base int32) {
	for key, p := range s.pairs {
		if !p.again || p.saved != nil {
			continue
		}
		seen, next := map[int32]bool{}, []edge{p.a.edge, p.b.edge}
		for len(next) > 0 {
			e := next[len(next)-1]
			next = next[:len(next)-1]
			i := e.node()
			if e == noEdge || i < base || seen[i] {
				continue
			}
			seen[i] = true
			n := &t.nodes[i]
			for k := range n.nSaved {
				t.retain(*n.savedAt(k))
				p.saved = append(p.saved, *n.savedAt(k))
			}
			for k := range n.nIn {
				next = append(next, n.edgeAt(k))
			}
		}
		s.pairs[key] = p
	}
}
