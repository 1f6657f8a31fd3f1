package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"time"

	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/decision"
	"github.com/vramplan/vramplan/service/submission"
)

// checkCommand judges jobs for scripts and scheduler hooks.
type checkCommand struct {
	jobFlags         `embed:""`
	submissionFlags  `embed:"" group:"Submission:"`
	checkServerFlags `embed:"" group:"Answers:"`
	decisionFlags    `embed:"" group:"Decision:"`

	From           []string      `sep:"none" placeholder:"FILE" help:"Take the job from a batch script, a configuration of a trainer or a program, as estimate does." group:"Files of other tools:"`
	Ignore         []string      `sep:"none" placeholder:"WORD" help:"A word of the files that changes nothing in memory; repeat for more." group:"Files of other tools:"`
	Set            []string      `sep:"none" placeholder:"FIELD=VALUE" help:"Say a field of the job document, such as distributed.tensor_parallel=2; repeat for more." group:"Job:"`
	EffectiveBatch *int64        `placeholder:"N" help:"Sequences in one optimizer step that the advice keeps; what the job gives today if not given." group:"Job:"`
	AdviceTimeout  time.Duration `default:"2s" setting:"VRAMPLAN_ADVICE_TIMEOUT" help:"How long to look for what to change; the verdict stands without it." group:"Answers:"`
	Output         string        `short:"o" enum:"table,json" default:"table" help:"table or json (one line a job)." group:"Answers:"`
	JSON           bool          `name:"json" help:"Print the estimate, with what was decided in its field check, on one line a job." group:"Answers:"`
	Strict         bool          `help:"Exit with 4 unless the job surely fits on every card named." group:"Answers:"`
}

// judgement is what check decided on one job.
type judgement struct {
	doc      document
	code     int
	estimate []byte
	result   *estimator.Result
	best     estimator.GPUFit
	plan     *planner.Plan   // nil where there is no advice to give, or no time for it
	pair     *planner.Choice // the advice where there is no time for a plan
	override string          // the reason to let a job through that does not fit
	gpus     int             // those that the job asks for, where its description is of one
	notes    []string        // what a verdict that stands does not cover
	err      error
	// withdrawn is true where there was a verdict, and too little was understood for it.
	withdrawn bool
}

// Run says whether jobs fit, in the exit code. Of several jobs the one decides
// that is worst to start: 1 where any of them does not fit.
func (c *checkCommand) Run(ctx context.Context, t *terminal) error {
	// A check lives for milliseconds and holds some ten MiB: collecting garbage at Go's usual
	// pace is a tenth of its work.
	debug.SetGCPercent(400)
	c.JSON = c.JSON || c.Output == "json"
	catalog := service.EmbeddedCatalog()
	asker, err := c.decider(t, catalog)
	if err != nil {
		return checkError(err)
	}
	docs, origin, closeFile, err := c.open(ctx, t, catalog)
	if err != nil {
		c.recordFailure(t, origin, err)
		if c.JSON {
			fmt.Fprintf(t.stdout, `{"check":{"verdict":%q,"exit_code":%d}}`+"\n", decision.NoVerdict,
				checkError(err).code)
		}
		return checkError(err)
	}
	defer closeFile()

	out := bufio.NewWriter(t.stdout)
	style := screen.Style{Colour: t.colour()}
	code := exitOK
	err = each(ctx, docs, func(ctx context.Context, doc document) ([]byte, error) {
		return asker.post(ctx, "/v1/estimate", doc)
	}, func(a answer, idle bool) error {
		j := c.judge(ctx, a, asker, len(origin.doubts) == 0)
		if origin.scheduled && aboutCard(j.err) {
			j.err = c.unknownCard(j.err, origin.options)
		}
		j.doubtLength(ctx, asker)
		c.relent(&j, origin)
		j.understand(ctx, origin, asker)
		code = worse(code, j.code)
		c.record(t, j, origin)
		if err := c.show(t, out, style, docs.many, j); err != nil || !idle {
			return err
		}
		return out.Flush()
	})
	if note := asker.note(); note != "" {
		fmt.Fprintf(t.stderr, "vramplan check: %s\n", note)
	}
	if err := errors.Join(err, out.Flush()); err != nil {
		return checkError(err)
	}
	return exit(code)
}

