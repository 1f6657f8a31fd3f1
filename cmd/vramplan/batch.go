package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
)

func workers() int { return max(1, runtime.GOMAXPROCS(0)) }

// answer is what became of one document: a body of the API, or an error.
type answer struct {
	doc  document
	body []byte
	err  error
}

// each answers documents on all cores and hands the answers to use in the order
// of the documents. At most a few documents a core are held at any moment, however
// long the input and however slow use is; idle tells use that nothing else is on
// its way at the moment. It stops at the first error of use and at an input that
// cannot be read.
func each(ctx context.Context, docs *documents, ask func(context.Context, document) ([]byte, error),
	use func(a answer, idle bool) error) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()

	type task struct {
		doc  document
		done chan answer
	}
	todo := make(chan task)
	inOrder := make(chan task, 8*workers())
	var readErr error
	go func() { // reads; readErr is set before inOrder is closed
		defer close(inOrder)
		defer close(todo)
		defer recovered(&readErr)
		for {
			doc, err := docs.next()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				readErr = fmt.Errorf("reading jobs: %w", err)
				return
			}
			t := task{doc, make(chan answer, 1)}
			select {
			case inOrder <- t:
			case <-ctx.Done():
				readErr = context.Cause(ctx)
				return
			}
			select {
			case todo <- t:
			case <-ctx.Done():
				readErr = context.Cause(ctx)
				return
			}
		}
	}()
	for range workers() {
		go func() {
			for t := range todo {
				t.done <- safely(ctx, t.doc, ask)
			}
		}()
	}

	for t := range inOrder {
		select {
		case a := <-t.done:
			if err := use(a, len(inOrder) == 0); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return readErr
}

func safely(ctx context.Context, doc document, ask func(context.Context, document) ([]byte, error)) (a answer) {
	a.doc = doc
	defer recovered(&a.err)
	a.body, a.err = ask(ctx, doc)
	return a
}

// recovered turns a panic of a goroutine into an error: the runtime would end the
// process with exit code 2, which means bad input here.
func recovered(err *error) {
	if p := recover(); p != nil {
		*err = &exitError{exitUndecided, errors.New(fault(p, debug.Stack()))}
	}
}

// progress counts answers on one line of a terminal while there are many of them.
type progress struct {
	w        io.Writer // nil where nobody looks
	began    time.Time
	shown    time.Time
	jobs     int
	problems int
}

func newProgress(t *terminal) *progress {
	p := &progress{began: time.Now()}
	// Answers on the same terminal show the progress themselves.
	if isTerminal(t.stderr) && !isTerminal(t.stdout) {
		p.w = t.stderr
	}
	p.shown = p.began
	return p
}

func (p *progress) count(a answer) {
	p.jobs++
	if a.err != nil {
		p.problems++
	}
	now := time.Now()
	if p.w == nil || now.Sub(p.shown) < 500*time.Millisecond {
		return
	}
	p.shown = now
	fmt.Fprintf(p.w, "\r%s jobs, %s with problems, %s a second\x1b[K", screen.Thousands(int64(p.jobs)),
		screen.Thousands(int64(p.problems)),
		screen.Thousands(int64(float64(p.jobs)/now.Sub(p.began).Seconds())))
}

// done clears the line, if there is one.
func (p *progress) done() {
	if p.w != nil && p.shown != p.began {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
