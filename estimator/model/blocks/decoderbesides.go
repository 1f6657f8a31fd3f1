package blocks

import (
	"slices"

	"github.com/vramplan/vramplan/estimator/model/arch"
	"github.com/vramplan/vramplan/estimator/step"
)

// besides is what each layer gets besides its input. What keywords of reentrant layers refer to lives as long as the
// graph does, so that it makes no difference which of them does; the others let go of what is theirs alone.
func (m *Decoder) besides(t *step.Tape, positions, tables []step.T) func(i int) step.Besides {
	full, sliding := false, false
	for i := range m.Layers {
		slides := m.A.Slides(int64(i))
		full, sliding = full || !slides, sliding || slides
	}
	if t.Recipe.Reentrant {
		all := step.Besides{Captured: m.captured(positions, tables, full, sliding)}
		return func(int) step.Besides { return all }
	}
	kinds := map[bool]step.Besides{}
	for _, slides := range [...]bool{false, true} {
		kinds[slides] = step.Besides{Captured: m.captured(positions, tables, !slides, slides)}
	}
	return func(i int) step.Besides { return kinds[m.A.Slides(int64(i))] }
}

// captured is what the keywords of layers refer to, of which some attend in full and some in a window.
func (m *Decoder) captured(positions, tables []step.T, full, sliding bool) []step.T {
	own := m.OwnTables || m.A.Software.Has(arch.KeepsFrequencies)
	switch {
	case len(tables) < 4: // one pair for all layers
	case own && !full:
		tables = tables[2:]
	case own && !sliding:
		tables = tables[:2]
	}
	if m.Unplaced {
		positions = nil
	}
	all := slices.Concat(positions, tables)
	if full && m.Full.Mask != nil {
		all = append(all, *m.Full.Mask)
	}
	if sliding && m.sliding.Mask != nil {
		all = append(all, *m.sliding.Mask)
	}
	return all
}
