package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
)

// maxDocumentBytes is the longest job document, on one line or over several;
// the API has the same limit.
const maxDocumentBytes = 1 << 20

// maxPrefixChecks bounds the work of telling one document from NDJSON: each check
// reads all lines so far. The first one decides for all but contrived files.
const maxPrefixChecks = 16

// document is one job as it was read.
type document struct {
	// line is the number of its first line, from 1.
	line int
	text []byte
	// tooLong marks a document of which only the beginning was kept.
	tooLong bool
}

// documents reads a file that holds one job over any number of lines, or NDJSON.
type documents struct {
	lines *lineReader
	// ahead are documents that were read while finding out which of the two it is.
	ahead []document
	begun bool
	// many says that the file is NDJSON.
	many bool
	// edits are made to every document.
	edits []edit
	// eager hands a first whole line out before there is a second: a program that
	// waits for each answer before it writes the next job would wait forever
	// otherwise. many is then true of a file with one line too.
	eager bool
}

func newDocuments(r io.Reader, edits []edit, eager bool) *documents {
	return &documents{lines: &lineReader{r: bufio.NewReaderSize(r, 64<<10), limit: maxDocumentBytes}, edits: edits,
		eager: eager}
}

// next returns io.EOF after the last document. An empty file holds one empty
// document, which its reader then refuses in the usual words.
func (d *documents) next() (document, error) {
	doc, err := d.read()
	if err != nil || doc.tooLong {
		return doc, err
	}
	doc.text, err = apply(doc.text, d.edits)
	return doc, err
}

func (d *documents) read() (document, error) {
	if !d.begun {
		d.begun = true
		if err := d.begin(); err != nil {
			return document{}, err
		}
	}
	if len(d.ahead) > 0 {
		doc := d.ahead[0]
		d.ahead = d.ahead[1:]
		return doc, nil
	}
	if !d.many {
		return document{}, io.EOF
	}
	return d.lines.next()
}

// ofAnotherTool is a first line of a script, or of YAML or TOML, which JSON cannot begin with.
var ofAnotherTool = regexp.MustCompile(`^\s*(?:#|---\s*$|[A-Za-z_][\w.-]*\s*[:=](?:\s|$)|\[[A-Za-z_][\w.-]*\]\s*$|(?:import|from|torchrun|accelerate|deepspeed|python3?|srun|sbatch)\s)`)

// begin decides between the two forms. A first line that is a whole JSON value
// begins NDJSON. Otherwise the file is one document, unless a later line that
// starts with a brace is a whole object although the lines up to it do not
// lead there: then the first line was a bad job among others.
func (d *documents) begin() error {
	first, err := d.lines.next()
	if errors.Is(err, io.EOF) {
		d.ahead = []document{{line: 1}}
		return nil
	}
	if err != nil {
		return err
	}
	first.text = bytes.TrimPrefix(first.text, []byte("\uFEFF")) // Windows editors write a byte order mark
	if ofAnotherTool.Match(first.text) {
		return usage("this is no job document, which is JSON: a batch script, a program or a trainer's configuration is " +
			"read with --from FILE")
	}
	if first.tooLong || json.Valid(first.text) {
		d.ahead, d.many = []document{first}, true
		if d.eager {
			return nil
		}
		second, err := d.lines.next()
		if errors.Is(err, io.EOF) {
			d.many = false
			return nil
		}
		d.ahead = append(d.ahead, second)
		return err
	}

	whole := first
	whole.text = bytes.Clone(first.text)
	parts := []document{first}
	checks := 0
	for {
		line, err := d.lines.next()
		if errors.Is(err, io.EOF) {
			d.ahead = []document{whole}
			return nil
		}
		if err != nil {
			return err
		}
		parts = append(parts, line)
		if checks < maxPrefixChecks && bytes.HasPrefix(line.text, []byte("{")) && json.Valid(line.text) {
			checks++
			if !isPrefix(whole.text) {
				d.ahead, d.many = parts, true
				return nil
			}
		}
		// Blank lines were skipped: put them back, so that a syntax error names
		// the right one.
		gap := line.line - parts[len(parts)-2].line
		if line.tooLong || len(whole.text)+gap+len(line.text) > maxDocumentBytes {
			whole.tooLong = true
			d.ahead = []document{whole}
			return nil
		}
		whole.text = append(whole.text, bytes.Repeat([]byte("\n"), gap)...)
		whole.text = append(whole.text, line.text...)
	}
}

// isPrefix says whether text could go on to be JSON, with an object next.
func isPrefix(text []byte) bool {
	var v json.RawMessage
	candidate := append(bytes.Clone(text), '{')
	return errors.Is(json.NewDecoder(bytes.NewReader(candidate)).Decode(&v), io.ErrUnexpectedEOF)
}

// lineReader splits a stream into lines without ever holding more than limit
// bytes of one.
type lineReader struct {
	r     *bufio.Reader
	limit int
	line  int
}

// next returns the next line that is not blank, or io.EOF.
func (l *lineReader) next() (document, error) {
	for {
		text, tooLong, err := l.read()
		if err != nil && (!errors.Is(err, io.EOF) || len(text) == 0) {
			return document{}, err
		}
		l.line++
		if trimmed := bytes.TrimRight(text, " \t\r\n"); tooLong || len(bytes.TrimLeft(trimmed, " \t")) > 0 {
			return document{line: l.line, text: trimmed, tooLong: tooLong}, nil
		}
	}
}

// read returns one line in memory of its own; of one that is too long, the beginning.
func (l *lineReader) read() (text []byte, tooLong bool, err error) {
	for {
		part, err := l.r.ReadSlice('\n')
		content := bytes.TrimRight(part, "\r\n")
		if len(text)+len(content) > l.limit {
			tooLong = true
		}
		if !tooLong {
			text = append(text, part...)
		} else if len(text) == 0 {
			text = append(text, part[:min(len(part), 64)]...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return text, tooLong, err
		}
	}
}
