package catalog_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/catalog"
)

// built-in is parsed once; the catalog does not change.
var builtin = service.EmbeddedCatalog()

func TestGPUNames(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		// Ids, in every spelling.
		{"rtx-4070", "rtx-4070"}, {"RTX-4070", "rtx-4070"}, {"rtx_4070", "rtx-4070"}, {"RTX 4070", "rtx-4070"},
		{"rtx4070", "rtx-4070"},
		{"RTX_3090_Ti", "rtx-3090-ti"}, {"gtx1080ti", "gtx-1080-ti"},
		// What nvidia-smi prints, before and after it began with the vendor.
		{"NVIDIA GeForce RTX 4070", "rtx-4070"}, {"GeForce RTX 3090", "rtx-3090"},
		{"NVIDIA GeForce RTX 3090", "rtx-3090"},
		{"NVIDIA GeForce RTX 4070 Ti SUPER", "rtx-4070-ti-super"}, {"NVIDIA GeForce RTX 4070 SUPER", "rtx-4070-super"},
		{"NVIDIA GeForce RTX 3080 Laptop GPU", "rtx-3080-laptop-16gb"},
		{"NVIDIA GeForce RTX 4070 Laptop GPU", "rtx-4070-laptop"},
		{"NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"}, {"A100-SXM4-40GB", "a100-sxm4-40gb"},
		{"NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"},
		{"NVIDIA A100 80GB PCIe", "a100-pcie-80gb"}, {"NVIDIA H100 80GB HBM3", "h100-sxm5"},
		{"NVIDIA H100 PCIe", "h100-pcie"}, {"NVIDIA H100 NVL", "h100-nvl"},
		{"NVIDIA H200", "h200-sxm"}, {"NVIDIA GH200 480GB", "gh200-480gb"}, {"NVIDIA B200", "b200"},
		{"NVIDIA H20", "h20"},
		{"Tesla T4", "t4"}, {"NVIDIA T4", "t4"}, {"Tesla V100-SXM2-32GB", "v100-sxm2-32gb"},
		{"Tesla P100-PCIE-16GB", "tesla-p100-16gb"}, {"Tesla P100-SXM2-16GB", "tesla-p100-16gb"},
		{"Tesla K80", "tesla-k80"},
		{"NVIDIA A10G", "a10g"}, {"NVIDIA L4", "l4"}, {"NVIDIA L40S", "l40s"}, {"NVIDIA A40", "a40"},
		{"Quadro RTX 6000", "quadro-rtx-6000"}, {"NVIDIA RTX A6000", "rtx-a6000"},
		{"NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"}, {"NVIDIA RTX PRO 6000 Blackwell Server Edition",
			"rtx-pro-6000-blackwell-server"},
		{"AMD Instinct MI300X", "mi300x"}, {"AMD Radeon RX 7900 XTX", "rx-7900-xtx"},
		{"Intel(R) Arc(TM) A770 Graphics", "arc-a770"}, {"NVIDIA GB10", "gb10"},
		// Kubernetes product labels, cloud catalogues.
		{"NVIDIA-GeForce-RTX-4070", "rtx-4070"}, {"NVIDIA-A100-SXM4-80GB", "a100-sxm4-80gb"},
		{"NVIDIA-H100-80GB-HBM3", "h100-sxm5"}, {"NVIDIA-A100-SXM4-80GB-SHARED", "a100-sxm4-80gb"}, {"Tesla-T4", "t4"},
		{"nvidia-tesla-t4", "t4"}, {"nvidia-tesla-a100", "a100-sxm4-40gb"}, {"nvidia-a100-80gb", "a100-sxm4-80gb"},
		{"nvidia-l4", "l4"}, {"nvidia-h100-mega-80gb", "h100-sxm5"},
		// Names that could mean two cards, decided in the data.
		{"a100", "a100-sxm4-40gb"}, {"A100-80GB", "a100-sxm4-80gb"}, {"a100_80gb", "a100-sxm4-80gb"},
		{"h100", "h100-sxm5"}, {"h100-sxm", "h100-sxm5"}, {"H100_PCIE", "h100-pcie"}, {"h200", "h200-sxm"},
		{"gh200", "gh200-480gb"},
		{"v100", "v100-sxm2-16gb"}, {"V100-32GB", "v100-sxm2-32gb"}, {"p100", "tesla-p100-16gb"},
		{"rtx-3050", "rtx-3050-8gb"}, {"rtx-3060", "rtx-3060-12gb"}, {"NVIDIA GeForce RTX 3060", "rtx-3060-12gb"},
		{"3060", "rtx-3060-12gb"}, {"rtx-3080", "rtx-3080-10gb"}, {"rtx-4060-ti", "rtx-4060-ti-8gb"},
		{"4060ti-16gb", "rtx-4060-ti-16gb"}, {"rtx-5060-ti", "rtx-5060-ti-8gb"}, {"gtx-1060", "gtx-1060-6gb"},
		{"4090", "rtx-4090"}, {"3090", "rtx-3090"}, {"2080-ti", "rtx-2080-ti"}, {"1080 Ti", "gtx-1080-ti"},
		{"a6000", "rtx-a6000"}, {"6000 Ada", "rtx-6000-ada"}, {"7900 XTX", "rx-7900-xtx"},
		// MIG slices, as torch and as Kubernetes print them.
		{"NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", "a100-sxm4-80gb-mig-1g.10gb"},
		{"NVIDIA A100-SXM4-40GB MIG 1g.10gb", "a100-sxm4-40gb-mig-1g.10gb"},
		{"a100-sxm4-80gb-mig-3g.40gb", "a100-sxm4-80gb-mig-3g.40gb"},
		{"NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.me", "h100-sxm5-mig-1g.10gb"},
		{"NVIDIA H100 80GB HBM3 MIG 1g.10gb+me", "h100-sxm5-mig-1g.10gb"},
		{"NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", "a100-sxm4-40gb-mig-1c.3g.20gb"},
	} {
		g, err := builtin.GPU(c.name)
		if err != nil {
			t.Errorf("%q: %v, want %s", c.name, err, c.want)
			continue
		}
		if g.ID != c.want {
			t.Errorf("%q is read as %s, want %s", c.name, g.ID, c.want)
		}
	}
}

