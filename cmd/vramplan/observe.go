package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/cmd/vramplan/records"
	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/service"
)

type observeCommand struct {
	From        string `placeholder:"FILE" help:"Report the runs in this file: observations or jobstats summaries in JSON, or a table in CSV; - is standard input."`
	Job         string `placeholder:"FILE" help:"The job that records without one are about, such as those of jobstats."`
	Format      string `default:"auto" enum:"auto,json,csv" help:"json, csv, or by the file's name."`
	Report      bool   `help:"Show how predictions did."`
	Calibration string `placeholder:"ID" help:"With --report: beside it, how the built-in constants and this calibration did on the runs that it was fitted to."`
	Delete      string `placeholder:"ID" help:"Delete the observation of this id."`
	Key         string `setting:"VRAMPLAN_API_KEY" placeholder:"KEY" help:"API key with the scope observations:write."`
	serverFlags `embed:"" group:"Answers:"`
	outputFlags `embed:""`
}

// one counts those that are true.
func one(given ...bool) (n int) {
	for _, g := range given {
		if g {
			n++
		}
	}
	return n
}

// maxSent keeps a request well below the longest body that a service takes.
const maxSent = 512 << 10

// Run reports what runs took to a service, or shows how predictions did.
func (c *observeCommand) Run(ctx context.Context, t *terminal) error {
	switch {
	case c.Server == "":
		return usage("--server (VRAMPLAN_SERVER) is needed: observations are kept by a service")
	case c.Calibration != "" && !c.Report:
		return usage("--calibration goes with --report")
	case one(c.From != "", c.Report, c.Delete != "") != 1:
		return usage("give --from FILE to report runs, --report to see how predictions did, or --delete ID to " +
			"delete an observation")
	}
	b, err := c.backend(t)
	if err != nil {
		return err
	}
	switch {
	case c.Report:
		return c.report(ctx, t, b)
	case c.Delete != "":
		_, err := b.send(ctx, apiRequest{method: http.MethodDelete, path: "/v1/observations/" +
			url.PathEscape(c.Delete), key: c.Key})
		return err
	}
	records, err := c.records(t)
	if err != nil {
		return err
	}
	out := bufio.NewWriter(t.stdout)
	stored, refused := 0, 0
	for from := 0; from < len(records); {
		batch, to := nextBatch(records, from)
		answers, err := b.observe(ctx, c.Key, batch)
		if err != nil {
			return errors.Join(err, out.Flush())
		}
		if len(answers) != to-from {
			return fmt.Errorf("%d answers came for %d observations", len(answers), to-from)
		}
		for i, a := range answers {
			var p problem.Problem
			if json.Unmarshal(a, &p) == nil && p.Code != "" {
				refused++
				fmt.Fprintf(t.stderr, "record %d: %s\n", from+i+1, (&refusal{Problem: p}).Error())
			} else {
				stored++
			}
			if c.format() == "json" {
				out.Write(append(a, '\n'))
			}
		}
		from = to
	}
	if c.format() != "json" {
		fmt.Fprintf(out, "%d observations stored, %d refused\n", stored, refused)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if refused > 0 {
		return exit(exitFailure)
	}
	return nil
}

// nextBatch puts records on lines, as many as one request takes.
func nextBatch(records [][]byte, from int) (batch []byte, to int) {
	for to = from; to < len(records); to++ {
		if len(batch) > 0 && len(batch)+len(records[to]) > maxSent {
			break
		}
		batch = append(append(batch, records[to]...), '\n')
	}
	return batch, to
}

// records reads the file, and puts every record on one line.
func (c *observeCommand) records(t *terminal) ([][]byte, error) {
	file, err := t.open(c.From)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	content, err := io.ReadAll(file)
	if err != nil {
		return nil, err
	}
	var job []byte
	if c.Job != "" {
		if job, err = t.readFile(c.Job); err != nil {
			return nil, err
		}
		if !json.Valid(job) {
			return nil, usage("--job %s is not JSON", c.Job)
		}
	}
	records, err := records.Read(content, records.Format(c.Format, c.From), job)
	if err != nil {
		return nil, usage("--from %s: %v", c.From, err)
	}
	return records, nil
}

// observe sends a batch, under a name that is made of it: the same file sent again is stored once.
func (b *backend) observe(ctx context.Context, key string, batch []byte) ([][]byte, error) {
	sum := sha256.Sum256(batch)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.base+"/v1/observations", bytes.NewReader(batch))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-ndjson")
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Idempotency-Key", "import-"+hex.EncodeToString(sum[:16]))
	res, err := b.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("no answer: %w", err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswerBytes))
	if err != nil {
		return nil, fmt.Errorf("no answer: %w", err)
	}
	if res.StatusCode != http.StatusOK {
		p := &refusal{body: answer}
		if json.Unmarshal(answer, &p.Problem) != nil || p.Code == "" {
			return nil, fmt.Errorf("no answer: %s says %s", b.base, res.Status)
		}
		return nil, p
	}
	answer = bytes.TrimSpace(answer)
	if len(answer) == 0 {
		return nil, nil
	}
	return bytes.Split(answer, []byte("\n")), nil
}

