package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/compare"
)

type compareCommand struct {
	answerFlags `embed:"" group:"Answers:"`
	outputFlags `embed:""`
	A           string `arg:"" optional:"" name:"a" help:"Job document of the first job; - reads standard input."`
	B           string `arg:"" optional:"" name:"b" help:"Job document of the second job; - reads standard input."`
	fromFlags   `embed:""`
	GPU         []string `placeholder:"NAME" sep:"," help:"Card for both jobs; repeat or separate by commas." group:"Job:"`
}

// Run prints why two jobs differ.
func (c *compareCommand) Run(ctx context.Context, t *terminal) error {
	if c.A == "-" && c.B == "-" {
		return usage("standard input can be one of the two jobs, not both")
	}
	sides, err := c.sides()
	if err != nil {
		return err
	}
	var edits []edit
	if len(c.GPU) > 0 {
		cards, err := t.withLocal(ctx, c.GPU)
		if err != nil {
			return err
		}
		edits = []edit{{path: "gpus", value: cards}}
	}
	doc := document{line: 1}
	for i, key := range []string{`{"a":`, `,"b":`} {
		job, err := sides[i](ctx, t, edits)
		if err != nil {
			return err
		}
		doc.text = append(append(doc.text, key...), job...)
	}
	doc.text = append(doc.text, '}')

	backend, path, err := c.asker(t, "/v1/compare")
	if err != nil {
		return err
	}
	return showOne(ctx, t, backend, path, doc, c.format(), func(r *compare.Comparison) error {
		return showComparison(t.stdout, r, screen.Style{Colour: t.colour()}, [2]string{"a", "b"},
			c.format() == "markdown", c.Wide)
	})
}

// sides are the two jobs: documents first, then those that --from names.
func (c *compareCommand) sides() ([]func(context.Context, *terminal, []edit) ([]byte, error), error) {
	var list []func(context.Context, *terminal, []edit) ([]byte, error)
	for _, path := range []string{c.A, c.B} {
		if path != "" {
			list = append(list, func(_ context.Context, t *terminal, edits []edit) ([]byte, error) {
				return c.read(t, path, edits)
			})
		}
	}
	for _, file := range c.From {
		list = append(list, func(ctx context.Context, t *terminal, edits []edit) ([]byte, error) {
			from := fromFlags{From: []string{file}, readFlags: c.readFlags}
			lines, err := from.documents(ctx, t, nil)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if bytes.Count(lines, []byte("\n")) != 1 {
				return nil, usage("%s describes several jobs; compare takes one a file: vramplan read prints them",
					file)
			}
			return apply(bytes.TrimSpace(lines), edits)
		})
	}
	if len(list) != 2 {
		return nil, usage("compare takes two jobs: job documents, or files of other tools with --from "+
			"FILE; %d were given", len(list))
	}
	return list, nil
}

// read gives one job document, which has to be one whole JSON value so that it can stand inside another.
func (c *compareCommand) read(t *terminal, path string, edits []edit) ([]byte, error) {
	in, err := t.open(path)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxDocumentBytes+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	if len(text) > maxDocumentBytes {
		return nil, usage("%s is longer than %s", path, screen.Size(maxDocumentBytes))
	}
	text = bytes.TrimPrefix(text, []byte("\uFEFF"))
	if !json.Valid(text) {
		return nil, usage("%s does not hold one JSON document; compare takes one job a file", path)
	}
	return apply(text, edits)
}

// showComparison prints the components of two jobs, that have names, side by side, then the causes.
func showComparison(w io.Writer, c *compare.Comparison, s screen.Style, names [2]string, markdown, wide bool) error {
	wide = wide || markdown
	unit, in := screen.UnitOf(max(c.A.Peak.HighBytes, c.B.Peak.HighBytes))
	signed := func(n int64) string {
		if n > 0 {
			return "+" + in(n)
		}
		return in(n)
	}
	sides := screen.NewGrid("left", "right", "right", "right")
	sides.Add(unit, names[0], names[1], names[1]+" less "+names[0])
	for _, x := range c.Components {
		if x.ABytes != 0 || x.BBytes != 0 || wide {
			sides.Add(screen.Words(x.Name), in(x.ABytes), in(x.BBytes), signed(x.DifferenceBytes))
		}
	}
	sides.Add("total", in(c.A.Peak.DeviceBytes), in(c.B.Peak.DeviceBytes), signed(c.DifferenceBytes))
	sides.Add("upper bound", in(c.A.Peak.HighBytes), in(c.B.Peak.HighBytes),
		signed(c.B.Peak.HighBytes-c.A.Peak.HighBytes))
	write := func(g *screen.Grid) {
		if markdown {
			g.WriteMarkdown(w)
			return
		}
		g.Write(w)
	}
	for _, side := range []struct {
		name string
		job  compare.Side
	}{{names[0], c.A}, {names[1], c.B}} {
		line := fmt.Sprintf("%s: %s, %s; the peak is in %s", side.name, screen.Plain(side.job.Model.Name),
			screen.Size(side.job.Peak.DeviceBytes), screen.Plain(peakMoment(side.job.Peak)))
		for _, g := range side.job.GPUs {
			line += fmt.Sprintf("; %s: %s", screen.Plain(g.GPU), verdictIn(s, g, markdown))
		}
		if markdown {
			line = "- " + line
		}
		screen.WriteWrapped(w, "", line, wide)
	}
	fmt.Fprintln(w)
	write(sides)
	list := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s\n", title)
		if markdown {
			fmt.Fprintln(w)
		}
		for _, line := range lines {
			screen.WriteWrapped(w, map[bool]string{true: "- ", false: "* "}[markdown], screen.Plain(line), wide)
		}
	}
	var causes, idle, notes []string
	for _, x := range c.Causes {
		causes = append(causes, x.Text)
	}
	for _, x := range c.WithoutEffect {
		idle = append(idle, x.String())
	}
	for _, n := range c.Notes {
		notes = append(notes, n.Text)
	}
	list("What makes the difference", causes)
	list("Differences that move no byte", idle)
	list("Notes", notes)
	return nil
}

func verdictIn(s screen.Style, g estimator.GPUFit, markdown bool) string {
	if markdown {
		return screen.Words(string(g.Verdict))
	}
	return s.Verdict(g.Verdict)
}