func TestUnknownGPUs(t *testing.T) {
	for _, c := range []struct {
		name    string
		nearest string // one of the suggestions; "" for none at all
		reason  string
	}{
		{"rtx-4071", "rtx-4070", ""},
		{"rtx-407", "rtx-4070", ""},
		{"NVIDIA GeForce RTX 4O90", "rtx-4090", ""},
		{"rtx-6000", "rtx-6000-ada", ""}, // Quadro or Ada? not decided
		{"rtx-6000", "quadro-rtx-6000", ""},
		{"a100-sxm4-81gb", "a100-sxm4-80gb", ""},
		{"mi300", "mi300x", ""},
		{"h1000", "h100-sxm5", ""},
		{"", "", ""},
		{"-", "", ""},
		{"nvidia", "", ""},
		{"completely different", "", ""},
		{strings.Repeat("rtx", 60), "", ""},
		{"NVIDIA A100-SXM4-80GB MIG 9g.90gb", "", "has no MIG profile"},
		{"NVIDIA A100-SXM4-80GB MIG 4c.3g.40gb", "", "has no MIG profile"},
		{"rtx-4090-mig-1g.10gb", "", "no MIG profiles are known"},
		{"a101-mig-1g.10gb", "a100-sxm4-40gb", ""},
		{"mig-1g.11gb", "", ""},
	} {
		_, err := builtin.GPU(c.name)
		unknown, ok := errors.AsType[*catalog.UnknownError](err)
		if !ok {
			t.Errorf("%q: %v, want an unknown name", c.name, err)
			continue
		}
		if c.nearest == "" && len(unknown.Nearest) > 0 || c.nearest != "" &&
			!slices.Contains(unknown.Nearest, c.nearest) {
			t.Errorf("%q: nearest %v, want %q", c.name, unknown.Nearest, c.nearest)
		}
		if !strings.Contains(unknown.Reason, c.reason) {
			t.Errorf("%q: reason %q, want %q", c.name, unknown.Reason, c.reason)
		}
	}
}

