package step

import "slices"

// What torch.compile makes of operations that were recorded one by one: the rules are those of the described families
// (compiled.go, inductor.go), told of each operation what it reads and what its eager backward made.

// FusedInput is an input of an operation that Inductor fuses, Gradient the bytes of the gradient that its eager
// backward makes for it, 0 where the arriving one goes on.
type FusedInput struct {
	T
	Gradient int64
}

// Unmade is a tensor that whoever reads it makes again from nothing, such as a table of positions.
func (t *Tape) Unmade(numel int64, d DType, l Label) T {
	return t.unmade(lazy{bytes: numel * d.Size(), label: l, part: t.part}, numel, d)
}

// FuseReplayed records a fusible operation on ins that gives numel elements of type d and keeps saves for backward.
// What is computed from more tensors than a fused one remembers is made.
func (t *Tape) FuseReplayed(numel int64, d DType, l Label, ins []FusedInput, saves []T) T {
	z, deep := lazy{bytes: numel * d.Size(), label: l, part: t.part}, false
	for _, x := range ins {
		if x.storage == None || z.holds(x.storage) {
			continue
		}
		if int(z.n) == len(z.from) {
			deep = true
			break
		}
		t.retain(x.storage)
		z.from[z.n] = x.storage
		z.n++
		z.depth = max(z.depth, t.depth(x.T))
	}
	y := t.unmade(z, numel, d)
	if deep {
		y = t.realize(y)
	}
	return t.fusedBackward(y, ins, saves)
}

func (z *lazy) holds(s int32) bool {
	return slices.Contains(z.from[:z.n], s)
}

// fusedBackward records y, which is fused from ins: gradients go on where they are until something that exists wants
// one of another size.
func (t *Tape) fusedBackward(y T, ins []FusedInput, saves []T) T {
	edges := make([]T, len(ins))
	for k := range ins {
		edges[k] = ins[k].T
	}
	o := t.op(edges...).save(saves...)
	taken := false
	for k, x := range ins {
		switch {
		case !o.needs(k):
		case x.storage == None && x.Gradient > 0: // of a parameter
			o.alloc(k, x.Gradient, LabelWeightGradient).send(k, k)
		case x.Gradient == 0 || t.isLazy(x.T):
			o.pass(0, k)
			taken = taken || x.Gradient > 0
		case x.Gradient == y.bytes() && !taken:
			o.act(act{verb: actPassOrMake, route: route{edge: uint8(k)}, bytes: x.Gradient, label: LabelInputGradient})
			taken = true
		default:
			o.alloc(k, x.Gradient, LabelInputGradient).send(k, k)
		}
	}
	return o.out(y, 0)
}

// ReducedReplayed is a reduction of ins, which a kernel that reads them writes: a summand that it is computed from, and
// that others read, is written first. What comes back is spread by whoever reads it.
func (t *Tape) ReducedReplayed(numel int64, d DType, l Label, ins []FusedInput, saves []T) T {
	for _, x := range ins {
		t.writeSums(x.storage)
	}
	y := t.fresh(numel, d, l)
	edges := make([]T, len(ins))
	for k := range ins {
		edges[k] = ins[k].T
	}
	o := t.op(edges...).save(saves...)
	for k := range ins {
		switch {
		case !o.needs(k):
		case ins[k].storage == None:
			o.alloc(k, ins[k].Gradient, LabelWeightGradient).send(k, k)
		case t.isLazy(ins[k].T) || ins[k].Gradient == 0:
			o.alloc(k, 0, LabelNone).send(k, k)
		default:
			o.act(act{verb: actAddInPlace, bytes: ins[k].Gradient, label: LabelInputGradient}).send(0, k)
		}
	}
	return o.out(y, 0)
}

// writeSums writes the nearest sum that an unmade storage is computed from.
func (t *Tape) writeSums(s int32) {
	for s != None && t.storages[s].lazy > 0 {
		z := t.lazies[t.storages[s].lazy-1]
		if z.depth > 0 && z.n > 1 {
			t.realize(T{storage: s})
			return
		}
		if z.n == 0 {
			return
		}
		s = z.from[0]
	}
}

// SumReplayed is FuseReplayed of a residual sum, a long chain of which is written from time to time.
func (t *Tape) SumReplayed(numel int64, d DType, ins []FusedInput) T {
	y := t.FuseReplayed(numel, d, LabelResidual, ins, nil)
	if !t.isLazy(y) {
		return y
	}
	z := &t.lazies[t.storages[y.storage].lazy-1]
	if z.depth++; z.depth >= realizeAfter && !d.Half() {
		t.realize(y)
	}
	return y
}

