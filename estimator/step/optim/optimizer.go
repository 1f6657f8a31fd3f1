package optim

import (
	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"slices"
)

// Optimizer is an optimizer and who implements it: everything that is known of it, in one row of the table.
type Optimizer struct {
	// Name is what a job calls it, Synonyms are other optimizers that hold what it holds. Implementations are who
	// updates, as a job says it; "" is among those of the row that is taken where it does not.
	Name                      string
	Synonyms, Implementations []string
	// How others write it: Trainer is what asks the Trainer of today's releases for it by --optim, and nothing besides;
	// TrainerReads are words that former releases take or took, that need other arguments too (galore_adamw), or that
	// tools over the Trainer have. Classes are what Python imports, the first of which is written in answers. Aliases
	// are what people write besides.
	Trainer               string
	TrainerReads, Classes []string
	Aliases               []Alias

	// Moments is how many states have the shape of their parameter, in its type where a job does not name another.
	// Counter says that the number of steps, a float32 for each parameter, is kept on the GPU before them. Eager says
	// that the states are made with the optimizer and not in the first step, ByTypes that they are made as the update
	// groups the parameters.
	Moments                 int
	Counter, Eager, ByTypes bool
	// Lists is how many temporaries of every parameter are alive at once where all are updated together (foreach); in
	// CopiesParameters, one more in torch 2.0. Loop allocates those of an update parameter by parameter. Neither is for
	// one kernel that needs none (Fused, which looks at found_inf itself) or for several that work in place.
	Lists            int
	CopiesParameters bool
	Loop             func(*Updater, []*step.Parameter)
	Fused            bool
	// Own allocates states and temporaries of an optimizer that is like no other, in place of all of the above.
	// OwnTypes says that no job may choose the type of its states, Factored that these have no type to be named, Ranked
	// that it has a rank.
	Own                        func(*Updater, []*step.Parameter)
	OwnTypes, Factored, Ranked bool

	// QuantisedMoments is how many states of eight bits it keeps on the card, which a trainer may ask it to keep in
	// float32 for some parameters.
	QuantisedMoments int64

	// Sharded says that it works on a GPU's parts of parameters as on whole ones, InBackward that it may update each
	// parameter as soon as its gradient is there.
	Sharded, InBackward bool

	// Words are what its states are, with their type in place of %s; none where it keeps nothing. Note is what a reader
	// of an answer has to know.
	Words string
	Note  Note
	// Rate is how the learning rate follows the batch.
	Rate Rate
	// MovedBytes is what an update moves for each parameter with float32 states: a fused kernel reads gradient, weight
	// and states once and writes all but the first.
	MovedBytes float64
}

// Alias is another spelling, and which name and implementation it means.
type Alias struct{ Spelling, Name, Implementation string }

// Note is a remark for those who read an answer.
type Note struct{ Code, Text string }

// Rate is how a learning rate follows the batch.
type Rate uint8

// The rules: in proportion, with its square root, or neither.
const (
	RateOther Rate = 1 + iota
	RateLinear
	RateSquareRoot
)

// Optimizers are all that are known, for reading.
func Optimizers() []Optimizer { return optimizers }

// OptimizerOf is the row of a name and an implementation, which may be empty.
func OptimizerOf(name, implementation string) (*Optimizer, bool) {
	for i := range optimizers {
		if o := &optimizers[i]; (o.Name == name || slices.Contains(o.Synonyms, name)) &&
			slices.Contains(o.Implementations, implementation) {
			return o, true
		}
	}
	return nil, false
}

// Stateless says that nothing is kept from step to step.
func (o *Optimizer) Stateless() bool { return o.Moments == 0 && o.Own == nil }

// Updater is an optimizer at work on a heap.
type Updater struct {
	Heap    alloc.Heap
	keeping alloc.Keeping // the same, where it keeps states by itself
	Recipe  *step.Recipe
	// first says that the state does not exist yet.
	First bool
	Held  []int32 // temporaries
	Rms   []int32 // by parameter: what Adafactor keeps of the last step
	// Made, where it is there, follows the making of states, before anything is computed.
	Made func()
	// rank is GaLore's.
	Rank int64
	// inner and outer are the parameters that Muon and GaLore treat in their own way, and the others.
	inner, outer []*step.Parameter
}

// UpdateOne is the update of one parameter in backward, as soon as its gradient is there.
func (o *Optimizer) UpdateOne(heap alloc.Keeping, r *step.Recipe, p *step.Parameter) {
	one := [...]*step.Parameter{p}
	u := Updater{Heap: heap, keeping: heap, Recipe: r, First: true}
	u.Run(o, one[:])
}

// keep allocates state, which stays.
func (u *Updater) keep(bytes int64) {
	if u.keeping != nil {
		u.keeping.Keep(bytes)
	} else if u.First {
		u.Heap.Alloc(bytes)
	}
}

