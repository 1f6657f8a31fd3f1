package service

import (
	"context"
	"strings"

	"github.com/vramplan/vramplan/service/catalog"
)

// ModelFilter selects models; its zero value selects all.
type ModelFilter struct {
	// Family is the architecture, such as "llama", compared without case.
	Family string
	// Kind is "decoder", "encoder", "encoder-decoder" and so on.
	Kind string
	// Query is part of a model's id or alias.
	Query string
}

// Models lists the models of the catalog. The entries are for reading only.
func (s *Service) Models(ctx context.Context, f ModelFilter) (List[catalog.Model], error) {
	if err := ctx.Err(); err != nil {
		return List[catalog.Model]{}, err
	}
	c := s.current()
	all, err := c.Models()
	if err != nil {
		return List[catalog.Model]{}, unreadable(err)
	}
	if f == (ModelFilter{}) {
		return List[catalog.Model]{c.Revision(), all}, nil
	}
	query := catalog.ModelKey(f.Query)
	selected := make([]catalog.Model, 0, len(all))
	for i := range all {
		m := &all[i]
		if f.Family != "" && !strings.EqualFold(f.Family, m.Family) || f.Kind != "" &&
			!strings.EqualFold(f.Kind, m.Kind) {
			continue
		}
		if containsKey(catalog.ModelKey, query, m.Aliases, m.ID) {
			selected = append(selected, *m)
		}
	}
	return List[catalog.Model]{c.Revision(), selected}, nil
}

// Model finds one model by any of its names. The error is an *Error with CodeNotFound where
// no model has the name.
func (s *Service) Model(ctx context.Context, name string) (*catalog.Model, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m, err := s.current().Model(name)
	return m, lookupError(err)
}
