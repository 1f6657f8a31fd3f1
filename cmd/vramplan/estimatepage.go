package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator"
)

// estimatePage is one estimate for a terminal: the verdict, the job as it was understood, what holds the memory, and
// what to ask next.
type estimatePage struct {
	*estimator.Result
	style screen.Style
	wide  bool
}

func (e estimatePage) write(w io.Writer) {
	if len(e.GPUs) > maxCards { // the question is on which
		screen.WriteWrapped(w, "", e.style.Bold(e.counted()), e.wide)
	}
	e.headline(w)
	e.assumptions(w)
	e.cards(w)
	fmt.Fprintln(w)
	e.components(w)
	e.ranks(w)
	if len(e.Notes) > 0 {
		fmt.Fprintln(w)
		for _, n := range e.Notes {
			screen.WriteWrapped(w, "note: ", screen.Plain(n.Text), e.wide)
		}
	}
	if next := e.next(); next != "" {
		fmt.Fprintln(w)
		screen.WriteWrapped(w, "next: ", next, e.wide)
	}
}

func (e estimatePage) headline(w io.Writer) {
	p := e.Peak
	parameters := screen.Thousands(e.Model.Parameters) + " parameters"
	if e.Model.TrainableParameters != e.Model.Parameters {
		parameters += ", " + screen.Thousands(e.Model.TrainableParameters) + " of them trained"
	}
	screen.WriteWrapped(w, "", e.style.Bold(screen.Plain(e.Model.Name))+", "+parameters, e.wide)
	where := "the card"
	if len(e.GPUs) > 1 { // cards need different amounts
		where = screen.Plain(e.GPUs[0].GPU)
	}
	screen.WriteWrapped(w, "", fmt.Sprintf("needs %s on %s, between %s and %s",
		e.style.Bold(screen.Size(p.DeviceBytes)), where,
		screen.Size(p.LowBytes), screen.Size(p.HighBytes)), e.wide)
	screen.WriteWrapped(w, "", fmt.Sprintf("allocated %s, reserved %s; the peak is in %s",
		screen.Size(p.AllocatedBytes),
		screen.Size(p.ReservedBytes), screen.Plain(peakMoment(p))), e.wide)
}

// assumptions are one line, or two where the releases do not fit it any more. A service of an earlier release does not
// send them.
func (e estimatePage) assumptions(w io.Writer) {
	a := e.Assumed
	if a == nil {
		return
	}
	batch := screen.Thousands(a.MicroBatch)
	if a.SequenceLength == 0 {
		batch = "batches of " + batch
	} else {
		batch += " × " + screen.Thousands(a.SequenceLength) + " tokens"
	}
	if a.Images > 0 && len(a.ImageSize) == 2 {
		pictures := "a picture"
		if a.Images > 1 {
			pictures = screen.Thousands(a.Images) + " pictures"
		}
		batch += fmt.Sprintf(", %s of them %s of %d × %d pixels", screen.Thousands(a.ImageTokens), pictures,
			a.ImageSize[0],
			a.ImageSize[1])
	}
	if a.GradientAccumulation > 1 {
		batch += " × " + screen.Thousands(a.GradientAccumulation)
	}
	optimizer, by, _ := strings.Cut(a.Optimizer, ", ")
	if by != "" {
		optimizer += " (" + by + ")"
	}
	var parts []string
	if a.Objective != "" {
		parts = append(parts, a.Objective)
	}
	parts = append(parts, batch, string(a.Precision), optimizer)
	if a.Adapters != "" {
		parts = append(parts, a.Adapters)
	}
	parts = append(parts, adapterWords(a.Training)...)
	parts = append(parts, a.Attention, checkpointingWords(a.GradientCheckpointing))
	parts = append(parts, lossWords(a.Training)...)
	parts = append(parts, spreadWords(a.Training)...)
	if a.Compiled {
		parts = append(parts, "compiled")
	}
	if _, named := a.Releases[a.Framework]; !named {
		parts = append(parts, a.Framework)
	}
	for _, library := range slices.Sorted(maps.Keys(a.Releases)) {
		parts = append(parts, library+" "+a.Releases[library])
	}
	screen.WriteWrapped(w, "as: ", screen.Plain(strings.Join(parts, ", ")), e.wide)
}

// adapterWords are the details of adapters. A service of an earlier release says none of them.
func adapterWords(t *estimator.Training) []string {
	if t == nil || t.LoRA == nil {
		return nil
	}
	l := t.LoRA
	rank := "rank " + screen.Thousands(l.Rank)
	if len(l.TargetModules) > 0 {
		rank += " on " + strings.Join(l.TargetModules, " ")
	}
	words := []string{rank, "adapters in " + l.AdapterDtype}
	if p := l.Dropped(); p > 0 {
		words = append(words, fmt.Sprintf("adapters' dropout %g", p))
	}
	if l.UpcastBase != nil && *l.UpcastBase {
		words = append(words, "the rest of the base in fp32")
	}
	return words
}

