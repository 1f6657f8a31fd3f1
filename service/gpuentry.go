package service

import (
	"context"
	"regexp"

	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service/catalog"
)

// GPUEntry is a card as a user enters it. What is read from the catalog can be sent back
// with changes: origin and revision are accepted and ignored.
type GPUEntry struct {
	// ID is that of the path, where given.
	ID           string `json:"id,omitempty" validate:"omitempty,max=128"`
	Name         string `json:"name" validate:"required,max=200" example:"Lab card"`
	Vendor       string `json:"vendor,omitempty" validate:"omitempty,max=64" example:"NVIDIA"`
	Architecture string `json:"architecture,omitempty" validate:"omitempty,max=64"`
	// ComputeCapability is "8.9"; left out for cards that are not NVIDIA's.
	ComputeCapability string `json:"compute_capability,omitempty" validate:"omitempty,max=8" example:"8.9"`

	// MemoryBytes is nvidia-smi's memory.total.
	MemoryBytes int64         `json:"memory_bytes" validate:"required,gte=1,lte=9007199254740991" example:"12878610432"`
	MemoryBasis catalog.Basis `json:"memory_basis,omitempty" validate:"omitempty,oneof=measured published inferred nominal given unknown"`
	// UsableBytes is what the driver hands to CUDA: PyTorch's total_memory. Without it, what
	// the driver keeps on cards of this size is taken off memory_bytes.
	UsableBytes int64         `json:"usable_bytes,omitempty" validate:"gte=0,lte=9007199254740991" example:"12576620544"`
	UsableBasis catalog.Basis `json:"usable_basis,omitempty" validate:"omitempty,oneof=measured published inferred nominal given unknown"`
	UsableNote  string        `json:"usable_note,omitempty" validate:"omitempty,max=500"`
	MemoryType  string        `json:"memory_type,omitempty" validate:"omitempty,max=32" example:"GDDR6X"`

	Multiprocessors         int64         `json:"multiprocessors,omitempty" validate:"gte=0,lte=100000"`
	BandwidthBytesPerSecond float64       `json:"memory_bandwidth_bytes_per_second,omitempty" validate:"gte=0,lte=1e18"`
	HalfFLOPS               float64       `json:"half_precision_flops,omitempty" validate:"gte=0,lte=1e21"`
	HalfBasis               catalog.Basis `json:"half_precision_basis,omitempty" validate:"omitempty,oneof=measured published inferred nominal given unknown"`
	FP32FLOPS               float64       `json:"fp32_flops,omitempty" validate:"gte=0,lte=1e21"`

	TDPWatts    int64             `json:"tdp_watts,omitempty" validate:"gte=0,lte=1000000"`
	Form        string            `json:"form,omitempty" validate:"omitempty,max=64"`
	LaunchYear  int64             `json:"launch_year,omitempty" validate:"gte=0,lte=9999"`
	ECC         string            `json:"ecc,omitempty" validate:"omitempty,max=100"`
	MIGProfiles []MIGProfileEntry `json:"mig_profiles,omitempty" validate:"max=32,dive"`

	Aliases    []string          `json:"aliases,omitempty" validate:"max=64,dive,min=1,max=200"`
	AliasNotes map[string]string `json:"alias_notes,omitempty" validate:"max=64,dive,keys,max=200,endkeys,max=500"`
	Notes      string            `json:"notes,omitempty" validate:"omitempty,max=4000"`
	Sources    []string          `json:"sources,omitempty" validate:"max=32,dive,min=1,max=1000"`

	// Origin is ignored.
	Origin string `json:"origin,omitempty" validate:"omitempty,max=32"`
	// Revision is ignored.
	Revision int64 `json:"revision,omitempty" validate:"gte=0"`
}

// MIGProfileEntry is one size in which a user's card can be cut.
type MIGProfileEntry struct {
	Name            string        `json:"name" validate:"required,max=32" example:"1g.10gb"`
	MemoryBytes     int64         `json:"memory_bytes" validate:"required,gte=1,lte=9007199254740991"`
	MemoryBasis     catalog.Basis `json:"memory_basis,omitempty" validate:"omitempty,oneof=measured published inferred nominal given unknown"`
	Multiprocessors int64         `json:"multiprocessors,omitempty" validate:"gte=0,lte=100000"`
	Source          string        `json:"source,omitempty" validate:"omitempty,max=1000"`
}

