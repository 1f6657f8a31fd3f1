package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// lineWidth is what every terminal shows, and what an e-mail and a ticket leave whole.
const lineWidth = 80

// wrap breaks text between words so that no line is wider than width; a word that is wider itself is cut.
// Escape sequences take no room.
func wrap(text string, limit int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		for width(word) > limit && !strings.Contains(word, "\x1b") {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			cut := runes(word, limit)
			lines, word = append(lines, word[:cut]), word[cut:]
		}
		switch {
		case line == "":
			line = word
		case width(line)+1+width(word) <= limit:
			line += " " + word
		default:
			lines, line = append(lines, line), word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// runes is how many bytes the first n characters take.
func runes(text string, n int) int {
	for i := range text {
		if n == 0 {
			return i
		}
		n--
	}
	return len(text)
}

// wrapped is wrap, or the text as one line where lines may be as long as they come.
func wrapped(text string, limit int, wide bool) []string {
	if wide {
		return []string{text}
	}
	return wrap(text, limit)
}

// writeWrapped prints text behind a label, further lines as far to the right.
func writeWrapped(w io.Writer, label, text string, wide bool) {
	indent := strings.Repeat(" ", min(utf8.RuneCountInString(label), 6))
	for i, line := range wrapped(text, lineWidth-utf8.RuneCountInString(label), wide) {
		if i > 0 {
			label = indent
		}
		fmt.Fprintln(w, label+line)
	}
}

// writeHanging prints text in lines of which the first stands behind one label and the others behind another.
func writeHanging(w io.Writer, first, others, text string) {
	label := first
	for _, line := range wrap(text, lineWidth-max(width(first), width(others))) {
		fmt.Fprintln(w, label+line)
		label = others
	}
}

// writeFields prints what stands behind each name, the names indented and in a column of their own.
func writeFields(w io.Writer, fields [][2]string) {
	const widest = 30
	names := 0
	for _, f := range fields {
		names = max(names, min(utf8.RuneCountInString(f[0]), widest))
	}
	for _, f := range fields {
		writeHanging(w, "  "+column(f[0], names)+"  ", strings.Repeat(" ", names+4), f[1])
	}
}

// column is text in exactly n characters.
func column(text string, n int) string {
	text = clipped(text, n, false)
	return text + strings.Repeat(" ", n-utf8.RuneCountInString(text))
}

// clipped shortens a name: what tells two of them apart is more often at its end.
func clipped(text string, n int, wide bool) string {
	if wide || utf8.RuneCountInString(text) <= n {
		return text
	}
	return "…" + text[runes(text, utf8.RuneCountInString(text)-n+1):]
}