// flash allocates and frees bytes at once.
func (u *Updater) flash(bytes int64) { u.Heap.Free(u.Heap.Alloc(bytes)) }

// product is what a matrix product takes for as long as it runs: cuBLAS's workspace or, where a sum with what lies in
// order is part of it, cuBLASLt's. Releases that keep workspaces have made them long before.
// Source: aten/src/ATen/cuda/CublasHandlePool.cpp, aten/src/ATen/native/cuda/Blas.cpp (addmm), torch 2.15.
func (u *Updater) product(sums bool) {
	switch r := u.Recipe; {
	case !r.Software.Has(step.ReturnsWorkspace):
	case sums && r.LtWorkspaceBytes > 0:
		u.flash(r.LtWorkspaceBytes)
	default:
		u.flash(r.WorkspaceBytes)
	}
}

// reassign puts the handle h into a variable, whose former tensor goes.
func (u *Updater) reassign(variable *int32, h int32) {
	if *variable != alloc.None {
		u.Heap.Free(*variable)
	}
	*variable = h
}

// del ends a variable.
func (u *Updater) del(variable *int32) { u.reassign(variable, alloc.None) }

// reduce allocates what a reduction returns, and for a moment what it computes with.
func (u *Updater) reduce(bytes int64, over step.Over, rows, cols int64) int32 {
	h := u.Heap.Alloc(bytes)
	if scratch, semaphores := u.Recipe.Reduction(over, rows, cols); scratch > 0 {
		a, b := u.Heap.Alloc(scratch), u.Heap.Alloc(semaphores)
		u.Heap.Free(b)
		u.Heap.Free(a)
	}
	return h
}

// Run updates the parameters ps, which are trained, group by group.
func (u *Updater) Run(o *Optimizer, ps []*step.Parameter) {
	if o.Own != nil {
		o.Own(u, ps)
		return
	}
	if u.Recipe.GroupsByDecay {
		decayed, rest := byDecay(ps)
		u.group(o, decayed)
		u.group(o, rest)
		return
	}
	u.group(o, ps)
}

// group updates the parameters of one group.
func (u *Updater) group(o *Optimizer, ps []*step.Parameter) {
	if !o.Eager {
		u.States(o, ps)
	}
	if u.Made != nil {
		u.Made()
	}
	if o.Loop != nil {
		o.Loop(u, ps)
		return
	}
	u.lists(Lists(u.Recipe, o), ps)
}

// Restore makes the states of an optimizer that has none of its own kind, group by group.
func (u *Updater) Restore(o *Optimizer, ps []*step.Parameter) {
	if !u.Recipe.GroupsByDecay {
		u.States(o, ps)
		return
	}
	decayed, rest := byDecay(ps)
	u.States(o, decayed)
	u.States(o, rest)
}

// States makes those of all parameters.
func (u *Updater) States(o *Optimizer, ps []*step.Parameter) {
	if o.ByTypes {
		ByType(ps, func(d step.DType) {
			for _, p := range ps {
				if p.Dtype == d {
					u.keep(u.Moment(p))
				}
			}
		})
		return
	}
	for _, p := range ps {
		if o.Counter {
			u.keep(4)
		}
		for range o.Moments {
			u.keep(u.Moment(p))
		}
	}
}

// takesTwoCopies is foreach Adam with two copies of the parameters.
var takesTwoCopies = release.Declare("two-temporaries", release.Change{
	Library: "torch", From: "2.0", To: "2.1",
	What:   "foreach Adam of torch 2.0 takes two copies of the parameters, not one",
	Source: "torch/optim/adam.py (_multi_tensor_adam), 2.0 and 2.1", Shown: "published runs",
})

// Lists is how many temporaries of every parameter an update of all together takes.
func Lists(r *step.Recipe, o *Optimizer) int {
	if o.CopiesParameters && r.Software.Has(takesTwoCopies) {
		return o.Lists + 1
	}
	return o.Lists
}

// lists are n temporaries of every parameter of one type at once; the variables keep them until those of the next type
// are there.
func (u *Updater) lists(n int, ps []*step.Parameter) {
	if n == 0 {
		return
	}
	u.Held = u.Held[:0]
	before := 0
	ByType(ps, func(d step.DType) {
		from := len(u.Held)
		for range n {
			for _, p := range ps {
				if p.Dtype == d {
					u.Held = append(u.Held, u.Heap.Alloc(u.Moment(p)))
				}
			}
		}
		for _, h := range u.Held[before:from] {
			u.Heap.Free(h)
		}
		before = from
	})
	for _, h := range u.Held[before:] {
		u.Heap.Free(h)
	}
}

// Moment is the bytes of one moment of p.
func (u *Updater) Moment(p *step.Parameter) int64 {
	if st := &u.Recipe.States; st.OwnMoments {
		return p.Numel * st.Moments.Size()
	}
	return p.Bytes()
}
