package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/service/readers"
)

// fromFlags take the job from files of other tools.
type fromFlags struct {
	From      []string `sep:"none" placeholder:"FILE" help:"Take the jobs from a batch script or a configuration of a trainer, as vramplan read does; repeat for more files." group:"Files of other tools:"`
	readFlags `embed:""`
}

// documents reads the files that --from names and gives one job document a line. What the flags of a job say answers
// questions too; those that stay open are an error that names them all.
func (f *fromFlags) documents(ctx context.Context, t *terminal, edits []edit) ([]byte, error) {
	answer, err := f.answer(ctx, t, edits)
	if err != nil {
		return nil, err
	}
	return f.lines(t, answer)
}

// lines are the job documents of what was read, one a line.
func (f *fromFlags) lines(t *terminal, answer *readers.Answer) ([]byte, error) {
	if len(answer.Jobs) == 0 {
		return nil, errors.Join(refusedAll(answer), f.jobDocuments())
	}
	for _, r := range answer.Refusals {
		fmt.Fprintf(t.stderr, "left out: %s\n", screen.Plain(r.String()))
	}
	if open := answer.Open(); len(open) > 0 {
		return nil, questions(open)
	}
	var lines bytes.Buffer
	for _, j := range answer.Jobs {
		document, err := j.PlanDocument()
		if err != nil {
			return nil, err
		}
		lines.Write(document)
		lines.WriteByte('\n')
		for _, a := range j.Assumptions {
			fmt.Fprintf(t.stderr, "assumed: %s\n", ownWords(screen.Plain(a.Say)))
		}
	}
	return lines.Bytes(), nil
}

// answer reads the files; edits are what the flags of a job say.
func (f *fromFlags) answer(ctx context.Context, t *terminal, edits []edit) (*readers.Answer, error) {
	source, err := f.source(ctx, t, f.From, nil)
	if err != nil {
		return nil, err
	}
	more, err := saidBy(edits)
	if err != nil {
		return nil, err
	}
	source.Set = append(source.Set, more...)
	return readers.Read(ctx, source)
}

// saidBy are edits as the readers take them, where they answer questions.
func saidBy(edits []edit) (list []readers.Said, err error) {
	for _, e := range edits {
		if e.field != "" {
			list = append(list, readers.Said{Path: e.field, Value: e.text})
			continue
		}
		value, err := json.Marshal(e.value)
		if err != nil {
			return nil, err
		}
		if e.path == "effective_batch" || e.path == "measured_steps" {
			continue // of the request, not of the job
		}
		if e.path == "model" { // an object with one form of a model
			var form map[string]json.RawMessage
			if err := json.Unmarshal(value, &form); err != nil {
				return nil, err
			}
			for key, v := range form {
				list = append(list, readers.Said{Path: "model." + key, Value: string(v)})
			}
			continue
		}
		list = append(list, readers.Said{Path: strings.TrimPrefix(e.path, "training."),
			Value: string(value)})
	}
	return list, nil
}

// jobDocuments names the files of --from that are job documents already; nil where none is.
func (f *fromFlags) jobDocuments() error {
	for _, name := range f.From {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // standard input among them; what is wrong is said already
		}
		model, training := gjson.GetBytes(text, "model"), gjson.GetBytes(text, "training")
		if json.Valid(text) && (model.IsObject() || training.IsObject()) {
			return fmt.Errorf("%s is a job document: it is read with -f %[1]s", screen.Plain(name))
		}
	}
	return nil
}

func refusedAll(a *readers.Answer) error {
	var lines []string
	for _, r := range a.Refusals {
		lines = append(lines, screen.Plain(r.String()))
	}
	return errors.New("no job in the files:\n  " + strings.Join(lines, "\n  "))
}

// questions are an error that asks for all that is open.
func questions(open []readers.Question) error {
	var b strings.Builder
	b.WriteString("the files do not say everything:")
	for _, q := range open {
		fmt.Fprintf(&b, "\n  %s", screen.Plain(q.Ask))
		if q.Why != "" {
			fmt.Fprintf(&b, " (%s)", screen.Plain(q.Why))
		}
		fmt.Fprintf(&b, " Answer with %s", ownWords(screen.Plain(q.Flag)))
	}
	return &exitError{exitUsage, errors.New(b.String())}
}

// ownWords names the flags of the commands that take jobs in a text of the readers, whose flags are those of read:
// --gpus is none of estimate, and in plan it is the GPUs over which layouts are looked for.
func ownWords(text string) string { return strings.ReplaceAll(text, "--gpus N", "--world-size N") }
