package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service/catalog"
)

// The committed files are what the committed data give, and making them again gives the same edition.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	files, err := generate("../data", embedded())
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 {
		t.Errorf("generated %d files, want one of GPUs, one of models and the edition's name", len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is not what its data give: make generate", name)
		}
	}
}

// Every row has what an entry needs, with a source for every number.
func TestRowsAreWhole(t *testing.T) {
	lacks, err := lacking("../data")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lacks {
		t.Error(l)
	}
}

// What a row lacks is named, all of it at once.
func TestLacks(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{
		"gpus.json": `[{"id": "rtx-6090", "name": "GeForce RTX 6090", "vendor": "NVIDIA", "architecture": "Rubin", "fp32_tflops": 150,
			"memory_total_mib": 49140, "memory_gb": 48, "mig_profiles": [{"name": "1g.24gb"}]}, {}]`,
		"models.json": `[{"id": "lab/model", "family": "llama", "params_total": 1, "params_check": "counted"}]`,
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	lacks, err := lacking(folder)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(lacks, "\n")
	for _, want := range []string{
		"gpus.json, rtx-6090: no sources", "gpus.json, rtx-6090: no tdp_w: write null",
		`nothing reads "memory_gb"; the keys are aliases, `, "sources says nothing of where fp32_tflops is from",
		"memory_total_mib has no memory_total_source", "no multiprocessors: write null",
		`no ratio of half precision to float32 for the architecture "Rubin"`, `the MIG profile "1g.24gb" has no source`,
		"gpus.json, row 2: no id", "models.json, lab/model: no kind", "lab/model: no params_total_source",
		"lab/model: no hf_config", `params_check is "counted", and can be exact, `,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not named in\n%s", want, all)
		}
	}
}

// An edition gets a number when something is another in it, and what is another gets that number.
func TestEditions(t *testing.T) {
	entry := func(id, document string, aliases ...string) migrations.Entry {
		e := migrations.Entry{ID: id, Document: []byte(document)}
		for _, a := range aliases {
			e.Aliases = append(e.Aliases, migrations.Alias{Name: a})
		}
		return e
	}
	now := &edition{name: "c-7", gpus: []byte("[]"), models: []byte("[]")}
	for _, step := range []struct {
		what   string
		gpus   []migrations.Entry
		name   string
		states []int64
	}{
		{"cards", []migrations.Entry{entry("a", `{"x":1}`), entry("b", `{"x":1}`)}, "c-8", []int64{8, 8}},
		{"the same again", []migrations.Entry{entry("a", `{"x":1}`), entry("b", `{"x":1}`)}, "c-8", []int64{8, 8}},
		{"another document", []migrations.Entry{entry("a", `{"x":1}`), entry("b", `{"x":2}`)}, "c-9", []int64{8, 9}},
		{"another name", []migrations.Entry{entry("a", `{"x":1}`, "A"), entry("b", `{"x":2}`)}, "c-10", []int64{8, 9}},
		{"another order", []migrations.Entry{entry("b", `{"x":2}`), entry("a", `{"x":1}`, "A")}, "c-11", []int64{9, 8}},
		{"one gone", []migrations.Entry{entry("b", `{"x":2}`)}, "c-12", []int64{9}},
		{"and back", []migrations.Entry{entry("b", `{"x":2}`), entry("a", `{"x":1}`)}, "c-13", []int64{9, 13}},
	} {
		next, err := now.next(step.gpus, nil)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := migrations.Entries(next.gpus)
		if err != nil {
			t.Fatal(err)
		}
		var states []int64
		for _, e := range entries {
			states = append(states, e.Revision)
		}
		if next.name != step.name || !slices.Equal(states, step.states) {
			t.Errorf("%s: edition %s with the states %v, want %s with %v", step.what, next.name, states, step.name, step.states)
		}
		if !strings.Contains(string(next.source()), `CatalogRevision = "`+step.name+`"`) {
			t.Errorf("%s: %s", step.what, next.source())
		}
		now = next
	}
	if _, err := (&edition{name: "mine", gpus: []byte("[]"), models: []byte("[]")}).next(nil, nil); err == nil {
		t.Error("an edition without a number was followed by another")
	}
}

func derived(t *testing.T) map[string]catalog.GPU {
	t.Helper()
	rows, err := deriveGPUs("../data")
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]catalog.GPU{}
	for _, r := range rows {
		var g catalog.GPU
		if err := json.Unmarshal(r.Document, &g); err != nil {
			t.Fatalf("%s: %v", r.ID, err)
		}
		byID[r.ID] = g
	}
	return byID
}

