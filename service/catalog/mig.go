package catalog

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// migProfile is a profile as nvidia-smi writes it: 1g.10gb, with a compute
// instance in front (1c.3g.20gb) or attributes behind (1g.10gb+me; Kubernetes
// labels have .me, since a label may not hold a plus).
var migProfile = regexp.MustCompile(`^(?:([1-7])c\.)?([1-7]g\.[0-9]{1,3}gb)(?:[.+](?:me|me\.all|gfx|all))*$`)

// splitMIG cuts the name of a MIG slice, such as
// NVIDIA-A100-SXM4-80GB-MIG-1g.10gb, into the key of its card and the words
// after "mig".
func splitMIG(name string) (card, profile string, ok bool) {
	words := gpuWords(name)
	for i := len(words) - 2; i > 0; i-- {
		if words[i] == "mig" {
			return strings.Join(words[:i], ""), strings.Join(words[i+1:], ""), true
		}
	}
	return "", "", false
}

// slice is the card that one MIG slice of g is to a job. A slice's memory
// is usable as a whole: on an A100 PyTorch shows exactly the profile's size, since
// the driver's own part is taken off before the card is cut.
func (g *GPU) slice(profile string) (*GPU, bool) {
	m := migProfile.FindStringSubmatch(profile)
	if m == nil {
		return nil, false
	}
	for i := range g.MIGProfiles {
		p := &g.MIGProfiles[i]
		if p.Name != m[2] {
			continue
		}
		s := *g
		s.ID = g.ID + "-mig-" + p.Name
		s.Name = g.Name + " MIG " + p.Name
		s.MIGProfiles, s.Aliases, s.AliasNotes = nil, nil, nil
		s.MemoryBytes, s.MemoryBasis = p.MemoryBytes, p.MemoryBasis
		s.UsableBytes, s.UsableBasis = p.MemoryBytes, p.MemoryBasis
		s.UsableNote = "the slice's own memory, usable as a whole"
		if p.MemoryBasis == Inferred {
			s.UsableNote = "the slice's share of the card, less what such slices have been seen to lose"
		}
		s.Multiprocessors = p.Multiprocessors
		compute := g.computeShare(p)
		if m[1] != "" {
			// A compute instance has part of its slice's SMs and all of its memory.
			s.ID, s.Name = g.ID+"-mig-"+m[1]+"c."+p.Name, g.Name+" MIG "+m[1]+"c."+p.Name
			c, _ := strconv.ParseFloat(m[1], 64)
			of, _ := strconv.ParseFloat(p.Name[:1], 64)
			if c > of {
				return nil, false
			}
			compute *= c / of
			s.Multiprocessors = int(float64(s.Multiprocessors) * c / of)
		}
		s.FP32FLOPS *= compute
		s.HalfFLOPS *= compute
		if g.MemoryBytes > 0 {
			s.BandwidthBytesPerSecond *= float64(p.MemoryBytes) / float64(g.MemoryBytes)
		}
		return &s, true
	}
	return nil, false
}

// computeShare is the part of the card's throughput that a slice has: by SMs
// where both are known, else by slices, of which a card has as many as its largest profile.
func (g *GPU) computeShare(p *MIGProfile) float64 {
	if p.Multiprocessors > 0 && g.Multiprocessors > 0 {
		return float64(p.Multiprocessors) / float64(g.Multiprocessors)
	}
	largest := byte('1')
	for _, q := range g.MIGProfiles {
		largest = max(largest, q.Name[0])
	}
	return float64(p.Name[0]-'0') / float64(largest-'0')
}

// migProblem says why profile is no slice of g.
func (g *GPU) migProblem(profile string) string {
	if len(g.MIGProfiles) == 0 {
		return fmt.Sprintf("no MIG profiles are known for %s", g.ID)
	}
	names := make([]string, len(g.MIGProfiles))
	for i, p := range g.MIGProfiles {
		names[i] = p.Name
	}
	return fmt.Sprintf("%s has no MIG profile %.40q; it has %s", g.ID, profile, strings.Join(names, ", "))
}
