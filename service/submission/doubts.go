package submission

import (
	"fmt"

	"github.com/vramplan/vramplan/service/readers"
	"github.com/vramplan/vramplan/service/readers/shell"
)

// Doubt is something that was not understood.
type Doubt = readers.Doubt

// place is where something stands, as compilers write it.
func place(file string, line int) string {
	if line == 0 {
		return file
	}
	return fmt.Sprintf("%s:%d", file, line)
}

// maxDoubts is how many are named.
const maxDoubts = 64

// doubt notes one.
func (p *program) doubt(d Doubt) {
	if d.File == "" {
		d.File = p.source.name()
	}
	for _, known := range p.doubts {
		if known == d {
			return
		}
	}
	if len(p.doubts) < maxDoubts {
		p.doubts = append(p.doubts, d)
	}
}

// doubtWord notes a word of a command line that is not understood.
func (p *program) doubtWord(at shell.Span, word string) {
	p.doubtKey(p.file(at), at.Line, word)
}

// doubtKey notes a word of a file.
func (p *program) doubtKey(file string, line int, word string) {
	d := Doubt{File: file, Line: line, Word: word, Why: "is not understood"}
	if topic, enlarges := readers.TopicOf(word); topic != "" {
		d.Why, d.Enlarges = "is about "+topic+", and is not understood", enlarges
	}
	p.doubt(d)
}

// doubtValue notes a word that is known only when the script runs.
func (p *program) doubtValue(w shell.Word, what string) {
	p.doubt(Doubt{File: p.file(w.At), Line: w.At.Line, Word: what, Why: "is known only when the script runs: " +
		w.Reason, Enlarges: true})
}

// file is the name of the source that a span points into.
func (p *program) file(at shell.Span) string {
	if p.script == nil || at.IsZero() {
		return p.source.name()
	}
	return p.script.Sources[at.Source].Name
}

// name is what the script is called in messages.
func (s *Source) name() string {
	if s.Name != "" {
		return s.Name
	}
	return "the script"
}