// open finds the jobs: in a file, in flags, or in what was submitted.
func (c *checkCommand) open(ctx context.Context, t *terminal, cards cardNames) (*documents, origin, func(), error) {
	edits, err := c.edits(ctx, t)
	if err != nil {
		return nil, origin{}, nil, err
	}
	also, err := pairsOf(c.Set)
	if err != nil {
		return nil, origin{}, nil, err
	}
	edits = append(edits, also...)
	if len(c.From) > 0 {
		if len(c.From) > 1 || c.Script != "" || c.File != "" || c.Model != "" || c.HFConfig != "" ||
			c.Recorded != "" || c.Pipeline != "" {
			return nil, origin{}, nil, usage("give the job in one place: with -f FILE, --script FILE or one --from FILE, " +
				"whose fields --set changes")
		}
		c.Script = c.From[0]
	}
	said, err := saidBy(edits)
	if err != nil {
		return nil, origin{}, nil, err
	}
	found, err := c.submissionFlags.find(ctx, t, cards, submission.Source{AnyFile: len(c.From) > 0, List: listFiles,
		Set: said, Ignore: c.Ignore}, c.File == "" && c.Model == "" && c.HFConfig == "" &&
		c.Recorded == "" && c.Pipeline == "")
	from := origin{source: found.From, options: found.Options}
	if found.Inferred {
		from.doubts, from.others, from.more = found.Doubts, found.Others, found.More
		from.unread = found.Unread
		from.most = found.Most
	}
	if err != nil {
		return nil, from, nil, err
	}
	var scheduled []edit
	if len(c.GPU) == 0 {
		if found.Options.NoGPU() {
			return nil, from, nil, &exitError{exitUndecided, errors.New("the job asks for no GPU: a count of zero or " +
				"none in --gres, --gpus, --gpus-per-node and --gpus-per-task; --gpu NAME says which card is meant")}
		}
		if scheduled, err = c.submissionFlags.gpus(t, found.Options, cards); err != nil {
			return nil, from, nil, err
		}
	}
	edits = append(scheduled, edits...)
	from.edits, from.scheduled = edits, len(scheduled) > 0
	var r io.Reader
	closeFile := func() {}
	switch {
	case c.File != "":
		file, err := t.open(c.File)
		if err != nil {
			return nil, from, nil, err
		}
		r, closeFile = file, func() { file.Close() }
	case found.Document != nil:
		r = bytes.NewReader(found.Document)
	case len(edits) == len(scheduled):
		return nil, from, nil, usage("no job: give a document with -f FILE, a batch script with --script FILE, or " +
			"--model, --micro-batch and the other flags of a job")
	default:
		r = bytes.NewReader([]byte("{}"))
	}
	docs := newDocuments(r, edits, c.JSON && c.File != "")
	return docs, from, closeFile, nil
}

// show prints one judgement: words about trouble to standard error, the rest to out.
func (c *checkCommand) show(t *terminal, out io.Writer, s screen.Style, many bool, j judgement) error {
	command := "check"
	if many {
		command = fmt.Sprintf("check: line %d", j.doc.line)
	}
	if j.err != nil {
		report(t.stderr, command, j.err)
		switch p, ok := asProblem(j.err); {
		case ok && c.JSON:
			return jsonLines{}.next(out, answer{doc: j.doc, err: p})
		case j.withdrawn && c.JSON:
			_, err := fmt.Fprintf(out, `{"check":{"verdict":%q,"exit_code":%d}}`+"\n", decision.NoVerdict, j.code)
			return err
		}
		return nil
	}
	for _, line := range append([]string{caution(j)}, j.notes...) {
		if line != "" {
			fmt.Fprintf(t.stderr, "vramplan %s: %s\n", command, line)
		}
	}
	if c.JSON {
		return writeJudgement(out, j)
	}
	label := ""
	if many {
		label = fmt.Sprintf("line %d: ", j.doc.line)
	}
	writeMessage(out, s, label, j)
	if j.code == exitFailure {
		screen.WriteHanging(out, "", "  ", "to run it anyway: "+c.overrideHint())
	}
	return nil
}

