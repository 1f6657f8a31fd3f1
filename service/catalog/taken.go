package catalog

import "slices"

// GPUNamed is the id of the card other than except that a name leads to, whatever spelling it has: an id, an alias, the
// driver's name, a label, a size, a slice, an instance type. It is "" where the name is free.
func (c *Contents) GPUNamed(name, except string) string {
	others := slices.DeleteFunc(slices.Clone(c.GPUs), func(g GPU) bool { return g.ID == except })
	if g, err := Of(&Contents{GPUs: others, Models: c.Models}).GPU(name); err == nil {
		return g.ID
	}
	return ""
}

// ModelNamed is GPUNamed for models: an id, an alias, or the part of an id behind its slash. Models that are known to
// be of the shape of another by their name alone, such as those that were tuned further, are free to be entered.
func (c *Contents) ModelNamed(name, except string) string {
	others := slices.DeleteFunc(slices.Clone(c.Models), func(m Model) bool { return m.ID == except })
	if i, taken := indexModels(others).byKey[ModelKey(name)]; taken {
		return others[i].ID
	}
	return ""
}
