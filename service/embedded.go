package service

import (
	"encoding/json"
	"fmt"

	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service/catalog"
)

// EmbeddedCatalog is the built-in catalog: what a new database holds, without
// one. GPUs and models are read at the first look-up of each, so that a command
// which needs neither does not wait for them.
func EmbeddedCatalog() *catalog.Catalog {
	return catalog.New(migrations.CatalogRevision, catalog.Loader{
		GPUs:   func() ([]catalog.GPU, error) { return decode[catalog.GPU](migrations.GPUs) },
		Models: func() ([]catalog.Model, error) { return decode[catalog.Model](migrations.Models) },
	})
}

func decode[E any](document []byte) ([]E, error) {
	var entries []E
	if err := json.Unmarshal(document, &entries); err != nil {
		return nil, fmt.Errorf("decode the embedded catalog: %w", err)
	}
	return entries, nil
}
