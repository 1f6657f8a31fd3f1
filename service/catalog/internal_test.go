package catalog

import (
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestGPUKey(t *testing.T) {
	for name, want := range map[string]string{
		"NVIDIA GeForce RTX 4070 Laptop GPU": "rtx4070laptop",
		"nvidia-tesla-t4":                    "t4",
		"Intel(R) Arc(TM) A770 Graphics":     "arca770",
		"Quadro RTX 6000":                    "quadrortx6000",
		"TITAN X (Pascal)":                   "titanxpascal",
		"NVIDIA":                             "nvidia",
		"":                                   "",
	} {
		if got := GPUKey(name); got != want {
			t.Errorf("GPUKey(%q) = %q, want %q", name, got, want)
		}
	}
}

// FuzzNames looks for names that crash, that do not keep their key, or whose
// separators and case matter.
func FuzzNames(f *testing.F) {
	for _, seed := range []string{"NVIDIA GeForce RTX 4070", "a100-sxm4-80gb-mig-1g.10gb", "Intel(R) Arc(TM)", "-mig-",
		"İSTANBUL", "\xff\xfe", "mig mig mig 1g.5gb"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		key := GPUKey(name)
		if strings.ContainsAny(key, " -_/") {
			t.Errorf("GPUKey(%q) = %q has separators", name, key)
		}
		if again := GPUKey(strings.Join(gpuWords(name), "-")); again != key {
			t.Errorf("GPUKey(%q) = %q, but by its own words %q", name, key, again)
		}
		if model := ModelKey(name); ModelKey(model) != model {
			t.Errorf("ModelKey(%q) = %q is not its own key", name, model)
		}
		if card, profile, ok := splitMIG(name); ok && (card == "" || profile == "") {
			t.Errorf("splitMIG(%q) = %q, %q", name, card, profile)
		}
	})
}

// More memory on a card is never less usable memory, and the driver never takes it all.
func TestReservedMemoryIsMonotone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		vendor := rapid.SampledFrom([]string{"", "NVIDIA", "AMD", "Intel", "other"}).Draw(t, "vendor")
		kind := rapid.SampledFrom([]string{"", "GDDR6", "HBM3", "LPDDR5"}).Draw(t, "memory type")
		a := rapid.Int64Range(1, 512<<30).Draw(t, "bytes")
		b := a + rapid.Int64Range(0, 8<<30).Draw(t, "more")
		usableA, usableB := a-DriverReservedBytes(vendor, kind, a), b-DriverReservedBytes(vendor, kind, b)
		if usableA <= 0 || usableA > usableB {
			t.Fatalf("%d bytes give %d, %d give %d", a, usableA, b, usableB)
		}
	})
}

func TestNearestIsBounded(t *testing.T) {
	var list []candidate
	for i := range 100 {
		list = append(list, candidate{"rtx" + strings.Repeat("4", i%5), i})
	}
	if got := nearest("rtx4", list); len(got) != maxNearest {
		t.Errorf("%d suggestions, want %d", len(got), maxNearest)
	}
	if got := nearest(strings.Repeat("r", maxSuggestedName+1), list); got != nil {
		t.Errorf("a name too long to compare has suggestions %v", got)
	}
}
