package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/fleet"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/submission"
)

// fleetCommand reads what a cluster keeps; nothing of it goes anywhere.
type fleetCommand struct {
	Files      []string `arg:"" name:"file" help:"What sacct printed (--parsable2), Prometheus' JSON or the text of dcgm-exporter with DCGM_FI_DEV_FB_USED, records of decisions, observations of GET /v1/observations; - is standard input. What a file holds is told by its beginning."`
	Site       string   `setting:"VRAMPLAN_SITE" placeholder:"FILE" help:"A JSON file that says which cards are behind partitions, GRES types and features, as for check."`
	Among      []string `placeholder:"NAME" sep:"," help:"Cards and slices that jobs could be moved to; those of --site if not given, else the catalog's, and the slices of a job's own card."`
	Margin     float64  `default:"0.1" placeholder:"SHARE" help:"What a smaller card has to have beyond the measured peak; 0.1 of it if not given."`
	LeastUsers int      `default:"5" placeholder:"N" help:"Users that a row of the report has at least, 5 if not given; rows with fewer are put together. 0 shows every row."`
	By         string   `default:"Account" placeholder:"COLUMN" help:"Column of sacct that groups jobs: Account, Group, QOS, …"`
	JobLabel   string   `default:"hpc_job" placeholder:"NAME" help:"Label of a series that has the job's number; hpc_job, as dcgm-exporter calls it, if not given."`
	Price      []string `sep:"none" placeholder:"NAME=N" help:"What an hour of a card costs, in any one unit, such as a100=1.3; repeat it for each card. What was asked and not used is told in it; prices of --site hold for the rest."`
	Each       string   `placeholder:"FILE" help:"Write to this file, a line of JSON each, the jobs that would have run on a smaller card, and those that failed and had been named or filled their card."`
	Output     string   `short:"o" enum:"table,json,markdown,html" default:"table" help:"table, json, markdown or html (one page without scripts)."`
}

// Run prints the report of some files.
func (c *fleetCommand) Run(t *terminal) (err error) {
	switch {
	case !(c.Margin >= 0 && c.Margin <= 10):
		return usage("--margin %v: a share of the peak from 0 to 10, such as 0.1", c.Margin)
	case c.LeastUsers < 0 || c.LeastUsers > 1000:
		return usage("--least-users %d: from 0 to 1000", c.LeastUsers)
	case strings.EqualFold(c.By, "User"), strings.EqualFold(c.By, "UID"):
		return usage("--by %s: figures are of groups, not of persons; --by names a column such as Account or Group", c.By)
	}
	o := fleet.Options{Catalog: service.EmbeddedCatalog(), Among: c.Among, Margin: c.Margin, LeastUsers: c.LeastUsers,
		By: c.By, JobLabel: c.JobLabel}
	prices, err := pricesOf(c.Price)
	if err != nil {
		return err
	}
	for _, p := range prices {
		if _, err := o.Catalog.GPU(p.Name); err != nil {
			return fmt.Errorf("--price: %w", err)
		}
		if o.Prices == nil {
			o.Prices = map[string]float64{}
		}
		o.Prices[p.Name] = p.PricePerHour
	}
	for _, name := range c.Among {
		if _, err := o.Catalog.GPU(name); err != nil {
			return fmt.Errorf("--among: %w", err)
		}
	}
	if c.Site != "" {
		text, err := readInput(t, c.Site)
		if err == nil {
			o.Site, err = jobdoc.Read[submission.Site](text)
		}
		if err != nil {
			return fmt.Errorf("--site %s: %w", c.Site, err)
		}
	}
	if c.Each != "" {
		file, err := os.Create(c.Each)
		if err != nil {
			return err
		}
		out := bufio.NewWriter(file)
		defer func() { err = errors.Join(err, out.Flush(), file.Close()) }()
		lines := json.NewEncoder(out)
		o.Each = func(found *fleet.Found) error { return lines.Encode(found) }
	}
	f, err := fleet.New(o)
	if err != nil {
		return err
	}
	var sources []*fleet.Source
	for _, name := range c.Files {
		file, err := t.open(name)
		if err != nil {
			return err
		}
		defer file.Close()
		s, err := fleet.Open(name, file)
		if err != nil {
			return err
		}
		sources = append(sources, s)
	}
	if err := f.Read(sources...); err != nil {
		return err
	}
	return c.show(t.stdout, f.Report())
}

