package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
)

// shown is how many answers that differ are printed.
const shown = 10

// compareFiles prints in what two files of answers differ.
func compareFiles(one, other string, out io.Writer) error {
	a, err := open(one)
	if err != nil {
		return err
	}
	defer a.file.Close()
	b, err := open(other)
	if err != nil {
		return err
	}
	defer b.file.Close()
	return compareAnswers(a, b, out)
}

// answerFile is read one answer after another.
type answerFile struct {
	file  *os.File
	lines *bufio.Scanner
	now   answer
	ended bool
}

func open(path string) (*answerFile, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	a := &answerFile{file: f, lines: bufio.NewScanner(unzipped)}
	a.lines.Buffer(nil, 64<<20)
	return a, nil
}

// next reads the next answer.
func (f *answerFile) next() error {
	if !f.lines.Scan() {
		f.ended = true
		return f.lines.Err()
	}
	f.now = answer{}
	if err := json.Unmarshal(f.lines.Bytes(), &f.now); err != nil {
		return fmt.Errorf("%s: %w", f.file.Name(), err)
	}
	return nil
}

// counted is what a comparison found.
type counted struct {
	same, changed, gone, came int
	jobs                      map[string]bool
	fields                    map[string]int
}

func compareAnswers(a, b *answerFile, out io.Writer) error {
	c := counted{jobs: map[string]bool{}, fields: map[string]int{}}
	if err := errors.Join(a.next(), b.next()); err != nil {
		return err
	}
	for !a.ended || !b.ended {
		order := 0
		switch {
		case a.ended:
			order = 1
		case b.ended:
			order = -1
		default: // of a job the cards have the same order everywhere, that of the catalog
			order = cmp.Compare(a.now.Job, b.now.Job)
			if order == 0 && a.now.Card != b.now.Card {
				return fmt.Errorf("%s is answered on %s and on %s: the files have other cards", a.now.Job, a.now.Card,
					b.now.Card)
			}
		}
		var err error
		switch {
		case order < 0:
			c.gone++
			err = a.next()
		case order > 0:
			c.came++
			err = b.next()
		default:
			c.hold(a.now, b.now, out)
			err = errors.Join(a.next(), b.next())
		}
		if err != nil {
			return err
		}
	}
	return c.said(out)
}

// hold compares two answers to one question.
func (c *counted) hold(a, b answer, out io.Writer) {
	if bytes.Equal(a.Answer, b.Answer) {
		c.same++
		return
	}
	c.changed++
	c.jobs[a.Job] = true
	var x, y any
	// They were written by json.Marshal.
	_, _ = json.Unmarshal(a.Answer, &x), json.Unmarshal(b.Answer, &y)
	differ := map[string][2]any{}
	differences("", x, y, differ)
	for field := range differ {
		c.fields[field]++
	}
	if c.changed > shown {
		return
	}
	fmt.Fprintf(out, "%s on %s\n", a.Job, a.Card)
	for i, field := range slices.Sorted(maps.Keys(differ)) {
		if i == shown {
			fmt.Fprintf(out, "  and %d fields more\n", len(differ)-shown)
			break
		}
		fmt.Fprintf(out, "  %s: %s, then %s\n", field, brief(differ[field][0]), brief(differ[field][1]))
	}
}

// differences are the fields in which a and b differ, by JSON pointer. Whole lists of other lengths are one.
func differences(at string, a, b any, into map[string][2]any) {
	if object, ok := a.(map[string]any); ok {
		if other, ok := b.(map[string]any); ok {
			for name := range object {
				differences(at+"/"+name, object[name], other[name], into)
			}
			for name, value := range other {
				if _, ok := object[name]; !ok {
					into[at+"/"+name] = [2]any{nil, value}
				}
			}
			return
		}
	}
	if list, ok := a.([]any); ok {
		if other, ok := b.([]any); ok && len(list) == len(other) {
			for i := range list {
				differences(at+"/"+strconv.Itoa(i), list[i], other[i], into)
			}
			return
		}
	}
	if !reflect.DeepEqual(a, b) {
		into[at] = [2]any{a, b}
	}
}

// brief is a value as JSON, at most a line of it.
func brief(v any) string {
	const most = 200
	if v == nil {
		return "nothing"
	}
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	if len(text) > most {
		return string(text[:most]) + "…"
	}
	return string(text)
}

// said prints the summary.
func (c *counted) said(out io.Writer) error {
	fmt.Fprintf(out, "%d answers are the same, %d differ, of %d jobs", c.same, c.changed, len(c.jobs))
	if c.gone+c.came > 0 {
		fmt.Fprintf(out, ", %d are in the first file alone, %d in the second", c.gone, c.came)
	}
	fmt.Fprintln(out)
	if c.changed == 0 && c.gone+c.came == 0 {
		return nil
	}
	most := slices.SortedFunc(maps.Keys(c.fields), func(a, b string) int {
		return cmp.Or(cmp.Compare(c.fields[b], c.fields[a]), cmp.Compare(a, b))
	})
	for i, field := range most {
		if i == shown {
			fmt.Fprintf(out, "  and %d fields more\n", len(most)-shown)
			break
		}
		fmt.Fprintf(out, "  %6d times %s\n", c.fields[field], field)
	}
	return errors.New("the answers differ")
}