// judge turns an answer into an exit code and asks for advice where that helps and the job is understood.
func (c *checkCommand) judge(ctx context.Context, a answer, asker *decider, understood bool) judgement {
	j := judgement{doc: a.doc, estimate: a.body}
	j.result, j.err = parse[estimator.Result](a)
	if j.err == nil && len(j.result.GPUs) == 0 {
		j.err = c.noCard()
	}
	if j.err != nil {
		if j.code = checkError(j.err).code; j.code == exitUsage && !understood {
			j.code = exitUndecided // another job than this one may be meant
		}
		return j
	}
	j.best, j.code = verdictOf(j.result.GPUs, c.Strict)
	j.bestFirst(ctx, asker)
	if j.best.Verdict == estimator.Fits || j.best.Verdict == estimator.Unknown || !understood {
		return j
	}
	// Advice is an extra: without it the verdict stands.
	request := a.doc
	edits := appendEdit(nil, "effective_batch", c.EffectiveBatch)
	if len(j.result.GPUs) > 1 {
		edits = append(edits, edit{path: "gpus", value: []string{j.best.GPU}})
	}
	var err error
	if request.text, err = apply(request.text, edits); err != nil {
		return j
	}
	within, cancel := context.WithTimeout(ctx, c.AdviceTimeout)
	defer cancel()
	if body, err := asker.post(within, "/v1/plan", request); err == nil {
		if plan, err := parse[planner.Plan](answer{doc: a.doc, body: body}); err == nil {
			j.plan = plan
			return j
		}
	}
	j.pair = smallerPair(ctx, request, asker)
	return j
}

// bestFirst asks again with the card in front that the verdict is about: cards need different amounts, and
// the peak of an estimate is that on its first card.
func (j *judgement) bestFirst(ctx context.Context, asker *decider) {
	cards := []string{j.best.GPU}
	for _, g := range j.result.GPUs {
		if g.GPU != j.best.GPU {
			cards = append(cards, g.GPU)
		}
	}
	if j.best.GPU == j.result.GPUs[0].GPU {
		return
	}
	doc := j.doc
	var err error
	if doc.text, err = apply(j.doc.text, []edit{{path: "gpus", value: cards}}); err != nil {
		return
	}
	body, err := asker.post(ctx, "/v1/estimate", doc)
	if result, err := parse[estimator.Result](answer{doc: doc, body: body, err: err}); err == nil &&
		len(result.GPUs) == len(j.result.GPUs) {
		j.result = result
	}
}

// smallerPair is the advice where a plan takes too long: a micro-batch that fits, for a few estimates.
func smallerPair(ctx context.Context, doc document, asker *decider) *planner.Choice {
	ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	training := gjson.GetBytes(doc.text, "training")
	m, n, ok := decision.SmallerPair(training.Get("micro_batch").Int(), training.Get("gradient_accumulation").Int(),
		func(m, n int64) bool {
			smaller := doc
			var err error
			if smaller.text, err = apply(doc.text, []edit{{path: "training.micro_batch", value: m},
				{path: "training.gradient_accumulation", value: n}}); err != nil {
				return false
			}
			body, err := asker.post(ctx, "/v1/estimate", smaller)
			result, err := parse[estimator.Result](answer{doc: smaller, body: body, err: err})
			return err == nil && len(result.GPUs) > 0 && result.GPUs[0].Verdict == estimator.Fits
		})
	if !ok {
		return nil
	}
	return &planner.Choice{MicroBatch: m, GradientAccumulation: n}
}

// noCard is the error of a job for which no card was named.
func (c *checkCommand) noCard() error {
	if c.Script != "" {
		return &exitError{exitUndecided, errors.New("nobody knows which card the job gets: neither the job nor " +
			"--gres, --gpus, --constraint or the partition says it; --gpu NAME does, and --site FILE says which cards " +
			"are behind a cluster's own names of partitions and features")}
	}
	return usage("the job names no card: give one with --gpu or in /gpus")
}

// relent turns "does not fit" into a pass where the user gives a reason, and where the job gets several GPUs
// of which its description does not speak: they may share the work in a way that it does not say.
func (c *checkCommand) relent(j *judgement, from origin) {
	if j.code != exitFailure {
		return
	}
	if j.override = c.Override; j.override == "" {
		j.override = from.options.Override()
	}
	if n := from.options.Count(); n > 1 && !gjson.GetBytes(j.doc.text, "training.distributed").Exists() {
		j.gpus = n
	}
	if j.override != "" || j.gpus > 0 {
		j.code = exitOK
	}
}