func (c *fleetCommand) show(w io.Writer, r *fleet.Report) error {
	switch c.Output {
	case "json":
		return json.NewEncoder(w).Encode(r)
	case "html":
		return writeFleetPage(w, r)
	}
	out := bufio.NewWriter(w)
	lines := fleetWords(r)
	for _, line := range lines {
		if c.Output == "markdown" {
			fmt.Fprintf(out, "%s\n\n", line)
			continue
		}
		screen.WriteHanging(out, "", "  ", line)
	}
	for i, table := range fleetTables(r) {
		if c.Output == "markdown" {
			fmt.Fprintf(out, "### %s\n\n", table.title)
			table.rows.WriteMarkdown(out)
			fmt.Fprintln(out)
			continue
		}
		if i > 0 || len(lines) > 0 {
			fmt.Fprintln(out)
		}
		fmt.Fprintln(out, table.title)
		table.rows.Write(out)
	}
	if c.Output == "table" {
		fmt.Fprintln(out)
	}
	for _, note := range fleetNotes(r) {
		if c.Output == "markdown" {
			fmt.Fprintf(out, "- %s\n", screen.Cell(note))
			continue
		}
		screen.WriteHanging(out, "* ", "  ", note)
	}
	return out.Flush()
}

// fleetWords is the report in sentences, each with what it rests on.
func fleetWords(r *fleet.Report) []string {
	var lines []string
	if a := &r.Total; a.Jobs > 0 || len(r.Observed) == 0 {
		lines = append(lines, fmt.Sprintf("Jobs with GPUs: %s, %s GPU-hours. The peak is measured of %s%s.",
			screen.Thousands(a.Jobs), hours(a.GPUHours), ofAll(a.Measured, a.Jobs), unmeasured(a)))
		if a.AskedGiBHours > 0 {
			lines = append(lines, fmt.Sprintf("Not used of the memory that they had: at least %.0f %%, %s of %s GiB·h.",
				100*a.UnusedGiBHours/a.AskedGiBHours, hours(a.UnusedGiBHours), hours(a.AskedGiBHours)))
		}
		if a.Cost > 0 {
			line := fmt.Sprintf("Cost: %s for %s of %s GPU-hours with a price.", hours(a.Cost), hours(a.PricedGPUHours),
				hours(a.GPUHours))
			if a.MeasuredCost > 0 {
				line += fmt.Sprintf(" For memory that was not used: at least %s of %s (%.0f %%).", hours(a.UnusedCost),
					hours(a.MeasuredCost), 100*a.UnusedCost/a.MeasuredCost)
			}
			if a.SmallerPriced > 0 {
				line += fmt.Sprintf(" On cheaper cards that have room: %s less, had the %s run as long.", hours(a.SmallerSaves),
					map[bool]string{true: "job", false: screen.Thousands(a.SmallerPriced) + " jobs"}[a.SmallerPriced == 1])
			}
			lines = append(lines, line)
		}
		if a.Whole > 0 {
			lines = append(lines, fmt.Sprintf("Would have run on a smaller card or slice: %s of the measured jobs that ran "+
				"whole, %s GPU-hours.", ofAll(a.Smaller, a.Whole), hours(a.SmallerGPUHours)))
		}
		if a.Failed > 0 {
			line := fmt.Sprintf("Failed: %s. With their card full: %s.", screen.Thousands(a.Failed),
				screen.Thousands(a.FailedFull))
			if a.FailedJudged > 0 {
				line += fmt.Sprintf(" With a verdict before they ran: %s. It was that they do not fit: %s.",
					screen.Thousands(a.FailedJudged), ofAll(a.Named, a.FailedJudged))
			}
			lines = append(lines, line)
		}
	}
	return lines
}

