package finish

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
)

// scheduledCards are those that the scheduler may give the command, where it was asked for one that is known.
func (r *closing) scheduledCards() {
	r.Out.Components = r.Components
	known := r.Files.Source.Cards
	if known == nil || r.Out.Has("/gpus") || len(r.Asked) == 0 {
		return
	}
	var cards []string
	for _, o := range r.Asked {
		of := known(o)
		switch types := o.Types(); {
		case o.NoGPU():
			r.Out.Settle("/gpus", "the script asks Slurm for no GPU; --gpu NAME says on which card it runs")
			return
		case len(of) == 0 && len(types) > 0:
			r.Out.Settle("/gpus", "Slurm is asked for %s, which is no card of the catalog; --gpu NAME says which it is, "+
				"and for a name that only a cluster knows the file of check --site", strings.Join(types, ", "))
			return
		case len(of) == 0:
			return
		}
		for _, card := range of {
			if !slices.Contains(cards, card) {
				cards = append(cards, card)
			}
		}
	}
	v := setting.Value{Any: cards, Origin: setting.Origin{Kind: setting.Derived,
		How: "what the script asks Slurm for"}}
	r.Out.Put("/gpus", v.Any, v)
}
