package screen

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// LineWidth is what every terminal shows, and what an e-mail and a ticket leave whole.
const LineWidth = 80

// Wrap breaks text between words so that no line is wider than width; a word that is wider itself is cut.
// Escape sequences take no room.
func Wrap(text string, limit int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		for Width(word) > limit && !strings.Contains(word, "\x1b") {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			cut := runes(word, limit)
			lines, word = append(lines, word[:cut]), word[cut:]
		}
		switch {
		case line == "":
			line = word
		case Width(line)+1+Width(word) <= limit:
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

// Wrapped is wrap, or the text as one line where lines may be as long as they come.
func Wrapped(text string, limit int, wide bool) []string {
	if wide {
		return []string{text}
	}
	return Wrap(text, limit)
}

// WriteWrapped prints text behind a label, further lines as far to the right.
func WriteWrapped(w io.Writer, label, text string, wide bool) {
	indent := strings.Repeat(" ", min(utf8.RuneCountInString(label), 6))
	for i, line := range Wrapped(text, LineWidth-utf8.RuneCountInString(label), wide) {
		if i > 0 {
			label = indent
		}
		fmt.Fprintln(w, label+line)
	}
}

// WriteHanging prints text in lines of which the first stands behind one label and the others behind another.
func WriteHanging(w io.Writer, first, others, text string) {
	label := first
	for _, line := range Wrap(text, LineWidth-max(Width(first), Width(others))) {
		fmt.Fprintln(w, label+line)
		label = others
	}
}

// WriteFields prints what stands behind each name, the names indented and in a column of their own.
func WriteFields(w io.Writer, fields [][2]string) {
	const widest = 30
	names := 0
	for _, f := range fields {
		names = max(names, min(utf8.RuneCountInString(f[0]), widest))
	}
	for _, f := range fields {
		WriteHanging(w, "  "+Column(f[0], names)+"  ", strings.Repeat(" ", names+4), f[1])
	}
}

// Column is text in exactly n characters.
func Column(text string, n int) string {
	text = Clipped(text, n, false)
	return text + strings.Repeat(" ", n-utf8.RuneCountInString(text))
}

// Clipped shortens a name: what tells two of them apart is more often at its end.
func Clipped(text string, n int, wide bool) string {
	if wide || utf8.RuneCountInString(text) <= n {
		return text
	}
	return "…" + text[runes(text, utf8.RuneCountInString(text)-n+1):]
}
