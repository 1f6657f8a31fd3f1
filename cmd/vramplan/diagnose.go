package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/diagnose"
)

type diagnoseCommand struct {
	answerFlags `embed:"" group:"Answers:"`
	outputFlags `embed:""`
	Log         string `short:"f" name:"file" default:"-" placeholder:"FILE" help:"What the run printed: a message, a log of any length, memory_summary() or nvidia-smi; - reads standard input."`
	Snapshot    string `type:"path" placeholder:"FILE" help:"A memory snapshot, as torch.cuda.memory._dump_snapshot writes it: what held the memory at the peak, by the replay's names where the job is given. It is read as data, and nothing of it is run."`
	Job         string `arg:"" optional:"" name:"job" help:"What ran: a job document, or a batch script or configuration as vramplan read takes it; then the tensor can be named, and a plan made."`
	jobFields   `embed:""`
}

// Run explains a text that a run left behind.
func (c *diagnoseCommand) Run(ctx context.Context, t *terminal) error {
	if c.Snapshot != "" {
		return c.explain(ctx, t)
	}
	if c.Job == "-" && c.Log == "-" { // what ran is not known, and the log is where it is read from anyway
		c.Job = ""
	}
	if c.Log == "-" && c.Job != "" && isTerminal(t.stdin) { // nobody types a log
		c.Log, c.Job = c.Job, ""
	}
	in, err := t.open(c.Log)
	if err != nil {
		return err
	}
	defer in.Close()
	text, err := diagnose.Extract(in)
	if err != nil {
		return fmt.Errorf("reading %s: %w", c.Log, err)
	}
	if strings.TrimSpace(text) == "" && c.Log == "-" && c.Job != "" {
		return usage("nothing to explain: standard input is empty, and %s is taken for what ran; give what the run "+
			"printed with -f %[1]s", c.Job)
	}
	if strings.TrimSpace(text) == "" {
		return usage("nothing to explain: %s is empty; give what the run printed", c.Log)
	}
	return c.ask(ctx, t, text, nil)
}

// explain explains a memory snapshot.
func (c *diagnoseCommand) explain(ctx context.Context, t *terminal) error {
	if c.Log != "-" {
		return usage("--snapshot %s and -f %s: give one of them", c.Snapshot, c.Log)
	}
	in, err := t.open(c.Snapshot)
	if err != nil {
		return err
	}
	defer in.Close()
	dump, err := diagnose.ReadDump(in)
	if err != nil {
		return usage("%s: %v", c.Snapshot, err)
	}
	return c.ask(ctx, t, dump.Text, &dump.Held)
}

// ask has a text explained, and what a snapshot held where there is one.
func (c *diagnoseCommand) ask(ctx context.Context, t *terminal, text string, held *diagnose.Allocations) error {
	doc, err := c.document(ctx, t, text, held)
	if err != nil {
		return err
	}
	backend, path, err := c.asker(t, "/v1/diagnose")
	if err != nil {
		return err
	}
	return showOne(ctx, t, backend, path, doc, c.format(), func(d *service.Diagnosis) error {
		return showDiagnosis(t.stdout, d, screen.Style{Colour: t.colour()}, c.format() == "markdown")
	})
}

// document is the request: the text, and the job of the file and the flags where there is one.
func (c *diagnoseCommand) document(ctx context.Context, t *terminal, text string, held *diagnose.Allocations) (document,
	error) {
	edits, err := c.edits(ctx, t)
	if err != nil {
		return document{}, err
	}
	request := map[string]any{"text": text}
	if held != nil {
		request["held"] = held
	}
	job := []byte("{}")
	if c.Job != "" {
		if job, err = c.ran(ctx, t, edits); err != nil {
			return document{}, err
		}
	}
	if c.Job != "" || len(edits) > 0 {
		if job, err = apply(job, edits); err != nil {
			return document{}, err
		}
		request["job"] = json.RawMessage(job)
	}
	body, err := json.Marshal(request)
	if err != nil {
		return document{}, err
	}
	return document{line: 1, text: body}, nil
}

// ran is the job document of what ran: the file itself, or what files of other tools describe.
func (c *diagnoseCommand) ran(ctx context.Context, t *terminal, edits []edit) ([]byte, error) {
	job, err := t.readFile(c.Job)
	if err != nil {
		return nil, err
	}
	job = bytes.TrimPrefix(job, []byte("\uFEFF"))
	if json.Valid(job) && (gjson.GetBytes(job, "training").Exists() || gjson.GetBytes(job, "model").Exists()) {
		return job, nil
	}
	from := fromFlags{From: []string{c.Job}}
	lines, err := from.documents(ctx, t, edits)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.Job, err)
	}
	first, rest, _ := bytes.Cut(lines, []byte("\n"))
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, usage("%s describes several jobs: give the document of the one that ran, which vramplan read prints", c.Job)
	}
	return first, nil
}

