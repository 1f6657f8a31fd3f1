package catalog

import (
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

// desktopNames and workstationNames begin the names under which NVIDIA, AMD and Intel sell cards for desktops and for
// workstations; what is sold under no name of these is for data centers.
var (
	desktopNames     = []string{"GeForce ", "TITAN ", "Radeon RX ", "Arc "}
	workstationNames = []string{"Quadro ", "RTX ", "Radeon PRO "}
)

// line is what the card is sold for; unknown of one that is not in the catalog. The server edition of a workstation
// card is a data center's, and so are the slices of a card, which drive no display.
func (g *GPU) line() estimator.Line {
	named := func(beginnings []string) bool {
		for _, b := range beginnings {
			if strings.HasPrefix(g.Name, b) {
				return true
			}
		}
		return false
	}
	_, _, slice := splitMIG(g.ID)
	switch {
	case g.Form == "unified-memory SoC":
		return estimator.Embedded
	case g.Form == "laptop":
		return estimator.Laptop
	case slice, strings.Contains(g.Name, "Server"):
		return estimator.DataCenter
	case named(desktopNames):
		return estimator.Desktop
	case named(workstationNames):
		return estimator.Workstation
	case g.Origin == Builtin, g.Form != "":
		return estimator.DataCenter
	}
	return ""
}