// Apart says whether a and b are computed from different tensors that exist.
func (t *Tape) Apart(a, b T) bool {
	one, other := t.sources(a.storage), t.sources(b.storage)
	shared := slices.ContainsFunc(one, func(s int32) bool { return slices.Contains(other, s) })
	return !shared && len(one) > 0 && len(other) > 0
}

// sources are the storages that exist of those that s is computed from, as far as so many show.
func (t *Tape) sources(s int32) (found []int32) {
	const most = 64
	if s == None {
		return nil
	}
	met := []int32{s}
	for i := 0; i < len(met); i++ {
		s := met[i]
		if t.storages[s].lazy == 0 {
			found = append(found, s)
			continue
		}
		z := &t.lazies[t.storages[s].lazy-1]
		for _, from := range z.from[:z.n] {
			if from != None && len(met) < most && !slices.Contains(met, from) {
				met = append(met, from)
			}
		}
	}
	return found
}

// Alive says whether somebody refers to x.
func (t *Tape) Alive(x T) bool { return x.storage != None && t.storages[x.storage].refs > 0 }

// IsUnmade says whether x is yet to be made.
func (t *Tape) IsUnmade(x T) bool { return t.isLazy(x) }

// SameStorage says whether x and y lie in the same memory.
func (x T) SameStorage(y T) bool { return x.storage == y.storage && x.storage != None }

// Shaped is x with numel elements.
func (x T) Shaped(numel int64) T { x.numel = numel; return x }

// PartReplayed is a view of a part of x, whose eager backward makes a gradient of so many bytes for all of x.
func (t *Tape) PartReplayed(x T, bytes int64, outputs int) T {
	o := t.op(x).act(act{verb: actAddInPlace, bytes: bytes, label: LabelInputGradient}).send(0, 0)
	o.out(x, outputs-1)
	return o.out(x, 0)
}

// GatherReplayed is the lookup of ids in a table p.
func (t *Tape) GatherReplayed(p, ids T, numel int64) T {
	return t.gather(p, ids, numel, LabelEmbedding)
}

// DroppedReplayed is x without what a mask leaves out.
func (t *Tape) DroppedReplayed(x T) T { return t.Dropout(x, 1) }

// CrossEntropyReplayed is the loss of logits.
func (t *Tape) CrossEntropyReplayed(logits, targets T) T {
	return t.crossEntropy(logits, t.realize(targets))
}

// OfLoss books x, which exists, under logits and loss.
func (t *Tape) OfLoss(x T) {
	if x.storage != None && t.storages[x.storage].slot != None {
		s := &t.Prog.Slots[t.storages[x.storage].slot]
		s.Component, s.Label = LogitsAndLoss, LabelLogits
	}
}

// ProductInput is an operand of a product: Gradient the bytes of its gradient, Saved what is kept for that.
type ProductInput struct {
	T
	Gradient int64
	Saved    T
}

// ProductReplayed is a matrix product of numel elements of type d, which reads what ins save; the gradients of ins are
// formed in the given order.
func (t *Tape) ProductReplayed(numel int64, d DType, ins []ProductInput, reads []T, order []int, withBias bool) T {
	for _, x := range reads {
		t.realize(x)
	}
	saves := int32(0)
	edges := make([]T, len(ins))
	for k := range ins {
		edges[k] = ins[k].T
		if ins[k].edge != noEdge && ins[k].Saved.storage != None {
			saves++
		}
	}
	y := T{storage: None, edge: noEdge, form: plain(d), numel: numel}
	if !t.lastSaves(saves) {
		y = t.fresh(numel, d, LabelLinear)
		t.productSpace(withBias && t.exec.productAddsBias())
	}
	o := t.op(edges...)
	saved := uint8(0)
	for _, k := range order {
		x := &ins[k]
		if !o.needs(k) {
			continue
		}
		has := x.Saved.storage != None
		if has {
			o.save(x.Saved)
		}
		switch {
		case has && x.storage == None && t.shared(x.T):
			o.act(act{verb: actPostpone, route: route{edge: uint8(k)}, bytes: x.Gradient, label: LabelWeightGradient})
		case has:
			o.alloc(k, x.Gradient, LabelInputGradient).workspace().sendView(k, k)
			o.forget(saved)
		case x.Gradient > 0: // of a bias
			o.alloc(k, x.Gradient, LabelWeightGradient).send(k, k)
		default:
			o.pass(0, k)
		}
		if has {
			saved++
		}
	}
	return o.out(y, 0)
}
