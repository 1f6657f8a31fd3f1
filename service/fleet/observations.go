package fleet

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// Observed is what runs that were reported to the service took, by card.
type Observed struct {
	Card string `json:"card"`
	Runs int64  `json:"runs"`
	// Measured have a figure of the process on the card. Peaks and Cards are the sums of these figures, and of
	// what the cards have.
	Measured  int64 `json:"measured"`
	PeakBytes int64 `json:"peak_bytes"`
	CardBytes int64 `json:"card_bytes"`
	// Smaller would have had room on a smaller card.
	Smaller int64 `json:"smaller"`
	// OutOfMemory failed for the card's memory; Named of them were predicted not to fit. Denied ran, and were
	// predicted not to.
	OutOfMemory int64 `json:"out_of_memory"`
	Named       int64 `json:"named"`
	Denied      int64 `json:"denied_and_ran"`
}

// observation is what is read of one.
type observation struct {
	GPU       string          `json:"gpu"`
	Measured  jobdoc.Measured `json:"measured"`
	Predicted struct {
		Verdict estimator.Verdict `json:"verdict"`
	} `json:"predicted"`
	Quarantined string `json:"quarantined"`
}

// readObservations reads pages of GET /v1/observations, one behind the other, or an observation a line.
func (f *Fleet) readObservations(s *Source) error {
	in := &bounded{in: s.in}
	d := json.NewDecoder(in)
	for n := 1; ; n++ {
		in.next()
		var page struct {
			observation
			Observations []observation `json:"observations"`
		}
		err := d.Decode(&page)
		switch wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); {
		case errors.Is(err, io.EOF):
			return nil
		case ok:
			s.unreadable(fmt.Sprintf("document %d", n), "%s is no %s", wrong.Field, wrong.Type)
			continue
		case err != nil:
			s.unreadable(fmt.Sprintf("from document %d on", n), "%v", err)
			return nil
		case page.GPU != "":
			f.observe(s, &page.observation)
		}
		for i := range page.Observations {
			f.observe(s, &page.Observations[i])
		}
	}
}

func (f *Fleet) observe(s *Source, o *observation) {
	if o.Quarantined != "" || o.GPU == "" {
		s.Passed++
		return
	}
	s.Read++
	card := f.cards.named(o.GPU)
	of := f.observed[card.ID]
	if of == nil { // of cards of the catalog, so there are not many
		of = &Observed{Card: card.ID}
		f.observed[card.ID] = of
	}
	of.Runs++
	denied := o.Predicted.Verdict == estimator.DoesNotFit
	switch peak := o.Measured.DeviceBytes; {
	case o.Measured.OutOfMemory:
		of.OutOfMemory++
		if denied {
			of.Named++
		}
	case peak > 0 && peak <= maxBytes && card.UsableBytes > 0:
		of.Measured++
		of.PeakBytes += peak
		of.CardBytes += card.UsableBytes
		if f.cards.smallest(&card, 1, f.o.needed(peak)) != "" {
			of.Smaller++
		}
		fallthrough
	default:
		if denied {
			of.Denied++
		}
	}
}

func (f *Fleet) allObserved() []Observed {
	var list []Observed
	for _, o := range slices.SortedFunc(maps.Values(f.observed), func(a, b *Observed) int {
		return cmp.Compare(a.Card, b.Card)
	}) {
		list = append(list, *o)
	}
	return list
}
