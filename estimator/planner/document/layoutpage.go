package document

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

// What a page shows of layouts left out, and of how many ranked ones the launcher's words.
const (
	leftOutShown = 12
	wordsShown   = 3
)

// layoutColumns are those of the ranking.
var layoutColumns = []string{"layout", "rerun", "pair", "GiB", "s/step", "tok/s/GPU", "waits"}

// layoutRows are the ranking, a row a layout.
func (p *Plan) layoutRows() [][]string {
	var rows [][]string
	for _, x := range p.Layouts.Ranked {
		rows = append(rows, []string{fmt.Sprintf("%d. %s, %s", x.Rank, x.Name, x.Framework),
			strings.Replace(x.GradientCheckpointing, "selective", "part", 1),
			fmt.Sprintf("%d × %d", x.MicroBatch, x.GradientAccumulation),
			fmt.Sprintf("%.1f", float64(x.DeviceBytes)/(1<<30)),
			fmt.Sprintf("%.3g", x.StepTime.ExpectedSeconds), fmt.Sprintf("%.0f", x.TokensPerSecondPerGPU),
			fmt.Sprintf("%.0f %%", 100*x.CommunicationShare)})
	}
	return rows
}

// layoutSummary is what a page says of layouts first.
func (p *Plan) layoutSummary() []string {
	l := p.Layouts
	lines := []string{fmt.Sprintf("%d GPUs, %d in each host, %s each.", l.GPUs, l.GPUsPerNode,
		estimator.Bytes(p.UsableBytes))}
	if len(l.Ranked) > 0 {
		x := l.Ranked[0]
		t := x.StepTime
		lines = append(lines, fmt.Sprintf("Recommended: %s with %s, checkpointing %s, %d × %d: %s a GPU, "+
			"%s to %s a step.",
			x.Name, x.Framework, x.GradientCheckpointing, x.MicroBatch, x.GradientAccumulation,
			estimator.Bytes(x.DeviceBytes), Seconds(t.LowSeconds), Seconds(t.HighSeconds)))
	} else {
		lines = append(lines, p.noLayout())
	}
	for _, n := range p.Notes {
		if n.Code == "nearest-batch" {
			lines = append(lines, n.Text)
		}
	}
	if f := p.FewestGPUs; f != nil {
		line := fmt.Sprintf("Fewest of this card: %d, %s, at %d × %d (%s each)", f.GPUs, f.Layout, f.MicroBatch,
			f.GradientAccumulation, estimator.Bytes(f.DeviceBytes))
		if f.EffectiveBatch != p.EffectiveBatch {
			line += fmt.Sprintf(", an effective batch of %d", f.EffectiveBatch)
		}
		lines = append(lines, line+".")
	}
	return lines
}

// noLayout says that nothing is ranked, and how much that says.
func (p *Plan) noLayout() string {
	l := p.Layouts
	counts := map[string]int{}
	var tight *LeftOutLayout
	for i, x := range l.LeftOut {
		if counts[x.Code] += x.Count; x.Code == "tight" && tight == nil {
			tight = &l.LeftOut[i]
		}
	}
	var line string
	switch looked := counts["tight"] + counts["does_not_fit"]; {
	case tight != nil:
		line = fmt.Sprintf("No layout fits for sure on %d GPUs. %s with %s may: it %s.", l.GPUs, tight.Name,
			tight.Framework, tight.Reason)
	case counts["not_asked"] > 0:
		line = fmt.Sprintf("None of the %d layouts looked at fits on %d GPUs; %d were not looked at.", looked, l.GPUs,
			counts["not_asked"])
	case looked == 0 && counts["batch"] > 0:
		line = fmt.Sprintf("No layout of %d GPUs divides an effective batch of %d.", l.GPUs, p.EffectiveBatch)
	default:
		line = fmt.Sprintf("No layout fits on %d GPUs.", l.GPUs)
	}
	for _, n := range p.Notes {
		if n.Code == ExpertsNotShared {
			line += " Expert parallelism of such a model, which takes less, is not modelled."
		}
	}
	return line
}

