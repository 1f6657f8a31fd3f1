package catalog_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
)

// What people, drivers, schedulers and clouds call a card is one card.
func TestNamesOfOneCard(t *testing.T) {
	c := service.EmbeddedCatalog()
	for id, names := range map[string][]string{
		"a100-sxm4-40gb": {"a100", "A100", "nvidia.com/gpu.product=NVIDIA-A100-SXM4-40GB", "NVIDIA A100-SXM4-40GB",
			"nvidia-tesla-a100",
			"p4d.24xlarge", "P4D.24xlarge", "a2-highgpu-1g", "Standard_ND96asr_v4",
			"node.kubernetes.io/instance-type=p4d.24xlarge"},
		"a100-sxm4-80gb": {"a100-80gb", "A100-80GB", "NVIDIA-A100-SXM4-80GB", "a2-ultragpu-8g",
			"nvidia-a100-80gb", "p4de.24xlarge"},
		"a100-sxm4-40gb-mig-3g.20gb": {"a100_3g.20gb", "a100-3g.20gb", "a100-mig-3g.20gb",
			"NVIDIA-A100-SXM4-40GB-MIG-3g.20gb", "a100:3g.20gb"},
		"a100-pcie-80gb-mig-3g.40gb": {"a100_3g.40gb", "a100-mig-3g.40gb"},
		"h100-sxm5":                  {"p5.48xlarge", "a3-highgpu-8g", "NVIDIA H100 80GB HBM3"},
		"t4":                         {"g4dn.xlarge", "Standard_NC16as_T4_v3", "nvidia-tesla-t4"},
		"a10g":                       {"g5.12xlarge"},
		"l4":                         {"g2-standard-4", "g6.xlarge"},
		"rtx-4070":                   {"NVIDIA GeForce RTX 4070", "4070", "RTX4070"},
		"v100-pcie-16gb":             {"Standard_NC6s_v3", "standard_nc24s_v3"},
	} {
		for _, name := range names {
			if g, err := c.GPU(name); err != nil || g.ID != id {
				t.Errorf("%q: %v, %v; want %s", name, g, err, id)
			}
		}
	}
}

