package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service/catalog"
)

// modelRow is what is read here of an entry of data/models.json.
type modelRow struct {
	catalog.Model
	ShortNames []shortName `json:"short_names"`
}

// deriveModels keeps each entry of data/models.json as it is: what the estimator
// learns to read of it later is then already in every database.
func deriveModels(data string) ([]migrations.Entry, error) {
	var documents []json.RawMessage
	if err := read(filepath.Join(data, "models.json"), &documents); err != nil {
		return nil, err
	}
	models := make([]modelRow, len(documents))
	names := newNames(catalog.ModelKey)
	for i, document := range documents {
		if err := json.Unmarshal(document, &models[i]); err != nil {
			return nil, fmt.Errorf("entry %d of models.json: %w", i, err)
		}
		if err := names.reserve(models[i].ID); err != nil {
			return nil, err
		}
	}
	for i := range models {
		for _, s := range models[i].ShortNames {
			if err := names.add(models[i].ID, s.Name, s.Note); err != nil {
				return nil, err
			}
		}
	}
	rows := make([]migrations.Entry, len(documents))
	for i, document := range documents {
		for _, alias := range models[i].Aliases {
			names.offer(models[i].ID, alias)
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, document); err != nil {
			return nil, fmt.Errorf("compact %s: %w", models[i].ID, err)
		}
		var err error
		if rows[i], err = newRow(models[i].ID, compact.Bytes(), names); err != nil {
			return nil, err
		}
	}
	return rows, nil
}
