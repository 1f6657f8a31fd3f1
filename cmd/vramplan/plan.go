package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

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
	Price          []string `sep:"none" placeholder:"NAME=N" help:"What an hour of a card costs, in any one unit, such as rtx-4090=0.44; repeat it for each card there is to choose from. Cards are ranked by what the run costs." group:"Job:"`
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
	prices, err := pricesOf(c.Price)
	if err != nil {
		return err
	}
	for _, p := range prices {
		edits = append(edits, edit{path: "gpus", value: p, further: true})
	}
	if c.StepTime != nil {
		edits = append(edits, edit{path: "measured_steps",
			value: []map[string]float64{{"step_time_seconds": *c.StepTime}}})
	}
	return c.answerAll(ctx, t, path, p, edits...)
}

// cardPrice is a card with its price as a job names it.
type cardPrice struct {
	Name         string  `json:"name"`
	PricePerHour float64 `json:"price_per_hour"`
}

// Prices in any currency are within these; what is not has lost its point, or is of something else.
const (
	leastPrice = 1e-6
	mostPrice  = 1e9
)

// pricesOf reads the values of --price.
func pricesOf(values []string) (list []cardPrice, err error) {
	for _, value := range values {
		at := strings.LastIndexByte(value, '=')
		if at < 1 || strings.TrimSpace(value[:at]) == "" {
			return nil, usage("--price %.100s: NAME=NUMBER is accepted, the price of an hour of a card, such as --price "+
				"rtx-4090=0.44", screen.Plain(value))
		}
		name, text := strings.TrimSpace(value[:at]), strings.TrimSpace(value[at+1:])
		price, err := strconv.ParseFloat(text, 64)
		if err != nil || !(price >= leastPrice && price <= mostPrice) {
			return nil, usage("--price %.100s: %.40q is no price of an hour: a number from 0.000001 to 1000000000 without a unit "+
				"is accepted, such as 0.44", screen.Plain(value), text)
		}
		i := slices.IndexFunc(list, func(p cardPrice) bool { return p.Name == name })
		if i >= 0 && list[i].PricePerHour != price {
			return nil, usage("--price gives %s two prices, %v and %v: a card has one", screen.Plain(name), list[i].PricePerHour, price)
		}
		if i < 0 {
			list = append(list, cardPrice{name, price})
		}
	}
	return list, nil
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
