package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator"
)

// maxNamed is how many of the words that were not understood are named.
const maxNamed = 3

// understand takes a verdict back that too little was understood for. A denial needs every word that can
// change memory to be understood, and the job to fit in no reading of its words; "fits" stands where what is
// not understood can only make the job smaller, or keep it from running.
func (j *judgement) understand(ctx context.Context, from origin, asker *decider) {
	if j.err != nil {
		return
	}
	if from.more > 0 {
		j.notes = append(j.notes, fmt.Sprintf("the script starts %d more trainings, of which nothing is said "+
			"here", from.more))
	}
	if len(from.unread) > 0 {
		j.notes = append(j.notes, "not read: "+screen.Plain(some(from.unread)))
	}
	denied := j.code == exitFailure
	var reasons []string
	for _, d := range from.doubts {
		if denied || d.Enlarges {
			reasons = append(reasons, d.String())
		}
	}
	if len(reasons) == 0 {
		reasons = j.otherReadings(ctx, from, asker, denied)
	}
	if len(reasons) > 0 {
		j.withdraw(reasons, denied)
		return
	}
	if len(from.doubts) > 0 {
		var all []string
		for _, d := range from.doubts {
			all = append(all, d.String())
		}
		j.notes = append(j.notes, "read without what is not understood: "+some(all))
	}
}

// otherReadings are the reasons of those readings of the job that may fit, of one that is denied, and of those that may
// not, of one that fits.
func (j *judgement) otherReadings(ctx context.Context, from origin, asker *decider, denied bool) []string {
	var reasons []string
	others := from.most
	if denied {
		others = from.others
	} else if len(others) > 0 {
		others = others[1:] // the first is the job itself
	}
	for _, other := range others {
		doc := j.doc
		var err error
		if doc.text, err = apply(other.Document, from.edits); err == nil {
			var body []byte
			body, err = asker.post(ctx, "/v1/estimate", doc)
			var result *estimator.Result
			if result, err = parse[estimator.Result](answer{doc: doc, body: body, err: err}); err == nil &&
				len(result.GPUs) > 0 {
				best, code := verdictOf(result.GPUs, false)
				if denied && code == exitFailure && best.Verdict == estimator.DoesNotFit ||
					!denied && code != exitFailure {
					continue
				}
			}
		}
		reasons = append(reasons, other.Why)
	}
	return reasons
}

// withdraw makes no answer of a verdict.
func (j *judgement) withdraw(reasons []string, denied bool) {
	text := "no answer: " + some(reasons)
	if denied {
		text += fmt.Sprintf(". As far as the rest is understood, it does not fit on %s", screen.Plain(j.best.GPU))
	}
	j.err = &exitError{exitUndecided, fmt.Errorf("%s; say what is trained in #VRAMPLAN lines", screen.Plain(text))}
	j.code, j.withdrawn, j.plan, j.pair = exitUndecided, true, nil, nil
}

// some names the first few of several things.
func some(list []string) string {
	text := strings.Join(list[:min(len(list), maxNamed)], "; ")
	if len(list) > maxNamed {
		text += fmt.Sprintf("; and %d more", len(list)-maxNamed)
	}
	return text
}