// report prints how predictions did.
func (c *observeCommand) report(ctx context.Context, t *terminal, b *backend) error {
	body, err := b.get(ctx, pinning("/v1/accuracy", c.Calibration))
	if err != nil {
		return err
	}
	out := bufio.NewWriter(t.stdout)
	if c.format() == "json" {
		return errors.Join(jsonLines{}.one(out, answer{body: body}), out.Flush())
	}
	var report service.Accuracy
	if err := json.Unmarshal(body, &report); err != nil {
		return fmt.Errorf("the report cannot be read: %w", err)
	}
	g := screen.NewGrid("left", "left", "left", "right", "right", "right", "left", "left", "left", "left")
	g.Add("gpu", "family", "torch", "runs", "out of memory", "quarantined", "allocated", "reserved", "device",
		"within bounds")
	for _, r := range report.Groups {
		g.Add(screen.Plain(r.GPU), screen.Plain(r.Family), screen.Plain(r.Torch), strconv.Itoa(r.Runs),
			strconv.Itoa(r.OutOfMemory),
			strconv.Itoa(r.Quarantined),
			errorWords(r.Allocated), errorWords(r.Reserved), errorWords(r.Device), withinWords(r.WithinBounds))
	}
	form := grids{c.format() == "markdown"}
	form.write(out, g)
	if report.Calibration != "" {
		fmt.Fprintf(out, "\nThe same runs by the built-in constants, and by %s:\n\n", screen.Plain(report.Calibration))
		form.write(out, beforeAndAfter(&report))
	}
	if !form.markdown {
		fmt.Fprintln(out, "\nErrors are predicted ÷ measured − 1: the median, and what nine in ten stay within.")
	}
	return out.Flush()
}

// beforeAndAfter is the part of the report that is about a calibration.
func beforeAndAfter(report *service.Accuracy) *screen.Grid {
	g := screen.NewGrid("left", "left", "left", "left", "left", "right", "right", "right", "right", "right", "right")
	g.Add("gpu", "family", "torch", "device, built in", "calibrated", "within bounds, built in", "calibrated",
		"width, built in", "calibrated", "fit but failed, built in", "calibrated")
	for _, r := range report.Groups {
		a, b := r.Before, r.After
		if a == nil || b == nil {
			continue
		}
		g.Add(screen.Plain(r.GPU), screen.Plain(r.Family), screen.Plain(r.Torch), errorWords(a.Device),
			errorWords(b.Device),
			withinWords(a.WithinBounds), withinWords(b.WithinBounds),
			screen.Size(a.WidthBytes), screen.Size(b.WidthBytes), strconv.Itoa(a.FitButFailed),
			strconv.Itoa(b.FitButFailed))
	}
	return g
}

func withinWords(share *float64) string {
	if share == nil {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100**share)
}

func errorWords(s *service.ErrorSummary) string {
	if s == nil {
		return "–"
	}
	return fmt.Sprintf("%+.1f %%, ±%.1f %%", 100*s.Bias, 100*s.P90)
}
