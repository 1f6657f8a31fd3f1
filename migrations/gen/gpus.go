package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/vramplan/vramplan/migrations"
	"github.com/vramplan/vramplan/service/catalog"
)

// card is one entry of data/gpus.json.
type card struct {
	ID                string `json:"id"`
	Name              string `json:"name"`
	Vendor            string `json:"vendor"`
	Architecture      string `json:"architecture"`
	ComputeCapability string `json:"compute_capability"`
	Multiprocessors   int    `json:"multiprocessors"`
	// DevicesPerBoard is how many devices the board shows as, 0 for one. A job sees one of them: what the row says of
	// the board is divided.
	DevicesPerBoard float64 `json:"devices_per_board"`
	NominalGB       float64 `json:"memory_nominal_gb"`
	TotalMiB        float64 `json:"memory_total_mib"`
	TotalInferred   bool    `json:"memory_total_inferred"`
	TotalSource     string  `json:"memory_total_source"`
	// UsableTorchMiB is the lowest total_memory that PyTorch has shown under Linux; UsableMiB goes before it and has a
	// source of its own.
	UsableTorchMiB float64     `json:"memory_usable_mib_torch"`
	UsableMiB      float64     `json:"memory_usable_mib"`
	UsableSource   string      `json:"memory_usable_source"`
	BandwidthGBps  float64     `json:"bandwidth_gbps"`
	BF16TFLOPS     float64     `json:"bf16_dense_tflops"`
	FP16TFLOPS     float64     `json:"fp16_dense_tflops"`
	FP32TFLOPS     float64     `json:"fp32_tflops"`
	TFLOPSSource   string      `json:"tensor_tflops_source"`
	TDPWatts       int64       `json:"tdp_w"`
	Form           string      `json:"form"`
	MemoryType     string      `json:"memory_type"`
	ECC            string      `json:"ecc"`
	MIGProfiles    []profile   `json:"mig_profiles"`
	Aliases        []string    `json:"aliases"`
	ShortNames     []shortName `json:"short_names"`
	LaunchYear     int64       `json:"launch_year"`
	Sources        []string    `json:"sources"`
	Notes          string      `json:"notes"`
}

type profile struct {
	Name            string `json:"name"`
	MemoryMiB       int64  `json:"memory_mib"`
	Source          string `json:"source"`
	Multiprocessors int    `json:"multiprocessors"`
}

