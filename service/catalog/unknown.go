package catalog

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
)

// UnknownError is a name that no entry of the catalog has.
type UnknownError struct {
	// Kind is "GPU" or "model".
	Kind string
	Name string
	// Nearest holds ids of entries with similar names, the nearest first.
	Nearest []string
	// Reason is more specific than "unknown" where that is known.
	Reason string
}

func (e *UnknownError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "unknown %s %.100q", e.Kind, e.Name)
	if e.Reason != "" {
		fmt.Fprintf(&b, ": %s", e.Reason)
	}
	if len(e.Nearest) > 0 {
		fmt.Fprintf(&b, "; nearest: %s", strings.Join(e.Nearest, ", "))
	}
	return b.String()
}

const (
	maxNearest = 3
	// maxSuggestedName keeps the search for similar names short, whatever is sent.
	maxSuggestedName = 64
)

// candidate is one spelling that an unknown name is compared with.
type candidate struct {
	key   string
	entry int
}

// nearest returns up to maxNearest entries with a spelling like key. A spelling
// that contains the key (rtx6000 in quadrortx6000) counts as near, however much
// longer it is; otherwise a third of the letters may differ.
func nearest(key string, candidates []candidate) []int {
	if key == "" || len(key) > maxSuggestedName {
		return nil
	}
	limit := max(2, len(key)/3)
	best := map[int]int{}
	for _, c := range candidates {
		d := limit + 1
		switch {
		case len(key) >= 3 && strings.Contains(c.key, key):
			d = 0
		case len(c.key) >= 4 && strings.Contains(key, c.key):
			d = limit
		case abs(len(c.key)-len(key)) <= limit:
			d = levenshtein.ComputeDistance(key, c.key)
		}
		if d > limit {
			continue
		}
		if old, ok := best[c.entry]; !ok || d < old {
			best[c.entry] = d
		}
	}
	found := make([]int, 0, len(best))
	for e := range best {
		found = append(found, e)
	}
	slices.SortFunc(found, func(a, b int) int { return cmp.Or(cmp.Compare(best[a], best[b]), cmp.Compare(a, b)) })
	return found[:min(len(found), maxNearest)]
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