func unmeasured(a *fleet.Figures) string {
	text := ""
	if a.Untold > 0 {
		text += fmt.Sprintf("; only of several GPUs together: %s", screen.Thousands(a.Untold))
	}
	if a.Unseen > 0 {
		text += fmt.Sprintf("; never seen to use any of their GPUs' memory: %s", screen.Thousands(a.Unseen))
	}
	return text
}

// ofAll is a count with the share that it is.
func ofAll(n, all int64) string {
	if all == 0 {
		return screen.Thousands(n)
	}
	return fmt.Sprintf("%s of %s (%.0f %%)", screen.Thousands(n), screen.Thousands(all), 100*float64(n)/float64(all))
}

func hours(n float64) string {
	if n < 100 {
		return strconv.FormatFloat(n, 'f', 1, 64)
	}
	return screen.Thousands(int64(n + 0.5))
}

// titled is a table, whose first row is its head.
type titled struct {
	title string
	rows  *screen.Grid
}

func fleetTables(r *fleet.Report) []titled {
	var tables []titled
	table := func(title string, align ...string) *screen.Grid {
		g := screen.NewGrid(align...)
		tables = append(tables, titled{title, g})
		return g
	}
	count := func(n, of int64) string {
		if of == 0 {
			return "-"
		}
		return screen.Thousands(n)
	}
	if len(r.Rows) > 0 {
		g := table("By group and card", "left", "left", "right", "right", "right", "right", "right", "right")
		g.Long = 16
		g.Add("group", "card", "jobs", "GPU-h", "measured", "not used", "smaller", "failed")
		for i := range r.Rows {
			a := &r.Rows[i]
			unused := "-"
			if a.AskedGiBHours > 0 {
				unused = fmt.Sprintf("%.0f %%", 100*a.UnusedGiBHours/a.AskedGiBHours)
			}
			g.Add(screen.Plain(a.Group), screen.Plain(a.Card), screen.Thousands(a.Jobs), hours(a.GPUHours),
				screen.Thousands(a.Measured), unused,
				count(a.Smaller, a.Whole), screen.Thousands(a.Failed))
		}
	}
	if r.Total.Cost > 0 {
		g := table("Cost by group and card", "left", "left", "right", "right", "right", "right")
		g.Long = 16
		g.Add("group", "card", "GPU-h", "cost", "not used", "less on cheaper")
		for i := range r.Rows {
			a := &r.Rows[i]
			if a.Cost <= 0 {
				continue
			}
			unused, less := "-", "-"
			if a.MeasuredCost > 0 {
				unused = hours(a.UnusedCost)
			}
			if a.SmallerPriced > 0 {
				less = hours(a.SmallerSaves)
			}
			g.Add(screen.Plain(a.Group), screen.Plain(a.Card), hours(a.PricedGPUHours), hours(a.Cost), unused, less)
		}
	}
	if len(r.Total.On) > 0 {
		g := table("Smallest card or slice with room", "left", "right")
		g.Add("card", "jobs")
		for _, card := range slices.Sorted(maps.Keys(r.Total.On)) {
			g.Add(card, screen.Thousands(r.Total.On[card]))
		}
	}
	if len(r.Verdicts) > 0 {
		g := table("What was said before, and how it ended", "left", "right", "right", "right", "right", "right", "right")
		g.Add("verdict", "decisions", "denied", "found", "completed", "below low", "failed")
		for _, s := range r.Verdicts {
			g.Add(screen.Words(s.Verdict), screen.Thousands(s.Decisions), screen.Thousands(s.Denied),
				screen.Thousands(s.Joined),
				screen.Thousands(s.Completed), count(s.BelowLow, s.Completed), screen.Thousands(s.Failed))
		}
	}
	if len(r.Observed) > 0 {
		g := table("Runs that were observed", "left", "right", "right", "right", "right", "right", "right", "right")
		g.Add("card", "runs", "measured", "not used", "smaller", "no memory", "named", "ran, denied")
		for _, o := range r.Observed {
			unused := "-"
			if o.CardBytes > 0 {
				unused = fmt.Sprintf("%.0f %%", 100*max(0, 1-float64(o.PeakBytes)/float64(o.CardBytes)))
			}
			g.Add(o.Card, screen.Thousands(o.Runs), screen.Thousands(o.Measured), unused, count(o.Smaller, o.Measured),
				screen.Thousands(o.OutOfMemory), count(o.Named, o.OutOfMemory), screen.Thousands(o.Denied))
		}
	}
	g := table("Files", "left", "left", "right", "right", "right")
	g.Long = 30
	g.Add("file", "what", "read", "other", "unreadable")
	for _, s := range r.Sources {
		g.Add(screen.Plain(s.File), string(s.Kind), screen.Thousands(s.Read), screen.Thousands(s.Passed),
			screen.Thousands(s.Unreadable))
	}
	return tables
}