func TestMIGSlices(t *testing.T) {
	for _, c := range []struct {
		name  string
		mib   int64
		basis catalog.Basis
		sms   int
	}{
		{"NVIDIA A100-SXM4-40GB MIG 1g.10gb", 9856, catalog.Measured, 14},
		{"NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", 40192, catalog.Measured, 42},
		{"a30-mig-2g.12gb", 11672, catalog.Measured, 28},
		{"h100-mig-1g.10gb", 9984, catalog.Measured, 16},
		{"h200-mig-1g.18gb", 16384, catalog.Measured, 16},
		{"h200-mig-7g.141gb", 141642, catalog.Inferred, 0},
		{"NVIDIA A100-SXM4-40GB MIG 1c.3g.20gb", 19968, catalog.Measured, 14},
	} {
		g, err := builtin.GPU(c.name)
		if err != nil {
			t.Errorf("%q: %v", c.name, err)
			continue
		}
		if g.UsableBytes/catalog.MiB != c.mib || g.UsableBasis != c.basis || g.Multiprocessors != c.sms ||
			g.MemoryBytes != g.UsableBytes {
			t.Errorf("%q: %d MiB (%s), %d SMs; want %d (%s), %d", c.name, g.UsableBytes/catalog.MiB, g.UsableBasis,
				g.Multiprocessors, c.mib, c.basis, c.sms)
		}
		whole, err := builtin.GPU(strings.SplitN(strings.ToLower(g.ID), "-mig-", 2)[0])
		if err != nil {
			t.Fatal(err)
		}
		if g.HalfFLOPS <= 0 || g.HalfFLOPS > whole.HalfFLOPS ||
			g.BandwidthBytesPerSecond > whole.BandwidthBytesPerSecond {
			t.Errorf("%q: a slice is not faster than its card", c.name)
		}
		if whole.ID == g.ID || len(whole.MIGProfiles) == 0 {
			t.Errorf("%q changed the card %s", c.name, whole.ID)
		}
	}
}

func TestModelNames(t *testing.T) {
	for _, c := range []struct{ name, want string }{
		{"openai-community/gpt2", "openai-community/gpt2"}, {"gpt2", "openai-community/gpt2"},
		{"GPT2", "openai-community/gpt2"}, {"gpt2-medium", "openai-community/gpt2-medium"},
		{"gpt2_xl", "openai-community/gpt2-xl"},
		{"nanogpt/train_gpt2", "nanogpt/train_gpt2"}, {"nanoGPT/train-gpt2", "nanogpt/train_gpt2"},
		{"nanogpt", "nanogpt/train_gpt2"},
		{"meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-8B"}, {"Llama-3.1-8B", "meta-llama/Llama-3.1-8B"},
		{"llama-3.1-8b", "meta-llama/Llama-3.1-8B"}, {"Meta-Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B"},
		{"Qwen3-0.6B", "Qwen/Qwen3-0.6B"}, {"qwen/qwen3-0.6b", "Qwen/Qwen3-0.6B"},
		{"Qwen2.5-7B-Instruct", "Qwen/Qwen2.5-7B"}, {"bert-base-uncased", "google-bert/bert-base-uncased"},
		{"gpt-j-6B", "EleutherAI/gpt-j-6b"},
	} {
		m, err := builtin.Model(c.name)
		if err != nil {
			t.Errorf("%q: %v, want %s", c.name, err, c.want)
			continue
		}
		if m.ID != c.want {
			t.Errorf("%q is read as %s, want %s", c.name, m.ID, c.want)
		}
	}
	for name, nearest := range map[string]string{
		"gpt3":                    "openai-community/gpt2",
		"meta-llama/Llama-3.1-9B": "meta-llama/Llama-3.1-8B",
		"Qwen25-7B":               "Qwen/Qwen2.5-7B", // dots tell models apart
		"someone/gpt2-mediun":     "openai-community/gpt2-medium",
	} {
		_, err := builtin.Model(name)
		unknown, ok := errors.AsType[*catalog.UnknownError](err)
		if !ok || !slices.Contains(unknown.Nearest, nearest) {
			t.Errorf("%q: %v, want an unknown name near %s", name, err, nearest)
		}
	}
}

