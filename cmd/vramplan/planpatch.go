package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service"
)

// patch plans the one job of the files that --from names and prints the first way out that the files can say.
func (c *planCommand) patch(ctx context.Context, t *terminal) error {
	if len(c.From) == 0 {
		return usage("--patch changes files of other tools: name them with --from FILE")
	}
	if slices.Contains(c.From, "-") {
		return usage("--patch changes files, which standard input (-) is not: name them with --from FILE")
	}
	edits, err := c.edits(ctx, t)
	if err != nil {
		return err
	}
	edits = appendEdit(edits, "effective_batch", c.EffectiveBatch)
	read, err := c.fromFlags.answer(ctx, t, nil)
	if err != nil {
		return err
	}
	switch open := read.Open(); {
	case len(read.Jobs) == 0:
		return refusedAll(read)
	case len(read.Jobs) > 1:
		return usage("the files describe %d jobs; a patch is for one: hand over the configuration of one of them",
			len(read.Jobs))
	case len(open) > 0:
		return questions(open)
	}
	job := &read.Jobs[0]
	text, err := job.PlanDocument()
	if err == nil {
		text, err = apply(text, edits)
	}
	if err != nil {
		return err
	}
	backend, path, err := c.asker(t, "/v1/plan")
	if err != nil {
		return err
	}
	body, err := backend.post(ctx, path, document{line: 1, text: text})
	if err != nil {
		return err
	}
	plan, err := parse[planner.Plan](answer{body: body})
	if err != nil {
		return err
	}
	source, err := c.source(ctx, t, c.From, nil)
	if err != nil {
		return err
	}
	patching := service.Patching{Catalog: service.EmbeddedCatalog(), Source: source, Job: job, Plan: plan,
		Over: func(document []byte) ([]byte, error) { return apply(document, edits) }}
	p, err := patching.Patch(ctx)
	switch {
	case err != nil:
		return err
	case p == nil:
		fmt.Fprintln(t.stderr, "the job fits as it is: nothing to change")
		return nil
	}
	for _, left := range p.LeftOut {
		fmt.Fprintf(t.stderr, "left out: %s\n", screen.Plain(left))
	}
	if len(p.Words) > 0 {
		lines := make([]string, len(p.Words))
		for i, word := range p.Words {
			lines[i] = screen.Plain(word)
		}
		return fmt.Errorf("no patch of these files was proven to mean the planned job. %s (takes %s) changes by hand:\n  %s",
			screen.Plain(p.Option), screen.Size(p.DeviceBytes), strings.Join(lines, "\n  "))
	}
	if p.Option == "" {
		return errors.New("no way out of the plan can be said in these files; vramplan plan --from lists them all")
	}
	fmt.Fprintf(t.stderr, "%s: takes %s\n", screen.Plain(p.Option), screen.Size(p.DeviceBytes))
	if p.Command != "" {
		fmt.Fprintln(t.stdout, p.Command)
	}
	_, err = fmt.Fprint(t.stdout, p.Diff)
	return err
}
