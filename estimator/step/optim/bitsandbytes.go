package optim

import "github.com/vramplan/vramplan/estimator/step"

// What bitsandbytes quantises: tensors from 4,096 elements on, in blocks of 256, by tables of 256 float32 values. What
// it pages: moments from 100,000 elements on, in memory that the driver moves between GPU and CPU.
// Source: bitsandbytes/optim/optimizer.py (Optimizer1State, Optimizer2State, get_state_buffer, min_8bit_size), 0.4x to
// 0.5x.
const (
	quantisedFrom  = 4096
	quantisedBlock = 256
	quantisedTable = 256 * 4
	pagedFrom      = 100_000
)

// bitsandbytes are its optimizers: their kernels need nothing but the state, which may be in eight bits, or in pages.
func bitsandbytes(moments int, eight, paged bool) func(*Updater, []*step.Parameter) {
	return func(u *Updater, ps []*step.Parameter) {
		if u.First {
			u.blockStates(moments, eight, paged, ps)
		}
	}
}

// blockStates makes the states.
func (u *Updater) blockStates(moments int, eight, paged bool, ps []*step.Parameter) {
	tables := false
	for _, p := range ps {
		quantised := eight && p.Numel >= quantisedFrom
		bytes := 4 * p.Numel
		if quantised {
			bytes = p.Numel
		}
		for range moments {
			if !paged || p.Numel < pagedFrom {
				u.keep(bytes)
			}
		}
		if !quantised {
			continue
		}
		for range moments {
			u.keep(4 * step.CeilDiv(p.Numel, quantisedBlock))
		}
		if !tables { // one for each moment, signed or not, shared by all
			tables = true
			for range moments {
				u.keep(quantisedTable)
			}
		}
	}
}

// torchAO is torchao's AdamW with moments of eight or four bits: each has its codes, a float32 scale for every block
// and a table of its own. The update is compiled into kernels that need nothing besides.
// Source: torchao/optim/adam.py (_new_buffer), subclass_8bit.py and subclass_4bit.py (zeros), 0.18.
func torchAO(bits, block int64) func(*Updater, []*step.Parameter) {
	return func(u *Updater, ps []*step.Parameter) {
		for _, p := range ps {
			for range 2 {
				if p.Numel < quantisedFrom || p.Numel%block != 0 {
					u.keep(p.Bytes())
					continue
				}
				u.keep(p.Numel * bits / 8)
				u.keep(4 * (p.Numel / block))
				u.keep(4 << bits)
			}
		}
	}
}
