package main

import (
	"encoding/json"
	"testing"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/estimator/model"
	"github.com/vramplan/vramplan/service/catalog"
)

// Every built-in model of a family that is described has a config.json or nanoGPT's numbers, and its dimensions are
// what these say.
func TestModelsAgreeWithTheirConfigs(t *testing.T) {
	rows, err := deriveModels("../data")
	if err != nil {
		t.Fatal(err)
	}
	bare := map[string]int{}
	for _, r := range rows {
		var m catalog.Model
		if err := json.Unmarshal(r.Document, &m); err != nil {
			t.Fatalf("%s: %v", r.ID, err)
		}
		if m.HFConfig == nil && m.NanoGPT == nil {
			bare[m.Family]++
			continue
		}
		before := m.Preset
		var wrong invalid.List
		model.Describe(&m.Preset, "", &wrong)
		if wrong.Err() != nil {
			t.Errorf("%s: %v", r.ID, wrong.Err())
		}
		if before.TiedEmbeddings != m.TiedEmbeddings || before.Kind != m.Kind {
			t.Errorf("%s: %s with tied embeddings %v, by its configuration %s, %v", r.ID, before.Kind,
				before.TiedEmbeddings, m.Kind, m.TiedEmbeddings)
		}
	}
	for family := range bare {
		if family != "wav2vec2" && family != "unet2d_condition" { // which are not replayed from an entry
			t.Errorf("%d models of %s say nothing but their dimensions", bare[family], family)
		}
	}
}
