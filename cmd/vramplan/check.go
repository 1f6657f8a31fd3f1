package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
)

// checkCommand judges jobs for scripts and scheduler hooks.
type checkCommand struct {
	jobCommand     `embed:""`
	EffectiveBatch *int64 `placeholder:"N" help:"Sequences in one optimizer step that the advice keeps; what the job gives today if not given." group:"Job:"`
	JSON           bool   `name:"json" help:"Print the estimate, with what was decided in its field check, on one line a job." group:"Answers:"`
	Strict         bool   `help:"Exit with 4 unless the job surely fits on every card named." group:"Answers:"`
}

// judgement is what check decided on one job.
type judgement struct {
	doc      document
	code     int
	estimate []byte
	result   *estimator.Result
	best     estimator.GPUFit
	plan     *planner.Plan // nil where there is no advice to give
	err      error
}

// Run says whether jobs fit, in the exit code. Of several jobs the one decides
// that is worst to start: 1 where any of them does not fit.
func (c *checkCommand) Run(ctx context.Context, t *terminal) error {
	docs, closeFile, err := c.open(t, c.JSON)
	if err != nil {
		return checkError(err)
	}
	defer closeFile()
	b, err := c.backend(t)
	if err != nil {
		return checkError(err)
	}

	out := bufio.NewWriter(t.stdout)
	style := newStyle(t)
	code := exitOK
	err = each(ctx, docs, asking(b, "/v1/estimate"), func(a answer, idle bool) error {
		j := c.judge(ctx, a, asking(b, "/v1/plan"))
		code = worse(code, j.code)
		if err := c.show(t, out, style, docs.many, j); err != nil || !idle {
			return err
		}
		return out.Flush()
	})
	if err := errors.Join(err, out.Flush()); err != nil {
		return checkError(err)
	}
	return exit(code)
}

// show prints one judgement: words about trouble to standard error, the rest to out.
func (c *checkCommand) show(t *terminal, out io.Writer, s style, many bool, j judgement) error {
	command := "check"
	if many {
		command = fmt.Sprintf("check: line %d", j.doc.line)
	}
	if j.err != nil {
		report(t.stderr, command, j.err)
		if p, ok := asProblem(j.err); ok && c.JSON {
			return jsonLines{}.next(out, answer{doc: j.doc, err: p})
		}
		return nil
	}
	if line := caution(j); line != "" {
		fmt.Fprintf(t.stderr, "vramplan %s: %s\n", command, line)
	}
	if c.JSON {
		return writeJudgement(out, j)
	}
	if many {
		fmt.Fprintf(out, "line %d: ", j.doc.line)
	}
	writeMessage(out, s, j)
	return nil
}

// judge turns an answer into an exit code and asks for advice where that helps.
func (c *checkCommand) judge(ctx context.Context, a answer, advice func(context.Context, document) ([]byte, error)) judgement {
	j := judgement{doc: a.doc, estimate: a.body}
	j.result, j.err = parse[estimator.Result](a)
	if j.err == nil && len(j.result.GPUs) == 0 {
		j.err = usage("the job names no card: give one with --gpu or in /gpus")
	}
	if j.err != nil {
		j.code = checkError(j.err).code
		return j
	}
	j.best, j.code = verdictOf(j.result.GPUs, c.Strict)
	if j.best.Verdict == estimator.Fits || j.best.Verdict == estimator.Unknown {
		return j
	}
	// Advice is an extra: without it the verdict stands.
	request := a.doc
	var err error
	if request.text, err = apply(request.text, appendEdit(nil, "effective_batch", c.EffectiveBatch)); err != nil {
		return j
	}
	if body, err := advice(ctx, request); err == nil {
		if plan, err := parse[planner.Plan](answer{doc: a.doc, body: body}); err == nil {
			j.plan = plan
		}
	}
	return j
}

// verdictOf judges a job that may run on any of the cards. It does not fit only
// where it fits on none of them for certain: a card whose memory nobody knows
// leaves the question open. Strict asks for every card instead.
func verdictOf(cards []estimator.GPUFit, strict bool) (best estimator.GPUFit, code int) {
	rank := map[estimator.Verdict]int{
		estimator.Fits: 4, estimator.Tight: 3, estimator.Unlikely: 2, estimator.Unknown: 1, estimator.DoesNotFit: 0,
	}
	best = cards[0]
	all := true
	for _, g := range cards {
		all = all && g.Verdict == estimator.Fits
		if rank[g.Verdict] > rank[best.Verdict] || (g.Verdict == best.Verdict && g.HeadroomBytes > best.HeadroomBytes) {
			best = g
		}
	}
	switch best.Verdict {
	case estimator.DoesNotFit:
		return best, exitFailure
	case estimator.Fits, estimator.Tight, estimator.Unlikely:
		if strict && !all {
			return best, exitTight
		}
		return best, exitOK
	}
	return best, exitUndecided
}

