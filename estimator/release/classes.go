package release

import (
	_ "embed"
	"slices"
	"strings"
)

// classes says which heads the models of transformers have, read off the sources of 4.57.6 to 5.23.0 by
// oracle/classes.py, which says what a line is.
//
//go:embed classes.txt
var classes string

// LacksHead says that a release of transformers has no class with a head, as the names of classes end, for models of
// a type, and which release has one, if any was read. Of a release between two that were read and differ, nothing is
// said.
func LacksHead(transformers Version, modelType, head string) (from string, lacks bool) {
	lacks = true
	for line := range strings.Lines(classes) {
		f := strings.Fields(line)
		if f[0] != head || !slices.Contains(f[4:], modelType) {
			continue
		}
		from = f[1]
		last, since := Parse(f[2])
		first, gone := Parse(f[3])
		if (!since || last.Before(transformers)) && (!gone || transformers.Before(first)) {
			return from, false
		}
	}
	return from, lacks
}

// KnowsHead says whether the heads of models were read off with the names that end so.
func KnowsHead(head string) bool {
	return head != "" && strings.HasPrefix(classes, head+" ") || strings.Contains(classes, "\n"+head+" ")
}
