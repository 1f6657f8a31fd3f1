package submission

import (
	"regexp"
	"strings"

	"github.com/vramplan/vramplan/service/readers/slurm"
)

// Site is what an operator says of a cluster: which cards are behind the names in
// use there. Each name stands for one card of the catalog or for several that a job may get.
type Site struct {
	// Partitions tells the cards of a partition.
	Partitions map[string][]string `json:"partitions,omitempty" validate:"omitempty,max=4096"`
	// GPUs tells the cards behind a GRES type or a node feature.
	GPUs map[string][]string `json:"gpus,omitempty" validate:"omitempty,max=4096"`
	// Prices tells what an hour of a card costs, in one unit, by which fleet ranks what was asked for and not used.
	Prices map[string]float64 `json:"prices,omitempty" validate:"omitempty,max=4096,dive,gte=0.000001,lte=1000000000"`
}

// Names is the part of a catalog that knows cards by their names.
type Names interface {
	GPUVariants(name string) ([]string, error)
	Has(name string) bool
}

// CardsOf gives the cards of a catalog that the scheduler may give for its options; none where they do not tell, or
// name what the catalog does not have.
func (s *Site) CardsOf(names Names) func(slurm.Options) []string {
	return func(o slurm.Options) []string {
		var cards []string
		for _, name := range s.Cards(o, names.Has) {
			variants, err := names.GPUVariants(name)
			if err != nil || !names.Has(name) {
				return nil
			}
			cards = append(cards, variants...)
		}
		return cards
	}
}

// Cards are the names of the cards that the scheduler may give, most telling option first: the types in
// --gres and --gpus, a card in --constraint, the partition's. known says whether a word is the name of a
// card. It returns nil where none of them tells, and where the options ask for no card.
func (s *Site) Cards(o slurm.Options, known func(string) bool) []string {
	if o.NoGPU() {
		return nil
	}
	if types := o.Types(); len(types) > 0 {
		return s.cards(types)
	}
	if features := s.features(o.Constraint, known); len(features) > 0 {
		return s.cards(features)
	}
	var cards []string
	for _, p := range strings.Split(o.Partition, ",") { // the job may start in any of them
		of, told := s.Partitions[p]
		if !told {
			return nil
		}
		cards = append(cards, of...)
	}
	return cards
}

// features are the cards that a constraint asks for. Of alternatives all have to be cards: a node with another
// feature may have any.
func (s *Site) features(constraint string, known func(string) bool) []string {
	var features []string
	for group := range strings.SplitSeq(constraint, "&") {
		var cards []string
		for alternative := range strings.SplitSeq(group, "|") {
			card := ""
			for _, word := range featureWords.FindAllString(alternative, maxFeatures) {
				if _, mapped := s.GPUs[word]; mapped || known(word) {
					card = word
				}
			}
			if card == "" {
				cards = nil
				break
			}
			cards = append(cards, card)
		}
		features = append(features, cards...)
	}
	return features
}

// featureWords are the names in an expression such as "[a100*2|v100]&nvlink".
var featureWords = regexp.MustCompile(`[A-Za-z][A-Za-z0-9_.:-]*`)

const maxFeatures = 64

func (s *Site) cards(names []string) []string {
	var cards []string
	for _, name := range names {
		if mapped, ok := s.GPUs[name]; ok {
			cards = append(cards, mapped...)
		} else {
			cards = append(cards, sliceName(name))
		}
	}
	return cards
}

// migSuffix is a slice of a card as Slurm's types name it: a100_1g.5gb.
var migSuffix = regexp.MustCompile(`^(.+?)[_-]([1-7]g\.[0-9]+gb)$`)

// sliceName puts the name of a slice into the catalog's form.
func sliceName(name string) string {
	m := migSuffix.FindStringSubmatch(name)
	if m == nil || strings.HasSuffix(strings.ToLower(m[1]), "mig") {
		return name
	}
	return m[1] + "-mig-" + m[2]
}
