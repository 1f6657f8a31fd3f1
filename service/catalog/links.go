package catalog

import "strings"

// nvlink is what the NVLinks of a card on a board for eight carry each way, by compute capability. Source: NVIDIA's
// data sheets, which give both ways together: V100 300 GB/s, A100 600, H100 and H200 900, B200 and B300 1,800.
var nvlink = map[string]float64{"7.0": 150e9, "8.0": 300e9, "9.0": 450e9, "10.0": 900e9, "10.3": 900e9}

// What sixteen lanes of PCI Express carry each way, by generation (PCI-SIG: 8, 16 and 32 GT/s a lane, 128 bits of 130
// are data).
const (
	pcie3 = 15.75e9
	pcie4 = 31.5e9
	pcie5 = 63e9
)

// linkBytesPerSecond is how fast another card of this kind in the same host is reached, each way; 0 where nobody knows.
func (g *GPU) linkBytesPerSecond() float64 {
	c := capability(g.ComputeCapability)
	switch {
	case strings.HasPrefix(g.ID, "a800-sxm") || strings.HasPrefix(g.ID, "h800-sxm"):
		return 200e9 // sold with 400 GB/s both ways
	case g.Form == "SXM" || g.Form == "superchip":
		return nvlink[g.ComputeCapability]
	case g.Form != "PCIe" || c == 0:
		return 0
	case c < 80:
		return pcie3
	case c < 90:
		return pcie4
	}
	return pcie5
}

// single says that no host has several of g that could work together. The slices of a card cannot reach each other
// (NVIDIA, MIG user guide, "Application Considerations").
func (g *GPU) single() bool {
	_, _, slice := splitMIG(g.ID)
	return slice || g.Form == "laptop" || g.Form == "unified-memory SoC"
}