// Every spelling that the catalog itself holds leads back to its entry.
func TestEveryNameResolves(t *testing.T) {
	gpus, err := builtin.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	for i := range gpus {
		for _, name := range append([]string{gpus[i].ID, "NVIDIA " + gpus[i].ID}, gpus[i].Aliases...) {
			if g, err := builtin.GPU(name); err != nil || g.ID != gpus[i].ID {
				t.Errorf("%q of %s: %v, %v", name, gpus[i].ID, g, err)
			}
		}
		for _, p := range gpus[i].MIGProfiles {
			if g, err := builtin.GPU(gpus[i].ID + "-mig-" + p.Name); err != nil || g.MemoryBytes != p.MemoryBytes {
				t.Errorf("slice %s of %s: %v", p.Name, gpus[i].ID, err)
			}
		}
	}
	models, err := builtin.Models()
	if err != nil {
		t.Fatal(err)
	}
	for i := range models {
		for _, name := range append([]string{models[i].ID}, models[i].Aliases...) {
			if m, err := builtin.Model(name); err != nil || m.ID != models[i].ID {
				t.Errorf("%q of %s: %v, %v", name, models[i].ID, m, err)
			}
		}
		if models[i].ParametersTotal <= 0 || models[i].ParametersSource == "" || models[i].Origin != catalog.Builtin {
			t.Errorf("%s: %d parameters from %q, origin %q", models[i].ID, models[i].ParametersTotal,
				models[i].ParametersSource, models[i].Origin)
		}
	}
}

func TestEntriesArePlausible(t *testing.T) {
	gpus, err := builtin.GPUs()
	if err != nil {
		t.Fatal(err)
	}
	for i := range gpus {
		g := &gpus[i]
		if g.UsableBytes > g.MemoryBytes || g.UsableBytes < 0 || g.UsableBytes > 0 &&
			g.UsableBytes < g.MemoryBytes*9/10 {
			t.Errorf("%s: %d usable of %d bytes", g.ID, g.UsableBytes, g.MemoryBytes)
		}
		if g.UsableBasis == "" || g.MemoryBasis == "" || (g.UsableBytes == 0) != (g.UsableBasis == catalog.Unknown) {
			t.Errorf("%s: usable %d (%s), total (%s)", g.ID, g.UsableBytes, g.UsableBasis, g.MemoryBasis)
		}
		e := g.ForEstimator()
		if e.ID != g.ID || e.UsableBytes != g.UsableBytes || g.ComputeCapability != "" &&
			(e.ComputeCapability < 35 || e.ComputeCapability > 130) {
			t.Errorf("%s: the estimator sees %+v", g.ID, e)
		}
		for _, p := range g.MIGProfiles {
			if g.UsableBytes > 0 && (p.MemoryBytes <= 0 || p.MemoryBytes > g.UsableBytes) {
				t.Errorf("%s: slice %s of %d bytes", g.ID, p.Name, p.MemoryBytes)
			}
		}
	}
}

