package launch

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/shell"
	"github.com/vramplan/vramplan/service/readers/slurm"
)

// step is one of the programs that a command starts.
type step struct {
	words []shell.Word
	by    [][]shell.Word
}

// perComponent parts an srun that starts a program on each component of a heterogeneous job: srun A : --het-group=1 B.
func perComponent(words []shell.Word, by [][]shell.Word) []step {
	isSrun := func(w []shell.Word) bool { return lastPart(w[0].Text) == "srun" }
	if !slices.ContainsFunc(by, isSrun) {
		return []step{{words, by}}
	}
	colon := func(w shell.Word) bool { return w.Certainty == shell.Sure && w.Text == ":" }
	i := slices.IndexFunc(words, colon)
	if i < 0 {
		return []step{{words, by}}
	}
	steps := []step{{words[:i], by}}
	srun := by[slices.IndexFunc(by, isSrun)][0]
	for rest := words[i+1:]; len(rest) > 0; {
		n := slices.IndexFunc(rest, colon)
		if n < 0 {
			n = len(rest)
		}
		c := shell.Command{Words: append([]shell.Word{srun}, rest[:n]...)}
		if program, by := c.Unwrap(); len(program) > 0 {
			steps = append(steps, step{program, by})
		}
		rest = rest[min(n+1, len(rest)):]
	}
	return steps
}

// onComponents says on which components of the job the command runs: the first one, unless srun names others. Of
// several the first counts the GPUs.
func (c *Command) onComponents(all []Scheduled, by [][]shell.Word) {
	c.Components = []int{0}
	for _, wrapper := range by {
		if lastPart(wrapper[0].Text) != "srun" {
			continue
		}
		for i, w := range wrapper {
			name, value, given := strings.Cut(w.Text, "=")
			if name != "--het-group" && name != "--pack-group" {
				continue
			}
			if !given && i+1 < len(wrapper) {
				value, w = wrapper[i+1].Text, wrapper[i+1]
			}
			if c.Components, given = slurm.Groups(value); !given || w.Certainty < shell.Sure {
				c.Components = nil // nobody knows on which
			}
		}
	}
	for i, n := range c.Components {
		if n >= len(all) {
			continue
		}
		if i == 0 {
			c.slurm = all[n].Counts
		}
		o := all[n].words.Options()
		if o.Comment == "" {
			o.Comment = all[0].words.Options().Comment // holds for all components
		}
		c.Asked = append(c.Asked, o)
	}
}

func lastPart(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }
