package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"

	"github.com/vramplan/vramplan/service/catalog"
)

type gpusCommand struct {
	Name        string `arg:"" optional:"" help:"Any name of one card: an id, what nvidia-smi prints, a Kubernetes label."`
	serverFlags `embed:"" group:"Answers:"`
	outputFlags `embed:""`
}

// Run lists the cards, or shows one.
func (c *gpusCommand) Run(ctx context.Context, t *terminal) error {
	return showCatalog(ctx, t, c.serverFlags, c.format(), "gpus", c.Name, func(g *grid, e catalog.GPU) {
		usable := "unknown"
		if e.UsableBytes > 0 {
			usable = exact(e.UsableBytes)
		}
		g.add(e.ID, e.Name, usable, string(e.UsableBasis))
	}, "id", "name", "usable", "known from")
}

type modelsCommand struct {
	Name        string `arg:"" optional:"" help:"An id, an alias, or the part of an id after the slash."`
	serverFlags `embed:"" group:"Answers:"`
	outputFlags `embed:""`
}

// Run lists the models, or shows one.
func (c *modelsCommand) Run(ctx context.Context, t *terminal) error {
	return showCatalog(ctx, t, c.serverFlags, c.format(), "models", c.Name, func(g *grid, e catalog.Model) {
		g.add(e.ID, e.Family, thousands(e.ParametersTotal), fmt.Sprint(e.Layers), fmt.Sprint(e.Hidden), fmt.Sprint(e.MaxPositions))
	}, "id", "family", "parameters", "layers", "hidden", "context")
}

// showCatalog prints a list of the catalog, or all that is known of one entry.
func showCatalog[E any](ctx context.Context, t *terminal, server serverFlags, output, noun, name string, row func(*grid, E), columns ...string) error {
	b, err := server.backend(t)
	if err != nil {
		return err
	}
	path := "/v1/" + noun
	if name != "" {
		path += "/" + url.PathEscape(name)
	}
	body, err := b.get(ctx, path)
	a := answer{doc: document{line: 1}, body: body, err: err}
	out := bufio.NewWriter(t.stdout)
	_, refused := asProblem(err)
	switch {
	case output == "json" && refused:
		return errors.Join(jsonLines{}.one(out, a), out.Flush(), exit(exitFailure))
	case err != nil:
		return err
	case output == "json":
		return errors.Join(jsonLines{}.one(out, a), out.Flush())
	case name != "":
		return errors.Join(writeEntry(out, body, output == "markdown"), out.Flush())
	}

	list, err := parse[map[string]json.RawMessage](a)
	if err != nil {
		return err
	}
	var entries []E
	if err := json.Unmarshal((*list)[noun], &entries); err != nil {
		return fmt.Errorf("the list of %s cannot be read: %w", noun, err)
	}
	align := make([]string, len(columns))
	for i := range align {
		align[i] = "left"
	}
	g := newGrid(align...)
	g.add(columns...)
	for _, e := range entries {
		row(g, e)
	}
	if output == "markdown" {
		g.writeMarkdown(out)
	} else {
		g.write(out)
	}
	return out.Flush()
}

// writeEntry prints the fields of one entry in the order of the answer.
func writeEntry(w io.Writer, body []byte, markdown bool) error {
	g := newGrid("left", "left")
	if markdown {
		g.add("field", "value")
	}
	if err := eachField(body, func(name, value string) { g.add(name, value) }); err != nil {
		return err
	}
	if markdown {
		g.writeMarkdown(w)
	} else {
		g.write(w)
	}
	return nil
}
