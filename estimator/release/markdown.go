package release

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Markdown is two tables: of the stacks and of the changes.
func Markdown(stacks []Stack, changes []Change) string {
	var b strings.Builder
	b.WriteString("| stack | releases | proven |\n|---|---|---|\n")
	for _, s := range stacks {
		var named []string
		for _, library := range slices.Sorted(maps.Keys(s.Releases)) {
			named = append(named, library+" "+s.Releases[library])
		}
		proven := s.Proven
		if len(s.Families) > 0 {
			proven += ": " + strings.Join(s.Families, ", ")
		}
		if len(s.Unproven) > 0 {
			proven += ": " + strings.Join(s.Unproven, ", ")
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.Name, strings.Join(named, ", "), proven)
	}
	b.WriteString("\n| library | releases | what | switch | source | shown by |\n|---|---|---|---|---|---|\n")
	for _, c := range changes {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", c.Library, c.span(), c.What, c.Switch, c.Source, c.Shown)
	}
	return b.String()
}

// span is in which releases a change holds, in words.
func (c *Change) span() string {
	var words []string
	if c.From != "" {
		words = append(words, "from "+c.From)
	}
	if c.To != "" {
		words = append(words, "before "+c.To)
	}
	if c.After != "" {
		words = append(words, "not yet in "+c.After)
	}
	if c.Unless != "" {
		words = append(words, "unless "+c.Unless+" is named")
	}
	return strings.Join(words, ", ")
}
