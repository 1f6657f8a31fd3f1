package api

import (
	"bufio"
	"bytes"
	"errors"
	"io"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"github.com/vramplan/vramplan/api/problem"
	"github.com/vramplan/vramplan/estimator/invalid"
	"github.com/vramplan/vramplan/service/workplace"
)

// jobsReader reads the jobs of a batch one by one, and knows how the answers to them are put together.
type jobsReader interface {
	// next reads the next job; nil where there is none at this place. The error is io.EOF with or after the last one.
	next(number int, booked *workplace.Holder) (*line, error)
	mediaType() string
	// unit is what a job is called in the instance of a problem.
	unit() string
	// frame puts an answer, which ends with a line feed, behind the ones that were written before it; end is what
	// follows the last.
	frame(answer []byte, written int) []byte
	end(written int) []byte
}

// jobsIn tells the two forms apart by the first byte that is no space: no job begins with a bracket.
func jobsIn(r *bufio.Reader) jobsReader {
	for size := 1; size <= 1024; size++ {
		head, err := r.Peek(size)
		if err != nil || len(head) < size {
			break
		}
		switch head[size-1] {
		case ' ', '\t', '\r', '\n':
			continue
		case '[':
			_, _ = r.Discard(size)
			return &jsonArray{r: r}
		}
		break
	}
	return ndjson{r}
}

// ndjson is a job a line.
type ndjson struct{ r *bufio.Reader }

func (ndjson) mediaType() string                 { return "application/x-ndjson" }
func (ndjson) unit() string                      { return "line" }
func (ndjson) frame(answer []byte, _ int) []byte { return answer }
func (ndjson) end(int) []byte                    { return nil }

// next reads the next line; nil for a blank one. Of a line that is too long,
// nothing is kept. The error is io.EOF with or after the last line.
func (j ndjson) next(number int, booked *workplace.Holder) (*line, error) {
	l := &line{number: number, done: make(chan []byte, 1)}
	for {
		part, err := j.r.ReadSlice('\n')
		l.size += len(part)
		switch size := len(l.text) + len(bytes.TrimRight(part, "\r\n")); {
		case l.tooLong || size > maxBodyBytes:
			booked.Give(l.size)
			l.text, l.size, l.tooLong = nil, 0, true
		default:
			l.text = append(l.text, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		l.text = bytes.TrimSpace(l.text)
		if len(l.text) == 0 && !l.tooLong {
			booked.Give(l.size)
			return nil, err
		}
		return l, err
	}
}

// jsonArray is a JSON array of jobs. It is cut at its commas; what lies between them is read as a job and refused as
// one.
type jsonArray struct {
	r     *bufio.Reader
	ended bool
}

func (*jsonArray) mediaType() string { return "application/json" }
func (*jsonArray) unit() string      { return "element" }

func (*jsonArray) frame(answer []byte, written int) []byte {
	before := byte(',')
	if written == 0 {
		before = '['
	}
	return append([]byte{before}, answer...)
}

func (*jsonArray) end(written int) []byte {
	if written == 0 {
		return []byte("[]\n")
	}
	return []byte("]\n")
}

// next reads up to the next comma or bracket of the array itself. Of an element that is too long, nothing is kept.
func (j *jsonArray) next(number int, booked *workplace.Holder) (*line, error) {
	l := &line{number: number, done: make(chan []byte, 1)}
	if j.ended {
		return j.trailing(l)
	}
	depth, quoted, escaped := 0, false, false
	for {
		c, err := j.r.ReadByte()
		if errors.Is(err, io.EOF) {
			l.refused = problem.New(problem.InvalidDocument, "The array does not end: its ] is missing.")
			return l, err
		}
		if err != nil {
			booked.Give(l.size)
			return nil, err
		}
		l.size++
		switch {
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
		case depth == 0 && (c == ',' || c == ']'):
			j.ended = c == ']'
			l.text = bytes.TrimSpace(l.text)
			if j.ended && number == 1 && len(l.text) == 0 && !l.tooLong { // an empty array
				booked.Give(l.size)
				return j.trailing(l)
			}
			return l, nil
		}
		switch {
		case l.tooLong:
			booked.Give(1)
			l.size--
		case len(l.text) == maxBodyBytes:
			booked.Give(l.size)
			l.text, l.size, l.tooLong = nil, 0, true
		default:
			l.text = append(l.text, c)
		}
	}
}

// trailing refuses what stands behind the array.
func (j *jsonArray) trailing(l *line) (*line, error) {
	for {
		c, err := j.r.ReadByte()
		if err != nil {
			return nil, err
		}
		if c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			l.refused = problem.New(problem.InvalidDocument, "There is something behind the end of the array.")
			return l, io.EOF
		}
	}
}

// maxIDBytes is the longest id that is sent back, as JSON.
const maxIDBytes = 200

// takeID takes the client's own id out of a job of a batch; empty where it has none. The strict reader of jobs never
// sees it.
func takeID(document []byte) (job, id []byte, err error) {
	if !bytes.Contains(document, []byte(`"id"`)) || !gjson.ValidBytes(document) {
		return document, nil, nil
	}
	found := gjson.GetBytes(document, "id")
	if !found.Exists() {
		return document, nil, nil
	}
	if kind := found.Type; kind != gjson.String && kind != gjson.Number || len(found.Raw) > maxIDBytes {
		var errs invalid.List
		errs.Add("/id", "wrong_type", "%s was given; accepted: a string or a number of up to %d bytes", clip(found.Raw),
			maxIDBytes)
		return nil, nil, errs.Err()
	}
	job, err = sjson.DeleteBytes(bytes.Clone(document), "id")
	return job, []byte(found.Raw), err
}

// withID is an answer, a JSON object, that has the client's id as its first field.
func withID(answer, id []byte) []byte {
	if len(id) == 0 {
		return answer
	}
	with := append(append([]byte(`{"id":`), id...), ',')
	return append(with, bytes.TrimPrefix(answer, []byte("{"))...)
}
