package slurm

import "strings"

// Word is an option of sbatch, and where it stands.
type Word struct {
	// Name is as it is written, --gres or -G.
	Name, Value string
	// Line counts from 1; Start is the byte at which the line begins.
	Line, Start int
}

// Component is one component of a job; of a job that is not heterogeneous there is one.
type Component []Word

// Options are the options of the component. Of one that is given twice the last counts, as it does for sbatch.
func (c Component) Options() Options {
	var o Options
	for _, w := range c {
		if field := o.field(w.Name); field != nil {
			*field = w.Value
		}
	}
	return o
}

// Script reads the #SBATCH lines of a script, component by component. Like sbatch it stops at the first command. A line
// of the word hetjob, or packjob as releases before 20.02 call it, begins the next component, which has none of the
// options before it: slurm_opt.c resets what says how much a component gets. It returns nil where there are no such
// lines.
func Script(text []byte) []Component {
	var components []Component
	at := 0
	for i, line := range strings.SplitAfter(string(text), "\n") {
		start := at
		at += len(line)
		line = strings.TrimRight(line, "\r\n")
		rest, ok := strings.CutPrefix(line, "#SBATCH")
		if !ok {
			if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
				break
			}
			continue
		}
		if len(components) == 0 {
			components = append(components, Component{})
		}
		words := Fields(rest)
		if len(words) > 0 && (words[0] == "hetjob" || words[0] == "packjob") {
			components = append(components, Component{})
			continue
		}
		last := &components[len(components)-1]
		for _, w := range Words(words) {
			w.Line, w.Start = i+1, start
			*last = append(*last, w)
		}
	}
	return components
}

// Words parts the words of a command line into options with their values. Of an option that nobody knows the next word
// counts as its value if it begins no option itself.
func Words(words []string) []Word {
	var list []Word
	var all Options
	for i := 0; i < len(words); i++ {
		word := words[i]
		if strings.HasPrefix(word, "#") {
			break // a comment behind the options
		}
		name, value, given := strings.Cut(word, "=")
		if !strings.HasPrefix(word, "--") && len(word) > 2 { // -pgpu
			name, value, given = word[:2], word[2:], true
		}
		if name == "" {
			continue // empty quotes, or a value of nothing
		}
		if !given && i+1 < len(words) && (all.field(name) != nil || !strings.HasPrefix(words[i+1], "-")) {
			i++
			value = words[i]
		}
		list = append(list, Word{Name: name, Value: value})
	}
	return list
}

// Fields splits a line into words; quotes hold words with spaces together.
func Fields(line string) []string {
	var words []string
	var word strings.Builder
	var quote rune
	begun := false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '"' || c == '\'':
			quote, begun = c, true
		case c == ' ' || c == '\t':
			if begun || word.Len() > 0 {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(c)
		}
	}
	if begun || word.Len() > 0 {
		words = append(words, word.String())
	}
	return words
}

// Groups are the components that --het-group (--pack-group before 20.02) names: "0", "0,2" or "0-2". ok is false where
// the value is none of these.
func Groups(value string) (groups []int, ok bool) {
	for part := range strings.SplitSeq(value, ",") {
		from, to, isRange := strings.Cut(strings.TrimSpace(part), "-")
		first, okFirst := small(from)
		last, okLast := first, okFirst
		if isRange {
			last, okLast = small(to)
		}
		if !okFirst || !okLast || last < first {
			return nil, false
		}
		for n := first; n <= last; n++ {
			groups = append(groups, n)
		}
	}
	return groups, true
}

// maxGroups is more components than a job has.
const maxGroups = 128

func small(s string) (int, bool) {
	if s == "" || len(s) > 3 || strings.Trim(s, "0123456789") != "" {
		return 0, false
	}
	n := 0
	for _, c := range s {
		n = n*10 + int(c-'0')
	}
	return n, n < maxGroups
}
