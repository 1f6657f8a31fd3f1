package step

// checkpointAttention runs attend, the core of attention, under non-reentrant checkpointing: what it keeps is made
// again from queries, keys and values in backward. It is Megatron-LM's selective recomputation, in torch's own terms.
// Source: megatron/core/transformer/attention.py (_checkpointed_attention_forward).
func (t *Tape) checkpointAttention(q, k, v T, mask *T, attend func(q, k, v T) T) T {
	y := t.nonReentrant(q, func(t *Tape, q T) T { return attend(q, k, v) })
	c := &t.layers[len(t.layers)-1]
	c.arguments = append(c.arguments, q, t.Hold(k), t.Hold(v))
	if mask != nil {
		c.arguments = append(c.arguments, t.Hold(*mask))
	}
	return y
}

// lastReleased lets go of the arguments of a checkpointed function when the last of what it has made again goes: the
// hooks of the saved tensors hold them, and a layer's input is among these tensors anyway. Source:
// torch/utils/checkpoint.py (_checkpoint_hook), torch 2.9.
func (t *Tape) lastReleased(n *node) {
	if n.layer == None || n.nSaved == 0 {
		return
	}
	c := &t.layers[n.layer]
	if c.arguments == nil {
		return
	}
	if c.saves -= int32(n.nSaved); c.saves > 0 {
		return
	}
	for _, x := range c.arguments {
		t.Drop(x)
	}
	c.arguments = nil
}
