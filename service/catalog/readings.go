package catalog

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	// slurmSlice is a slice as Slurm's GRES types name it: a100_3g.20gb. A colon stands there in requests.
	slurmSlice = regexp.MustCompile(`^(.+?)[-_: ](?:mig[-_. ])?([1-7]g\.[0-9]{1,3}gb)$`)
	// bareSlice is a profile alone, as people and Kubernetes' resources name it: 3g.20gb, mig-3g.20gb.
	bareSlice = regexp.MustCompile(`^(?:mig[-_. ])?((?:[1-7]c\.)?[1-7]g\.[0-9]{1,3}gb)$`)
	// bareSize is what a box says: 12GB, 80 GiB. nvidia-smi's MiB are no size of a box.
	bareSize = regexp.MustCompile(`^([0-9]{1,3}) ?(?:gb|gib|g)(?: ?(?:gpu|card|vram))?$`)
)

// countBefore and countBehind are a card with how many of them, as clouds and requests write it: 8xH100, A100:4.
var (
	countBefore = regexp.MustCompile(`^([0-9]{1,4}) ?[xX×*] ?(.+)$`)
	countBehind = regexp.MustCompile(`^(.+?) ?[xX×*:] ?([0-9]{1,4})$`)
)

// counted finds the card and the count of a name that says both.
func (x *gpuIndex) counted(name string) (entry int, count string, ok bool) {
	name = strings.TrimSpace(name)
	if m := countBefore.FindStringSubmatch(name); m != nil {
		if i, found := x.byKey[GPUKey(m[2])]; found {
			return i, m[1], true
		}
	}
	if m := countBehind.FindStringSubmatch(name); m != nil {
		if i, found := x.byKey[GPUKey(m[1])]; found {
			return i, m[2], true
		}
	}
	return 0, "", false
}

// resourcePrefixes are those of Kubernetes' names: a label with its value, and a resource that names a slice.
var resourcePrefixes = []string{"nvidia.com/gpu.product=", "cloud.google.com/gke-accelerator=",
	"karpenter.k8s.aws/instance-gpu-name=",
	"k8s.amazonaws.com/accelerator=", "gpu.nvidia.com/class=", "amd.com/gpu.product-name=",
	"node.kubernetes.io/instance-type=",
	"beta.kubernetes.io/instance-type=", "nvidia.com/"}

// reading is what a name means that is no name of an entry.
type reading struct {
	card *GPU
	// variants are the ids of all cards that the name may stand for where hardware is asked for by it.
	variants []string
}

// read finds what a name means that is no name of an entry: a slice, a size, an instance type, a label. ok is false
// where it means nothing; a name that means something which the catalog does not have is an *UnknownError.
func (x *gpuIndex) read(name string) (r reading, ok bool, err error) {
	short := strings.ToLower(strings.TrimSpace(name))
	for _, prefix := range resourcePrefixes {
		if rest, cut := strings.CutPrefix(short, prefix); cut {
			short = rest
			break
		}
	}
	if i, found := x.byKey[GPUKey(short)]; found && short != strings.ToLower(name) && short != "gpu" {
		return reading{card: &x.entries[i]}, true, nil
	}
	if m := bareSlice.FindStringSubmatch(short); m != nil {
		return x.ofProfile(name, m[1])
	}
	if m := slurmSlice.FindStringSubmatch(short); m != nil {
		if i, found := x.byKey[GPUKey(m[1])]; found {
			if s, has := x.entries[i].slice(m[2]); has {
				return reading{card: s}, true, nil
			}
			// The name of the card alone means the smaller of two, and the slice may be of the other: a100_3g.40gb.
			return x.sliceOfFamily(name, m[1], m[2], &x.entries[i])
		}
	}
	if m := bareSize.FindStringSubmatch(short); m != nil {
		return x.ofSize(name, m[1])
	}
	i, found, err := instanceOf(short)
	if err != nil || !found {
		return reading{}, false, err
	}
	g, err := x.card(i, name)
	if err != nil {
		return reading{}, false, err
	}
	return reading{card: g}, true, nil
}

