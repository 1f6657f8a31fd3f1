package main

import (
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vramplan/vramplan/estimator"
)

// style is how words and bars look: with escape sequences on a terminal that
// takes them, plain otherwise.
type style struct{ colour bool }

func newStyle(t *terminal) style { return style{colour: t.colour()} }

func (s style) paint(code, text string) string {
	if !s.colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (s style) bold(text string) string { return s.paint("1", text) }

// verdict is green where the job fits, red where it does not, and yellow between.
func (s style) verdict(v estimator.Verdict) string {
	code := "33"
	switch v {
	case estimator.Fits:
		code = "32"
	case estimator.DoesNotFit:
		code = "31"
	}
	return s.paint(code, words(string(v)))
}

// plain keeps control characters of names, which come from job documents, away
// from a terminal.
func plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// bar draws a share between 0 and 1 in eighths of a character, up to a width.
func (s style) bar(share float64, width int) string {
	return s.paint("36", drawn(share, width))
}

func drawn(share float64, width int) string {
	eighths := int(math.Round(min(max(share, 0), 1) * float64(width) * 8))
	text := strings.Repeat("█", eighths/8)
	if rest := eighths % 8; rest > 0 {
		text += string([]rune("▏▎▍▌▋▊▉")[rest-1])
	}
	return text
}

// capacity draws what a job needs against what a card has, in a line of some characters: what is used as █, what is
// free as ·, and the end of the card as |. A job that does not fit goes on behind it.
func (s style) capacity(g estimator.GPUFit, width int) string {
	needed := g.UsableBytes - g.HeadroomBytes
	scale := float64(width-1) / float64(max(g.UsableBytes, needed))
	end, used := int(math.Round(float64(g.UsableBytes)*scale)), int(math.Round(float64(needed)*scale))
	if needed > g.UsableBytes {
		end = min(end, width-2) // a miss by little is seen
		return s.paint("36", strings.Repeat("█", end)) + "|" + s.paint("31", strings.Repeat("█", max(used-end, 1)))
	}
	return s.paint("36", strings.Repeat("█", used)) + strings.Repeat("·", end-used) + "|"
}

// grid aligns columns. Widths are counted in characters without escape sequences.
type grid struct {
	align []string
	rows  [][]string
	// long is how wide the first column is at most: a longer cell stands on a line of its own, whole. 0 is no limit.
	long int
}

// newGrid takes "left" or "right" for each column.
func newGrid(align ...string) *grid { return &grid{align: align} }

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

func (g *grid) write(w io.Writer) {
	widths := make([]int, len(g.align))
	for _, row := range g.rows {
		for i, cell := range row {
			if i > 0 || !g.tooLong(cell) {
				widths[i] = max(widths[i], width(cell))
			}
		}
	}
	for _, row := range g.rows {
		var line strings.Builder
		for i, cell := range row {
			if i == 0 && g.tooLong(cell) {
				_, _ = io.WriteString(w, cell+"\n")
				cell = ""
			}
			if i > 0 {
				line.WriteString("  ")
			}
			gap := strings.Repeat(" ", widths[i]-width(cell))
			if g.align[i] == "right" {
				line.WriteString(gap + cell)
			} else {
				line.WriteString(cell + gap)
			}
		}
		_, _ = io.WriteString(w, strings.TrimRight(line.String(), " ")+"\n")
	}
}

func (g *grid) tooLong(first string) bool { return g.long > 0 && width(first) > g.long }

// writeMarkdown prints the rows as a Markdown table, the first as its head.
func (g *grid) writeMarkdown(w io.Writer) {
	for i, row := range g.rows {
		cells := make([]string, len(row))
		rule := make([]string, len(row))
		for j, text := range row {
			cells[j] = cell(text)
			rule[j] = map[string]string{"left": "---", "right": "---:"}[g.align[j]]
		}
		_, _ = io.WriteString(w, "| "+strings.Join(cells, " | ")+" |\n")
		if i == 0 {
			_, _ = io.WriteString(w, "| "+strings.Join(rule, " | ")+" |\n")
		}
	}
}

// width counts the characters of a cell, passing over escape sequences.
func width(cell string) int {
	n := 0
	for len(cell) > 0 {
		if strings.HasPrefix(cell, "\x1b[") {
			if end := strings.IndexByte(cell, 'm'); end > 0 {
				cell = cell[end+1:]
				continue
			}
		}
		_, size := utf8.DecodeRuneInString(cell)
		cell = cell[size:]
		n++
	}
	return n
}
