package document

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/pairing"
)

// LineWidth is what every terminal shows.
const LineWidth = 80

// What a page shows of each list; WideText has all of it.
const (
	pairsShown    = 12
	changingShown = 3
	cardsShown    = 10
)

// Text prints the plan for a terminal of 80 columns: what is recommended, what fits, what fits and changes training,
// what is not enough, the pairs around the edge, and the notes. Options that would save next to nothing are left to
// WideText.
func (p *Plan) Text() string {
	var b page
	b.wrapped("", p.heading())
	for line := range strings.SplitSeq(p.summary(), "\n") {
		b.wrapped("", line)
	}
	if p.Layouts != nil {
		b.layouts(p)
		b.notes(p.Notes)
		return b.String()
	}
	b.options(p)
	b.pairs(p)
	for _, t := range p.narrowTables() {
		b.WriteString("\n")
		textTable(&b.Builder, t.columns, t.rows)
	}
	b.notes(p.Notes)
	return b.String()
}

// page is text of at most lineWidth columns.
type page struct{ strings.Builder }

// wrapped prints text behind a label and as far to the right in further lines.
func (b *page) wrapped(label, text string) {
	indent := utf8.RuneCountInString(label)
	for _, line := range wrap(oneLine(text), LineWidth-indent) {
		b.WriteString(label + line + "\n")
		label = strings.Repeat(" ", indent)
	}
}

// section is a part of the options under a title of its own.
type section struct {
	title string
	most  int
	has   func(Option) bool
}

// options prints what fits first, each option with what it takes and how it is set.
func (b *page) options(p *Plan) {
	sure := func(v estimator.Verdict) bool { return v == estimator.Fits }
	maybe := func(v estimator.Verdict) bool { return v == estimator.Tight || v == estimator.Unlikely }
	for _, s := range []section{
		{"What fits", len(p.Options), func(o Option) bool { return sure(o.Verdict) && !o.ChangesTraining }},
		{"What fits, and changes training", changingShown, func(o Option) bool {
			return sure(o.Verdict) && o.ChangesTraining
		}},
		{"What may fit", changingShown, func(o Option) bool { return maybe(o.Verdict) }},
	} {
		b.section(s, p.Options)
	}
	b.shortOf(p)
}

func (b *page) section(s section, options []Option) {
	shown, more := 0, 0
	for _, o := range options {
		if !s.has(o) {
			continue
		}
		if shown == s.most {
			more++
			continue
		}
		if shown++; shown == 1 {
			fmt.Fprintf(b, "\n%-61s %8s %9s\n", s.title, "GiB", "time")
		}
		b.option(o)
	}
	if more > 0 {
		fmt.Fprintf(b, "    and %d more (--wide)\n", more)
	}
}

// option is a title with its figures, then the settings, then what it does to training.
func (b *page) option(o Option) {
	label := fmt.Sprintf("%2d. ", o.Rank)
	for i, line := range wrap(oneLine(o.Title+": "+o.Recommendation), 57) {
		if i == 0 {
			fmt.Fprintf(b, "%s%-57s %8s %8.2f×\n", label, line, inGiB(o.DeviceBytes), o.RelativeStepTime.Expected)
			continue
		}
		b.WriteString("    " + line + "\n")
	}
	for _, part := range o.parts() {
		b.wrapped("      ", part)
	}
	if o.TrainingEffect != "none" && o.TrainingEffect != "" {
		b.wrapped("      ", o.TrainingEffect)
	}
}

// parts are the pair of an option, where it is another, and what else is set, with whose code that turns on.
func (o Option) parts() []string {
	own := 0
	if _, pair := o.Changes["micro_batch"]; pair {
		own = min(2, len(o.Settings))
	}
	var out []string
	if own > 0 {
		out = append(out, strings.Join(o.Settings[:own], ", "))
	}
	if rest := strings.Join(o.Settings[own:], ", "); rest != "" {
		if o.Library != "" {
			rest = o.Library + ": " + rest
		}
		out = append(out, rest)
	}
	if len(out) == 0 {
		return []string{"as today"}
	}
	return out
}

// how is parts in one line.
func (o Option) how() string { return strings.Join(o.parts(), ", ") }

// worthNaming is the share of the job's bytes that an option which does not fit has to save for a word.
const worthNaming = 0.02

// shortOf names in one paragraph what saves something and is not enough by itself, and in another what saves next to
// nothing, so that none is missing on the page.
func (b *page) shortOf(p *Plan) {
	var names, left []string
	for _, o := range p.Options {
		short := o.Verdict != estimator.Fits && o.Verdict != estimator.Tight && o.Verdict != estimator.Unlikely
		switch {
		case !short:
		case o.AtLeast || float64(o.saving()) > worthNaming*float64(o.DeviceBytes):
			by := ""
			if o.Library != "" {
				by = o.Library + ", "
			}
			names = append(names, fmt.Sprintf("%d. %s (%s%s GiB)", o.Rank, LowerFirst(o.Title), by,
				leastGiB(o.DeviceBytes, o.AtLeast)))
		case o.Verdict == estimator.DoesNotFit:
			left = append(left, fmt.Sprintf("%d. %s", o.Rank, LowerFirst(o.Title)))
		}
	}
	if len(names) > 0 {
		b.WriteString("\nNot enough alone\n")
		b.wrapped("    ", strings.Join(names, "; "))
	}
	if len(left) > 0 {
		b.wrapped("    ", "Next to nothing saved: "+strings.Join(left, "; ")+" (--wide)")
	}
}