var (
	gpuID             = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)
	computeCapability = regexp.MustCompile(`^[0-9]{1,2}\.[0-9]$`)
	migProfileName    = regexp.MustCompile(`^[1-7]g\.[0-9]{1,3}gb$`)
)

// PutGPU creates or replaces a card. by has to be allowed to; precondition says what is known
// of the present entry. The result says whether the card is new to the catalog.
func (s *Service) PutGPU(ctx context.Context, by Author, id string, e GPUEntry,
	known Precondition) (*catalog.GPU, bool, error) {
	g, err := e.gpu(id)
	if err != nil {
		return nil, false, err
	}
	change := CatalogChange{Kind: GPUEntryKind, ID: id, GPU: g, By: by}
	revision, created, err := s.put(ctx, change, known, g.Aliases)
	g.Revision = revision
	return g, created, err
}

// gpu checks what tags cannot say, and makes the catalog's entry.
func (e *GPUEntry) gpu(id string) (*catalog.GPU, error) {
	var wrong invalid.List
	checkID(&wrong, gpuID, id, e.ID)
	text := textOf(&wrong)
	text("/name", e.Name)
	text("/vendor", e.Vendor)
	text("/architecture", e.Architecture)
	text("/usable_note", e.UsableNote)
	text("/memory_type", e.MemoryType)
	text("/form", e.Form)
	text("/ecc", e.ECC)
	text("/notes", e.Notes)
	text("/sources", e.Sources...)
	checkAliases(&wrong, e.Aliases, e.AliasNotes)
	if e.ComputeCapability != "" && !computeCapability.MatchString(e.ComputeCapability) {
		wrong.Add("/compute_capability", "unknown_value", "%q was given; accepted: a version such as 8.9",
			e.ComputeCapability)
	}
	if e.UsableBytes > e.MemoryBytes && e.MemoryBytes > 0 {
		wrong.Add("/usable_bytes", "conflict", "%d is more than the card's memory_bytes, %d", e.UsableBytes,
			e.MemoryBytes)
	}
	g := &catalog.GPU{
		ID: id, Name: e.Name, Vendor: e.Vendor, Architecture: e.Architecture, ComputeCapability: e.ComputeCapability,
		MemoryBytes: e.MemoryBytes, MemoryBasis: e.MemoryBasis, UsableBytes: e.UsableBytes, UsableBasis: e.UsableBasis,
		UsableNote: e.UsableNote, MemoryType: e.MemoryType,
		Multiprocessors: int(e.Multiprocessors), BandwidthBytesPerSecond: e.BandwidthBytesPerSecond,
		HalfFLOPS: e.HalfFLOPS, HalfBasis: e.HalfBasis, FP32FLOPS: e.FP32FLOPS,
		TDPWatts: e.TDPWatts, Form: e.Form, LaunchYear: e.LaunchYear, ECC: e.ECC,
		Aliases: distinct(e.Aliases), AliasNotes: e.AliasNotes, Notes: e.Notes, Sources: e.Sources,
		Origin: catalog.User,
	}
	for i, p := range e.MIGProfiles {
		if !migProfileName.MatchString(p.Name) {
			wrong.Add(at("/mig_profiles", i)+"/name", "unknown_value",
				"%q was given; accepted: a profile such as 1g.10gb", p.Name)
		}
		text(at("/mig_profiles", i)+"/source", p.Source)
		g.MIGProfiles = append(g.MIGProfiles, catalog.MIGProfile{Name: p.Name, MemoryBytes: p.MemoryBytes,
			MemoryBasis: p.MemoryBasis, Multiprocessors: int(p.Multiprocessors), Source: p.Source})
	}
	if g.MemoryBasis == "" {
		g.MemoryBasis = catalog.Given
	}
	switch {
	case g.UsableBytes == 0:
		reserved := catalog.DriverReservedBytes(g.Vendor, g.MemoryType, g.MemoryBytes)
		g.UsableBytes, g.UsableBasis, g.UsableNote = g.MemoryBytes-reserved, catalog.Inferred,
			catalog.ReservedNote(reserved)
	case g.UsableBasis == "":
		g.UsableBasis = catalog.Given
	}
	return g, wrong.Err()
}
