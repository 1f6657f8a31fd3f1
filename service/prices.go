package service

import (
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/catalog"
)

// priceAgain gives the price of a card that is named with nothing but one to those of the job that it names, and
// reports whether there are any. Cards are compared by what they are, since nvidia-smi and people write them otherwise.
func (r *resolved) priceAgain(ref *estimator.GPURef, pointer string) bool {
	if ref.PricePerHour == nil || ref.Name == "" || ref.MemoryBytes > 0 || ref.FreeBytes != nil {
		return false
	}
	key := catalog.GPUKey(ref.Name)
	known, err := r.catalog.GPU(ref.Name)
	found := false
	for i := range r.input.GPUs {
		g := &r.input.GPUs[i]
		if catalog.GPUKey(g.ID) != key && (err != nil || g.ID != known.ID && g.Name != known.Name) {
			continue
		}
		found = true
		if g.PricePerHour > 0 && g.PricePerHour != *ref.PricePerHour {
			r.unknown.Add(pointer+"/price_per_hour", "conflict", "%v was given for %s, which has a price of %v already; a card "+
				"has one", *ref.PricePerHour, g.ID, g.PricePerHour)
			return true
		}
		g.PricePerHour = *ref.PricePerHour
	}
	return found
}

// addCatalog adds every card of the catalog but those that were named with nothing but a price before.
func (r *resolved) addCatalog(cards []estimator.GPU) {
	named := slices.Clone(r.input.GPUs)
	for i := range cards {
		if !slices.ContainsFunc(named, func(g estimator.GPU) bool {
			return g.ID == cards[i].ID && g.PricePerHour > 0 && g.HeldBytes == 0
		}) {
			r.input.GPUs = append(r.input.GPUs, cards[i])
		}
	}
}
