package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/catalog"
)

// fields are the keys of a row: those that have a value, those that are there and may be null, where nobody has
// published the figure, and those that may be missing.
type fields struct{ given, stated, optional []string }

var cardFields = fields{
	given: []string{"id", "name", "vendor", "aliases", "sources"},
	stated: []string{"architecture", "memory_nominal_gb", "memory_total_mib", "memory_usable_mib_torch", "bandwidth_gbps",
		"bf16_dense_tflops", "fp16_dense_tflops", "fp32_tflops", "tdp_w", "form", "memory_type", "ecc", "mig_profiles",
		"launch_year", "compute_capability"},
	optional: []string{"multiprocessors", "multiprocessors_source", "compute_capability_source", "devices_per_board",
		"memory_total_source", "memory_total_inferred", "memory_total_mib_ecc", "memory_usable_observed",
		"memory_usable_mib", "memory_usable_source", "tensor_tflops_source", "short_names", "notes"},
}

// A model's document is kept whole, so there may be anything else in it.
var modelFields = fields{given: []string{"id", "family", "kind", "source", "params_total", "params_total_source",
	"params_check"}}

// figures are those of a card that nothing but its sources says where they are from.
var figures = []string{"memory_nominal_gb", "bandwidth_gbps", "fp32_tflops", "tdp_w", "launch_year"}

// sourced are figures that have a source of their own.
var sourced = [][2]string{{"memory_total_mib", "memory_total_source"}, {"memory_usable_mib_torch", "memory_usable_observed"},
	{"memory_usable_mib", "memory_usable_source"}, {"bf16_dense_tflops", "tensor_tflops_source"},
	{"fp16_dense_tflops", "tensor_tflops_source"}}

// lacking says of all rows what is missing in them before they can be entries.
func lacking(data string) ([]string, error) {
	var all []string
	for _, kind := range []struct {
		file  string
		keys  fields
		lacks func(values) []string
	}{{"gpus.json", cardFields, cardLacks}, {"models.json", modelFields, modelLacks}} {
		var documents []json.RawMessage
		if err := read(filepath.Join(data, kind.file), &documents); err != nil {
			return nil, err
		}
		for i, document := range documents {
			row := values{document: document}
			if err := json.Unmarshal(document, &row.byKey); err != nil {
				return nil, fmt.Errorf("%s, row %d: %w", kind.file, i+1, err)
			}
			name := fmt.Sprintf("%s, row %d", kind.file, i+1)
			if id := row.text("id"); id != "" {
				name = kind.file + ", " + id
			}
			for _, l := range append(kind.keys.lacks(row), kind.lacks(row)...) {
				all = append(all, name+": "+l)
			}
		}
	}
	return all, nil
}

// values are those of a row.
type values struct {
	byKey    map[string]json.RawMessage
	document []byte
}

// has says that a key has a value.
func (v values) has(key string) bool {
	switch string(v.byKey[key]) {
	case "", "null", `""`, "[]", "{}":
		return false
	}
	return true
}

func (v values) text(key string) (s string) {
	_ = json.Unmarshal(v.byKey[key], &s) // what is no text is none
	return s
}

func (f fields) lacks(row values) (lacks []string) {
	for _, key := range f.given {
		if key != "sources" && key != "aliases" && !row.has(key) || row.byKey[key] == nil {
			lacks = append(lacks, fmt.Sprintf("no %s", key))
		}
	}
	for _, key := range f.stated {
		if _, there := row.byKey[key]; !there {
			lacks = append(lacks, fmt.Sprintf("no %s: write null if nobody has published it", key))
		}
	}
	if f.stated == nil {
		return lacks
	}
	known := slices.Concat(f.given, f.stated, f.optional)
	for _, key := range slices.Sorted(maps.Keys(row.byKey)) {
		if !slices.Contains(known, key) {
			slices.Sort(known)
			lacks = append(lacks, fmt.Sprintf("nothing reads %q; the keys are %s", key, strings.Join(known, ", ")))
		}
	}
	return lacks
}

func cardLacks(row values) (lacks []string) {
	for _, key := range figures {
		if row.has(key) && !row.has("sources") {
			lacks = append(lacks, fmt.Sprintf("sources says nothing of where %s is from", key))
		}
	}
	for _, s := range sourced {
		if row.has(s[0]) && !row.has(s[1]) {
			lacks = append(lacks, fmt.Sprintf("%s has no %s", s[0], s[1]))
		}
	}
	var c card
	if err := json.Unmarshal(row.document, &c); err != nil {
		return append(lacks, err.Error())
	}
	if _, stated := row.byKey["multiprocessors"]; c.Vendor == "NVIDIA" && !stated {
		lacks = append(lacks, "no multiprocessors: write null if nobody has published it")
	}
	if c.FP32TFLOPS > 0 && max(c.BF16TFLOPS, c.FP16TFLOPS) == 0 && halfPerFP32(&c) == 0 {
		lacks = append(lacks, fmt.Sprintf("gen/gpus.go has no ratio of half precision to float32 for the architecture %q, and "+
			"bf16_dense_tflops no published figure", c.Architecture))
	}
	for _, p := range c.MIGProfiles {
		if p.Source == "" {
			lacks = append(lacks, fmt.Sprintf("the MIG profile %q has no source", p.Name))
		}
	}
	return lacks
}

// unreplayed are the families whose models are not replayed from an entry, so that it needs no configuration.
var unreplayed = []string{"wav2vec2", "unet2d_condition"}

// checks are what a model's row says of its count of parameters.
var checks = []string{"exact", "no_published_count", "published_only"}

func modelLacks(row values) (lacks []string) {
	var m catalog.Model
	if err := json.Unmarshal(row.document, &m); err != nil {
		return []string{err.Error()}
	}
	if m.HFConfig == nil && m.NanoGPT == nil && !slices.Contains(unreplayed, m.Family) {
		lacks = append(lacks, "no hf_config: the keys of the published config.json that decide bytes")
	}
	if check := row.text("params_check"); row.has("params_check") && !slices.Contains(checks, check) {
		lacks = append(lacks, fmt.Sprintf("params_check is %q, and can be %s", check, strings.Join(checks, ", ")))
	}
	return lacks
}