func deriveGPUs(data string) ([]migrations.Entry, error) {
	var cards []card
	if err := read(filepath.Join(data, "gpus.json"), &cards); err != nil {
		return nil, err
	}
	names := newNames(catalog.GPUKey)
	for i := range cards {
		if err := names.reserve(cards[i].ID); err != nil {
			return nil, err
		}
	}
	for i := range cards {
		for _, s := range cards[i].ShortNames {
			if err := names.add(cards[i].ID, s.Name, s.Note); err != nil {
				return nil, err
			}
		}
	}
	for i := range cards {
		for _, s := range cards[i].ShortNames {
			for _, number := range bareNumber(s.Name) {
				if err := names.add(cards[i].ID, number, s.Note); err != nil {
					return nil, err
				}
			}
		}
	}
	for i := range cards {
		for _, alias := range append(bareNumber(cards[i].ID), cards[i].Aliases...) {
			names.offer(cards[i].ID, alias)
		}
	}
	rows := make([]migrations.Entry, len(cards))
	for i := range cards {
		gpu := deriveGPU(&cards[i])
		document, err := json.Marshal(gpu)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", gpu.ID, err)
		}
		if rows[i], err = newRow(gpu.ID, document, names); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// bareNumber lets "4090" and "2080-ti" mean the GeForce cards.
func bareNumber(id string) []string {
	for _, series := range []string{"rtx-", "gtx-"} {
		if rest, ok := strings.CutPrefix(id, series); ok && len(rest) >= 4 &&
			strings.Trim(rest[:4], "0123456789") == "" && !strings.HasSuffix(rest, "-ada") {
			return []string{rest}
		}
	}
	return nil
}

func deriveGPU(c *card) catalog.GPU {
	devices := c.DevicesPerBoard
	if devices == 0 {
		devices = 1
	}
	g := catalog.GPU{
		ID:                      c.ID,
		Name:                    c.Name,
		Vendor:                  c.Vendor,
		Architecture:            c.Architecture,
		ComputeCapability:       c.ComputeCapability,
		MemoryType:              c.MemoryType,
		Multiprocessors:         c.Multiprocessors,
		BandwidthBytesPerSecond: c.BandwidthGBps * 1e9 / devices,
		FP32FLOPS:               c.FP32TFLOPS * 1e12 / devices,
		TDPWatts:                c.TDPWatts,
		Form:                    c.Form,
		LaunchYear:              c.LaunchYear,
		ECC:                     c.ECC,
		Notes:                   c.Notes,
		Sources:                 c.Sources,
	}
	if f := max(c.BF16TFLOPS, c.FP16TFLOPS); f > 0 {
		g.HalfFLOPS, g.HalfBasis = f*1e12/devices, catalog.Published
		g.Sources = append(g.Sources, "half precision: "+c.TFLOPSSource)
	} else if f := halfPerFP32(c); f > 0 && c.FP32TFLOPS > 0 {
		g.HalfFLOPS, g.HalfBasis = f*g.FP32FLOPS, catalog.Inferred
	}
	deriveMemory(&g, c, devices)
	deriveMIG(&g, c)
	// A shortest decimal is what the data had; 504.2 × 1e9 is not exact in binary.
	for _, f := range []*float64{&g.BandwidthBytesPerSecond, &g.FP32FLOPS, &g.HalfFLOPS} {
		*f = math.Round(*f)
	}
	return g
}

// deriveMemory fills total and usable memory, each from the firmest thing known.
func deriveMemory(g *catalog.GPU, c *card, devices float64) {
	switch {
	case c.TotalMiB > 0:
		g.MemoryBytes, g.MemoryBasis = mib(c.TotalMiB), catalog.Measured
		if c.TotalInferred {
			g.MemoryBasis = catalog.Inferred
		}
		g.Sources = append(g.Sources, "memory.total: "+c.TotalSource)
	case c.NominalGB > 0:
		g.MemoryBytes, g.MemoryBasis = mib(math.Floor(c.NominalGB*1024/devices*shown(c))), catalog.Nominal
	default:
		g.MemoryBasis = catalog.Unknown
	}

	usable := c.UsableTorchMiB
	g.UsableNote = "the lowest total_memory that PyTorch has shown under Linux"
	if c.UsableMiB > 0 {
		usable = c.UsableMiB
		g.Sources = append(g.Sources, "usable memory: "+c.UsableSource)
	}
	switch {
	case usable > 0:
		g.UsableBytes, g.UsableBasis = mib(usable), catalog.Measured
		if g.MemoryBasis == catalog.Nominal && g.UsableBytes > g.MemoryBytes {
			g.MemoryBytes = g.UsableBytes
		}
	case g.MemoryBytes == 0:
		g.UsableBasis, g.UsableNote = catalog.Unknown, "nobody has reported the memory of this card"
	case c.Architecture == "Gaudi":
		g.UsableBasis, g.UsableNote = catalog.Unknown, "not a CUDA device; what its driver keeps is not known"
	case strings.HasPrefix(c.MemoryType, "LPDDR"):
		g.UsableBasis, g.UsableNote = catalog.Unknown, "the memory is shared with the processor; what is left for a "+
			"job depends on the system"
	default:
		reserved := catalog.DriverReservedBytes(g.Vendor, g.MemoryType, g.MemoryBytes)
		g.UsableBytes = g.MemoryBytes - reserved
		g.UsableBasis, g.UsableNote = g.MemoryBasis, catalog.ReservedNote(reserved)
		if g.UsableBasis == catalog.Measured {
			g.UsableBasis = catalog.Inferred
		}
		if g.UsableBasis == catalog.Nominal {
			g.UsableNote = fmt.Sprintf("%g GB on the label as cards of its kind show it, less %.0f MiB that "+
				"the driver keeps", c.NominalGB, float64(reserved)/catalog.MiB)
		}
	}
}

// shown is nvidia-smi's total as a part of the label's GiB, for cards whose total
// nobody has reported.
func shown(c *card) float64 {
	switch {
	// ECC on GDDR takes a sixteenth, and data-centre boards are shipped with it on:
	// 16 GB boards (T4, A2) show 15360, 48 GB boards (A40, L40) 46068.
	case strings.HasPrefix(c.ECC, "yes") && (c.MemoryType == "GDDR5" || c.MemoryType == "GDDR6"):
		return 15. / 16
	// 8151 of 8192 (RTX 5060), 12227 of 12288, 16303 of 16384, 32607 of 32768.
	case c.Architecture == "Blackwell 2.0":
		return 0.995
	// 81559 of 81920 (H100), 143771 of 144384 (H200).
	case c.Architecture == "Hopper":
		return 0.9955
	}
	return 1
}

// halfPerFP32 is dense half-precision matrix throughput with float32 accumulation
// over vector float32 throughput, by architecture: tensor FLOPs over
// shader FLOPs per SM and clock, from the vendors' architecture white papers. GeForce cards
// of Turing and later accumulate in float32 at half the rate of their professional
// sisters. It is 0 where the architecture says nothing.
func halfPerFP32(c *card) float64 {
	geforce := strings.HasPrefix(c.Name, "GeForce")
	switch c.Architecture {
	case "Kepler 2.0", "Maxwell 2.0":
		return 1
	case "Pascal":
		if c.ComputeCapability == "6.0" {
			return 2 // P100: packed half arithmetic.
		}
		return 1 // Others run half at 1/64; libraries compute in float32.
	case "Volta":
		return 8 // V100: 125 over 15.7.
	case "Turing":
		switch {
		case strings.HasPrefix(c.ID, "gtx-"):
			return 2 // No tensor cores; packed half arithmetic.
		case geforce:
			return 4 // RTX 2080 Ti: 53.8 over 13.45.
		}
		return 8 // T4: 65 over 8.1.
	case "Ampere":
		switch {
		case c.ComputeCapability == "8.0":
			return 16 // A100: 312 over 19.5.
		case geforce:
			return 2 // RTX 3090: 71 over 35.6.
		}
		return 4 // A40: 149.7 over 37.4.
	case "Ada Lovelace", "Blackwell 2.0":
		if geforce {
			return 2 // RTX 4090: 165.2 over 82.6. RTX 5090: 209.5 over 104.8.
		}
		return 4 // L4: 121 over 30.3. RTX PRO 6000: 503.8 over 126.
	case "Hopper":
		return 14.8 // H100 SXM: 989 over 66.9.
	case "CDNA 1.0", "CDNA 2.0":
		return 8 // MI250X: 383 over 47.9.
	case "CDNA 3.0":
		return 16 // MI300X: 1307 over 81.7.
	case "CDNA 4.0":
		return 32 // MI355X: 2516 over 78.6.
	case "RDNA 2.0", "RDNA 3.0":
		return 2 // RX 7900 XTX: 122.8 over 61.4.
	case "RDNA 4.0":
		return 4 // RX 9070 XT: 195 over 48.7.
	case "Xe-HPG", "Xe2-HPG":
		return 8 // Arc A770: 157 over 19.7.
	case "Generation 12.5":
		return 16 // Max 1550: 839 over 52.4.
	}
	return 0
}

// deriveMIG fills the sizes in which the card can be cut. The vendor's mocks carry
// a profile's name times 1024 for newer cards, which no slice has; where
// nobody has read the real size off a card, the slice's share of the card is reduced by what
// such slices have been seen to lose.
func deriveMIG(g *catalog.GPU, c *card) {
	seen := map[string]bool{}
	add := func(p profile) {
		if seen[p.Name] {
			return
		}
		seen[p.Name] = true
		m := catalog.MIGProfile{Name: p.Name, Source: p.Source, Multiprocessors: p.Multiprocessors}
		switch {
		case p.MemoryMiB > 0 && !strings.Contains(p.Source, "nominal"):
			m.MemoryBytes, m.MemoryBasis = mib(float64(p.MemoryMiB)), catalog.Measured
		default:
			m.MemoryBytes, m.MemoryBasis = inferSlice(g, c, p.Name), catalog.Inferred
			if m.MemoryBytes == 0 {
				m.MemoryBasis = catalog.Unknown
			}
		}
		g.MIGProfiles = append(g.MIGProfiles, m)
	}
	for _, p := range c.MIGProfiles {
		add(p)
	}
}

// sliceLoss is how much of its share of the card's usable memory a slice of so many
// eighths has, at worst: GB200 1g 0.868, H200 2g 0.923, H200 3g 0.995, A100 7g 0.992.
var sliceLoss = map[int]float64{1: 0.86, 2: 0.92, 4: 0.98, 8: 0.99}

func inferSlice(g *catalog.GPU, c *card, name string) int64 {
	var compute, label int
	if _, err := fmt.Sscanf(name, "%dg.%dgb", &compute, &label); err != nil || c.NominalGB == 0 {
		return 0
	}
	eighths := int(math.Round(float64(label) * 8 / c.NominalGB))
	return int64(float64(g.UsableBytes) * float64(eighths) / 8 * sliceLoss[eighths])
}

func mib(n float64) int64 { return int64(math.Floor(n * catalog.MiB)) }

func read(path string, into any) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
