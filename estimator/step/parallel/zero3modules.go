package parallel

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/step"
)

// use is a parameter that an operation of a forward has used.
type use struct {
	p int32
	// node is that which saves the gathered parameter, counted from 1; 0 for none.
	node int32
}

// Operated is where a module has used all of its parameters: what comes next is looked at once for each module.
func (h *zero3) Operated() {
	if c := h.now; !h.generates && !h.within && c.mode == recording && len(c.ends) > 0 {
		c.ends[len(c.ends)-1] = true
	}
}

// dealt says that p is dealt out, and no copy of it stays.
func (h *zero3) dealt(p int32) bool { return h.now.of(p).Numel >= h.now.persistence }

// Within is one module, whatever its operations are. What comes next is looked at when it begins, with the first of its
// parameters that has to be brought.
func (h *zero3) Within(f func()) {
	if h.generates {
		f()
		return
	}
	h.leave()
	c := h.now
	h.within, h.began = true, len(c.order)
	f()
	h.within = false
	if c.mode != recording || h.began >= len(c.order) {
		return
	}
	of := slices.IndexFunc(c.order[h.began:], h.dealt)
	c.ends[h.began+max(of, 0)] = true
}

// Bare looks ahead for modules without parameters, when the one before has returned.
func (h *zero3) Bare(n int) {
	if !h.generates {
		h.leave()
	}
	for range n {
		h.lookAhead()
	}
}

// ahead starts to put together what comes next. Source: partitioned_param_coordinator.py (_fetch_sub_module_impl).
func (h *zero3) ahead() {
	c := h.now
	c.fetched = max(c.fetched, c.at)
	most := min(c.prefetch, h.Live-c.live)
	var coming []int32
	for ahead := int64(0); c.fetched < len(c.order) && ahead < most; c.fetched++ {
		if q := c.order[c.fetched]; h.away(c, q) && !slices.Contains(coming, q) {
			coming = append(coming, q)
			ahead += c.of(q).Numel
		}
	}
	h.gather(c, coming...)
}

// outerModules are those around the layers without parameters: the model with its head, and the one within.
const outerModules = 2

// lookAhead is what a module without parameters does.
func (h *zero3) lookAhead() {
	if h.now.mode == complete && !h.generates {
		h.ahead()
	}
}

// BeforeUnit is a layer, which has no parameters of its own.
func (h *zero3) BeforeUnit(unit int, x step.T, graph bool) step.T {
	h.Bare(1)
	return h.NoHooks.BeforeUnit(unit, x, graph)
}
