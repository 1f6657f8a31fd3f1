package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator/model/pipelines"
	"github.com/vramplan/vramplan/service/catalog"
)

type gpusCommand struct {
	Name        string `arg:"" optional:"" help:"Any name of one card: an id, what nvidia-smi prints, a Kubernetes label. A size such as 24GB, or a part of names, lists the cards that have it."`
	serverFlags `embed:"" group:"Answers:"`
	outputFlags `embed:""`
}

// Run lists the cards, or shows one.
func (c *gpusCommand) Run(ctx context.Context, t *terminal) error {
	l := listing[catalog.GPU]{noun: "gpus", id: 29, columns: []string{"id", ">usable GiB", ">MiB", "known from", "name"},
		row: func(e *catalog.GPU, wide bool) []string {
			usable, mib := "unknown", ""
			if e.UsableBytes > 0 {
				usable, mib = screen.InGiB(e.UsableBytes), fmt.Sprintf("%.0f", float64(e.UsableBytes)/(1<<20))
			}
			return []string{e.ID, usable, mib, string(e.UsableBasis), screen.Clipped(e.Name, 17, wide)}
		}}
	if gb, ok := catalog.SizeOf(c.Name); ok && c.format() != "json" { // which has the card that a job with this name is judged on
		l.has = func(e *catalog.GPU) bool { return e.IsOfSize(gb) }
	}
	return l.show(ctx, t, c.serverFlags, c.outputFlags, c.Name)
}

type modelsCommand struct {
	Name        string `arg:"" optional:"" help:"An id, an alias, or the part of an id after the slash. A part of names, such as qwen3, lists the models that have it."`
	serverFlags `embed:"" group:"Answers:"`
	outputFlags `embed:""`
}

// Run lists the models, or shows one.
func (c *modelsCommand) Run(ctx context.Context, t *terminal) error {
	l := listing[catalog.Model]{noun: "models", id: 26,
		columns: []string{"id", "family", ">parameters", ">layers", ">hidden", ">context"},
		row: func(e *catalog.Model, wide bool) []string {
			return []string{e.ID, screen.Clipped(e.Family, 8, wide), screen.Thousands(e.ParametersTotal),
				fmt.Sprint(e.Layers),
				fmt.Sprint(e.Hidden), fmt.Sprint(e.MaxPositions)}
		}}
	for _, name := range pipelines.PublishedPipelines() {
		if strings.Contains(catalog.ModelKey(name), catalog.ModelKey(c.Name)) {
			l.beside = append(l.beside, []string{name, "pipeline", "", "", "", ""})
		}
	}
	return l.show(ctx, t, c.serverFlags, c.outputFlags, c.Name)
}

// listing is how a kind of entries is listed.
type listing[E any] struct {
	noun string
	// A column whose name begins with > is of numbers. The first is of ids; of those that are longer than id the other
	// columns stand on a line of their own where 80 columns have no room for both.
	columns []string
	id      int
	row     func(e *E, wide bool) []string
	// has selects what is listed; nil is everything that has the name in it.
	has func(*E) bool
	// beside are rows of what can be named as an entry can and is none.
	beside [][]string
}

// find asks for one entry, or for the list of those that a name that no entry has is a part of.
func (l listing[E]) find(ctx context.Context, b *backend, name string) (body []byte, list bool, err error) {
	path := "/v1/" + l.noun
	if name == "" || l.has != nil {
		body, err = b.get(ctx, path)
		return body, true, err
	}
	body, err = b.get(ctx, path+"/"+url.PathEscape(name))
	if p, ok := asProblem(err); !ok || p.Status != http.StatusNotFound {
		return body, false, err
	}
	found, other := b.get(ctx, path+"?q="+url.QueryEscape(name))
	var all map[string]json.RawMessage
	if other != nil || json.Unmarshal(found, &all) != nil || string(all[l.noun]) == "[]" && len(l.beside) == 0 {
		return body, false, err
	}
	return found, true, nil
}

// show prints a list of the catalog, or all that is known of one entry.
func (l listing[E]) show(ctx context.Context, t *terminal, server serverFlags, form outputFlags, name string) error {
	output := form.format()
	b, err := server.backend(t)
	if err != nil {
		return err
	}
	body, isList, err := l.find(ctx, b, name)
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
	case !isList:
		return errors.Join(writeEntry(out, body, output == "markdown", form.Wide), out.Flush())
	}

	list, err := parse[map[string]json.RawMessage](a)
	if err != nil {
		return err
	}
	var entries []E
	if err := json.Unmarshal((*list)[l.noun], &entries); err != nil {
		return fmt.Errorf("the list of %s cannot be read: %w", l.noun, err)
	}
	columns := slices.Clone(l.columns)
	align := make([]string, len(columns))
	for i := range align {
		align[i] = "left"
		if name, number := strings.CutPrefix(columns[i], ">"); number {
			align[i], columns[i] = "right", name
		}
	}
	g := screen.NewGrid(align...)
	wide := form.Wide || output == "markdown" || !isTerminal(t.stdout)
	if !wide {
		g.Long = l.id
	}
	g.Add(columns...)
	for i := range entries {
		if l.has == nil || l.has(&entries[i]) {
			g.Add(l.row(&entries[i], wide)...)
		}
	}
	for _, row := range l.beside {
		g.Add(row...)
	}
	if output == "markdown" {
		g.WriteMarkdown(out)
	} else {
		g.Write(out)
	}
	return out.Flush()
}

// entryName is the column of the names of an entry's fields, of which the longest has 33 letters.
const entryName = 35

// writeEntry prints the fields of one entry in the order of the answer.
func writeEntry(w io.Writer, body []byte, markdown, wide bool) error {
	g := screen.NewGrid("left", "left")
	if markdown {
		g.Add("field", "value")
	}
	if err := eachField(body, func(name, value string) {
		lines := []string{value}
		if !markdown && !wide {
			lines = screen.Wrap(value, screen.LineWidth-entryName)
		}
		g.Add(name, first(lines))
		for _, more := range lines[min(1, len(lines)):] {
			g.Add("", more)
		}
	}); err != nil {
		return err
	}
	if markdown {
		g.WriteMarkdown(w)
	} else {
		g.Write(w)
	}
	return nil
}
