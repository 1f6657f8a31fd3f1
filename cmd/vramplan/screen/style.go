// Package screen lays out text for a terminal, a ticket or a Markdown table: lines of at most eighty columns, tables
// whose columns stand under each other, bars, and sizes in one unit. It knows nothing of commands, nor of where text
// goes.
package screen

import (
	"io"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/vramplan/vramplan/estimator"
)

// Style is how words and bars look: with escape sequences on a terminal that
// takes them, plain otherwise.
type Style struct{ Colour bool }

func (s Style) paint(code, text string) string {
	if !s.Colour {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold is text that stands out.
func (s Style) Bold(text string) string { return s.paint("1", text) }

// Verdict is green where the job fits, red where it does not, and yellow between.
func (s Style) Verdict(v estimator.Verdict) string {
	code := "33"
	switch v {
	case estimator.Fits:
		code = "32"
	case estimator.DoesNotFit:
		code = "31"
	}
	return s.paint(code, Words(string(v)))
}

// Plain keeps control characters of names, which come from job documents, away
// from a terminal.
func Plain(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// Words turns a name of the contract into words: does_not_fit, does not fit.
func Words(name string) string { return strings.ReplaceAll(name, "_", " ") }

// Bar draws a share between 0 and 1 in eighths of a character, up to a width.
func (s Style) Bar(share float64, width int) string {
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

// Capacity draws what a job needs against what a card has, in a line of some characters: what is used as █, what is
// free as ·, and the end of the card as |. A job that does not fit goes on behind it.
func (s Style) Capacity(g estimator.GPUFit, width int) string {
	needed := g.UsableBytes - g.HeadroomBytes
	scale := float64(width-1) / float64(max(g.UsableBytes, needed))
	end, used := int(math.Round(float64(g.UsableBytes)*scale)), int(math.Round(float64(needed)*scale))
	if needed > g.UsableBytes {
		end = min(end, width-2) // a miss by little is seen
		return s.paint("36", strings.Repeat("█", end)) + "|" + s.paint("31", strings.Repeat("█", max(used-end, 1)))
	}
	return s.paint("36", strings.Repeat("█", used)) + strings.Repeat("·", end-used) + "|"
}

// Grid aligns columns. Widths are counted in characters without escape sequences.
type Grid struct {
	// Align is "left" or "right" for each column.
	Align []string
	Rows  [][]string
	// Long is how wide the first column is at most: a longer cell stands on a line of its own, whole. 0 is no limit.
	Long int
}

// NewGrid takes "left" or "right" for each column.
func NewGrid(align ...string) *Grid { return &Grid{Align: align} }

// Add puts a row under the others.
func (g *Grid) Add(cells ...string) { g.Rows = append(g.Rows, cells) }

// Write prints the rows, each column as wide as its widest cell.
func (g *Grid) Write(w io.Writer) {
	widths := make([]int, len(g.Align))
	for _, row := range g.Rows {
		for i, cell := range row {
			if i > 0 || !g.tooLong(cell) {
				widths[i] = max(widths[i], Width(cell))
			}
		}
	}
	for _, row := range g.Rows {
		var line strings.Builder
		for i, cell := range row {
			if i == 0 && g.tooLong(cell) {
				_, _ = io.WriteString(w, cell+"\n")
				cell = ""
			}
			if i > 0 {
				line.WriteString("  ")
			}
			gap := strings.Repeat(" ", widths[i]-Width(cell))
			if g.Align[i] == "right" {
				line.WriteString(gap + cell)
			} else {
				line.WriteString(cell + gap)
			}
		}
		_, _ = io.WriteString(w, strings.TrimRight(line.String(), " ")+"\n")
	}
}

func (g *Grid) tooLong(first string) bool { return g.Long > 0 && Width(first) > g.Long }

// WriteMarkdown prints the rows as a Markdown table, the first as its head.
func (g *Grid) WriteMarkdown(w io.Writer) {
	for i, row := range g.Rows {
		cells := make([]string, len(row))
		rule := make([]string, len(row))
		for j, text := range row {
			cells[j] = Cell(text)
			rule[j] = map[string]string{"left": "---", "right": "---:"}[g.Align[j]]
		}
		_, _ = io.WriteString(w, "| "+strings.Join(cells, " | ")+" |\n")
		if i == 0 {
			_, _ = io.WriteString(w, "| "+strings.Join(rule, " | ")+" |\n")
		}
	}
}

// Cell keeps text inside its cell.
func Cell(text string) string {
	return strings.NewReplacer(`\`, `\\`, "|", `\|`, "<", "&lt;", "`", "\\`").Replace(Plain(text))
}

// Width counts the characters of a cell, passing over escape sequences.
func Width(cell string) int {
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
