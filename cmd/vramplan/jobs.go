package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// jobCommand is what the commands that take a job have in common.
type jobCommand struct {
	jobFlags    `embed:""`
	fromFlags   `embed:""`
	answerFlags `embed:"" group:"Answers:"`
}

// outputFlags choose how answers are printed.
type outputFlags struct {
	Output string `short:"o" enum:"table,json,markdown" default:"table" setting:"VRAMPLAN_OUTPUT" help:"table, json (one line a job) or markdown." group:"Answers:"`
	JSON   bool   `name:"json" help:"Short for --output json." group:"Answers:"`
	Wide   bool   `help:"Let lines be as long as they come, and show every row; without it they fit 80 columns." group:"Answers:"`
}

func (f *outputFlags) format() string {
	if f.JSON {
		return "json"
	}
	return f.Output
}

// open finds the documents that the flags name, with the flags' own changes in
// them. eager is as in newDocuments; closing does nothing to standard input.
func (c *jobCommand) open(ctx context.Context, t *terminal, eager bool,
	more ...edit) (docs *documents, closeFile func(), err error) {
	edits, err := c.edits(ctx, t)
	if err != nil {
		return nil, nil, err
	}
	if len(c.From) > 0 {
		if c.File != "" {
			return nil, nil, usage("give a job document with -f or files of other tools with --from, not both")
		}
		lines, err := c.fromFlags.documents(ctx, t, edits)
		if err != nil {
			return nil, nil, err
		}
		return newDocuments(bytes.NewReader(lines), append(edits, more...), eager), func() {}, nil
	}
	also, err := pairsOf(c.Set)
	if err != nil {
		return nil, nil, err
	}
	edits = append(edits, also...)
	if c.File == "" && len(edits) == 0 {
		return nil, nil, usage("no job: give a document with -f FILE, a batch script or configuration with --from " +
			"FILE, or --model, --micro-batch and the other flags of a job")
	}
	edits = append(edits, more...)
	if c.File == "" {
		return newDocuments(strings.NewReader("{}"), edits, false), func() {}, nil
	}
	file, err := t.open(c.File)
	if err != nil {
		return nil, nil, err
	}
	return newDocuments(file, edits, eager), func() { file.Close() }, nil
}

// asking posts documents to a path of the API.
func asking(b *backend, path string) func(context.Context, document) ([]byte, error) {
	return func(ctx context.Context, doc document) ([]byte, error) { return b.post(ctx, path, doc) }
}

// printer shows answers in one of the forms of --output.
type printer interface {
	// one shows the only answer of a run.
	one(w io.Writer, a answer) error
	// next shows one of many.
	next(w io.Writer, a answer) error
}

// answerAll posts every document and prints the answers. A document with a
// problem does not stop the others; the exit code tells that there was one.
func (c *jobCommand) answerAll(ctx context.Context, t *terminal, path string, p printer, more ...edit) error {
	_, eager := p.(jsonLines) // the only form that is the same for one job and for many
	docs, closeFile, err := c.open(ctx, t, eager, more...)
	if err != nil {
		return err
	}
	defer closeFile()
	backend, path, err := c.asker(t, path)
	if err != nil {
		return err
	}

	out := bufio.NewWriter(t.stdout)
	bar := newProgress(t)
	err = each(ctx, docs, c.capped(t, backend, path), func(a answer, idle bool) error {
		bar.count(a)
		if _, refused := asProblem(a.err); a.err != nil && !refused {
			if !docs.many {
				return a.err
			}
			return fmt.Errorf("line %d: %w", a.doc.line, a.err)
		}
		show := p.one
		if docs.many {
			show = p.next
		}
		if err := show(out, a); err != nil {
			return err
		}
		if idle {
			return out.Flush()
		}
		return nil
	})
	bar.done()
	if err := errors.Join(err, out.Flush()); err != nil {
		return err
	}
	if bar.problems > 0 {
		return exit(exitFailure)
	}
	return nil
}

// jsonLines prints each answer as the API gives it, on one line.
type jsonLines struct{}

func (j jsonLines) one(w io.Writer, a answer) error { return j.next(w, a) }

func (jsonLines) next(w io.Writer, a answer) error {
	body := a.body
	if p, ok := asProblem(a.err); ok {
		body = p.body
	}
	if bytes.IndexByte(body, '\n') >= 0 { // a service behind --server may indent
		var line bytes.Buffer
		if err := json.Compact(&line, body); err != nil {
			return fmt.Errorf("line %d: the answer is not JSON: %w", a.doc.line, err)
		}
		body = line.Bytes()
	}
	if _, err := w.Write(body); err != nil {
		return err
	}
	_, err := w.Write([]byte{'\n'})
	return err
}
