package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"

	"github.com/vramplan/vramplan/service/catalog"
)

// deriveModels keeps each entry of data/models.json as it is: what the estimator
// learns to read of it later is then already in every database.
func deriveModels(data string) ([]row, error) {
	var documents []json.RawMessage
	var short []shortName
	if err := read(filepath.Join(data, "models.json"), &documents); err != nil {
		return nil, err
	}
	if err := read(filepath.Join(data, "model_short_names.json"), &short); err != nil {
		return nil, err
	}
	models := make([]catalog.Model, len(documents))
	names := newNames(catalog.ModelKey)
	for i, document := range documents {
		if err := json.Unmarshal(document, &models[i]); err != nil {
			return nil, fmt.Errorf("entry %d of models.json: %w", i, err)
		}
		if err := names.reserve(models[i].ID); err != nil {
			return nil, err
		}
	}
	for _, s := range short {
		if err := names.add(s.ID, s.Name, s.Note); err != nil {
			return nil, err
		}
	}
	rows := make([]row, len(documents))
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
