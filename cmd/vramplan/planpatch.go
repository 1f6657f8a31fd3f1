package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/readers"
)

// patch plans the one job of the files that --from names and prints the first way out that the files can say.
func (c *planCommand) patch(ctx context.Context, t *terminal) error {
	if len(c.From) == 0 {
		return usage("--patch changes files of other tools: name them with --from FILE")
	}
	edits, err := c.edits()
	if err != nil {
		return err
	}
	edits = appendEdit(edits, "effective_batch", c.EffectiveBatch)
	read, err := c.fromFlags.answer(ctx, nil)
	if err != nil {
		return err
	}
	switch open := read.Open(); {
	case len(read.Jobs) == 0:
		return refusedAll(read)
	case len(read.Jobs) > 1:
		return usage("the files describe %d jobs; a patch is for one: hand over the configuration of one of them", len(read.Jobs))
	case len(open) > 0:
		return questions(open)
	}
	job := &read.Jobs[0]
	text, err := apply(job.Document, edits)
	if err != nil {
		return err
	}
	backend, path, err := c.asker(t, "/v1/plan")
	if err != nil {
		return err
	}
	body, err := backend.post(ctx, path, document{line: 1, text: text})
	if err != nil {
		return err
	}
	plan, err := parse[planner.Plan](answer{body: body})
	if err != nil {
		return err
	}
	if plan.Today != nil && plan.Today.Verdict == estimator.Fits {
		fmt.Fprintln(t.stderr, "the job fits as it is: nothing to change")
		return nil
	}
	source, err := c.source(c.From, nil)
	if err != nil {
		return err
	}
	for _, o := range plan.Options {
		if o.Verdict != estimator.Fits {
			continue
		}
		changes, ok := pointersOf(o.Changes)
		if !ok {
			fmt.Fprintf(t.stderr, "left out: %s (it changes more than settings of the files)\n", plain(o.Title))
			continue
		}
		p, err := readers.MakePatch(ctx, source, job, changes)
		if errors.Is(err, readers.ErrNotExpressible) {
			fmt.Fprintf(t.stderr, "left out: %s (%s)\n", plain(o.Title), plain(err.Error()))
			continue
		}
		if err != nil {
			return err
		}
		fmt.Fprintf(t.stderr, "%s: takes %s\n", plain(o.Title), size(o.DeviceBytes))
		_, err = fmt.Fprint(t.stdout, p.Diff)
		return err
	}
	return errors.New("no way out of the plan can be said in these files; vramplan plan --from lists them all")
}

// pointersOf turns an option's changes into fields by their pointers, with whole numbers as such. ok is false where
// something else than the training's own settings changes.
func pointersOf(changes map[string]any) (map[string]any, bool) {
	out := map[string]any{}
	for key, value := range changes {
		switch key {
		case "model", "gpus", "distributed", "lora":
			return nil, false
		}
		pointer := "/training/" + key
		if inner, ok := value.(map[string]any); ok && key == "evaluation" && len(inner) == 1 && inner["micro_batch"] != nil {
			pointer, value = pointer+"/micro_batch", inner["micro_batch"]
		}
		if f, ok := value.(float64); ok && f == math.Trunc(f) {
			value = int64(f)
		}
		if n, ok := value.(json.Number); ok {
			if i, err := n.Int64(); err == nil {
				value = i
			}
		}
		out[pointer] = value
	}
	return out, len(out) > 0
}
