package step

// selected is what a checkpointed layer keeps of the operations that it does not run again: their results, in the order
// in which it takes them back.
type selected struct {
	kept     []T
	products int // matrix products of the run so far
}

// keepsProduct says whether the result of a matrix product is kept: torchtitan's policy keeps those of every second mm
// of a layer, from the first on, and none of a product to which a bias is added, which is another operation.
// Source: torchtitan/distributed/activation_checkpoint.py (_get_custom_policy), 0.2.
func (t *Tape) keepsProduct(hasBias bool) bool {
	c := t.choosing()
	if c == nil || hasBias {
		return false
	}
	c.products++
	return c.products%2 == 1
}

// choosing is the layer that runs, where it chooses what it keeps; nil elsewhere.
func (t *Tape) choosing() *selected {
	switch {
	case !t.Recipe.SelectiveOps:
		return nil
	case t.transplant:
		return &t.layers[t.rebuilds].selected
	case t.layer != None:
		return &t.layers[t.layer].selected
	}
	return nil
}

// keep keeps results that the layer will not compute again.
// Source: torch/utils/checkpoint.py (_CachingTorchDispatchMode), torch 2.9.
func (t *Tape) keep(results ...T) {
	if t.transplant {
		return
	}
	c := t.choosing()
	for _, x := range results {
		c.kept = append(c.kept, t.Hold(x))
	}
}

// takeBack is the next result that the layer kept, while it runs again.
// Source: torch/utils/checkpoint.py (_CachedTorchDispatchMode), torch 2.9.
func (t *Tape) takeBack() T {
	c := t.choosing()
	x := c.kept[0]
	c.kept = c.kept[1:]
	return x
}

// dropSelected lets go of what layer c has kept and not taken back: it stops before its last operations.
func (t *Tape) dropSelected(c *checkpointed) {
	t.Drop(c.selected.kept...)
	c.selected.kept = nil
}
