package step

import "slices"

// Optimizer is an optimizer and who implements it: everything that is known of it, in one row of the table.
type Optimizer struct {
	// Name is what a job calls it, Synonyms are other optimizers that hold what it holds. Implementations are who updates, as a job
	// says it; "" is among those of the row that is taken where it does not. Aliases are the spellings of other tools.
	Name                      string
	Synonyms, Implementations []string
	Aliases                   []Alias

	// Moments is how many states have the shape of their parameter, in its type where a job does not name another. Counter says
	// that the number of steps, a float32 for each parameter, is kept on the GPU before them. Eager says that the states are made
	// with the optimizer and not in the first step.
	Moments        int
	Counter, Eager bool
	// Lists is how many temporaries of every parameter are alive at once where all are updated together (foreach); in
	// CopiesParameters, one more in torch 2.0. Loop allocates those of an update parameter by parameter. Neither is for one kernel
	// that needs none (Fused, which looks at found_inf itself) or for several that work in place.
	Lists            int
	CopiesParameters bool
	Loop             func(*updater, []*Parameter)
	Fused            bool
	// Own allocates states and temporaries of an optimizer that is like no other, in place of all of the above. OwnTypes says that
	// no job may choose the type of its states, Factored that these have no type to be named, Ranked that it has a rank.
	Own                        func(*updater, []*Parameter)
	OwnTypes, Factored, Ranked bool

	// Sharded says that it works on a GPU's parts of parameters as on whole ones, InBackward that it may update each parameter as
	// soon as its gradient is there.
	Sharded, InBackward bool

	// Words are what its states are, with their type in place of %s; none where it keeps nothing. Note is what a reader of an answer
	// has to know.
	Words string
	Note  Note
	// Rate is how the learning rate follows the batch.
	Rate Rate
	// MovedBytes is what an update moves for each parameter with float32 states: a fused kernel reads gradient, weight and states
	// once and writes all but the first.
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
		if o := &optimizers[i]; (o.Name == name || slices.Contains(o.Synonyms, name)) && slices.Contains(o.Implementations, implementation) {
			return o, true
		}
	}
	return nil, false
}

// Stateless says that nothing is kept from step to step.
func (o *Optimizer) Stateless() bool { return o.Moments == 0 && o.Own == nil }

// updater is an optimizer at work on a heap.
type updater struct {
	heap    Heap
	keeping Keeping // the same, where it keeps states by itself
	recipe  *Recipe
	// first says that the state does not exist yet.
	first bool
	held  []int32 // temporaries
	rms   []int32 // by parameter: what Adafactor keeps of the last step
	// rank is GaLore's.
	rank int64
	// inner and outer are the parameters that Muon and GaLore treat in their own way, and the others.
	inner, outer []*Parameter
}

// UpdateOne is the update of one parameter in backward, as soon as its gradient is there.
func (o *Optimizer) UpdateOne(heap Keeping, r *Recipe, p *Parameter) {
	one := [...]*Parameter{p}
	u := updater{heap: heap, keeping: heap, recipe: r, first: true}
	u.run(o, one[:])
}

// keep allocates state, which stays.
func (u *updater) keep(bytes int64) {
	if u.keeping != nil {
		u.keeping.Keep(bytes)
	} else if u.first {
		u.heap.Alloc(bytes)
	}
}

// flash allocates and frees bytes at once.
func (u *updater) flash(bytes int64) { u.heap.Free(u.heap.Alloc(bytes)) }

// reassign puts the handle h into a variable, whose former tensor goes.
func (u *updater) reassign(variable *int32, h int32) {
	if *variable != noHandle {
		u.heap.Free(*variable)
	}
	*variable = h
}

// del ends a variable.
func (u *updater) del(variable *int32) { u.reassign(variable, noHandle) }

// reduce allocates what a reduction returns, and for a moment what it computes with.
func (u *updater) reduce(bytes int64, over layout, rows, cols int64) int32 {
	h := u.heap.Alloc(bytes)
	if scratch, semaphores := u.recipe.reduction(over, rows, cols); scratch > 0 {
		a, b := u.heap.Alloc(scratch), u.heap.Alloc(semaphores)
		u.heap.Free(b)
		u.heap.Free(a)
	}
	return h
}

// run updates the parameters ps, which are trained.
func (u *updater) run(o *Optimizer, ps []*Parameter) {
	if o.Own != nil {
		o.Own(u, ps)
		return
	}
	if !o.Eager {
		u.states(o, ps)
	}
	if o.Loop != nil {
		o.Loop(u, ps)
		return
	}
	u.lists(u.recipe.lists(o), ps)
}

// states makes those of all parameters.
func (u *updater) states(o *Optimizer, ps []*Parameter) {
	for _, p := range ps {
		if o.Counter {
			u.keep(4)
		}
		for range o.Moments {
			u.keep(u.moment(p))
		}
	}
}

// lists is how many temporaries of every parameter an update of all together takes.
func (r *Recipe) lists(o *Optimizer) int {
	if o.CopiesParameters && r.TwoTemporaries {
		return o.Lists + 1
	}
	return o.Lists
}

// lists are n temporaries of every parameter of one type at once; the variables keep them until those of the next type are there.
func (u *updater) lists(n int, ps []*Parameter) {
	if n == 0 {
		return
	}
	u.held = u.held[:0]
	before := 0
	byType(ps, func(d DType) {
		from := len(u.held)
		for range n {
			for _, p := range ps {
				if p.Dtype == d {
					u.held = append(u.held, u.heap.Alloc(u.moment(p)))
				}
			}
		}
		for _, h := range u.held[before:from] {
			u.heap.Free(h)
		}
		before = from
	})
	for _, h := range u.held[before:] {
		u.heap.Free(h)
	}
}

// moment is the bytes of one moment of p.
func (u *updater) moment(p *Parameter) int64 {
	if st := &u.recipe.States; st.OwnMoments {
		return p.Numel * st.Moments.Size()
	}
	return p.bytes()
}