func TestAliasNotes(t *testing.T) {
	g, err := builtin.GPU("A100")
	if err != nil {
		t.Fatal(err)
	}
	if note := g.AliasNote("A100"); !strings.Contains(note, "40 and 80 GB") {
		t.Errorf("note on A100: %q", note)
	}
	if note := g.AliasNote("a100-sxm4-40gb"); note != "" {
		t.Errorf("the id needs no note: %q", note)
	}
}

// A user's entry hides the built-in one, and an id goes before an alias.
// A scheduler's name for boards of several sizes means any of them.
func TestGPUVariants(t *testing.T) {
	c := builtin
	for _, tt := range []struct {
		name    string
		want    string
		atLeast int
	}{
		{"a100", "a100-sxm4-80gb", 3}, {"A100", "a100-sxm4-40gb", 3}, {"v100", "v100-sxm2-32gb", 2},
		{"h100", "h100-nvl", 2}, {"p100", "tesla-p100-12gb", 2}, {"3060", "rtx-3060-8gb", 2},
		{"rtx4070", "rtx4070", 1}, {"NVIDIA-A100-SXM4-80GB", "NVIDIA-A100-SXM4-80GB", 1},
		{"no-such-card", "no-such-card", 1},
	} {
		got, err := c.GPUVariants(tt.name)
		if err != nil || !slices.Contains(got, tt.want) || len(got) < tt.atLeast || tt.atLeast == 1 && len(got) != 1 {
			t.Errorf("%s may be %v, %v; want %s among at least %d", tt.name, got, err, tt.want, tt.atLeast)
		}
	}
	if got, err := c.GPUVariants("a100-80gb"); err != nil || !slices.Equal(got, []string{"a100-sxm4-80gb"}) {
		t.Errorf("a100-80gb may be %v, %v", got, err)
	}
	if !c.Has("a100") || c.Has("no-such-card") {
		t.Error("Has does not tell a known card from an unknown one")
	}
}

func TestPrecedence(t *testing.T) {
	c := catalog.Of(&catalog.Contents{Revision: "c-3.1", GPUs: []catalog.GPU{
		{ID: "card-a", Aliases: []string{"card-b", "fast"}, Origin: catalog.Builtin},
		{ID: "card-b", Origin: catalog.Builtin},
		{ID: "lab-card", Aliases: []string{"fast"}, Origin: catalog.User},
	}})
	for name, want := range map[string]string{"card-b": "card-b", "fast": "lab-card", "CARD A": "card-a"} {
		if g, err := c.GPU(name); err != nil || g.ID != want {
			t.Errorf("%q: %v, %v; want %s", name, g, err, want)
		}
	}
}

func TestWithMemory(t *testing.T) {
	const gib = 1 << 30
	known, err := builtin.GPU("rtx-4090")
	if err != nil {
		t.Fatal(err)
	}
	modified := catalog.WithMemory("rtx-4090-48gb", 49140*catalog.MiB, known)
	if modified.ID != "rtx-4090-48gb" || modified.Multiprocessors != 128 || modified.UsableBytes/catalog.MiB != 48476 {
		t.Errorf("a 48 GB RTX 4090: %+v", modified)
	}
	if same := catalog.WithMemory("4090", known.MemoryBytes, known); same != known {
		t.Errorf("the catalog's own size is the catalog's own card, not %+v", same)
	}
	if g := catalog.WithMemory("", 16*gib, nil); g.ID != "unnamed" || g.UsableBytes/catalog.MiB != 16384-463 {
		t.Errorf("a card without a name: %+v", g)
	}
	if g := catalog.WithMemory("AMD lab card", 64*gib, nil); g.Vendor != "AMD" ||
		g.UsableBytes/catalog.MiB != 65536-21 {
		t.Errorf("an AMD card: %+v", g)
	}
	if g := catalog.WithMemory("x mig 1g.12gb", 12*gib, nil); g.UsableBytes != 12*gib {
		t.Errorf("a slice is usable as a whole: %+v", g)
	}
}
