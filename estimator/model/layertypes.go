package model

import "slices"

// The values of layer_types that are described. Source: transformers/configuration_utils.py, 4.57.
const (
	fullAttention    = "full_attention"
	slidingAttention = "sliding_attention"
)

// layerTypes reads which layers have the window: layer_types or, where the file has none, every layer that slides
// says so of.
func (c *config) layerTypes(a *Architecture, slides func(i int64) bool) {
	sliding := make([]bool, a.Layers)
	v, given := c.value("layer_types")
	if !given {
		for i := range sliding {
			sliding[i] = slides(int64(i))
		}
		a.Sliding = shortestPattern(sliding)
		return
	}
	list, ok := v.([]any)
	if !ok {
		c.errs.Add(c.pointer+"/layer_types", "wrong_type", "layer_types is a list, not %s", describe(v))
		return
	}
	if int64(len(list)) != a.Layers {
		c.errs.Add(c.pointer+"/layer_types", "conflict", "layer_types names %d layers, num_hidden_layers %d", len(list),
			a.Layers)
		return
	}
	for i, name := range list {
		if name != fullAttention && name != slidingAttention {
			c.errs.Add(c.pointer+"/layer_types", "unsupported", "a layer of type %s is not modelled; %s and %s are",
				describe(name), fullAttention, slidingAttention)
			return
		}
		sliding[i] = name == slidingAttention
	}
	a.Sliding = shortestPattern(sliding)
}

// windows reads use_sliding_window and, where it is on, which layers have the window.
func (c *config) windows(a *Architecture, slides func(i int64) bool) {
	if c.boolean("use_sliding_window") {
		a.SlidingWindow = c.optional("sliding_window", maxRows)
	}
	windowed := a.SlidingWindow > 0
	c.layerTypes(a, func(i int64) bool { return windowed && slides(i) })
	c.settleWindows(a)
}

// settleWindows forgets a window that no layer has.
func (c *config) settleWindows(a *Architecture) {
	windowed := a.SlidingWindow > 0
	switch {
	case !slices.Contains(a.Sliding, true):
		a.Sliding, a.SlidingWindow = nil, 0
	case !windowed:
		c.errs.Add(c.pointer+"/sliding_window", "required", "layer_types has layers with a window, and the "+
			"file says of none how wide it is")
	}
}

// afterFirst says that all but the first max_window_layers layers slide.
func (c *config) afterFirst() func(int64) bool {
	first := int64(0)
	if v, _ := c.value("max_window_layers"); v != 0.0 {
		first = c.integer("max_window_layers", maxRows)
	}
	return func(i int64) bool { return i >= first }
}

// shortestPattern is the shortest beginning of a list that, repeated, makes all of it.
func shortestPattern(list []bool) []bool {
	for n := 1; n < len(list); n++ {
		if slices.Equal(list[n:], list[:len(list)-n]) {
			return list[:n]
		}
	}
	return list
}

// everyNth says that of every n layers all but the last slide.
func everyNth(n int64) func(int64) bool { return func(i int64) bool { return (i+1)%n != 0 } }
