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
	"strings"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// asked says which answers are wanted: of the jobs below root and the cards that match, plans of every so manyth job in
// place of estimates where plans is not 0.
type asked struct {
	root        string
	cards, only *regexp.Regexp
	plans       int
}

// write makes the file of answers.
func write(ctx context.Context, what asked, path string, out io.Writer) (err error) {
	began := time.Now()
	jobs, err := rows(what.root, what.only)
	if err != nil {
		return err
	}
	cards, err := cardsNamed(what.cards)
	if err != nil {
		return err
	}
	ask := estimated
	if what.plans > 0 {
		ask = planned
		var some []row
		for i := 0; i < len(jobs); i += what.plans {
			some = append(some, jobs[i])
		}
		jobs = some
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
	if err := answerAll(ctx, jobs, cards, ask, buffered); err != nil {
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
func answerAll(ctx context.Context, jobs []row, cards []string, ask asking, w io.Writer) error {
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
				text, err := answers(ctx, i, jobs[i], cards, ask)
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

// asking asks a service about a job on a card that it names; n tells one question from the next.
type asking func(ctx context.Context, s *service.Service, job estimator.Job, n int) (any, error)

func estimated(ctx context.Context, s *service.Service, job estimator.Job, _ int) (any, error) {
	return s.Estimate(ctx, job, service.EstimateOptions{})
}

// clusterGPUs is the cluster of which layouts are asked for.
const clusterGPUs = 16

// planned asks for a whole plan, a brief one, or layouts, in turn. A job that says what runs is planned for that.
func planned(ctx context.Context, s *service.Service, job estimator.Job, n int) (any, error) {
	request, options := service.PlanRequest{Job: job}, service.PlanOptions{}
	switch n % 3 {
	case 0:
		options.Frontier = true
	case 1:
		options.Brief = true
	case 2:
		request.Cluster = &jobdoc.Cluster{GPUs: clusterGPUs}
	}
	p, err := s.Plan(ctx, request, options)
	if err != nil {
		return nil, err
	}
	return map[string]any{"plan": p, "page": strings.Split(p.Text(), "\n"), "wide": strings.Split(p.WideText(), "\n"),
		"markdown": strings.Split(p.Markdown(), "\n")}, nil
}

// answers are the lines of the nth job.
func answers(ctx context.Context, n int, r row, cards []string, ask asking) ([]byte, error) {
	s := service.New(service.EmbeddedCatalog()) // what it remembers goes with the job
	var text bytes.Buffer
	for k, card := range cards {
		job := r.job
		job.GPUs = make([]estimator.GPURef, 1)
		job.GPUs[0].Name = card
		a := answer{Job: r.key, Card: card}
		said, err := ask(ctx, s, job, n+k)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
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