// A name of several cards is read as the one that leaves least, says so, and stands for all of them where hardware is
// asked for by it: nobody is refused for the smallest.
func TestNamesOfSeveralCards(t *testing.T) {
	c := service.EmbeddedCatalog()
	for _, name := range []string{"12GB", "24gb", "80 GB", "80GiB", "3g.20gb", "mig-3g.20gb", "nvidia.com/mig-1g.10gb",
		"a100", "v100"} {
		g, err := c.GPU(name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		if g.AliasNote(name) == "" {
			t.Errorf("%q is read as %s without a word", name, g.ID)
		}
		variants, err := c.GPUVariants(name)
		if err != nil || len(variants) < 2 || !slices.Contains(variants, g.ID) {
			t.Errorf("%q stands for %v, %v, and is read as %s", name, variants, err, g.ID)
		}
		for _, id := range variants {
			v, err := c.GPU(id)
			if err != nil {
				t.Errorf("%q may be %q: %v", name, id, err)
				continue
			}
			// The boards of a short name were chosen by hand: two of one size may differ by some MiB.
			if bare := name != "a100" && name != "v100"; bare && v.UsableBytes > 0 && v.UsableBytes < g.UsableBytes {
				t.Errorf("%q is read as %s with %d bytes, and %s has %d", name, g.ID, g.UsableBytes, id, v.UsableBytes)
			}
		}
	}
	if variants, _ := c.GPUVariants("12GB"); slices.Contains(variants, "rtx-2080-ti") ||
		!slices.Contains(variants, "rtx-4070") {
		t.Errorf("12 GB are %v", variants)
	}
}

func TestNamesOfNoCard(t *testing.T) {
	c := service.EmbeddedCatalog()
	for name, want := range map[string]string{
		"g4ad.xlarge": "radeon-pro-v520", "999GB": "no card of the catalog has 999 GB",
		"a100-40gb-mig-3g.40gb": "has no MIG profile",
		"rtx-4070_1g.5gb":       "no MIG profiles are known", "p4d.25xlarge": "unknown GPU",
		"nvidia.com/gpu":             "unknown GPU",
		"9g.20gb":                    "unknown GPU",
		"a100-sxm4-40gb-mig-3g.40gb": "has no MIG profile",
	} {
		g, err := c.GPU(name)
		if unknown := (*catalog.UnknownError)(nil); !errors.As(err, &unknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", name, g, err, want)
		}
	}
}

func TestInstancesWithAPartOfACard(t *testing.T) {
	g, err := service.EmbeddedCatalog().GPU("Standard_NV12ads_A10_v5")
	if err != nil || g.MemoryBytes != 8<<30 || g.UsableBytes >= 8<<30 || g.ComputeCapability != "8.6" {
		t.Errorf("%+v, %v", g, err)
	}
}

// What is near comes first: people put the separators elsewhere, and leave the organisation out.
func TestNearestNames(t *testing.T) {
	c := service.EmbeddedCatalog()
	for name, want := range map[string]string{
		"qwen25-7b": "Qwen/Qwen2.5-7B", "qwen-38b": "Qwen/Qwen3-8B",
	} {
		_, err := c.Model(name)
		unknown := (*catalog.UnknownError)(nil)
		if !errors.As(err, &unknown) || len(unknown.Nearest) == 0 || unknown.Nearest[0] != want {
			t.Errorf("%q: %v; want %s first", name, err, want)
		}
	}
	_, err := c.GPU("rtx-4071")
	unknown := (*catalog.UnknownError)(nil)
	if !errors.As(err, &unknown) || !slices.Contains(unknown.Nearest, "rtx-4070") {
		t.Errorf("rtx-4071: %v", err)
	}
}

// A hyphen more or less is the same name, unless it stands between two digits.
func TestHyphens(t *testing.T) {
	c := service.EmbeddedCatalog()
	for name, want := range map[string]string{
		"llama3.1-8B": "meta-llama/Llama-3.1-8B", "meta-llama/Llama3.1-8B": "meta-llama/Llama-3.1-8B",
		"mistral7b-v0.1": "mistralai/Mistral-7B-v0.1", "qwen-3-8b": "Qwen/Qwen3-8B", "GPT-2": "openai-community/gpt2",
	} {
		if m, err := c.Model(name); err != nil || m.ID != want {
			t.Errorf("%q: %+v, %v; want %s", name, m, err, want)
		}
	}
}

// What people say of a model that has one name: without how it was tuned, or without its organisation. In a file such
// a word may be a folder.
func TestSpokenNames(t *testing.T) {
	c := service.EmbeddedCatalog()
	for name, want := range map[string]string{
		"llama3-8b": "meta-llama/Meta-Llama-3-8B", "Llama3-70B-Instruct": "meta-llama/Meta-Llama-3-70B",
		"llama-3.3-70b": "meta-llama/Llama-3.3-70B-Instruct", "qwen2.5-vl-7b": "Qwen/Qwen2.5-VL-7B-Instruct",
		"tinyllama": "TinyLlama/TinyLlama-1.1B-Chat-v1.0", "gemma3-4b": "google/gemma-3-4b-it",
		"gemma2-9b-it": "google/gemma-2-9b", "llama2-7b": "meta-llama/Llama-2-7b-hf",
	} {
		if m, err := c.Model(name); err != nil || m.ID != want {
			t.Errorf("%q: %+v, %v; want %s", name, m, err, want)
		}
	}
	for _, name := range []string{"llama3-8b", "tinyllama", "qwen2.5-vl-7b"} {
		if c.HasModel(name) {
			t.Errorf("%q in a file is taken for a model's name", name)
		}
	}
	for _, name := range []string{"llama", "qwen-38b", "llama3-9b", "mistral-7b", "somebody/llama3-8b", "7b-instruct"} {
		if m, err := c.Model(name); err == nil {
			t.Errorf("%q is taken for %s", name, m.ID)
		}
	}
}

// A name with a count is offered the card and told where the count goes; it is none of the card's names.
func TestCounts(t *testing.T) {
	c := service.EmbeddedCatalog()
	for name, want := range map[string]string{
		"8xH100":  "the card alone is h100-sxm5, and how many GPUs a job runs on is training.distributed.world_size, --world-size 8",
		"8x H100": "h100-sxm5", "2 x NVIDIA A40": "a40", "A100:4": "a100-sxm4-40gb", "h100x8": "h100-sxm5", "4×rtx 4090": "rtx-4090",
	} {
		g, err := c.GPU(name)
		if unknown := (*catalog.UnknownError)(nil); !errors.As(err, &unknown) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want %q", name, g, err, want)
		}
	}
	if _, err := c.GPU("8xnothing"); err == nil || strings.Contains(err.Error(), "count") {
		t.Errorf("a count of nothing: %v", err)
	}
}

func TestSizes(t *testing.T) {
	gpus, err := service.EmbeddedCatalog().GPUs()
	if err != nil {
		t.Fatal(err)
	}
	gb, ok := catalog.SizeOf(" 24GB")
	if _, none := catalog.SizeOf("rtx-4090"); !ok || none || gb != 24 {
		t.Fatalf("%d, %v, %v", gb, ok, none)
	}
	of := map[string]bool{}
	for i := range gpus {
		of[gpus[i].ID] = gpus[i].IsOfSize(gb)
	}
	for id, want := range map[string]bool{"rtx-4090": true, "rtx-3090": true, "a10": true, "rtx-4080": false, "a40": false, "b100": false} {
		if of[id] != want {
			t.Errorf("%s is of 24 GB: %v", id, of[id])
		}
	}
}
