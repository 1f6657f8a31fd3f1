package readers

import (
	"slices"
	"strings"

	"github.com/vramplan/vramplan/service/readers/setting"
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
func (c *command) onComponents(all []scheduled, by [][]shell.Word) {
	c.components = []int{0}
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
			if c.components, given = slurm.Groups(value); !given || w.Certainty < shell.Sure {
				c.components = nil // nobody knows on which
			}
		}
	}
	for i, n := range c.components {
		if n >= len(all) {
			continue
		}
		if i == 0 {
			c.slurm = all[n].counts
		}
		o := all[n].words.Options()
		if o.Comment == "" {
			o.Comment = all[0].words.Options().Comment // holds for all components
		}
		c.asked = append(c.asked, o)
	}
}

// Components are the components of a heterogeneous job of Slurm's on which the job runs, which is the first one for all
// other jobs; none where nobody knows.
func (j Job) Components() []int {
	if j.draft == nil {
		return nil
	}
	return j.draft.components
}

func lastPart(name string) string { return name[strings.LastIndexByte(name, '/')+1:] }

// scheduledCards are those that the scheduler may give the command, where it was asked for one that is known.
func (r *reading) scheduledCards() {
	r.d.components = r.components
	known := r.files.source.Cards
	if known == nil || r.d.has("/gpus") || len(r.asked) == 0 {
		return
	}
	var cards []string
	for _, o := range r.asked {
		of := known(o)
		switch types := o.Types(); {
		case o.NoGPU():
			r.d.settle("/gpus", "the script asks Slurm for no GPU; --gpu NAME says on which card it runs")
			return
		case len(of) == 0 && len(types) > 0:
			r.d.settle("/gpus", "Slurm is asked for %s, which is no card of the catalog; --gpu NAME says which it is",
				strings.Join(types, ", "))
			return
		case len(of) == 0:
			return
		}
		for _, card := range of {
			if !slices.Contains(cards, card) {
				cards = append(cards, card)
			}
		}
	}
	v := setting.Value{Any: cards, Origin: setting.Origin{Kind: setting.Derived,
		How: "what the script asks Slurm for"}}
	r.d.put("/gpus", v.Any, v)
}
