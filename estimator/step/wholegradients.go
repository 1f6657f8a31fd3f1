package step

// keepWhole makes storage s the whole gradient of parameter p.
func (t *Tape) keepWhole(p, s int32) {
	if t.shards.Flat { // which has them copied into its own anyway
		t.storages[s].part = false
		t.prog.Slots[t.storages[s].slot].Component = Gradients
		t.shards.grads[p] = s
		return
	}
	bytes := t.params[p].numel * t.params[p].dtype.Size()
	held := t.shards.Unsynced && t.shards.Reduced == t.shards.whole && !t.shards.Flat
	if held && t.storages[s].refs > 1 {
		t.shards.grads[p] = t.holdWhole(bytes)
		t.release(s)
		return
	}
	if st := &t.storages[s]; st.part {
		st.part = false
	} else if st.refs > 1 {
		fresh := t.alloc(bytes, Gradients, LabelGradient)
		t.release(s)
		s = fresh
	}
	i := t.storages[s].slot
	if i != none {
		t.prog.Slots[i].Component = Gradients
	}
	if held {
		t.storages[s].refs = 0
		t.prog.Events = append(t.prog.Events, Event{i, Hold})
	}
	t.shards.grads[p] = s
}

func (t *Tape) dropWhole(p int32) {
	f := t.shards
	if s := f.grads[p]; f.Unsynced {
		t.prog.Events = append(t.prog.Events, Event{t.storages[s].slot, FreeHeld})
	} else {
		t.release(s)
	}
	f.grads[p] = none
}

// lastly lets the events from the given one on happen in the last micro-step only.
func (t *Tape) lastly(from int) {
	for i := from; i < len(t.prog.Events); i++ {
		e := &t.prog.Events[i]
		switch e.Op {
		case Alloc:
			e.Op = AllocLast
		case AllocAside:
			e.Op = AllocAsideLast
		case Free:
			e.Op = FreeLast
		case Keep:
			e.Op = KeepLast
		}
	}
}

// widenWhole brings the whole gradients of a group to the type that they are summed in, in which they are accumulated.
// Source: _fsdp_param.py (to_accumulated_grad_if_needed, accumulate_unsharded_grad_if_needed).
func (t *Tape) widenWhole(g *shardGroup) {
	f := t.shards
	for _, p := range g.params {
		if f.grads[p] == none {
			continue
		}
		wide := t.holdWhole(t.params[p].numel * f.Reduced.Size())
		t.release(f.grads[p])
		f.grads[p] = wide
	}
}

// holdWhole allocates a whole gradient that is accumulated, in the first micro-step.
func (t *Tape) holdWhole(bytes int64) int32 {
	t.storages = append(t.storages, storage{slot: t.slot(AllocHeld, bytes, Gradients, LabelGradient)})
	return int32(len(t.storages) - 1)
}
