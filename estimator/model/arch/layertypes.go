package arch

import "slices"

// The values of layer_types that are described. Source: transformers/configuration_utils.py, 4.57.
const (
	FullAttention    = "full_attention"
	SlidingAttention = "sliding_attention"
)

// LayerTypes reads which layers have the window: layer_types or, where the file has none, every layer that slides
// says so of.
func (c *Config) LayerTypes(a Architecture, slides func(i int64) bool) Architecture {
	sliding := make([]bool, a.Layers)
	v, given := c.Value("layer_types")
	if !given {
		for i := range sliding {
			sliding[i] = slides(int64(i))
		}
		a.Sliding = ShortestPattern(sliding)
		return a
	}
	list, ok := v.([]any)
	if !ok {
		c.Errs.Add(c.Pointer+"/layer_types", "wrong_type", "layer_types is a list, not %s", Describe(v))
		return a
	}
	if int64(len(list)) != a.Layers {
		c.Errs.Add(c.Pointer+"/layer_types", "conflict", "layer_types names %d layers, num_hidden_layers %d", len(list),
			a.Layers)
		return a
	}
	for i, name := range list {
		if name != FullAttention && name != SlidingAttention {
			c.Errs.Add(c.Pointer+"/layer_types", "unsupported", "a layer of type %s is not modelled; %s and %s are",
				Describe(name), FullAttention, SlidingAttention)
			return a
		}
		sliding[i] = name == SlidingAttention
	}
	a.Sliding = ShortestPattern(sliding)
	return a
}

// Windows reads use_sliding_window and, where it is on, which layers have the window.
func (c *Config) Windows(a Architecture, slides func(i int64) bool) Architecture {
	if c.Boolean("use_sliding_window") {
		a.SlidingWindow = c.Optional("sliding_window", MaxRows)
	}
	windowed := a.SlidingWindow > 0
	a = c.LayerTypes(a, func(i int64) bool { return windowed && slides(i) })
	a = c.SettleWindows(a)
	return a
}

// SettleWindows forgets a window that no layer has.
func (c *Config) SettleWindows(a Architecture) Architecture {
	windowed := a.SlidingWindow > 0
	switch {
	case !slices.Contains(a.Sliding, true):
		a.Sliding, a.SlidingWindow = nil, 0
	case !windowed:
		c.Errs.Add(c.Pointer+"/sliding_window", "required", "layer_types has layers with a window, and the "+
			"file says of none how wide it is")
	}
	return a
}

// AfterFirst says that all but the first max_window_layers layers slide.
func (c *Config) AfterFirst() func(int64) bool {
	first := int64(0)
	if v, _ := c.Value("max_window_layers"); v != 0.0 {
		first = c.Integer("max_window_layers", MaxRows)
	}
	return func(i int64) bool { return i >= first }
}

// ShortestPattern is the shortest beginning of a list that, repeated, makes all of it.
func ShortestPattern(list []bool) []bool {
	for n := 1; n < len(list); n++ {
		if slices.Equal(list[n:], list[:len(list)-n]) {
			return list[:n]
		}
	}
	return list
}

// EveryNth says that of every n layers all but the last slide.
func EveryNth(n int64) func(int64) bool { return func(i int64) bool { return (i+1)%n != 0 } }