func TestUsableMemory(t *testing.T) {
	byID := derived(t)
	for _, c := range []struct {
		id          string
		total       float64
		totalBasis  catalog.Basis
		usable      float64
		usableBasis catalog.Basis
	}{
		// Read off cards.
		{"rtx-4070", 12282, catalog.Measured, 11994, catalog.Measured},
		{"rtx-4090", 24564, catalog.Measured, 24081, catalog.Measured},
		{"h100-sxm5", 81559, catalog.Measured, 81082, catalog.Measured},
		{"h20", 97871, catalog.Measured, 97285, catalog.Measured},
		// The total is read, the driver's part inferred.
		{"rtx-4080", 16376, catalog.Inferred, 15913, catalog.Inferred},
		{"l40", 46068, catalog.Measured, 45433, catalog.Inferred},
		{"rtx-4060", 8188, catalog.Measured, 7749, catalog.Inferred},
		// Only the label is known.
		{"rtx-5090-d", 32604, catalog.Nominal, 32098, catalog.Nominal},
		{"l20", 46080, catalog.Nominal, 45445, catalog.Nominal}, // ECC takes a sixteenth
		{"v100-pcie-16gb", 16384, catalog.Nominal, 16130, catalog.Nominal},
		// A board of two devices: a job sees one of them.
		{"mi250x", 65536, catalog.Nominal, 65515, catalog.Measured},
		// Nothing is known, or it depends on the system.
		{"b100", 0, catalog.Unknown, 0, catalog.Unknown},
		{"gaudi2", 98304, catalog.Nominal, 0, catalog.Unknown},
		{"jetson-agx-orin-64gb", 65536, catalog.Nominal, 0, catalog.Unknown},
	} {
		g, ok := byID[c.id]
		if !ok {
			t.Errorf("there is no %s", c.id)
			continue
		}
		if got := floorMiB(g.MemoryBytes); got != c.total || g.MemoryBasis != c.totalBasis {
			t.Errorf("%s: total %.0f MiB (%s), want %.0f (%s)", c.id, got, g.MemoryBasis, c.total, c.totalBasis)
		}
		if got := floorMiB(g.UsableBytes); got != c.usable || g.UsableBasis != c.usableBasis {
			t.Errorf("%s: usable %.0f MiB (%s), want %.0f (%s)", c.id, got, g.UsableBasis, c.usable, c.usableBasis)
		}
		if g.UsableNote == "" {
			t.Errorf("%s: nothing says how its usable memory is known", c.id)
		}
	}
}

func floorMiB(bytes int64) float64 { return float64(bytes / catalog.MiB) }

// The inferred driver's part must not promise more than cards of the class have been seen
// to give: for every card with both figures, the inference is at most 2 % of the
// total away, and on the safe side or within 128 MiB of it.
func TestInferenceAgainstMeasurements(t *testing.T) {
	checked := 0
	for id, g := range derived(t) {
		if g.UsableBasis != catalog.Measured || g.MemoryBasis != catalog.Measured {
			continue
		}
		checked++
		inferred := g.MemoryBytes - catalog.DriverReservedBytes(g.Vendor, g.MemoryType, g.MemoryBytes)
		over := inferred - g.UsableBytes
		if id == "gh200-480gb" {
			continue // the superchip's driver keeps 1.1 GiB; it has a figure of its own
		}
		// Cards whose only reports are from old drivers give more than a new driver will.
		if over > 128*catalog.MiB || -over > g.MemoryBytes/20 {
			t.Errorf("%s: inferred %.0f MiB, measured %.0f", id, float64(inferred)/catalog.MiB,
				float64(g.UsableBytes)/catalog.MiB)
		}
	}
	if checked < 25 {
		t.Errorf("only %d cards have both figures", checked)
	}
}

func TestThroughput(t *testing.T) {
	byID := derived(t)
	for _, c := range []struct {
		id     string
		sms    int
		tflops float64
		basis  catalog.Basis
	}{
		{"a100-sxm4-80gb", 108, 312, catalog.Published},
		{"h100-sxm5", 132, 989, catalog.Published},
		{"h100-pcie", 114, 756.5, catalog.Published},
		{"a10g", 80, 125, catalog.Published},
		{"l4", 58, 121, catalog.Published},
		{"rtx-4070", 46, 58.3, catalog.Inferred},
		{"rtx-3090", 82, 71.16, catalog.Inferred},
		{"rtx-5090", 170, 209.6, catalog.Inferred},
		{"rtx-2080-ti", 68, 53.8, catalog.Inferred},
		{"rtx-6000-ada", 142, 364.24, catalog.Inferred},
		{"mi250x", 0, 191.48, catalog.Inferred},
		{"mi300x", 0, 1307.52, catalog.Inferred},
		{"gb300", 0, 2500, catalog.Published},
	} {
		g := byID[c.id]
		if g.Multiprocessors != c.sms {
			t.Errorf("%s: %d multiprocessors, want %d", c.id, g.Multiprocessors, c.sms)
		}
		if diff := g.HalfFLOPS - c.tflops*1e12; diff > 1e9 || diff < -1e9 || g.HalfBasis != c.basis {
			t.Errorf("%s: %.2f TFLOP/s (%s), want %.2f (%s)", c.id, g.HalfFLOPS/1e12, g.HalfBasis, c.tflops, c.basis)
		}
	}
}

func TestShortNamesThatCannotBe(t *testing.T) {
	for _, c := range []struct{ id, name, want string }{
		{"rtx-4070", "RTX 4090", "it means rtx-4090"},
	} {
		n := newNames(catalog.GPUKey)
		for _, id := range []string{"rtx-4070", "rtx-4090"} {
			if err := n.reserve(id); err != nil {
				t.Fatal(err)
			}
		}
		if err := n.add(c.id, c.name, ""); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("name %q for %s: %v, want an error with %q", c.name, c.id, err, c.want)
		}
	}
}
