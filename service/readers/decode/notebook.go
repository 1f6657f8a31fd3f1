package decode

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Notebook is what a Jupyter notebook runs: its cells of code as one program, in which a line stands where its text
// stands in the file as far as that goes, and the commands of a shell in it.
func Notebook(text []byte) (program, commands []byte, err error) {
	n := notebook{dec: json.NewDecoder(bytes.NewReader(text)), text: text}
	if err := n.value(nil); err != nil {
		return nil, nil, fmt.Errorf("is no notebook: %w", err)
	}
	return n.program.bytes(), n.commands.bytes(), nil
}

// notebook is a walk over a notebook's JSON.
type notebook struct {
	dec  *json.Decoder
	text []byte
	// line and at are how far lines were counted.
	line, at int
	// depth is how many objects and lists are open.
	depth int
	// kind and source are of the cell that is walked over.
	kind   string
	source []placedLine

	program, commands lines
}

type placedLine struct {
	text string
	line int
}

// lines are a text whose lines stand where they are wanted, or behind one another.
type lines []string

func (l *lines) add(p placedLine) {
	for len(*l) < p.line-1 {
		*l = append(*l, "")
	}
	*l = append(*l, p.text)
}

func (l lines) bytes() []byte {
	if len(l) == 0 {
		return nil
	}
	return []byte(strings.Join(l, "\n") + "\n")
}

var errDeep = errors.New("too deep")

// value walks over a value: keys are the names of objects that it is in.
func (n *notebook) value(keys []string) error {
	if n.depth++; n.depth > maxDepth {
		return errDeep
	}
	defer func() { n.depth-- }()
	token, err := n.dec.Token()
	if err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	of := strings.Join(keys, ".")
	switch d, _ := token.(json.Delim); d {
	case '{':
		for n.dec.More() {
			key, err := n.dec.Token()
			if err != nil {
				return fmt.Errorf("read JSON: %w", err)
			}
			name, _ := key.(string)
			if err := n.value(append(keys[:len(keys):len(keys)], name)); err != nil {
				return err
			}
		}
		if of == "cells" || of == "worksheets.cells" {
			n.cell()
		}
	case '[':
		for n.dec.More() {
			if err := n.value(keys); err != nil {
				return err
			}
		}
	default:
		n.scalar(of, token)
		return nil
	}
	if _, err := n.dec.Token(); err != nil {
		return fmt.Errorf("read JSON: %w", err)
	}
	return nil
}

// scalar keeps what belongs to a cell; "input" is the source of the third format.
func (n *notebook) scalar(of string, token json.Token) {
	s, ok := token.(string)
	if !ok {
		return
	}
	_, key, _ := strings.Cut(strings.TrimPrefix(of, "worksheets."), "cells.")
	switch key {
	case "cell_type":
		n.kind = s
	case "source", "input":
		end := int(n.dec.InputOffset())
		n.line += bytes.Count(n.text[n.at:end], []byte("\n"))
		n.at = end
		at := n.line + 1
		for l := range strings.SplitSeq(strings.TrimSuffix(s, "\n"), "\n") {
			n.source = append(n.source, placedLine{l, at})
		}
	}
}

var (
	// runsHere are magics of a cell that is Python all the same (IPython 9 core/magics).
	runsHere = regexp.MustCompile(`^%%(capture|time|timeit|prun)\b`)
	shellOf  = regexp.MustCompile(`^%%(bash|sh|shell)\b`)
	braces   = regexp.MustCompile(`\{[^{}]*\}`)
)

// cell adds a cell of code to the program. Lines of IPython's own are none of Python's.
func (n *notebook) cell() {
	kind, source := n.kind, n.source
	n.kind, n.source = "", nil
	if kind != "code" || len(source) == 0 {
		return
	}
	first := 0
	for first < len(source) && strings.TrimSpace(source[first].text) == "" {
		first++
	}
	if first < len(source) && strings.HasPrefix(source[first].text, "%%") {
		switch head := source[first].text; {
		case runsHere.MatchString(head):
			source = source[first+1:]
		case shellOf.MatchString(head):
			for _, l := range source[first+1:] {
				n.commands.add(l)
			}
			return
		default: // another language, or a file that is written
			return
		}
	}
	for _, l := range source {
		bare := strings.TrimLeft(l.text, " \t")
		switch {
		case strings.HasPrefix(bare, "!"):
			// what stands in braces is a value of the program
			n.commands.add(placedLine{braces.ReplaceAllString(strings.TrimPrefix(bare, "!"), "$$NOTEBOOK_VALUE"), l.line})
			l.text = strings.TrimSuffix(l.text, bare) + "pass"
		case strings.HasPrefix(bare, "%"), strings.HasPrefix(bare, "?"),
			strings.HasSuffix(bare, "?") && !strings.ContainsAny(bare, `"'#`):
			l.text = strings.TrimSuffix(l.text, bare) + "pass"
		}
		n.program.add(l)
	}
}
