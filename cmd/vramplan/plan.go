package main

import (
	"context"
	"fmt"
	"io"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator/planner"
)

type planCommand struct {
	jobCommand     `embed:""`
	outputFlags    `embed:""`
	EffectiveBatch *int64   `placeholder:"N" help:"Sequences in one optimizer step over all GPUs; what the job gives today if not given." group:"Job:"`
	StepTime       *float64 `placeholder:"SECONDS" help:"How long one whole optimizer step of the job takes as it runs today; step times are fitted to it." group:"Job:"`
	GPUs           *int64   `name:"gpus" placeholder:"N" help:"Rank the layouts on so many of the card: data, tensor, pipeline, context and expert parallel, ZeRO or FSDP, with the launcher's own files." group:"Job:"`
	GPUsPerNode    *int64   `name:"gpus-per-node" placeholder:"N" help:"With --gpus: how many each host has; 8 if not given." group:"Job:"`
	NetworkGbps    *float64 `name:"network-gbps" placeholder:"N" help:"With --gpus: gigabits a second that the network between hosts carries for each GPU." group:"Job:"`
	Patch          bool     `help:"Print the first change of the plan that fits as a patch of the files that --from names, for git apply or patch -p1." group:"Files of other tools:"`
	Frontier       bool     `help:"Add the largest micro-batch by sequence length, the longest sequence by micro-batch, and the largest model." group:"Answers:"`
}

// Run prints a plan for every job.
func (c *planCommand) Run(ctx context.Context, t *terminal) error {
	path := "/v1/plan"
	if c.Frontier {
		path += "?frontier=true"
	}
	var p printer
	switch c.format() {
	case "json":
		p = jsonLines{}
	case "markdown":
		p = &planPages{page: (*planner.Plan).Markdown}
	default:
		p = &planPages{page: (*planner.Plan).Text}
		if c.Wide {
			p = &planPages{page: (*planner.Plan).WideText}
		}
	}
	if c.Patch {
		return c.patch(ctx, t)
	}
	edits := appendEdit(nil, "effective_batch", c.EffectiveBatch)
	if c.GPUs == nil && (c.GPUsPerNode != nil || c.NetworkGbps != nil) {
		return usage("--gpus-per-node and --network-gbps go with --gpus")
	}
	edits = appendEdit(edits, "cluster.gpus", c.GPUs)
	edits = appendEdit(edits, "cluster.gpus_per_node", c.GPUsPerNode)
	if c.NetworkGbps != nil {
		edits = append(edits, edit{path: "cluster.network_bytes_per_second", value: *c.NetworkGbps * 1e9 / 8})
	}
	if c.StepTime != nil {
		edits = append(edits, edit{path: "measured_steps",
			value: []map[string]float64{{"step_time_seconds": *c.StepTime}}})
	}
	return c.answerAll(ctx, t, path, p, edits...)
}

// planPages prints each plan as a page, with a line between two of them.
type planPages struct {
	page  func(*planner.Plan) string
	begun bool
}

func (p *planPages) one(w io.Writer, a answer) error {
	plan, err := parse[planner.Plan](a)
	if err != nil {
		return err
	}
	if _, err = io.WriteString(w, p.page(plan)); err != nil {
		return err
	}
	if n := max(plan.WorldSize, plan.DataParallelGPUs); n > 1 && plan.Recommended == nil && plan.Layouts == nil {
		fmt.Fprintln(w)
		screen.WriteWrapped(w, "next: ",
			fmt.Sprintf("vramplan plan with --gpus %d ranks the layouts that share the model between "+
				"the GPUs", n), false)
	}
	return nil
}

func (p *planPages) next(w io.Writer, a answer) error {
	if p.begun {
		fmt.Fprint(w, "\n")
	}
	p.begun = true
	if refused, ok := asProblem(a.err); ok {
		_, err := fmt.Fprintf(w, "line %d: %s\n", a.doc.line, refused)
		return err
	}
	return p.one(w, a)
}
