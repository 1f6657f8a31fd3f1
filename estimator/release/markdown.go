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
		fmt.Fprintf(&b, "| %s | %s | %s |\n", s.Name, strings.Join(named, ", "), s.Shown())
	}
	b.WriteString("\n| library | releases | what | switch | source | shown by |\n|---|---|---|---|---|---|\n")
	for _, c := range changes {
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", c.Library, c.Span(), c.What, c.Switch, c.Source, c.Shown)
	}
	return b.String()
}

// Shown is what the traces of a stack have shown, in words.
func (s *Stack) Shown() string {
	words := s.Proven
	for _, families := range [][]string{s.Families, s.Unproven} {
		if len(families) > 0 {
			words += ": " + strings.Join(families, ", ")
		}
	}
	return words
}

// Span is in which releases a change holds, in words.
func (c *Change) Span() string {
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
