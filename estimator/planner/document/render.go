package document

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// Markdown prints the plan as a page: what it is for, the options, the pairs and
// the notes.
func (p *Plan) Markdown() string {
	b := p.tables("## %s\n\n%s\n", markdownTable)
	if len(p.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, n := range p.Notes {
		fmt.Fprintf(b, "- %s\n", escape(n.Text))
	}
	return b.String()
}

// WideText prints all of the plan for a terminal that is as wide as it takes, in the same order as Markdown.
func (p *Plan) WideText() string {
	b := p.tables("%s\n%s\n", textTable)
	if len(p.Notes) > 0 {
		b.WriteString("\n")
	}
	for _, n := range p.Notes {
		fmt.Fprintf(b, "* %s\n", oneLine(n.Text))
	}
	return b.String()
}

// tables are what the plan is for, in the format of head, and its tables as table draws one.
func (p *Plan) tables(head string, table func(*strings.Builder, []string, [][]string)) *strings.Builder {
	b := &strings.Builder{}
	fmt.Fprintf(b, head, p.heading(), p.summary())
	p.wideLayouts(b, table)
	if len(p.Options) > 0 {
		b.WriteString("\n")
		table(b, optionColumns, p.optionRows())
	}
	if len(p.Pairs) > 0 && p.Layouts == nil {
		b.WriteString("\n")
		table(b, pairColumns, p.pairRows())
	}
	for _, t := range p.furtherTables() {
		b.WriteString("\n")
		table(b, t.columns, t.rows)
	}
	return b
}

var (
	optionColumns = []string{"option", "new values", "effective batch", "VRAM saved", "effect on training",
		"recommendation"}
	pairColumns = []string{"micro-batch", "accumulation", "device", "upper bound", "headroom", "verdict", "step time"}
)

func (p *Plan) heading() string {
	h := fmt.Sprintf("%s, effective batch %d", p.Model.Name, p.EffectiveBatch)
	switch {
	case p.Layouts != nil:
	case p.WorldSize > p.DataParallelGPUs && p.DataParallelGPUs > 1:
		h += fmt.Sprintf(" over %d data-parallel groups of %d GPUs", p.DataParallelGPUs,
			p.WorldSize/p.DataParallelGPUs)
	case p.WorldSize > 1:
		h += fmt.Sprintf(" on %d GPUs that share each sequence's work", p.WorldSize)
	case p.DataParallelGPUs > 1:
		h += fmt.Sprintf(" over %d GPUs", p.DataParallelGPUs)
	}
	if p.GPU == "" {
		return h
	}
	return h + ", " + p.GPU
}

func (p *Plan) summary() string {
	if p.Layouts != nil {
		return strings.Join(p.layoutSummary(), "\n")
	}
	var lines []string
	if t := p.Today; t != nil {
		line := fmt.Sprintf("Today %d × %d takes %s and %s", t.MicroBatch, t.GradientAccumulation,
			Least(t.DeviceBytes, t.AtLeast), inSentence(t.Verdict))
		if p.UsableBytes > 0 {
			line += fmt.Sprintf("; the card has %s", estimator.Bytes(p.UsableBytes))
		}
		lines = append(lines, line+".")
	}
	switch {
	case p.Recommended != nil:
		line := fmt.Sprintf("Recommended: %d × %d", p.Recommended.MicroBatch, p.Recommended.GradientAccumulation)
		for _, x := range p.Pairs {
			if *p.Recommended == pairing.At(x.MicroBatch, x.GradientAccumulation) {
				line += fmt.Sprintf(", which takes %s", estimator.Bytes(x.DeviceBytes))
			}
		}
		line += "."
		beside, safest := p.BesideDisplay, p.Safest
		if beside != nil && *beside != *p.Recommended {
			line += fmt.Sprintf(" Beside a display: %d × %d", beside.MicroBatch, beside.GradientAccumulation)
			if safest != nil && *safest == *beside {
				line, safest = line+", the safest too", nil
			}
			line += "."
		}
		if safest != nil && *safest != *p.Recommended {
			line += fmt.Sprintf(" Safest: %d × %d.", safest.MicroBatch, safest.GradientAccumulation)
		}
		if p.LargestMicroBatch > 0 { // it is not looked for where a micro-batch of 1 cannot be estimated
			line += fmt.Sprintf(" Largest micro-batch that fits: %d.", p.LargestMicroBatch)
		}
		lines = append(lines, line)
	case len(p.Options) > 0 && p.Options[0].Recommendation == BestChoice:
		lines = append(lines, fmt.Sprintf("No pair fits as the job is. Recommended: option 1, %s, at %d × "+
			"%d, which takes %s.", LowerFirst(p.Options[0].Title),
			p.Options[0].MicroBatch, p.Options[0].GradientAccumulation, estimator.Bytes(p.Options[0].DeviceBytes)))
	case p.LargestMicroBatch > 0:
		lines = append(lines, fmt.Sprintf("No pair that fits reaches the effective batch. Largest "+
			"micro-batch that fits: %d.", p.LargestMicroBatch))
	case p.UsableBytes > 0:
		lines = append(lines, fmt.Sprintf("No micro-batch fits: the smallest takes %s.",
			Least(p.FloorBytes, p.FloorAtLeast)))
	}
	if len(p.SmallestGPUs) > 0 {
		what := "the job as it is"
		if p.Today == nil {
			what = "a micro-batch of 1"
		}
		lines = append(lines, fmt.Sprintf("Smallest GPUs for %s: %s.", what, strings.Join(p.SmallestGPUs, ", ")))
	}
	if len(p.SmallestSlices) > 0 {
		lines = append(lines, fmt.Sprintf("Smallest MIG slices for it: %s.", strings.Join(p.SmallestSlices, ", ")))
	}
	if len(p.GPUs) > 1 && p.GPUs[0].RelativeCost != nil {
		g := &p.GPUs[0]
		lines = append(lines, fmt.Sprintf("Costs least: %d × %d on %s, %.3g× what %s costs on %s.",
			g.Recommended.MicroBatch, g.Recommended.GradientAccumulation, g.GPU, g.RelativeCost.Expected,
			map[bool]string{true: "today's job", false: "that pair"}[p.Today != nil], p.CostsBeside))
	}
	if f := p.FewestGPUs; f != nil {
		lines = append(lines, fmt.Sprintf("Fewest of this card: %d, %s, at %d × %d (%s each).", f.GPUs, f.dealt(),
			f.MicroBatch, f.GradientAccumulation, estimator.Bytes(f.DeviceBytes)))
	}
	if m := p.LargestModel; m != nil {
		lines = append(lines, fmt.Sprintf("Largest model of the catalog that trains so at a micro-batch of 1: %s (%s).",
			m.Preset, estimator.Bytes(m.DeviceBytes)))
	}
	return strings.Join(lines, "\n")
}

func inSentence(v estimator.Verdict) string {
	if v == estimator.Unknown {
		return "may or may not fit"
	}
	return plain(v)
}

// saved is SavesBytes in words.
func (o Option) saved() string {
	if o.AtLeast {
		return "not played"
	}
	return estimator.Bytes(o.saving()).String()
}

// saving is SavesBytes, 0 where it is not given.
func (o Option) saving() (bytes int64) {
	if o.SavesBytes != nil {
		bytes = *o.SavesBytes
	}
	return bytes
}

func (p *Plan) optionRows() [][]string {
	rows := make([][]string, len(p.Options))
	for i, o := range p.Options {
		batch := fmt.Sprint(o.EffectiveBatch)
		if o.DeviationPercent != 0 {
			batch += fmt.Sprintf(" (%+.2g %%)", o.DeviationPercent)
		}
		verdict := plain(o.Verdict)
		if o.Verdict != estimator.DoesNotFit {
			verdict += fmt.Sprintf(", %.2f× the time", o.RelativeStepTime.Expected)
		}
		values := o.how()
		if values == "" {
			values = "as today"
		}
		rows[i] = []string{
			fmt.Sprintf("%d. %s", o.Rank, o.Title), values, batch,
			fmt.Sprintf("%s (takes %s)", o.saved(), Least(o.DeviceBytes, o.AtLeast)),
			o.TrainingEffect, fmt.Sprintf("%s (%s)", o.Recommendation, verdict),
		}
	}
	return rows
}

func (p *Plan) pairRows() [][]string {
	rows := make([][]string, len(p.Pairs))
	for i, x := range p.Pairs {
		rows[i] = []string{
			fmt.Sprint(x.MicroBatch), fmt.Sprint(x.GradientAccumulation), Least(x.DeviceBytes, x.AtLeast),
			Least(x.HighBytes, x.AtLeast),
			estimator.Bytes(x.HeadroomBytes).String(), plain(x.Verdict), fmt.Sprintf("%.2f×", x.RelativeStepTime),
		}
	}
	return rows
}

// table is what is printed below the pairs.
type table struct {
	columns []string
	rows    [][]string
}

// furtherTables are the parts of a plan that not every plan has.
func (p *Plan) furtherTables() []table {
	var out []table
	add := func(t table) {
		if len(t.rows) > 0 {
			out = append(out, t)
		}
	}
	cards := table{columns: []string{"GPU", "usable",
		map[bool]string{true: "today", false: "smallest pair"}[p.Today != nil], "recommended", "device", "step time"}}
	costs := slices.ContainsFunc(p.GPUs, func(g GPUPlan) bool { return g.RelativeCost != nil })
	if costs {
		cards.columns = append(cards.columns, "cost")
	}
	for _, g := range p.GPUs {
		row := []string{g.GPU, estimator.Bytes(g.UsableBytes).String(), plain(g.Verdict), "none", "", ""}
		if c := g.Recommended; c != nil {
			row = append(row[:3], fmt.Sprintf("%d × %d", c.MicroBatch, c.GradientAccumulation),
				estimator.Bytes(g.DeviceBytes).String(), fmt.Sprintf("%.3g×", g.RelativeStepTime))
		}
		switch {
		case costs && g.RelativeCost != nil:
			row = append(row, fmt.Sprintf("%.3g×", g.RelativeCost.Expected))
		case costs:
			row = append(row, "")
		}
		cards.rows = append(cards.rows, row)
	}
	add(cards)
	frontier := table{columns: []string{"sequence length", "largest micro-batch", "device"}}
	for _, x := range p.Frontier {
		frontier.rows = append(frontier.rows, []string{fmt.Sprint(x.SequenceLength), fmt.Sprint(x.LargestMicroBatch),
			estimator.Bytes(x.DeviceBytes).String()})
	}
	add(frontier)
	sequences := table{columns: []string{"micro-batch", "longest sequence", "device"}}
	for _, x := range p.Sequences {
		sequences.rows = append(sequences.rows, []string{fmt.Sprint(x.MicroBatch), fmt.Sprint(x.LargestSequenceLength),
			estimator.Bytes(x.DeviceBytes).String()})
	}
	add(sequences)
	add(p.heatMap())
	return out
}

// heatMap is the grid as a table: a row a sequence length, a column a micro-batch, "!" behind what does not surely fit.
func (p *Plan) heatMap() table {
	var t table
	if len(p.Grid) == 0 {
		return t
	}
	column := map[int64]int{}
	t.columns = []string{"sequence length"}
	for _, c := range p.Grid {
		if column[c.MicroBatch] == 0 {
			column[c.MicroBatch] = len(t.columns)
			t.columns = append(t.columns, fmt.Sprintf("batch %d", c.MicroBatch))
		}
	}
	var last int64
	for _, c := range p.Grid {
		if c.SequenceLength != last {
			last = c.SequenceLength
			t.rows = append(t.rows, make([]string, len(t.columns)))
			t.rows[len(t.rows)-1][0] = fmt.Sprint(last)
		}
		cell := estimator.Bytes(c.DeviceBytes).String()
		if c.Verdict != estimator.Fits {
			cell += " !"
		}
		t.rows[len(t.rows)-1][column[c.MicroBatch]] = cell
	}
	return t
}

func markdownTable(b *strings.Builder, columns []string, rows [][]string) {
	line := func(cells []string) {
		b.WriteString("|")
		for _, c := range cells {
			b.WriteString(" " + escape(c) + " |")
		}
		b.WriteString("\n")
	}
	line(columns)
	b.WriteString("|" + strings.Repeat(" --- |", len(columns)) + "\n")
	for _, r := range rows {
		line(r)
	}
}

// cellWidth is where cells of a text table are wrapped: six columns of it still
// fit a wide terminal.
const cellWidth = 28

func textTable(b *strings.Builder, columns []string, rows [][]string) {
	var table strings.Builder
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', 0)
	for _, r := range append([][]string{columns}, rows...) {
		cells, height := make([][]string, len(r)), 0
		for i, c := range r {
			cells[i] = wrap(oneLine(c), cellWidth)
			height = max(height, len(cells[i]))
		}
		for y := range height {
			for i, c := range cells {
				if i > 0 {
					fmt.Fprint(w, "\t")
				}
				if y < len(c) {
					fmt.Fprint(w, c[y])
				}
			}
			fmt.Fprintln(w)
		}
	}
	w.Flush() // into a strings.Builder, which cannot fail
	for line := range strings.Lines(table.String()) {
		b.WriteString(strings.TrimRight(line, " \n") + "\n")
	}
}

// wrap breaks text between words so that no line is wider than width; a word that is wider itself is cut.
func wrap(text string, width int) []string {
	var lines []string
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last >= 0 && utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(word) <= width {
			lines[last] += " " + word
			continue
		}
		for letters := []rune(word); ; letters = letters[width:] {
			if len(letters) <= width {
				lines = append(lines, string(letters))
				break
			}
			lines = append(lines, string(letters[:width]))
		}
	}
	return lines
}

// escape keeps text from a job document (a model's or a card's name) inside its
// table cell.
func escape(s string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "`", "\\`").Replace(oneLine(s))
}

// oneLine keeps control characters of such text away from a terminal.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
			return ' '
		}
		return r
	}, s)
}
