package fleet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/readers/slurm"
)

// untoldCard stands where nobody says which card a job had, or it had several kinds.
const untoldCard = "(not told)"

// maxNames is how many names of cards are remembered.
const maxNames = 4096

// cards knows what names of cards mean, and which are smaller than others.
type cards struct {
	o       *Options
	known   map[string]estimator.GPU   // by a type and a partition, or by the driver's name
	smaller map[string][]estimator.GPU // of a card, the smallest first
	all     []estimator.GPU            // that may stand in for others
	doubted map[string][]string        // names that mean several cards
	prices  map[string]float64         // of an hour, by the ids of cards
}

func newCards(o *Options) (*cards, error) {
	c := &cards{o: o, known: map[string]estimator.GPU{}, smaller: map[string][]estimator.GPU{},
		doubted: map[string][]string{}, prices: map[string]float64{}}
	for _, given := range []map[string]float64{o.Site.Prices, o.Prices} {
		for _, name := range slices.Sorted(maps.Keys(given)) {
			variants, err := o.Catalog.GPUVariants(name)
			if err != nil {
				return nil, fmt.Errorf("the price of %.100s: %w", name, err)
			}
			for _, variant := range variants {
				g, err := o.Catalog.GPU(variant)
				if err != nil {
					return nil, fmt.Errorf("the price of %.100s: %w", name, err)
				}
				c.prices[g.ID] = given[name]
			}
		}
	}
	names := o.Among
	if len(names) == 0 {
		for _, list := range o.Site.Partitions {
			names = append(names, list...)
		}
		for _, list := range o.Site.GPUs {
			names = append(names, list...)
		}
	}
	if len(names) == 0 {
		all, err := o.Catalog.EstimatorGPUs()
		if err != nil {
			return nil, err
		}
		c.all = slices.Clone(all)
	}
	for _, name := range names {
		if variants, err := o.Catalog.GPUVariants(name); err == nil {
			for _, variant := range variants {
				g, err := o.Catalog.GPU(variant)
				if err != nil {
					return nil, err
				}
				c.all = append(c.all, g.ForEstimator())
			}
		}
	}
	if len(o.Among) == 0 {
		slices, err := o.Catalog.EstimatorSlices()
		if err != nil {
			return nil, err
		}
		c.all = append(c.all, slices...)
	}
	slices.SortFunc(c.all, func(a, b estimator.GPU) int {
		return cmp.Or(cmp.Compare(a.UsableBytes, b.UsableBytes), cmp.Compare(a.ID, b.ID))
	})
	c.all = slices.CompactFunc(c.all, func(a, b estimator.GPU) bool { return a.ID == b.ID })
	return c, nil
}

// named is the card of the driver's name.
func (c *cards) named(name string) estimator.GPU {
	return c.remember("\x00"+name, func() estimator.GPU {
		if g, err := c.o.Catalog.GPU(name); err == nil {
			return g.ForEstimator()
		}
		return estimator.GPU{ID: untoldCard}
	})
}

// given is the card that Slurm's words tell: the type of the GPUs, or the partition. Of a name for several cards
// it is the smallest, of which the least was asked and left over.
func (c *cards) given(types []string, partition string) estimator.GPU {
	if len(types) > 1 {
		return estimator.GPU{ID: untoldCard}
	}
	words := slurm.Options{GRES: "gpu", Partition: partition}
	name := partition
	if len(types) == 1 {
		words.GRES, name = "gpu:"+types[0], types[0]
	}
	return c.remember(words.GRES+"\x00"+partition, func() estimator.GPU {
		least := estimator.GPU{ID: untoldCard}
		variants := c.o.Site.CardsOf(c.o.Catalog)(words)
		for _, variant := range variants {
			g, err := c.o.Catalog.GPU(variant)
			if err != nil {
				return estimator.GPU{ID: untoldCard}
			}
			if least.ID == untoldCard || g.UsableBytes < least.UsableBytes {
				least = g.ForEstimator()
			}
		}
		if len(variants) > 1 && len(c.doubted) < maxExamples {
			c.doubted[name] = variants
		}
		return least
	})
}

func (c *cards) remember(key string, find func() estimator.GPU) estimator.GPU {
	g, ok := c.known[key]
	if !ok {
		if g = find(); len(c.known) < maxNames {
			c.known[strings.Clone(key)] = g
		}
	}
	return g
}

// smallest is the smallest card below a job's own that has room for so many bytes; empty where there is none. The
// rule: cards with at most three quarters of its memory, of the same vendor, of a line that may stand in its place
// and, up to Ampere, of no older generation, which has not all types (bf16 from 8.0 on); slices of MIG only for
// jobs on one GPU, since no two work together (NVIDIA's Multi-Instance GPU User Guide, "Application
// Considerations": no peer-to-peer between GPU instances), and of its own card only unless the operator names
// others.
func (c *cards) smallest(own *estimator.GPU, gpus, bytes int64) string {
	key := own.ID + "\x00" + strconv.FormatBool(gpus > 1)
	list, ok := c.smaller[key]
	if !ok {
		for _, g := range c.all {
			below := float64(g.UsableBytes) <= smallerShare*float64(own.UsableBytes)
			if g.UsableBytes > 0 && below && c.standsIn(own, &g, gpus) {
				list = append(list, g)
			}
		}
		c.smaller[key] = list // there are as many as there are cards
	}
	i, _ := slices.BinarySearchFunc(list, bytes, func(g estimator.GPU, bytes int64) int {
		return cmp.Compare(g.UsableBytes, bytes)
	})
	if i == len(list) {
		return ""
	}
	if price := c.prices[own.ID]; price > 0 {
		return c.cheapest(list[i:], price)
	}
	return list[i].ID
}

// cheapest is the first, or with prices the one of the lowest that is below a card's own; empty where all are dearer.
func (c *cards) cheapest(list []estimator.GPU, own float64) string {
	best := ""
	for i := range list {
		switch price := c.prices[list[i].ID]; {
		case price <= 0 && best == "":
			best = list[i].ID // of which nobody says what it costs
		case price > 0 && price < own && (c.prices[best] <= 0 || price < c.prices[best]):
			best = list[i].ID
		}
	}
	return best
}

const (
	smallerShare = 0.75
	ampere       = 80 // its compute capability
)

func (c *cards) standsIn(own, other *estimator.GPU, gpus int64) bool {
	_, slice, isSlice := strings.Cut(other.ID, migMark)
	parent, _, _ := strings.Cut(own.ID, migMark)
	switch {
	case gpus > 1 && other.Single:
		return false
	case other.ComputeCapability < min(own.ComputeCapability, ampere):
		return false
	case isSlice && len(c.o.Among) == 0:
		return other.ID == parent+migMark+slice
	}
	return own.Vendor == other.Vendor && planner.InPlaceOf(own.Line, other.Line)
}

// migMark stands between a card and its slice in the catalog's ids.
const migMark = "-mig-"