// pairs prints those around the edge, in one unit.
func (b *page) pairs(p *Plan) {
	if len(p.Pairs) == 0 {
		return
	}
	from := 0
	if len(p.Pairs) > pairsShown {
		from = max(0, slices.IndexFunc(p.Pairs, func(x Pair) bool { return x.Verdict == estimator.Fits })-2)
		if !slices.ContainsFunc(p.Pairs, func(x Pair) bool { return x.Verdict == estimator.Fits }) {
			from = len(p.Pairs) - pairsShown // the smallest come nearest
		}
		from = min(from, len(p.Pairs)-pairsShown)
	}
	shown := p.Pairs[from:min(len(p.Pairs), from+pairsShown)]
	t := table{columns: []string{"micro-batch", "accumulation", "GiB", "at most", "free", "verdict", "time"}}
	for _, x := range shown {
		verdict := strings.ReplaceAll(string(x.Verdict), "_", " ")
		if p.Recommended != nil && *p.Recommended == pairing.At(x.MicroBatch, x.GradientAccumulation) {
			verdict += ", best"
		}
		t.rows = append(t.rows, []string{fmt.Sprint(x.MicroBatch), fmt.Sprint(x.GradientAccumulation),
			leastGiB(x.DeviceBytes, x.AtLeast), leastGiB(x.HighBytes, x.AtLeast),
			mostGiB(x.HeadroomBytes, x.AtLeast), verdict, fmt.Sprintf("%.2f×", x.RelativeStepTime)})
	}
	b.WriteString("\n")
	textTable(&b.Builder, t.columns, t.rows)
	if n := len(p.Pairs) - len(shown); n > 0 {
		fmt.Fprintf(b, "and %d more (--wide)\n", n)
	}
}

// notes are those that say more than the page does already.
func (b *page) notes(all []estimator.Note) {
	first := true
	for _, n := range all {
		if n.Code == "dominated" || n.Code == "today-fits" {
			continue
		}
		if first {
			b.WriteString("\n")
		}
		first = false
		b.wrapped("* ", n.Text)
	}
}

// narrowTables are furtherTables in 80 columns: of many cards those on which a pair fits, of a wide grid some of its
// micro-batches.
func (p *Plan) narrowTables() []table {
	var out []table
	for _, t := range p.furtherTables() {
		switch t.columns[0] {
		case "GPU":
			t = shortNames(p.narrowCards(t))
		case "sequence length":
			if len(t.columns) > gridColumns {
				t = p.narrowGrid(t)
			}
		}
		out = append(out, t)
	}
	return out
}

// shortNames cuts the names in the first column by their beginnings, so that the table fits: what tells two cards apart
// is more often at the end.
func shortNames(t table) table {
	room := LineWidth
	for i := 1; i < len(t.columns); i++ {
		most := utf8.RuneCountInString(t.columns[i])
		for _, row := range t.rows {
			most = max(most, utf8.RuneCountInString(row[i]))
		}
		room -= most + 2
	}
	for _, row := range t.rows {
		if name := []rune(row[0]); len(name) > room && room > 1 {
			row[0] = "…" + string(name[len(name)-room+1:])
		}
	}
	return t
}

func (p *Plan) narrowCards(t table) table {
	if len(t.rows) <= cardsShown {
		return t
	}
	cards := slices.Clone(p.GPUs)
	slices.SortStableFunc(cards, func(a, b GPUPlan) int {
		fits := func(g GPUPlan) int {
			if g.Recommended != nil {
				return 0
			}
			return 1
		}
		return cmp.Or(ByCost(a, b), cmp.Compare(fits(a), fits(b)), cmp.Compare(a.UsableBytes, b.UsableBytes))
	})
	few := *p
	few.GPUs = cards[:cardsShown]
	all := len(t.rows)
	t = few.furtherTables()[0]
	return table{columns: t.columns,
		rows: append(t.rows, append([]string{fmt.Sprintf("and %d more", all-cardsShown), "(--wide)"},
			make([]string, len(t.columns)-2)...))}
}

// gridColumns are as many as fit: the lengths, and eight micro-batches.
const gridColumns = 9

// narrowGrid keeps the first micro-batch, the last, and some between them, with their sizes in GiB.
func (p *Plan) narrowGrid(t table) table {
	keep := []int{0}
	for i := range gridColumns - 1 {
		keep = append(keep, 1+i*(len(t.columns)-2)/(gridColumns-2))
	}
	cells := map[[2]string]string{}
	for _, c := range p.Grid {
		cell := inGiB(c.DeviceBytes)
		if c.Verdict != estimator.Fits {
			cell += "!"
		}
		cells[[2]string{fmt.Sprint(c.SequenceLength), fmt.Sprintf("batch %d", c.MicroBatch)}] = cell
	}
	out := table{columns: []string{"tokens, GiB"}}
	for _, k := range keep[1:] {
		out.columns = append(out.columns, strings.TrimPrefix(t.columns[k], "batch "))
	}
	for _, r := range t.rows {
		row := []string{r[0]}
		for _, k := range keep[1:] {
			row = append(row, cells[[2]string{r[0], t.columns[k]}])
		}
		out.rows = append(out.rows, row)
	}
	return out
}

// leastGiB is inGiB of what may be the least that is taken.
func leastGiB(bytes int64, atLeast bool) string {
	if atLeast {
		return "≥ " + inGiB(bytes)
	}
	return inGiB(bytes)
}

// mostGiB is inGiB of what is left beside what may be the least that is taken.
func mostGiB(bytes int64, atLeast bool) string {
	if atLeast {
		return "≤ " + inGiB(bytes)
	}
	return inGiB(bytes)
}

// inGiB is a size for a column that names the unit.
func inGiB(bytes int64) string {
	gib := float64(bytes) / (1 << 30)
	if gib >= 1000 || gib <= -1000 {
		return fmt.Sprintf("%.0f", gib)
	}
	return fmt.Sprintf("%.2f", gib)
}