// ofProfile is the slice of that profile which leaves a job least, of any card: what fits there fits every other.
func (x *gpuIndex) ofProfile(name, profile string) (reading, bool, error) {
	var found []*GPU
	for i := range x.entries {
		if s, ok := x.entries[i].slice(profile); ok {
			found = append(found, s)
		}
	}
	return leastOf(name, found, "Slices %s of %d cards have this profile; this one leaves least.", profile)
}

// sliceOfFamily is a slice of another card of the same short name, where that name says no size.
func (x *gpuIndex) sliceOfFamily(name, card, profile string, meant *GPU) (reading, bool, error) {
	family := GPUKey(sizeSuffix.ReplaceAllString(meant.ID, ""))
	var found []*GPU
	for i := range x.entries {
		if meant.AliasNote(card) == "" || strings.HasSuffix(GPUKey(card), "gb") {
			break
		}
		if id := GPUKey(x.entries[i].ID); strings.HasPrefix(id, family) || strings.HasPrefix(id, GPUKey(card)) {
			if s, ok := x.entries[i].slice(profile); ok {
				found = append(found, s)
			}
		}
	}
	if len(found) == 0 {
		return reading{}, false, &UnknownError{Kind: "GPU", Name: name, Reason: meant.migProblem(profile)}
	}
	return leastOf(name, found, "Slices %s of %d cards have this profile; this one leaves least.", profile)
}

// A card is of a size when nvidia-smi's total is at most that many GiB and at least this share of it: a card with error
// correction shows 15/16 (a T4 of 16 GB 15,360 MiB), and the next smaller size in use, 11 GB beside 12, is 0.917.
const leastOfSize = 0.93

// SizeOf reads a name that is a size alone, such as 24GB.
func SizeOf(name string) (gb int, ok bool) {
	m := bareSize.FindStringSubmatch(strings.ToLower(strings.TrimSpace(name)))
	if m == nil {
		return 0, false
	}
	gb, err := strconv.Atoi(m[1])
	return gb, err == nil
}

// IsOfSize says that a box with so many gigabytes on it may have the card in it.
func (g *GPU) IsOfSize(gb int) bool {
	share := float64(g.MemoryBytes) / float64(int64(gb)<<30)
	return share >= leastOfSize && share <= 1.01
}

// ofSize is the card of a size that leaves a job least: what fits there fits the others. Cards before Volta, of laptops
// and those that share the processor's memory are not meant by a size.
func (x *gpuIndex) ofSize(name, digits string) (reading, bool, error) {
	gb, err := strconv.Atoi(digits)
	if err != nil {
		return reading{}, false, nil
	}
	var found []*GPU
	for i := range x.entries {
		g := &x.entries[i]
		if g.IsOfSize(gb) && g.UsableBytes > 0 && capability(g.ComputeCapability) >= 70 &&
			g.Form != "unified-memory SoC" && g.Form != "laptop" {
			found = append(found, g)
		}
	}
	if len(found) == 0 {
		return reading{}, false,
			&UnknownError{Kind: "GPU", Name: name, Reason: fmt.Sprintf("no card of the catalog has %d GB; give the "+
				"memory with the name: {\"name\", \"memory_bytes\"}", gb)}
	}
	return leastOf(name, found, "%s is the size of %d cards; this one leaves a job least. Name the card for "+
		"its own figures.", strings.ToUpper(digits+"GB"))
}

// leastOf reads a name as the card with the least memory of several, and says so.
func leastOf(name string, found []*GPU, note, what string) (reading, bool, error) {
	if len(found) == 0 {
		return reading{}, false, nil
	}
	slices.SortStableFunc(found, func(a, b *GPU) int {
		return cmp.Or(cmp.Compare(a.UsableBytes, b.UsableBytes), cmp.Compare(a.ID, b.ID))
	})
	r := reading{card: found[0].noted(name, fmt.Sprintf(note, what, len(found)))}
	for _, g := range found {
		r.variants = append(r.variants, g.ID)
	}
	if len(found) == 1 {
		r.card = found[0]
	}
	return r, true, nil
}
