package calibration

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/vramplan/vramplan/estimator/memory"
)

// Unnamed stands for the release of PyTorch where a job names none.
const Unnamed = "unnamed"

// Key says which jobs a group holds. An empty field holds all.
type Key struct {
	// GPU is the card's id.
	GPU string `json:"gpu,omitempty" example:"rtx-4090"`
	// ComputeCapability is major×10+minor, 89 for Ada: cards of one have the same architecture.
	ComputeCapability int `json:"compute_capability,omitempty" example:"89"`
	// Torch is the release of PyTorch that the jobs name, as major.minor, or "unnamed" where they name none.
	Torch string `json:"torch,omitempty" example:"2.9"`
	// Family is the model's.
	Family string `json:"family,omitempty" example:"llama"`
	// SeveralGPUs is true for jobs on several cards, which are never mixed with others.
	SeveralGPUs bool `json:"several_gpus,omitempty"`
}

// String is the key in words: "rtx-4090, torch 2.9, llama".
func (k Key) String() string {
	var words []string
	if k.GPU != "" {
		words = append(words, k.GPU)
	}
	if cc := k.ComputeCapability; cc != 0 {
		words = append(words, fmt.Sprintf("compute capability %d.%d", cc/10, cc%10))
	}
	if k.Torch != "" {
		words = append(words, "torch "+k.Torch)
	}
	if k.Family != "" {
		words = append(words, k.Family)
	}
	if k.SeveralGPUs {
		words = append(words, "several GPUs")
	}
	if len(words) == 0 {
		return "all"
	}
	return strings.Join(words, ", ")
}

// levels are the groups that a job belongs to, the finest first.
const levels = 7

// at is the group of a job at one level. ok is false where the job does not say what the level asks for.
func (k Key) at(level int) (g Key, ok bool) {
	g.SeveralGPUs = k.SeveralGPUs
	switch level {
	case 0:
		g.GPU, g.Torch, g.Family = k.GPU, k.Torch, k.Family
		return g, g.GPU != "" && g.Torch != "" && g.Family != ""
	case 1:
		g.GPU, g.Torch = k.GPU, k.Torch
		return g, g.GPU != "" && g.Torch != ""
	case 2:
		g.GPU = k.GPU
		return g, g.GPU != ""
	case 3:
		g.ComputeCapability, g.Torch, g.Family = k.ComputeCapability, k.Torch, k.Family
		return g, g.ComputeCapability != 0 && g.Torch != "" && g.Family != ""
	case 4:
		g.ComputeCapability, g.Torch = k.ComputeCapability, k.Torch
		return g, g.ComputeCapability != 0 && g.Torch != ""
	case 5:
		g.ComputeCapability = k.ComputeCapability
		return g, g.ComputeCapability != 0
	}
	return g, true
}

// level is the one that a group's key belongs to; -1 where there is no such group.
func (k Key) level() int {
	for level := range levels {
		if at, ok := k.at(level); ok && at == k {
			return level
		}
	}
	return -1
}

// Group is what the runs of some jobs say of the constants.
type Group struct {
	Key
	// Jobs counts the different jobs that were measured, OutOfMemory those that are known to have failed for want of
	// memory. Outliers counts the jobs that the bounds are made without because they lie far from the others.
	Jobs        int `json:"jobs" example:"63"`
	OutOfMemory int `json:"out_of_memory,omitempty"`
	Outliers    int `json:"outliers,omitempty"`
	// ContextBytes is added to the context, WorkspaceBytes to what the allocator reserves.
	ContextBytes   int64 `json:"context_bytes" example:"34603008"`
	WorkspaceBytes int64 `json:"workspace_bytes" example:"2097152"`
	// AllocatorShare of the replayed reserved bytes is added to them, too.
	AllocatorShare float64 `json:"allocator_share" example:"0.012"`
	// ReservedFromBytes to ReservedToBytes is what the replay reserved for the measured jobs. Beyond that range the
	// allocator's share does not grow, and the bounds are at least those that the estimator comes with.
	ReservedFromBytes int64 `json:"reserved_from_bytes" example:"2147483648"`
	ReservedToBytes   int64 `json:"reserved_to_bytes" example:"21474836480"`
	// BoundedBy counts the measured jobs that the bounds are made of: others than those behind the corrections.
	BoundedBy int `json:"bounded_by,omitempty" example:"41"`
	// Bounds are by confidence, rising; without any the estimator's own hold.
	Bounds []Bound `json:"bounds,omitempty"`
}

// Bound says how many times the estimator's own widths at 95 % cover a confidence.
type Bound struct {
	Confidence float64 `json:"confidence" example:"0.95"`
	Below      float64 `json:"below" example:"0.8"`
	Above      float64 `json:"above" example:"1.1"`
}

// Calibration corrects the constants of one version of the estimator. It does not change, and may be used by several
// goroutines. Make one with [New] or from JSON.
type Calibration struct {
	// ID names it in answers.
	ID string
	// Estimator is the version of the estimator, and Base the constants, that it was fitted to.
	Estimator, Base string

	groups []Group
	index  map[Key]*Group
}

// document is a calibration in JSON.
type document struct {
	ID        string  `json:"id"`
	Estimator string  `json:"estimator"`
	Base      string  `json:"base"`
	Groups    []Group `json:"groups"`
}

