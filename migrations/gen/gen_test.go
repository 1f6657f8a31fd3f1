package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/service/catalog"
)

// The committed files are what the committed data give.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	files, err := generate("../data")
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 6 {
		t.Errorf("generated %d files, want a snapshot and a seed for each dialect, of GPUs and of models", len(files))
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Errorf("%s is not what its data give: go run ./migrations/gen", name)
		}
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
		if err := json.Unmarshal(r.document, &g); err != nil {
			t.Fatalf("%s: %v", r.id, err)
		}
		byID[r.id] = g
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
		{"rtx-9999", "9999", "there is no entry"},
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