// leftOutText is a row of what is left out.
func (x *LeftOutLayout) text() string {
	name := x.Name
	if x.Count > 1 {
		name = fmt.Sprintf("%s and %d more", name, x.Count-1)
	}
	return fmt.Sprintf("%s, %s: %s", name, x.Framework, x.Reason)
}

// layouts prints the layouts on a page of 80 columns.
func (b *page) layouts(p *Plan) {
	l := p.Layouts
	if len(l.Ranked) > 0 {
		b.WriteString("\n")
		textTable(&b.Builder, layoutColumns, p.layoutRows())
	}
	launchers := map[string]bool{}
	for _, x := range l.Ranked {
		starts := strings.Fields(x.Launch.Command)[0] + x.Framework
		if launchers[starts] || len(launchers) == wordsShown {
			continue
		}
		launchers[starts] = true
		fmt.Fprintf(b, "\n")
		b.wrapped(fmt.Sprintf("%d. ", x.Rank), x.Name+", "+x.Framework)
		b.command(x.Launch.Command)
		for _, f := range x.Launch.Files {
			fmt.Fprintf(b, "   --- %s\n", f.Name)
			for line := range strings.Lines(f.Text) {
				b.WriteString("   " + oneLine(strings.TrimRight(line, "\n")) + "\n")
			}
		}
		if x.Launch.Code != "" {
			b.WriteString("   --- in the program\n")
			for line := range strings.SplitSeq(x.Launch.Code, "\n") {
				b.WriteString("   " + oneLine(line) + "\n")
			}
		}
	}
	if len(l.LeftOut) > 0 {
		b.WriteString("\nLeft out\n")
		for i := range l.LeftOut[:min(len(l.LeftOut), leftOutShown)] {
			b.wrapped("- ", l.LeftOut[i].text())
		}
		if n := len(l.LeftOut) - leftOutShown; n > 0 {
			fmt.Fprintf(b, "- and %d kinds more (--wide)\n", n)
		}
	}
}

// command prints a command line, continued as a shell takes it.
func (b *page) command(text string) {
	const indent = "   "
	lines := wrap(oneLine(text), LineWidth-len(indent)-4)
	for i, line := range lines {
		if i > 0 {
			line = "  " + line
		}
		if i < len(lines)-1 {
			line += " \\"
		}
		b.WriteString(indent + line + "\n")
	}
}

// wideLayouts prints all of the layouts, with the words of each.
func (p *Plan) wideLayouts(b *strings.Builder, table func(*strings.Builder, []string, [][]string)) {
	if p.Layouts == nil {
		return
	}
	if len(p.Layouts.Ranked) > 0 {
		b.WriteString("\n")
		table(b, layoutColumns, p.layoutRows())
	}
	for _, x := range p.Layouts.Ranked {
		fmt.Fprintf(b, "\n%d. %s, %s\n\n    %s\n", x.Rank, oneLine(x.Name), x.Framework, oneLine(x.Launch.Command))
		for _, f := range x.Launch.Files {
			fmt.Fprintf(b, "\n    # %s\n", f.Name)
			for line := range strings.Lines(f.Text) {
				b.WriteString("    " + oneLine(strings.TrimRight(line, "\n")) + "\n")
			}
		}
		if x.Launch.Code != "" {
			b.WriteString("\n    # in the program\n")
			for line := range strings.SplitSeq(x.Launch.Code, "\n") {
				b.WriteString("    " + oneLine(line) + "\n")
			}
		}
	}
	for i := range p.Layouts.LeftOut {
		if i == 0 {
			b.WriteString("\nLeft out:\n\n")
		}
		fmt.Fprintf(b, "- %s\n", escape(p.Layouts.LeftOut[i].text()))
	}
}
