package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

// estimateMarkdown prints estimates as tables for an issue or a report.
type estimateMarkdown struct{ header bool }

func (*estimateMarkdown) one(w io.Writer, a answer) error {
	r, err := parse[estimator.Result](a)
	if err != nil {
		return err
	}
	p := r.Peak
	fmt.Fprintf(w, "**%s**: %s on the card (%s to %s), peak in %s.\n\n", cell(r.Model.Name),
		size(p.DeviceBytes), size(p.LowBytes), size(p.HighBytes), cell(peakMoment(p)))
	fmt.Fprint(w, "| component | memory | share | how |\n|---|---:|---:|---|\n")
	for _, c := range r.Components {
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", words(c.Name), size(c.Bytes), percent(c.Share), cell(c.How))
	}
	fmt.Fprintf(w, "| **total** | **%s** | | |\n", size(p.DeviceBytes))
	if len(r.GPUs) > 0 {
		fmt.Fprint(w, "\n| card | verdict | usable | headroom |\n|---|---|---:|---:|\n")
		for _, g := range r.GPUs {
			fmt.Fprintf(w, "| %s | %s | %s | %s |\n", cell(g.GPU), words(string(g.Verdict)), size(g.UsableBytes),
				headroom(g))
		}
	}
	if len(r.Ranks) > 0 {
		fmt.Fprint(w, "\n| rank | where | allocated | reserved | on the card |\n|---:|---|---:|---:|---:|\n")
		for _, k := range r.Ranks {
			where := cell(k.Where)
			if k.Fullest {
				where = "**" + where + "**"
			}
			fmt.Fprintf(w, "| %d | %s | %s | %s | %s |\n", k.Rank, where, size(k.AllocatedBytes), size(k.ReservedBytes),
				size(k.DeviceBytes))
		}
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "- %s\n", cell(strings.TrimSpace(n.Text)))
	}
	return nil
}

func (e *estimateMarkdown) next(w io.Writer, a answer) error {
	if !e.header {
		e.header = true
		fmt.Fprint(w, "| line | model | device | high | card | verdict | headroom "+
			"|\n|---:|---|---:|---:|---|---|---:|\n")
	}
	if p, ok := asProblem(a.err); ok {
		_, err := fmt.Fprintf(w, "| %d | %s | | | | | |\n", a.doc.line, cell(oneLine(p)))
		return err
	}
	r, err := parse[estimator.Result](a)
	if err != nil {
		return err
	}
	job := fmt.Sprintf("| %d | %s | %s | %s |", a.doc.line, cell(r.Model.Name), size(r.Peak.DeviceBytes),
		size(r.Peak.HighBytes))
	if len(r.GPUs) == 0 {
		_, err = fmt.Fprintln(w, job+" | | |")
	}
	for _, g := range r.GPUs {
		_, err = fmt.Fprintf(w, "%s %s | %s | %s |\n", job, cell(g.GPU), words(string(g.Verdict)), headroom(g))
	}
	return err
}

// cell keeps text inside its cell.
func cell(text string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "`", "\\`").Replace(plain(text))
}

func headroom(g estimator.GPUFit) string {
	if g.Verdict == estimator.Unknown {
		return "unknown"
	}
	return size(g.HeadroomBytes)
}
