package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/tidwall/sjson"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/decision"
)

const (
	// assumedTokens is taken for sequences of which flags do not say how long they are, where the model's own context
	// is longer than anybody trains with: the cutoff of LLaMA-Factory's and the usual one of axolotl's configurations.
	// A document keeps its meaning, the model's whole context.
	assumedTokens = 2048
	// fewTokens are fewer than a batch job trains with: what does not fit with them does not fit.
	fewTokens = 128
)

// wholeContext is the code of the note that an answer was worked out for the model's whole context.
const wholeContext = "whole-context"

// takesWholeContext reports whether an answer says so.
func takesWholeContext(r *estimator.Result) bool {
	return slices.ContainsFunc(r.Notes, func(n estimator.Note) bool { return n.Code == wholeContext })
}

// capped asks with a shorter sequence where flags say nothing of its length, and says so on standard error.
func (c *jobCommand) capped(t *terminal, b *backend, path string) func(context.Context, document) ([]byte, error) {
	ask := asking(b, path)
	if c.File != "" || len(c.From) > 0 || c.SequenceLength != nil {
		return ask
	}
	return func(ctx context.Context, doc document) ([]byte, error) {
		probe := doc
		var err error
		probe.text, err = apply(doc.text, []edit{{path: "training.micro_batch", value: 1},
			{path: "training.gradient_accumulation", value: 1}, {path: "gpus", value: []string{}}})
		if err != nil {
			return nil, err
		}
		for _, planned := range []string{"effective_batch", "measured_steps", "cluster"} { // no fields of a job
			if probe.text, err = sjson.DeleteBytes(probe.text, planned); err != nil {
				return nil, fmt.Errorf("leave %s out: %w", planned, err)
			}
		}
		body, err := b.post(ctx, "/v1/estimate", probe)
		r, err := parse[estimator.Result](answer{doc: probe, body: body, err: err})
		_, refused := asProblem(err)
		switch {
		case err == nil && takesWholeContext(r):
		case refused: // what is asked for may be too much for any answer only because of the length
			probe.text, err = apply(probe.text, []edit{{path: "training.sequence_length", value: assumedTokens}})
			if err == nil {
				_, err = b.post(ctx, "/v1/estimate", probe)
			}
			if err != nil {
				return ask(ctx, doc) // which says what is wrong
			}
		default:
			return ask(ctx, doc)
		}
		if doc.text, err = apply(doc.text, []edit{{path: "training.sequence_length", value: assumedTokens}}); err != nil {
			return nil, err
		}
		whole := ""
		if r != nil && r.Assumed != nil {
			whole = " of " + screen.Thousands(r.Assumed.SequenceLength)
		}
		screen.WriteWrapped(t.stderr, "note: ",
			fmt.Sprintf("no --sequence-length is given: sequences of %s tokens are "+
				"taken, not the model's whole context%s",
				screen.Thousands(assumedTokens), whole), false)
		return ask(ctx, doc)
	}
}

// doubtLength takes a denial back that rests on a length which nobody gave: with fewer tokens the job may fit.
func (j *judgement) doubtLength(ctx context.Context, asker *decider) {
	if j.err != nil || j.code != exitFailure || !takesWholeContext(j.result) {
		return
	}
	shorter := j.doc
	var err error
	if shorter.text, err = apply(j.doc.text, []edit{{path: "training.sequence_length", value: fewTokens}}); err != nil {
		return
	}
	body, err := asker.post(ctx, "/v1/estimate", shorter)
	r, err := parse[estimator.Result](answer{doc: shorter, body: body, err: err})
	if err != nil || decision.Best(r.GPUs).Verdict == estimator.DoesNotFit {
		return
	}
	j.err = &exitError{exitUndecided, errors.New("no answer: sequence_length is not given, and the job does not fit " +
		"with the model's whole context, " +
		"which is hardly ever trained with; give the length (--sequence-length)")}
	j.code, j.withdrawn, j.plan, j.pair = exitUndecided, true, nil, nil
}