// showDiagnosis prints every cause, what helps, and the plan.
func showDiagnosis(w io.Writer, d *service.Diagnosis, s screen.Style, markdown bool) error {
	bullet := "*"
	if markdown {
		bullet = "-"
	}
	say := func(first, others, text string) {
		if markdown {
			fmt.Fprintln(w, first+text)
			return
		}
		screen.WriteHanging(w, first, others, text)
	}
	list := func(title string, lines []string) {
		if len(lines) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s\n", title)
		if markdown {
			fmt.Fprintln(w)
		}
		for _, line := range lines {
			say(bullet+" ", "  ", screen.Plain(line))
		}
	}
	causes := d.Causes
	if d.Held != nil && len(d.Text.Messages) == 0 { // nothing failed: what was held is the answer
		causes, d.Questions = nil, nil
	}
	for i := range causes {
		c := &causes[i]
		if i > 0 {
			fmt.Fprintln(w)
		}
		if i < len(d.Text.Messages) {
			m := &d.Text.Messages[i]
			say(fmt.Sprintf("line %d: ", m.Line), "  ", screen.Plain(m.Text)+times(m.Count))
		}
		say("", "  ", fmt.Sprintf("%s: %s (%s)", s.Bold(screen.Plain(string(c.Class))), screen.Plain(c.Summary),
			certaintyWords[c.Certainty]))
		if line := accountingLine(c.Accounting); line != "" {
			say("", "  ", line)
		}
		list("Why", c.Evidence)
		var tensors []string
		for _, t := range c.Candidates {
			line := t.What
			if t.How != "" {
				line = t.How
			}
			if t.Model != "" {
				line = t.What + " of " + t.Model + ": " + t.How
			}
			if t.Phase != "" {
				line += ", made in " + t.Phase
			}
			tensors = append(tensors, line)
		}
		list("Tensors of that size", tensors)
		list("What helps", advice(c.Actions))
		list("What does not help", advice(c.Useless))
		list("Notes", c.Notes)
	}
	if d.Held != nil {
		if len(causes) > 0 {
			fmt.Fprintln(w)
		}
		writeHeld(w, d.Held, say, list)
	}
	var questions []string
	for _, q := range d.Questions {
		questions = append(questions, q.Ask)
	}
	list("What would tell more", questions)
	if d.Plan == nil {
		return nil
	}
	fmt.Fprintln(w)
	text := d.Plan.Text()
	if markdown {
		text = d.Plan.Markdown()
	}
	_, err := io.WriteString(w, text)
	return err
}

var certaintyWords = map[diagnose.Certainty]string{
	diagnose.Exact: "sure", diagnose.OneOf: "one of several",
	diagnose.ClassOnly: "the sort is sure, the tensor is not told",
	diagnose.Likely:    "likely, not proven",
	diagnose.Untold:    "not told",
}

func times(n int) string {
	if n < 2 {
		return ""
	}
	return fmt.Sprintf(" (%d times, by rank or repetition)", n)
}

func advice(list []diagnose.Advice) []string {
	var lines []string
	for _, a := range list {
		lines = append(lines, a.Text)
	}
	return lines
}

// accountingLine says where the card's memory is.
func accountingLine(a *diagnose.Accounting) string {
	if a == nil || a.TotalBytes == nil || a.AllocatedBytes == nil {
		return ""
	}
	line := fmt.Sprintf("of %s: %s allocated", screen.Size(*a.TotalBytes), screen.Size(*a.AllocatedBytes))
	if a.UnallocatedBytes != nil {
		line += fmt.Sprintf(", %s reserved beside it", screen.Size(*a.UnallocatedBytes))
	}
	if a.ContextBytes != nil {
		line += fmt.Sprintf(", %s context", screen.Size(*a.ContextBytes))
	}
	if a.OthersBytes != nil {
		who := "others"
		if a.ContextCounted {
			who = "context and others"
		}
		line += fmt.Sprintf(", %s %s", screen.Size(*a.OthersBytes), who)
	}
	if a.FreeBytes != nil {
		line += fmt.Sprintf(", %s free", screen.Size(*a.FreeBytes))
	}
	return line
}
