package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// replayCommand shows what an estimate is made of.
type replayCommand struct {
	jobFlags `embed:""`
	hubFlag  `embed:"" group:"Answers:"`
	Events   bool `help:"Print every allocation and free: the bytes, negative where they are freed, and what they are."`
	Steps    int  `default:"1" help:"Optimizer steps to play, up to 10."`
	JSON     bool `name:"json" help:"Print events as a trace has them: events, names, and what, which has one of the names for every event." group:"Answers:"`
}

// Run replays one job in this process.
func (c *replayCommand) Run(ctx context.Context, t *terminal) error {
	if c.Steps < 1 || c.Steps > 10 {
		return usage("--steps %d: from 1 to 10", c.Steps)
	}
	docs, closeFile, err := (&jobCommand{jobFlags: c.jobFlags}).open(ctx, t, false)
	if err != nil {
		return err
	}
	defer closeFile()
	doc, err := docs.next()
	if errors.Is(err, io.EOF) {
		return usage("no job: the document is empty")
	}
	if err != nil {
		return err
	}
	if doc.tooLong {
		return usage("the document is longer than %d bytes", maxDocumentBytes)
	}
	job, err := jobdoc.Decode(doc.text)
	if err != nil {
		return err
	}
	here := service.New(service.EmbeddedCatalog(), service.WithCache(0), service.WithModelFinder(t.find))
	events, err := here.Events(ctx, job, c.Steps)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(t.stdout)
	switch {
	case c.JSON:
		err = json.NewEncoder(out).Encode(trace(events))
	case c.Events:
		for _, e := range events {
			aside := ""
			if e.Aside != 0 {
				aside = fmt.Sprintf(" (stream %d)", e.Aside)
			}
			fmt.Fprintf(out, "%+d  %s%s\n", e.Bytes, e.What, aside)
		}
	default:
		live, most := int64(0), int64(0)
		for _, e := range events {
			live += e.Bytes
			most = max(most, live)
		}
		fmt.Fprintf(out, "%d events, at most %d bytes requested at once; --events prints them\n", len(events), most)
	}
	return errors.Join(err, out.Flush())
}

// traceEvents are events in the form of a trace.
type traceEvents struct {
	Events []int64  `json:"events"`
	Names  []string `json:"names"`
	What   []int    `json:"what"`
	// Aside are the numbers of the allocations on each other stream than the one that computes.
	Aside map[uint8][]int `json:"aside,omitempty"`
}

func trace(events []estimator.Event) traceEvents {
	out, index, allocations := traceEvents{Aside: map[uint8][]int{}}, map[string]int{}, 0
	for _, e := range events {
		n, known := index[e.What]
		if !known {
			n = len(out.Names)
			index[e.What] = n
			out.Names = append(out.Names, e.What)
		}
		out.Events, out.What = append(out.Events, e.Bytes), append(out.What, n)
		if e.Bytes > 0 {
			if e.Aside != 0 {
				out.Aside[e.Aside] = append(out.Aside[e.Aside], allocations)
			}
			allocations++
		}
	}
	return out
}
