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
	switch {
	case len(e.Nearest) > 0:
		fmt.Fprintf(&b, "; nearest: %s", strings.Join(e.Nearest, ", "))
	case e.Reason == "":
		kinds := strings.ToLower(e.Kind) + "s"
		fmt.Fprintf(&b, "; GET /v1/%s and vramplan %s list them", kinds, kinds)
	}
	if e.Kind == "model" && e.Reason == "" {
		// Most families are known by more sizes than are listed.
		b.WriteString("; its config.json says as much as a name: hf_config in a job, --hf-config on the command line")
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
	best, extra := map[int]int{}, map[int]int{}
	letters := squash(key)
	for _, c := range candidates {
		d := limit + 1
		switch {
		case len(key) >= 3 && strings.Contains(c.key, key), len(letters) >= 5 &&
			strings.Contains(squash(c.key), letters):
			d = 0 // the same but for what is around it: Llama3-8b and meta-llama-3-8b
		case len(c.key) >= 4 && strings.Contains(key, c.key):
			d = min(limit, levenshtein.ComputeDistance(key, c.key))
		case abs(len(c.key)-len(key)) <= limit:
			d = levenshtein.ComputeDistance(key, c.key)
		}
		if d > limit {
			continue
		}
		more := abs(len(c.key) - len(key))
		if old, ok := best[c.entry]; !ok || d < old || d == old && more < extra[c.entry] {
			best[c.entry], extra[c.entry] = d, more
		}
	}
	found := make([]int, 0, len(best))
	for e := range best {
		found = append(found, e)
	}
	slices.SortFunc(found, func(a, b int) int {
		return cmp.Or(cmp.Compare(best[a], best[b]), cmp.Compare(extra[a], extra[b]), cmp.Compare(a, b))
	})
	return found[:min(len(found), maxNearest)]
}

// squash leaves the letters and digits of a key: people put the separators elsewhere.
func squash(key string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune("-_./ ", r) {
			return -1
		}
		return r
	}, key)
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
