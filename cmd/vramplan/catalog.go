package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/vramplan/vramplan/service/catalog"
)

type gpusCommand struct {
	Name        string `arg:"" optional:"" help:"Any name of one card: an id, what nvidia-smi prints, a Kubernetes label."`
	serverFlags `embed:"" group:"Answers:"`
	outputFlags `embed:""`
}

// Run lists the cards, or shows one.
func (c *gpusCommand) Run(ctx context.Context, t *terminal) error {
	wide := c.Wide || c.format() == "markdown"
	return showCatalog(ctx, t, c.serverFlags, c.outputFlags, "gpus", c.Name, func(g *grid, e catalog.GPU) {
		usable, mib := "unknown", ""
		if e.UsableBytes > 0 {
			usable, mib = inGiB(e.UsableBytes), fmt.Sprintf("%.0f", float64(e.UsableBytes)/(1<<20))
		}
		g.add(clipped(e.ID, 29, wide), usable, mib, string(e.UsableBasis), clipped(e.Name, 17, wide))
	}, "id", ">usable GiB", ">MiB", "known from", "name")
}

type modelsCommand struct {
	Name        string `arg:"" optional:"" help:"An id, an alias, or the part of an id after the slash."`
	serverFlags `embed:"" group:"Answers:"`
	outputFlags `embed:""`
}

// Run lists the models, or shows one.
func (c *modelsCommand) Run(ctx context.Context, t *terminal) error {
	wide := c.Wide || c.format() == "markdown"
	return showCatalog(ctx, t, c.serverFlags, c.outputFlags, "models", c.Name, func(g *grid, e catalog.Model) {
		g.add(clipped(e.ID, 26, wide), clipped(e.Family, 8, wide), thousands(e.ParametersTotal), fmt.Sprint(e.Layers),
			fmt.Sprint(e.Hidden), fmt.Sprint(e.MaxPositions))
	}, "id", "family", ">parameters", ">layers", ">hidden", ">context")
}

// showCatalog prints a list of the catalog, or all that is known of one entry. A column whose name begins with > is of
// numbers.
func showCatalog[E any](ctx context.Context, t *terminal, server serverFlags, form outputFlags, noun, name string,
	row func(*grid, E), columns ...string) error {
	output := form.format()
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
		return errors.Join(writeEntry(out, body, output == "markdown", form.Wide), out.Flush())
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
		if name, number := strings.CutPrefix(columns[i], ">"); number {
			align[i], columns[i] = "right", name
		}
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

// entryName is the column of the names of an entry's fields, of which the longest has 33 letters.
const entryName = 35

// writeEntry prints the fields of one entry in the order of the answer.
func writeEntry(w io.Writer, body []byte, markdown, wide bool) error {
	g := newGrid("left", "left")
	if markdown {
		g.add("field", "value")
	}
	if err := eachField(body, func(name, value string) {
		lines := []string{value}
		if !markdown && !wide {
			lines = wrap(value, lineWidth-entryName)
		}
		g.add(name, first(lines))
		for _, more := range lines[min(1, len(lines)):] {
			g.add("", more)
		}
	}); err != nil {
		return err
	}
	if markdown {
		g.writeMarkdown(w)
	} else {
		g.write(w)
	}
	return nil
}