// lossWords are what is done with the logits, and what else of the step has a default.
func lossWords(t *estimator.Training) []string {
	if t == nil {
		return nil
	}
	var words []string
	if l := t.Loss; l != nil {
		words = append(words, "loss "+l.Kind)
	}
	if t.LogitsDtype == "fp32" {
		words = append(words, "logits in fp32")
	}
	if d := t.Dropout; d != nil {
		words = append(words, dropoutWords(d))
	}
	if t.AttentionMask == "explicit" {
		words = append(words, "padding")
	}
	if c := t.ClipGradNorm; c != nil && !*c {
		words = append(words, "no clipping")
	} else if c != nil {
		words = append(words, "clipping")
	}
	return words
}

func dropoutWords(d *estimator.Dropout) string {
	hidden, attention := 0.0, 0.0
	if d.Hidden != nil {
		hidden = *d.Hidden
	}
	if d.Attention != nil {
		attention = *d.Attention
	}
	switch {
	case d.Hidden == nil:
		return fmt.Sprintf("the model's dropout, %g in attention", attention)
	case hidden == attention && hidden == 0:
		return "no dropout"
	case hidden == attention:
		return fmt.Sprintf("dropout %g", hidden)
	}
	return fmt.Sprintf("dropout %g and %g in attention", hidden, attention)
}

// spreadWords are how several GPUs share the job.
func spreadWords(t *estimator.Training) []string {
	if t == nil || t.Distributed == nil || t.Distributed.WorldSize < 2 {
		return nil
	}
	d := t.Distributed
	how := d.Data
	if d.FSDPVersion > 0 {
		how += fmt.Sprintf(" %d", d.FSDPVersion)
	}
	return []string{how + " on " + screen.Thousands(d.WorldSize) + " GPUs"}
}

// ranks are the GPUs that may hold most, the fullest marked.
func (e estimatePage) ranks(w io.Writer) {
	if len(e.Ranks) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows := screen.NewGrid("right", "left", "right", "right", "right", "left")
	rows.Add("rank", "where", "allocated", "reserved", "on the card", "")
	for _, r := range e.Ranks {
		mark := ""
		if r.Fullest {
			mark = "fullest"
		}
		rows.Add(screen.Thousands(r.Rank), screen.Clipped(screen.Plain(r.Where), 40, e.wide),
			screen.Size(r.AllocatedBytes), screen.Size(r.ReservedBytes),
			screen.Size(r.DeviceBytes), mark)
	}
	rows.Write(w)
}

func checkpointingWords(mode string) string {
	if mode == "none" {
		return "no checkpointing"
	}
	return "checkpointing " + mode
}

// maxCards is how many cards are shown one by one; of more, those that say most.
const maxCards = 8

// cards judges each card, with a bar against its capacity. Of a whole catalog what fits comes first, and the rest is
// counted.
func (e estimatePage) cards(w io.Writer) {
	if len(e.GPUs) == 0 {
		return
	}
	fmt.Fprintln(w)
	shown := e.GPUs
	if len(shown) > maxCards {
		shown = e.headlineCards(w)
	}
	if len(shown) == 1 {
		screen.WriteWrapped(w, "", e.cardWords(shown[0]), e.wide)
		if shown[0].UsableBytes > 0 {
			fmt.Fprintln(w, e.style.Capacity(shown[0], screen.LineWidth))
		}
		return
	}
	const bar = 24
	rows := screen.NewGrid("left", "left", "right", "right", "left")
	rows.Add("card", "verdict", "GiB", "free", "")
	for _, g := range shown {
		usable, free, drawn := "unknown", "", ""
		if g.Verdict != estimator.Unknown {
			usable, free, drawn = screen.InGiB(g.UsableBytes), screen.InGiB(g.HeadroomBytes), e.style.Capacity(g, bar)
		}
		rows.Add(screen.Clipped(screen.Plain(g.GPU), 24, e.wide), e.style.Verdict(g.Verdict), usable, free, drawn)
	}
	rows.Write(w)
}

// counted says on how many of many cards the job fits.
func (e estimatePage) counted() string {
	counts := map[estimator.Verdict]int{}
	for _, g := range e.GPUs {
		counts[g.Verdict]++
	}
	text := fmt.Sprintf("fits on %d of %d cards", counts[estimator.Fits], len(e.GPUs))
	for _, v := range []estimator.Verdict{estimator.Tight, estimator.Unlikely, estimator.Unknown} {
		if n := counts[v]; n > 0 {
			text += fmt.Sprintf(", %s on %d", screen.Words(string(v)), n)
		}
	}
	return text
}