// worse is the exit code of two jobs. A job that does not fit decides, then one
// that was described badly, then one without an answer.
func worse(a, b int) int {
	rank := map[int]int{exitFailure: 4, exitUsage: 3, exitUndecided: 2, exitTight: 1, exitOK: 0}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// checkError gives an error of check its exit code, which is never 1.
func checkError(err error) *exitError {
	known, coded := errors.AsType[*exitError](err)
	switch p, refused := asProblem(err); {
	case coded && known.code != exitFailure:
		return known
	case refused && !p.undecided(), isFileError(err):
		return &exitError{exitUsage, err}
	default:
		return &exitError{exitUndecided, err}
	}
}

// caution is the line for standard error where a job is let through that may fail.
func caution(j judgement) string {
	switch j.best.Verdict {
	case estimator.Tight:
		return fmt.Sprintf("tight: the job probably fits on %s, but may need up to %s of its %s",
			plain(j.best.GPU), exact(j.result.Peak.HighBytes), exact(j.best.UsableBytes))
	case estimator.Unlikely:
		return fmt.Sprintf("unlikely: the job probably does not fit on %s: it needs about %s of %s",
			plain(j.best.GPU), exact(j.result.Peak.DeviceBytes), exact(j.best.UsableBytes))
	case estimator.Unknown:
		return fmt.Sprintf("no verdict: nobody knows what %s leaves to a process", plain(j.best.GPU))
	case estimator.Fits:
		for _, g := range j.result.GPUs {
			if g.Verdict != estimator.Fits {
				return fmt.Sprintf("fits on %s, but not surely on %s (%s)", plain(j.best.GPU), plain(g.GPU), words(string(g.Verdict)))
			}
		}
	}
	return ""
}

// writeJudgement prints the estimate with the field "check" added to it.
func writeJudgement(w io.Writer, j judgement) error {
	decided := struct {
		Verdict     estimator.Verdict `json:"verdict"`
		GPU         string            `json:"gpu"`
		ExitCode    int               `json:"exit_code"`
		Recommended *planner.Choice   `json:"recommended,omitempty"`
		Options     []planner.Option  `json:"options,omitempty"`
	}{Verdict: j.best.Verdict, GPU: j.best.GPU, ExitCode: j.code}
	if j.plan != nil {
		decided.Recommended, decided.Options = j.plan.Recommended, j.plan.Options
	}
	line, err := sjson.SetBytes(j.estimate, "check", decided)
	if err != nil {
		return err
	}
	return jsonLines{}.next(w, answer{doc: j.doc, body: line})
}

// maxAdvice keeps the message to one screen.
const maxAdvice = 4

// writeMessage says in one screen what was decided, on which numbers, and what
// to change.
func writeMessage(w io.Writer, s style, j judgement) {
	p := j.result.Peak
	training := gjson.GetBytes(j.doc.text, "training")
	fmt.Fprintf(w, "%s: %s", s.verdict(j.best.Verdict), plain(j.result.Model.Name))
	if n := training.Get("micro_batch"); n.Exists() {
		fmt.Fprintf(w, ", micro-batch %d", n.Int())
		if tokens := training.Get("sequence_length"); tokens.Exists() {
			fmt.Fprintf(w, " × %d tokens", tokens.Int())
		}
	}
	fmt.Fprintf(w, ", on %s\n", plain(j.best.GPU))
	g := newGrid("left", "left")
	g.add("  needs", fmt.Sprintf("%s, between %s and %s", exact(p.DeviceBytes), size(p.LowBytes), size(p.HighBytes)))
	g.add("  peak", "in "+plain(peakMoment(p)))
	for _, card := range j.result.GPUs {
		name := "  " + plain(card.GPU)
		if len(j.result.GPUs) > 1 {
			g.add(name, s.verdict(card.Verdict)+", "+roomWords(card))
		} else {
			g.add(name, roomWords(card))
		}
	}
	if largest := largestComponents(j.result.Components); largest != "" {
		g.add("  largest", largest)
	}
	g.write(w)
	if j.plan == nil {
		return
	}

	options := newGrid("left", "left", "left", "left")
	for _, o := range j.plan.Options {
		if o.Verdict != estimator.Fits || len(options.rows) == maxAdvice {
			continue
		}
		options.add(fmt.Sprintf("  %d. %s", len(options.rows)+1, plain(o.Title)), settingsOf(o), size(o.DeviceBytes),
			fmt.Sprintf("%.2f× the time", o.RelativeStepTime.Expected)+effectOf(o))
	}
	switch {
	case len(options.rows) > 0:
		fmt.Fprintln(w, "what to change:")
		options.write(w)
	case len(j.plan.SmallestGPUs) > 0:
		fmt.Fprintf(w, "what to change: no setting makes it fit; it fits on %s\n", plain(j.plan.SmallestGPUs[0]))
	default:
		fmt.Fprintln(w, "what to change: no setting of this job makes it fit")
	}
}

func settingsOf(o planner.Option) string {
	text := ""
	for i, setting := range o.Settings {
		if i > 0 {
			text += ", "
		}
		text += plain(setting)
	}
	return text
}

func effectOf(o planner.Option) string {
	if o.TrainingEffect == "" || o.TrainingEffect == "none" {
		return ""
	}
	return "; " + plain(o.TrainingEffect)
}

// largestComponents names the three that hold most.
func largestComponents(components []estimator.Component) string {
	sorted := append([]estimator.Component(nil), components...)
	sortByBytes(sorted)
	text := ""
	for i, c := range sorted {
		if i == 3 || c.Bytes == 0 {
			break
		}
		if i > 0 {
			text += ", "
		}
		text += fmt.Sprintf("%s %s", words(c.Name), size(c.Bytes))
	}
	return text
}
