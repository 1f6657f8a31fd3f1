package catalog

import (
	"fmt"
	"strings"
)

// MiB is 2^20 bytes, the unit of nvidia-smi.
const MiB = 1 << 20

// anchor is one observation of what a driver keeps for itself.
type anchor struct{ totalMiB, reservedMiB float64 }

// The tables below hold, by nvidia-smi total, the largest difference seen
// between that total and PyTorch's total_memory under Linux, on drivers of the
// years 2024 to 2026 where there are any. They grow with the card and grew with
// the driver: a T4 lost 250 MiB in 2022 and 447 in 2026. Between two anchors the
// line between them is taken, so that a larger card is never
// the less usable one. Smaller figures would promise memory that new
// drivers take; larger ones would refuse jobs that run.
var (
	// RTX 3050 Laptop, RTX 2060, RTX 3070, RTX 5060 Ti 16 GB, RTX 4090, RTX
	// PRO 4000 and RTX 5090, A40; the RTX PRO 6000 (96 GB) shows 638.
	reservedGDDR = []anchor{{0, 0}, {4096, 194}, {6144, 226}, {8192, 439}, {16384, 463}, {24576, 483}, {32768, 506},
		{49152, 664}, {98304, 664}}
	// V100 16 GB, A30, A100 PCIe 40 GB, A100 80 GB, H200 (less than the
	// A100 80 GB), B300.
	reservedHBM = []anchor{{0, 0}, {16384, 254}, {32768, 412}, {40960, 583}, {81920, 881}, {188416, 881}, {275040, 926}}
	// RX 9070 XT and RX 7900 XTX, MI210, MI300X and MI325X.
	reservedAMD = []anchor{{0, 0}, {16384, 21}, {65536, 21}, {196608, 318}}
	// A card of the 32 GB class shows 31.89 GiB; the rest is its line.
	reservedIntel = []anchor{{0, 0}, {32768, 113}, {131072, 452}}
)

// DriverReservedBytes is what the driver is expected to keep of totalBytes, the
// total that nvidia-smi (or its counterpart) prints. An empty vendor is taken
// for NVIDIA, an empty memory type for the one that loses more.
//
// It holds for Linux. Under Windows and WSL PyTorch shows the whole
// total, but the desktop holds part of it and the driver spills to system
// memory, so neither figure says what fits there.
func DriverReservedBytes(vendor, memoryType string, totalBytes int64) int64 {
	if totalBytes <= 0 {
		return 0
	}
	total := float64(totalBytes) / MiB
	var reserved float64
	switch {
	case strings.EqualFold(vendor, "AMD"):
		reserved = interpolate(reservedAMD, total)
	case strings.EqualFold(vendor, "Intel"):
		reserved = interpolate(reservedIntel, total)
	case strings.HasPrefix(memoryType, "HBM"):
		reserved = interpolate(reservedHBM, total)
	case strings.HasPrefix(memoryType, "GDDR"):
		reserved = interpolate(reservedGDDR, total)
	default:
		reserved = max(interpolate(reservedHBM, total), interpolate(reservedGDDR, total))
	}
	return int64(reserved * MiB)
}

// interpolate reads table at x; past its end the last value stands.
func interpolate(table []anchor, x float64) float64 {
	for i := 1; i < len(table); i++ {
		a, b := table[i-1], table[i]
		if x <= b.totalMiB {
			return a.reservedMiB + (b.reservedMiB-a.reservedMiB)*(x-a.totalMiB)/(b.totalMiB-a.totalMiB)
		}
	}
	return table[len(table)-1].reservedMiB
}

// WithMemory is a card that is given by its memory, as nvidia-smi reports it.
// What the driver keeps is taken off, because a total without it would call jobs
// fitting that run out of memory. Where known is the catalog's card of
// that name, everything but the memory is taken from it: a 48 GB board sold as an
// RTX 4090 computes like one. A name that nobody knows is used as it is.
func WithMemory(name string, memoryBytes int64, known *GPU) *GPU {
	var g GPU
	switch {
	case known == nil:
		g = GPU{ID: name, Name: name, Vendor: vendorOf(name)}
		if name == "" {
			g.ID, g.Name = "unnamed", "unnamed"
		}
	case known.MemoryBytes == memoryBytes:
		return known
	default:
		g = *known
		g.ID, g.MIGProfiles, g.Notes, g.Sources, g.Revision = name, nil, "", nil, 0
	}
	g.Origin, g.Aliases, g.AliasNotes = "", nil, nil
	g.MemoryBytes, g.MemoryBasis = memoryBytes, Given
	g.UsableBytes, g.UsableBasis = memoryBytes, Given
	if _, _, slice := splitMIG(name); slice {
		g.UsableNote = "a MIG slice is usable as a whole"
		return &g
	}
	reserved := DriverReservedBytes(g.Vendor, g.MemoryType, memoryBytes)
	g.UsableBytes -= reserved
	g.UsableBasis, g.UsableNote = Inferred, ReservedNote(reserved)
	return &g
}

// ReservedNote explains a usable memory that was inferred from a total.
func ReservedNote(reservedBytes int64) string {
	return fmt.Sprintf("nvidia-smi's total less %.0f MiB that the driver keeps on cards of this size",
		float64(reservedBytes)/MiB)
}

// vendorOf guesses from words that no other vendor uses.
func vendorOf(name string) string {
	lower := strings.ToLower(name)
	for _, w := range []struct{ word, vendor string }{
		{"nvidia", "NVIDIA"}, {"geforce", "NVIDIA"}, {"quadro", "NVIDIA"}, {"tesla", "NVIDIA"},
		{"amd", "AMD"}, {"radeon", "AMD"}, {"instinct", "AMD"}, {"intel", "Intel"},
	} {
		if strings.Contains(lower, w.word) {
			return w.vendor
		}
	}
	return ""
}
