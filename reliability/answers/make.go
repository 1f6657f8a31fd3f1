package main

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"runtime"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
)

// write makes the file of answers.
func write(ctx context.Context, root string, of, only *regexp.Regexp, path string, out io.Writer) (err error) {
	began := time.Now()
	jobs, err := rows(root, only)
	if err != nil {
		return err
	}
	cards, err := cardsNamed(of)
	if err != nil {
		return err
	}
	if len(jobs) == 0 || len(cards) == 0 {
		return fmt.Errorf("%d jobs and %d cards match", len(jobs), len(cards))
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	zipped, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
	if err != nil {
		return err
	}
	buffered := bufio.NewWriterSize(zipped, 1<<20)
	if err := answerAll(ctx, jobs, cards, buffered); err != nil {
		return err
	}
	if err := errors.Join(buffered.Flush(), zipped.Close()); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d jobs on %d cards: %d answers in %s\n", len(jobs), len(cards), len(jobs)*len(cards),
		time.Since(began).Round(time.Second))
	return nil
}

// cardsNamed are the names of the catalog's cards that match.
func cardsNamed(of *regexp.Regexp) ([]string, error) {
	all, err := service.EmbeddedCatalog().GPUs()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, g := range all {
		if of.MatchString(g.Name) {
			names = append(names, g.Name)
		}
	}
	return names, nil
}

// answerAll writes the answers of all jobs in their order, several of which are asked about side by side.
func answerAll(ctx context.Context, jobs []row, cards []string, w io.Writer) error {
	type answered struct {
		text []byte
		err  error
	}
	waiting := make(chan chan answered, 2*runtime.GOMAXPROCS(0))
	go func() {
		defer close(waiting)
		for i := range jobs {
			one := make(chan answered, 1)
			select {
			case <-ctx.Done():
				return
			case waiting <- one: // which has room for as many as may run
			}
			go func() {
				text, err := answers(ctx, &jobs[i], cards)
				one <- answered{text, err}
			}()
		}
	}()
	for one := range waiting {
		a := <-one
		if a.err != nil {
			return a.err
		}
		if _, err := w.Write(a.text); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// answer is one line of a file of answers.
type answer struct {
	Job    string          `json:"job"`
	Card   string          `json:"card"`
	Answer json.RawMessage `json:"answer"`
}

// answers are the lines of a job.
func answers(ctx context.Context, r *row, cards []string) ([]byte, error) {
	s := service.New(service.EmbeddedCatalog()) // what it remembers goes with the job
	var text bytes.Buffer
	for _, card := range cards {
		job := r.job
		job.GPUs = make([]estimator.GPURef, 1)
		job.GPUs[0].Name = card
		a := answer{Job: r.key, Card: card}
		result, err := s.Estimate(ctx, job, service.EstimateOptions{})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		said := any(result)
		if err != nil {
			said = refusal(err)
		}
		if a.Answer, err = json.Marshal(said); err != nil {
			return nil, fmt.Errorf("%s on %s: %w", r.key, card, err)
		}
		line, err := json.Marshal(a)
		if err != nil {
			return nil, err
		}
		text.Write(append(line, '\n'))
	}
	return text.Bytes(), nil
}

// refusal is an error as JSON.
func refusal(err error) any {
	if bad, ok := errors.AsType[*estimator.InvalidJobError](err); ok {
		return map[string]any{"errors": bad.Fields}
	}
	return map[string]any{"error": err.Error()}
}
