package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

type estimateCommand struct {
	jobCommand  `embed:""`
	outputFlags `embed:""`
	Timeline    bool `help:"Add the live memory over the step to the JSON answer." group:"Answers:"`
	Tensors     bool `help:"Add the tensors alive at the peak to the JSON answer." group:"Answers:"`
}

// Run prints an estimate for every job.
func (c *estimateCommand) Run(ctx context.Context, t *terminal) error {
	query := url.Values{}
	if c.Timeline {
		query.Set("timeline", "true")
	}
	if c.Tensors {
		query.Set("tensors", "true")
	}
	path := "/v1/estimate"
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	var p printer
	switch c.format() {
	case "json":
		p = jsonLines{}
	case "markdown":
		p = &estimateMarkdown{}
	default:
		p = &estimateTable{style: newStyle(t)}
	}
	return c.answerAll(ctx, t, path, p)
}

// parse reads an answer of the API back, so that what is printed is what
// --output json holds, wherever the answer came from.
func parse[T any](a answer) (*T, error) {
	if a.err != nil {
		return nil, a.err
	}
	v := new(T)
	if err := json.Unmarshal(a.body, v); err != nil {
		return nil, fmt.Errorf("line %d: the answer cannot be read: %w", a.doc.line, err)
	}
	return v, nil
}

// estimateTable prints estimates for people.
type estimateTable struct {
	style  style
	header bool
}

const barWidth = 24

func (e *estimateTable) one(w io.Writer, a answer) error {
	r, err := parse[estimator.Result](a)
	if err != nil {
		return err
	}
	s := e.style
	fmt.Fprintf(w, "%s  %s parameters", s.bold(plain(r.Model.Name)), thousands(r.Model.Parameters))
	if r.Model.TrainableParameters != r.Model.Parameters {
		fmt.Fprintf(w, ", %s of them trained", thousands(r.Model.TrainableParameters))
	}
	fmt.Fprintln(w)
	p := r.Peak
	fmt.Fprintf(w, "needs %s on the card, between %s and %s\n", s.bold(exact(p.DeviceBytes)), size(p.LowBytes), size(p.HighBytes))
	fmt.Fprintf(w, "allocated %s, reserved %s; the peak is in %s\n\n", size(p.AllocatedBytes), size(p.ReservedBytes), plain(peakMoment(p)))

	rows := newGrid("left", "right", "right", "left", "left")
	for _, c := range r.Components {
		rows.add(words(c.Name), size(c.Bytes), percent(c.Share), s.bar(c.Share), plain(c.How))
		for _, part := range c.Parts {
			rows.add("  "+words(part.Name), size(part.Bytes), "", "", "")
		}
	}
	rows.add("total", size(p.DeviceBytes), "", "", "")
	rows.write(w)

	if len(r.GPUs) > 0 {
		fmt.Fprintln(w)
		fits := newGrid("left", "left", "left", "left")
		for _, g := range r.GPUs {
			fits.add(plain(g.GPU), s.verdict(g.Verdict), roomWords(g), probability(g))
		}
		fits.write(w)
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(w)
		for _, n := range r.Notes {
			fmt.Fprintln(w, s.note(n))
		}
	}
	return nil
}

// next prints one row a job and card; its columns are as wide as what is usual
// in them, because the rows to come are not known.
func (e *estimateTable) next(w io.Writer, a answer) error {
	if !e.header {
		e.header = true
		fmt.Fprintf(w, "%6s  %-28s  %10s  %10s  %-24s  %-12s  %10s\n", "line", "model", "device", "high", "card", "verdict", "headroom")
	}
	if p, ok := asProblem(a.err); ok {
		_, err := fmt.Fprintf(w, "%6d  %s\n", a.doc.line, oneLine(p))
		return err
	}
	r, err := parse[estimator.Result](a)
	if err != nil {
		return err
	}
	line := fmt.Sprintf("%6d  %-28s  %10s  %10s", a.doc.line, plain(r.Model.Name), size(r.Peak.DeviceBytes), size(r.Peak.HighBytes))
	if len(r.GPUs) == 0 {
		_, err = fmt.Fprintln(w, line)
	}
	for _, g := range r.GPUs {
		_, err = fmt.Fprintf(w, "%s  %-24s  %s  %10s\n", line, plain(g.GPU), e.style.pad(e.style.verdict(g.Verdict), words(string(g.Verdict)), 12), headroom(g))
	}
	return err
}

// oneLine is a problem in a row of a table.
func oneLine(p *refusal) string {
	return plain(strings.ReplaceAll(p.Error(), "\n  ", "; "))
}

func peakMoment(p estimator.Peak) string {
	moment := p.Phase
	if p.MicroStep != nil {
		moment += fmt.Sprintf(" of micro-step %d", *p.MicroStep)
	}
	if p.Where != "" {
		moment += " (" + p.Where + ")"
	}
	return moment
}

func roomWords(g estimator.GPUFit) string {
	if g.UsableBytes <= 0 {
		return "nobody knows what this card leaves to a process"
	}
	if g.HeadroomBytes < 0 {
		return fmt.Sprintf("%s usable, %s short", exact(g.UsableBytes), size(-g.HeadroomBytes))
	}
	return fmt.Sprintf("%s usable, %s free", exact(g.UsableBytes), size(g.HeadroomBytes))
}

func headroom(g estimator.GPUFit) string {
	if g.UsableBytes <= 0 {
		return "unknown"
	}
	return size(g.HeadroomBytes)
}

// probability never claims certainty that rounding made.
func probability(g estimator.GPUFit) string {
	switch p := g.Probability; {
	case g.UsableBytes <= 0:
		return ""
	case p < 0.01:
		return "below 1 % likely to fit"
	case p > 0.99:
		return "above 99 % likely to fit"
	default:
		return fmt.Sprintf("%.0f %% likely to fit", p*100)
	}
}

func percent(share float64) string { return fmt.Sprintf("%.1f %%", share*100) }

// words turns a name of the contract into words: does_not_fit, does not fit.
func words(name string) string { return strings.ReplaceAll(name, "_", " ") }
