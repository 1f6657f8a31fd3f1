package service

import (
	"context"
	"errors"
	"strings"

	"github.com/vramplan/vramplan/service/catalog"
)

// GPUFilter selects cards; its zero value selects all.
type GPUFilter struct {
	// Vendor is compared without case.
	Vendor string
	// MinUsableBytes leaves out smaller cards and those whose usable memory is unknown.
	MinUsableBytes int64
	// Query is part of a card's id, name or alias.
	Query string
}

// List is entries of the catalog, and the revision that they are from.
type List[E any] struct {
	Catalog string
	Entries []E
}

// GPUs lists the cards of the catalog. The entries are for reading only.
func (s *Service) GPUs(ctx context.Context, f GPUFilter) (List[catalog.GPU], error) {
	if err := ctx.Err(); err != nil {
		return List[catalog.GPU]{}, err
	}
	c := s.current()
	all, err := c.GPUs()
	if err != nil {
		return List[catalog.GPU]{}, unreadable(err)
	}
	if f == (GPUFilter{}) {
		return List[catalog.GPU]{c.Revision(), all}, nil
	}
	query := catalog.GPUKey(f.Query)
	selected := make([]catalog.GPU, 0, len(all))
	for i := range all {
		g := &all[i]
		if f.Vendor != "" && !strings.EqualFold(f.Vendor, g.Vendor) || g.UsableBytes < f.MinUsableBytes {
			continue
		}
		if containsKey(catalog.GPUKey, query, g.Aliases, g.ID, g.Name) {
			selected = append(selected, *g)
		}
	}
	return List[catalog.GPU]{c.Revision(), selected}, nil
}

// GPU finds one card by any of its names. The error is an *Error with CodeNotFound where no
// card has the name.
func (s *Service) GPU(ctx context.Context, name string) (*catalog.GPU, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	g, err := s.current().GPU(name)
	return g, lookupError(err)
}

// containsKey reports whether one of the names contains query; both are compared as keys.
func containsKey(key func(string) string, query string, aliases []string, names ...string) bool {
	if query == "" {
		return true
	}
	for _, list := range [][]string{names, aliases} {
		for _, name := range list {
			if strings.Contains(key(name), query) {
				return true
			}
		}
	}
	return false
}

// lookupError is err as users of the service know it.
func lookupError(err error) error {
	if err == nil {
		return nil
	}
	if unknown, ok := errors.AsType[*catalog.UnknownError](err); ok {
		return &Error{Code: CodeNotFound, Message: unknown.Error(), Suggestions: unknown.Nearest}
	}
	return unreadable(err)
}

// GPUVariants lists the cards that a scheduler may mean by a name; see
// [catalog.Catalog.GPUVariants].
func (s *Service) GPUVariants(name string) ([]string, error) {
	variants, err := s.current().GPUVariants(name)
	if err != nil {
		return nil, unreadable(err)
	}
	return variants, nil
}
