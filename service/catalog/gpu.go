package catalog

import (
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

// Basis says how a figure is known.
type Basis string

// The bases, from the firmest to none.
const (
	Measured  Basis = "measured"  // somebody read it off such a card
	Published Basis = "published" // a data sheet or a table of specifications
	Inferred  Basis = "inferred"  // derived from a measured figure by a rule
	Nominal   Basis = "nominal"   // derived from the size on the label
	Given     Basis = "given"     // by the job
	Unknown   Basis = "unknown"
)

// Origin says whose an entry is.
type Origin string

// The origins. An upgrade of the product replaces built-in entries only.
const (
	Builtin Origin = "builtin"
	User    Origin = "user"
)

// GPU is one card of the catalog. Values that a Catalog hands out are shared:
// they are for reading only.
type GPU struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	Vendor       string `json:"vendor,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	// ComputeCapability is "8.9"; empty for cards that are not NVIDIA's.
	ComputeCapability string `json:"compute_capability,omitempty"`

	// MemoryBytes is nvidia-smi's memory.total, which is less than the label
	// says on many boards; 0 when unknown.
	MemoryBytes int64 `json:"memory_bytes"`
	MemoryBasis Basis `json:"memory_basis,omitempty"`
	// UsableBytes is what the driver hands to CUDA under Linux: PyTorch's
	// total_memory, and the "total capacity" of an out-of-memory message; 0
	// when unknown.
	UsableBytes int64  `json:"usable_bytes"`
	UsableBasis Basis  `json:"usable_basis,omitempty"`
	UsableNote  string `json:"usable_note,omitempty"`
	MemoryType  string `json:"memory_type,omitempty"`

	Multiprocessors         int     `json:"multiprocessors,omitempty"`
	BandwidthBytesPerSecond float64 `json:"memory_bandwidth_bytes_per_second,omitempty"`
	// HalfFLOPS is dense bf16 or fp16 matrix throughput with float32 accumulation.
	HalfFLOPS float64 `json:"half_precision_flops,omitempty"`
	HalfBasis Basis   `json:"half_precision_basis,omitempty"`
	FP32FLOPS float64 `json:"fp32_flops,omitempty"`

	TDPWatts    int64        `json:"tdp_watts,omitempty"`
	Form        string       `json:"form,omitempty"`
	LaunchYear  int64        `json:"launch_year,omitempty"`
	ECC         string       `json:"ecc,omitempty"`
	MIGProfiles []MIGProfile `json:"mig_profiles,omitempty"`

	Aliases []string `json:"aliases,omitempty"`
	// AliasNotes explains those aliases that could have meant another card too.
	AliasNotes map[string]string `json:"alias_notes,omitempty"`
	Notes      string            `json:"notes,omitempty"`
	Sources    []string          `json:"sources,omitempty"`

	Origin   Origin `json:"origin,omitempty"`
	Revision int64  `json:"revision,omitempty"`
}

// MIGProfile is one size in which a card can be cut.
type MIGProfile struct {
	Name        string `json:"name"`
	MemoryBytes int64  `json:"memory_bytes"`
	MemoryBasis Basis  `json:"memory_basis,omitempty"`
	// Multiprocessors is 0 when unknown.
	Multiprocessors int    `json:"multiprocessors,omitempty"`
	Source          string `json:"source,omitempty"`
}

// AliasNote is what is to be said about reading name as this card; "" when
// the name could not have meant another.
func (g *GPU) AliasNote(name string) string { return aliasNote(g.AliasNotes, name, GPUKey) }

// Version names this state of the entry: no other state of an entry of this id has it.
func (g *GPU) Version() string { return version(g.Origin, g.Revision) }

func version(o Origin, revision int64) string {
	return string(o) + "-" + strconv.FormatInt(revision, 10)
}

// ForEstimator is the part of the entry that the estimator works with.
func (g *GPU) ForEstimator() estimator.GPU {
	return estimator.GPU{
		ID:                      g.ID,
		Name:                    g.Name,
		MemoryBytes:             g.MemoryBytes,
		UsableBytes:             g.UsableBytes,
		ComputeCapability:       capability(g.ComputeCapability),
		Multiprocessors:         g.Multiprocessors,
		PeakFLOPS:               g.HalfFLOPS,
		FP32FLOPS:               g.FP32FLOPS,
		BandwidthBytesPerSecond: g.BandwidthBytesPerSecond,
		LinkBytesPerSecond:      g.linkBytesPerSecond(),
		Single:                  g.single(),
		Vendor:                  g.Vendor,
		Line:                    g.line(),
	}
}

// capability turns "8.9" into 89, and anything else into 0.
func capability(s string) int {
	major, minor, ok := strings.Cut(s, ".")
	if !ok {
		return 0
	}
	a, errA := strconv.ParseUint(major, 10, 8)
	b, errB := strconv.ParseUint(minor, 10, 8)
	if errA != nil || errB != nil || b > 9 {
		return 0
	}
	return int(a*10 + b)
}

func aliasNote(notes map[string]string, name string, key func(string) string) string {
	if len(notes) == 0 {
		return ""
	}
	if note, ok := notes[name]; ok {
		return note
	}
	k := key(name)
	for alias, note := range notes {
		if key(alias) == k {
			return note
		}
	}
	return ""
}