// New checks groups and makes a calibration of them.
func New(id, estimator, base string, groups []Group) (*Calibration, error) {
	c := &Calibration{ID: id, Estimator: estimator, Base: base, groups: groups,
		index: make(map[Key]*Group, len(groups))}
	for _, named := range []struct{ what, is string }{{"id", id}, {"estimator", estimator}, {"base", base}} {
		if named.is == "" {
			return nil, fmt.Errorf("a calibration without %s", named.what)
		}
	}
	for i := range groups {
		g := &groups[i]
		if err := g.check(); err != nil {
			return nil, fmt.Errorf("calibration %s, group %d: %w", id, i, err)
		}
		if c.index[g.Key] != nil {
			return nil, fmt.Errorf("calibration %s: group %d is there twice", id, i)
		}
		c.index[g.Key] = g
	}
	return c, nil
}

// Groups are the calibration's, for reading only.
func (c *Calibration) Groups() []Group { return c.groups }

// MarshalJSON implements json.Marshaler.
func (c *Calibration) MarshalJSON() ([]byte, error) {
	return json.Marshal(document{c.ID, c.Estimator, c.Base, c.groups})
}

// UnmarshalJSON implements json.Unmarshaler. What is not a calibration is an error.
func (c *Calibration) UnmarshalJSON(text []byte) error {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	made, err := New(d.ID, d.Estimator, d.Base, d.Groups)
	if err == nil {
		*c = *made
	}
	return err
}

// For is the finest group that holds a job; nil where none does.
func (c *Calibration) For(job Key) *Group {
	if c == nil {
		return nil
	}
	return find(c.index, job)
}

func find(index map[Key]*Group, job Key) *Group {
	for level := range levels {
		if k, ok := job.at(level); ok {
			if g := index[k]; g != nil {
				return g
			}
		}
	}
	return nil
}

// How large the corrections of a group may be. The contexts of all published processes lie between 0.2 and 1.4 GiB, but
// for one series that reads 1.3 GiB more than those, and what the allocator reserves differs by a quarter from the
// replay where it differs most: beyond these limits something else than a constant is off.
const (
	mostContext   = 2 << 30
	mostWorkspace = 8 << 30
	mostShare     = 0.5
	mostTimes     = 1000
	mostReserved  = 1e15
)

func (g *Group) check() error {
	within := func(v, most float64) bool { return v >= -most && v <= most } // false for a NaN
	switch {
	case g.level() < 0:
		return fmt.Errorf("no job is looked up under %+v", g.Key)
	case !within(float64(g.ContextBytes), mostContext), !within(float64(g.WorkspaceBytes), mostWorkspace),
		!within(g.AllocatorShare, mostShare):
		return fmt.Errorf("a correction is out of range: context_bytes %d, workspace_bytes %d, allocator_share %g",
			g.ContextBytes, g.WorkspaceBytes, g.AllocatorShare)
	case g.ReservedFromBytes < 0, g.ReservedToBytes < g.ReservedFromBytes, g.ReservedToBytes > mostReserved:
		return errors.New("reserved_from_bytes to reserved_to_bytes is no range")
	}
	last := Bound{}
	for _, b := range g.Bounds {
		if !(b.Confidence >= 0.5 && b.Confidence > last.Confidence && b.Confidence < 1) ||
			!(b.Below > 0 && b.Below >= last.Below && b.Below <= mostTimes) ||
			!(b.Above > 0 && b.Above >= last.Above && b.Above <= mostTimes) {
			return fmt.Errorf("bounds do not rise: %+v after %+v", b, last)
		}
		last = b
	}
	return nil
}

// Correction is what the group says of a job of which the replay reserved so many bytes. A nil group says nothing.
func (g *Group) Correction(reserved int64, confidence float64) memory.Correction {
	if g == nil {
		return memory.Correction{}
	}
	x := memory.Correction{Context: g.ContextBytes, Reserved: g.WorkspaceBytes + g.share(reserved)}
	x.Below, x.Above = g.times(confidence)
	if x.Above != 0 && g.Beyond(reserved) {
		least := memory.Stretch(confidence)
		x.Below, x.Above = max(x.Below, least), max(x.Above, least)
	}
	return x
}

func (g *Group) share(reserved int64) int64 {
	return int64(g.AllocatorShare * float64(min(max(reserved, g.ReservedFromBytes), g.ReservedToBytes)))
}

// Beyond says that a job is less than half as large as the smallest that was measured, or more than twice as large as
// the largest.
func (g *Group) Beyond(reserved int64) bool {
	return reserved < g.ReservedFromBytes/2 || reserved/2 > g.ReservedToBytes
}

// times is how many times the widths cover a confidence: those of the next confidence in the table that is not lower.
// Where too few runs were measured for it, the highest there is, stretched as the estimator stretches its own and not
// less than those; 0 where the group has no bounds.
func (g *Group) times(confidence float64) (below, above float64) {
	for _, b := range g.Bounds {
		if b.Confidence >= confidence {
			return b.Below, b.Above
		}
	}
	if len(g.Bounds) == 0 {
		return 0, 0
	}
	last := g.Bounds[len(g.Bounds)-1]
	least := memory.Stretch(confidence)
	stretch := least / memory.Stretch(last.Confidence)
	return math.Max(last.Below*stretch, least), math.Max(last.Above*stretch, least)
}

// Promises says whether enough runs were measured to promise a confidence.
func (g *Group) Promises(confidence float64) bool {
	return g != nil && len(g.Bounds) > 0 && g.Bounds[len(g.Bounds)-1].Confidence >= confidence
}
