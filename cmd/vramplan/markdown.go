package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/vramplan/vramplan/cmd/vramplan/screen"
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
	fmt.Fprintf(w, "**%s**: %s on the card (%s to %s), peak in %s.\n\n", screen.Cell(r.Model.Name),
		screen.Size(p.DeviceBytes), screen.Size(p.LowBytes), screen.Size(p.HighBytes), screen.Cell(peakMoment(p)))
	fmt.Fprint(w, "| component | memory | share | how |\n|---|---:|---:|---|\n")
	for _, c := range r.Components {
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", screen.Words(c.Name), screen.Size(c.Bytes), percent(c.Share),
			screen.Cell(c.How))
	}
	fmt.Fprintf(w, "| **total** | **%s** | | |\n", screen.Size(p.DeviceBytes))
	if len(r.GPUs) > 0 {
		fmt.Fprint(w, "\n| card | verdict | usable | headroom |\n|---|---|---:|---:|\n")
		for _, g := range r.GPUs {
			fmt.Fprintf(w, "| %s | %s | %s | %s |\n", screen.Cell(g.GPU), screen.Words(string(g.Verdict)),
				screen.Size(g.UsableBytes),
				headroom(g))
		}
	}
	if len(r.Ranks) > 0 {
		fmt.Fprint(w, "\n| rank | where | allocated | reserved | on the card |\n|---:|---|---:|---:|---:|\n")
		for _, k := range r.Ranks {
			where := screen.Cell(k.Where)
			if k.Fullest {
				where = "**" + where + "**"
			}
			fmt.Fprintf(w, "| %d | %s | %s | %s | %s |\n", k.Rank, where, screen.Size(k.AllocatedBytes),
				screen.Size(k.ReservedBytes),
				screen.Size(k.DeviceBytes))
		}
	}
	if len(r.Notes) > 0 {
		fmt.Fprintln(w)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "- %s\n", screen.Cell(strings.TrimSpace(n.Text)))
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
		_, err := fmt.Fprintf(w, "| %d | %s | | | | | |\n", a.doc.line, screen.Cell(oneLine(p)))
		return err
	}
	r, err := parse[estimator.Result](a)
	if err != nil {
		return err
	}
	job := fmt.Sprintf("| %d | %s | %s | %s |", a.doc.line, screen.Cell(r.Model.Name), screen.Size(r.Peak.DeviceBytes),
		screen.Size(r.Peak.HighBytes))
	if len(r.GPUs) == 0 {
		_, err = fmt.Fprintln(w, job+" | | |")
	}
	for _, g := range r.GPUs {
		_, err = fmt.Fprintf(w, "%s %s | %s | %s |\n", job, screen.Cell(g.GPU), screen.Words(string(g.Verdict)),
			headroom(g))
	}
	return err
}

func headroom(g estimator.GPUFit) string {
	if g.Verdict == estimator.Unknown {
		return "unknown"
	}
	return screen.Size(g.HeadroomBytes)
}
