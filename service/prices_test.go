package service

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator"
)

// TestPrices: a price goes to the card that it names, however it is written, and brings no card in twice.
func TestPrices(t *testing.T) {
	price := func(name string, n float64) estimator.GPURef { return estimator.GPURef{Name: name, PricePerHour: &n} }
	free := int64(8 << 30)
	for _, c := range []struct {
		name  string
		refs  []estimator.GPURef
		want  map[string]float64 // the cards with a price
		cards int                // 0: all of the catalog
		wrong string
	}{
		{"its own", []estimator.GPURef{price("rtx-4090", 0.44), {Name: "l4"}}, map[string]float64{"rtx-4090": 0.44}, 2, ""},
		{"named again", []estimator.GPURef{{Name: "rtx-4090"}, price("NVIDIA GeForce RTX 4090", 0.44)},
			map[string]float64{"rtx-4090": 0.44}, 1, ""},
		{"one that nobody named", []estimator.GPURef{{Name: "rtx-4090"}, price("l4", 0.5)}, map[string]float64{"l4": 0.5}, 2, ""},
		{"this machine's", []estimator.GPURef{{Name: "NVIDIA GeForce RTX 4090", MemoryBytes: 24564 << 20, FreeBytes: &free},
			price("rtx-4090", 0.44)}, map[string]float64{"rtx-4090": 0.44}, 1, ""},
		{"of a given memory", []estimator.GPURef{{Name: "rtx-4090", MemoryBytes: 48 << 30}, price("4090", 1)},
			map[string]float64{"rtx-4090": 1}, 1, ""},
		{"of nobody's catalog", []estimator.GPURef{{Name: "Mine X", MemoryBytes: 48 << 30}, price("mine-x", 1)},
			map[string]float64{"Mine X": 1}, 1, ""},
		{"all cards, then a price", []estimator.GPURef{{Name: "*"}, price("l4", 0.5)}, map[string]float64{"l4": 0.5}, 0, ""},
		{"a price, then all cards", []estimator.GPURef{price("l4", 0.5), {Name: "*"}}, map[string]float64{"l4": 0.5}, 0, ""},
		{"of all cards", []estimator.GPURef{price("*", 0.5)}, nil, 0, "a price is of one card"},
		{"two prices", []estimator.GPURef{price("l4", 0.5), price("NVIDIA L4", 0.6)}, nil, 0, "has a price of 0.5 already"},
		{"an unknown card", []estimator.GPURef{price("l44", 0.5)}, nil, 0, "l4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := resolve(EmbeddedCatalog(), estimator.Job{Model: estimator.Model{Preset: "gpt2"}, GPUs: c.refs})
			if err != nil {
				t.Fatal(err)
			}
			if c.wrong != "" {
				if err := r.unknown.Err(); err == nil || !strings.Contains(err.Error(), c.wrong) {
					t.Errorf("error %v, want %q in it", err, c.wrong)
				}
				return
			}
			if err := r.unknown.Err(); err != nil {
				t.Fatal(err)
			}
			got, ids := map[string]float64{}, map[string]bool{}
			for _, g := range r.input.GPUs {
				if g.PricePerHour > 0 {
					got[g.ID] = g.PricePerHour
				}
				if ids[g.ID] {
					t.Errorf("%s is there twice", g.ID)
				}
				ids[g.ID] = true
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("prices (-want +got):\n%s", diff)
			}
			all, err := EmbeddedCatalog().EstimatorGPUs()
			if want := c.cards; err != nil || want == 0 && len(ids) != len(all) || want > 0 && len(ids) != want {
				t.Errorf("%d cards", len(ids))
			}
		})
	}
	a, b := pricedJob(t, 0.5), pricedJob(t, 0.6)
	if a.digest() == b.digest() {
		t.Error("two prices share an answer")
	}
}

func pricedJob(t *testing.T, n float64) *resolved {
	t.Helper()
	r, err := resolve(EmbeddedCatalog(), estimator.Job{Model: estimator.Model{Preset: "gpt2"},
		GPUs: []estimator.GPURef{{Name: "l4", PricePerHour: &n}}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
