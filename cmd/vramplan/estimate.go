package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
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
		on := func(a answer, card string) (*estimator.Result, error) { return c.on(ctx, t, path, a, card) }
		p = &estimateTable{style: screen.Style{Colour: t.colour()}, wide: c.Wide, on: on}
	}
	return c.answerAll(ctx, t, path, p)
}

// on asks again what a job takes on one card.
func (c *estimateCommand) on(ctx context.Context, t *terminal, path string, a answer,
	card string) (*estimator.Result, error) {
	backend, path, err := c.asker(t, path)
	if err != nil {
		return nil, err
	}
	doc := a.doc
	if doc.text, err = apply(doc.text, []edit{{path: "gpus", value: []string{card}}}); err != nil {
		return nil, err
	}
	body, err := backend.post(ctx, path, doc)
	return parse[estimator.Result](answer{doc: doc, body: body, err: err})
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
	style  screen.Style
	wide   bool
	header bool
	on     func(a answer, card string) (*estimator.Result, error)
}

// one prints a page. Where many cards are asked about, its figures are those of the card that suits best, since cards
// need different amounts and an answer has those of its first card.
func (e *estimateTable) one(w io.Writer, a answer) error {
	r, err := parse[estimator.Result](a)
	if err != nil {
		return err
	}
	if cards := bestFirst(r.GPUs); len(cards) > maxCards && cards[0].GPU != r.GPUs[0].GPU {
		if best, err := e.on(a, cards[0].GPU); err == nil {
			best.GPUs = cards
			r = best
		}
	}
	page := estimatePage{Result: r, style: e.style, wide: e.wide}
	page.write(w)
	return nil
}

// next prints one row a job and card; its columns are as wide as what is usual
// in them, because the rows to come are not known.
func (e *estimateTable) next(w io.Writer, a answer) error {
	model, card := 23, 16
	if e.wide {
		model, card = 40, 32
	}
	row := func(line, name, device, high, gpu, verdict string) error {
		text := fmt.Sprintf("%5s  %s %8s %8s  %s %s", line, screen.Column(name, model), device, high,
			screen.Column(gpu, card),
			verdict)
		_, err := fmt.Fprintln(w, strings.TrimRight(text, " "))
		return err
	}
	if !e.header {
		e.header = true
		if err := row("line", "model", "GiB", "at most", "card", "verdict"); err != nil {
			return err
		}
	}
	if p, ok := asProblem(a.err); ok {
		for i, text := range screen.Wrapped(oneLine(p), screen.LineWidth-7, e.wide) {
			line := fmt.Sprintf("%5d  %s", a.doc.line, text)
			if i > 0 {
				line = strings.Repeat(" ", 7) + text
			}
			if _, err := fmt.Fprintln(w, line); err != nil {
				return err
			}
		}
		return nil
	}
	r, err := parse[estimator.Result](a)
	if err != nil {
		return err
	}
	line, device, high := fmt.Sprint(a.doc.line), screen.InGiB(r.Peak.DeviceBytes), screen.InGiB(r.Peak.HighBytes)
	if len(r.GPUs) == 0 {
		return row(line, screen.Plain(r.Model.Name), device, high, "", "")
	}
	for _, g := range r.GPUs {
		verdict := e.style.Verdict(g.Verdict)
		if err := row(line, screen.Plain(r.Model.Name), device, high, screen.Plain(g.GPU), verdict); err != nil {
			return err
		}
	}
	return nil
}

// oneLine is a problem in a row of a table.
func oneLine(p *refusal) string {
	return screen.Plain(strings.ReplaceAll(p.Error(), "\n  ", "; "))
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
	switch {
	case g.Verdict == estimator.Unknown:
		return "nobody knows what this card leaves to a process"
	case g.UsableBytes <= 0:
		return fmt.Sprintf("what is kept for others (the reserve) is as large as the card or larger, %s short",
			screen.Size(-g.HeadroomBytes))
	case g.HeadroomBytes < 0:
		return fmt.Sprintf("%s usable, %s short", screen.Size(g.UsableBytes), screen.Size(-g.HeadroomBytes))
	}
	return fmt.Sprintf("%s usable, %s free", screen.Size(g.UsableBytes), screen.Size(g.HeadroomBytes))
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