// bestFirst are cards by how well they suit: the smallest on which the job fits first, then the others, the nearest
// miss in front.
func bestFirst(cards []estimator.GPUFit) []estimator.GPUFit {
	sorted := slices.Clone(cards)
	rank := map[estimator.Verdict]int{estimator.Fits: 0, estimator.Tight: 1, estimator.Unlikely: 2,
		estimator.Unknown: 3, estimator.DoesNotFit: 4}
	slices.SortStableFunc(sorted, func(a, b estimator.GPUFit) int {
		if d := rank[a.Verdict] - rank[b.Verdict]; d != 0 {
			return d
		}
		if a.Verdict == estimator.DoesNotFit { // the nearest miss first
			a, b = b, a
		}
		return int(min(max(a.UsableBytes-b.UsableBytes, -1), 1))
	})
	return sorted
}

// headlineCards are those of many cards that are shown.
func (e estimatePage) headlineCards(w io.Writer) []estimator.GPUFit {
	sorted := bestFirst(e.GPUs)
	if e.wide {
		return sorted
	}
	text := "The nearest misses"
	if sorted[0].Verdict == estimator.Fits {
		text = "The smallest of the cards that it fits on"
	}
	fmt.Fprintln(w, text+" (--wide lists all):")
	return sorted[:maxCards]
}

// cardWords judges one card in a sentence, in one unit. What others hold of it counts as needed.
func (e estimatePage) cardWords(g estimator.GPUFit) string {
	text := screen.Plain(g.GPU) + ": " + e.style.Verdict(g.Verdict) + ", "
	if g.UsableBytes <= 0 {
		return text + roomWords(g)
	}
	room := screen.InGiB(g.HeadroomBytes) + " GiB free"
	if g.HeadroomBytes < 0 {
		room = screen.InGiB(-g.HeadroomBytes) + " GiB short"
	}
	return fmt.Sprintf("%s%s of %s GiB, %s, %s", text, screen.InGiB(g.UsableBytes-g.HeadroomBytes),
		screen.InGiB(g.UsableBytes), room,
		probability(g))
}

// components are in one unit. What holds nothing is shown where it has a reason, or its absence would be a question.
func (e estimatePage) components(w io.Writer) {
	unit, in := screen.UnitOf(e.Peak.DeviceBytes)
	if e.wide {
		rows := screen.NewGrid("left", "right", "right", "left", "left")
		rows.Add("", unit, "share", "", "")
		for _, c := range e.Components {
			rows.Add(screen.Words(c.Name), in(c.Bytes), percent(c.Share), e.style.Bar(c.Share, 24), screen.Plain(c.How))
			for _, part := range c.Parts {
				rows.Add("  "+screen.Words(part.Name), in(part.Bytes), "", "", "")
			}
		}
		rows.Add("total", in(e.Peak.DeviceBytes), "", "", "")
		rows.Write(w)
		return
	}
	rows := screen.NewGrid("left", "right", "right", "left")
	rows.Add("", unit, "share", "")
	for _, c := range e.Components {
		if c.Bytes == 0 && !askedFor[c.Name] {
			continue
		}
		how := screen.Wrap(screen.Plain(c.How), screen.LineWidth-39)
		rows.Add(screen.Words(c.Name), in(c.Bytes), percent(c.Share), first(how))
		for _, more := range how[min(1, len(how)):] {
			rows.Add("", "", "", more)
		}
		for _, part := range c.Parts {
			if part.Bytes > 0 {
				rows.Add("  "+screen.Words(part.Name), in(part.Bytes), "", "")
			}
		}
	}
	rows.Add("total", in(e.Peak.DeviceBytes), "", "")
	rows.Write(w)
}

// askedFor are the components of every training: one that holds nothing at the peak says why.
var askedFor = map[string]bool{"weights": true, "gradients": true, "optimizer_state": true, "activations": true}

// next is the command that goes on from here.
func (e estimatePage) next() string {
	switch best := bestOf(e.GPUs); {
	case len(e.GPUs) == 0:
		return "name a card with --gpu NAME, or all of them with --gpu '*', to hear where it fits"
	case best == estimator.Fits:
		return "vramplan plan with the same flags says how to train faster on it, and what else fits"
	default:
		return "vramplan plan with the same flags says what makes it fit"
	}
}

// bestOf is the verdict on the card that suits a job best.
func bestOf(cards []estimator.GPUFit) estimator.Verdict {
	best := estimator.DoesNotFit
	for _, g := range cards {
		if g.Verdict == estimator.Fits {
			return estimator.Fits
		}
		if g.Verdict != estimator.DoesNotFit {
			best = g.Verdict
		}
	}
	return best
}

func first(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return lines[0]
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", share*100) }