// fleetNotes are the notes of a report, with what could not be read and what no row has.
func fleetNotes(r *fleet.Report) []string {
	var notes []string
	for _, s := range r.Sources {
		for _, u := range s.Examples {
			notes = append(notes, fmt.Sprintf("not read: %s, %s: %s", screen.Plain(s.File), u.Place,
				screen.Plain(u.Why)))
		}
		if more := s.Unreadable - int64(len(s.Examples)); more > 0 {
			notes = append(notes, fmt.Sprintf("not read: %s: %s more", screen.Plain(s.File), screen.Thousands(more)))
		}
	}
	for _, c := range []struct {
		n    int64
		what string
	}{
		{r.Counts.WithoutGPUs, "Jobs without GPUs"}, {r.Counts.NotEnded, "Jobs that have not ended"},
		{r.Counts.WithoutJob, "Series or values that name no job (dcgm-exporter needs --hpc-job-mapping-dir; --job-label " +
			"names another label)"},
		{r.Counts.Unjoined, "Jobs that were measured and that no accounting has"},
		{r.Counts.Ambiguous, "Jobs submitted so soon after others that the decision cannot be told"},
	} {
		if c.n > 0 {
			notes = append(notes, c.what+": "+screen.Thousands(c.n)+".")
		}
	}
	return append(notes, r.Notes...)
}

// writeFleetPage writes the report as a page that needs nothing else.
func writeFleetPage(w io.Writer, r *fleet.Report) error {
	out := bufio.NewWriter(w)
	fmt.Fprint(out, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>GPU memory asked and used</title><style>
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem }
div { overflow-x: auto }
table { border-collapse: collapse }
th, td { padding: .25rem .75rem; border-bottom: 1px solid #8886; white-space: nowrap; text-align: left }
.right { text-align: right; font-variant-numeric: tabular-nums }
</style></head><body><main><h1>GPU memory asked and used</h1>
`)
	for _, line := range fleetWords(r) {
		fmt.Fprintf(out, "<p>%s</p>\n", html.EscapeString(line))
	}
	for _, t := range fleetTables(r) {
		fmt.Fprintf(out, "<h2>%s</h2>\n<div tabindex=\"0\"><table>\n", html.EscapeString(t.title))
		for i, row := range t.rows.Rows {
			fmt.Fprint(out, "<tr>")
			for j, text := range row {
				tag := "td"
				if i == 0 {
					tag = `th scope="col"`
				} else if j == 0 {
					tag = `th scope="row"`
				}
				fmt.Fprintf(out, `<%s class="%s">%s</%s>`, tag, t.rows.Align[j], html.EscapeString(text), tag[:2])
			}
			fmt.Fprintln(out, "</tr>")
		}
		fmt.Fprint(out, "</table></div>\n")
	}
	fmt.Fprint(out, "<h2>Notes</h2>\n<ul>\n")
	for _, note := range fleetNotes(r) {
		fmt.Fprintf(out, "<li>%s</li>\n", html.EscapeString(note))
	}
	fmt.Fprint(out, "</ul></main></body></html>\n")
	return out.Flush()
}
