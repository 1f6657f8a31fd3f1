package diagnose

import (
	"regexp"
	"strings"
	"unicode"
)

var (
	// ansi is a terminal's escape sequence.
	ansi = regexp.MustCompile(`\x1b\[[0-9;?]*[ -/]*[@-~]`)
	// rankPrefix is what torchrun, deepspeed and Slurm put before a line of one process.
	rankPrefix = regexp.MustCompile(`^\s*(?:\[rank(\d+)\]:|\[?default(\d+)\]?:|rank\s?(\d+):|(\d{1,4}):)\s?`)
	// boxes are the drawing characters of rich's tracebacks.
	boxes = strings.NewReplacer("│", " ", "╭", " ", "╮", " ", "╰", " ", "╯", " ", "─", " ", "❱", " ", "**", "", "`", "",
		"\r", "\n", "\u00a0", " ")
)

// line is one line of the text.
type line struct {
	text string
	rank int // -1 where nothing says it

	// signs, asked and marks are what the patterns find in it, once asked: a line stands near many failures, and
	// patterns cost more than all else, so that each reads a line once, however many failures a text has.
	signs []*sign
	read  bool
	asked mark
	marks mark
}

// mark is a pattern that is looked for in lines, a bit each.
type mark uint8

const (
	trains mark = 1 << iota // a word that only a training prints
	runsBackward
	isFrame
)

// is says whether a line has a mark.
func (l *line) is(m mark) bool {
	if l.asked&m == 0 {
		l.asked |= m
		if patterns[m].MatchString(l.text) {
			l.marks |= m
		}
	}
	return l.marks&m != 0
}

// found are the signs in a line.
func (l *line) found() []*sign {
	if l.read {
		return l.signs
	}
	l.read = true
	if framework.MatchString(l.text) && !strings.Contains(l.text, "torch/optim") &&
		!strings.Contains(l.text, "serialization") {
		return nil
	}
	for s := range signs {
		if signs[s].find.MatchString(l.text) {
			l.signs = append(l.signs, &signs[s])
		}
	}
	return l.signs
}

// lines takes text apart, without what terminals and launchers add.
func lines(text string) []line {
	text = boxes.Replace(ansi.ReplaceAllString(text, ""))
	var all []line
	for raw := range strings.Lines(text) {
		l := line{text: strings.TrimRight(raw, "\n"), rank: -1}
		if m := rankPrefix.FindStringSubmatch(l.text); m != nil {
			for _, digits := range m[1:] {
				if digits != "" {
					l.rank = atoi(digits)
				}
			}
			l.text = l.text[len(m[0]):]
		}
		all = append(all, l)
	}
	return all
}

// squeezed is a text without any space, in which a message reads alike wherever terminals and logs broke its lines, and
// where each of its bytes came from.
type squeezed struct {
	text string
	line []int32
}

func squeeze(all []line) squeezed {
	var s squeezed
	var b strings.Builder
	for i, l := range all {
		for _, r := range l.text {
			if unicode.IsSpace(r) || r == unicode.ReplacementChar {
				continue
			}
			n := b.Len()
			b.WriteRune(r)
			for range b.Len() - n {
				s.line = append(s.line, int32(i))
			}
		}
	}
	s.text = b.String()
	return s
}

func atoi(digits string) int {
	n := 0
	for _, d := range digits {
		if n = n*10 + int(d-'0'); n > 1<<30 {
			return 1 << 30
		}
	}
	return n
}
