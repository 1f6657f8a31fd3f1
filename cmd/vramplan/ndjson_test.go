package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

type read struct {
	Line    int
	Text    string
	TooLong bool
}

func readAll(t testing.TB, input string, eager bool) (got []read, many bool) {
	t.Helper()
	docs := newDocuments(strings.NewReader(input), nil, eager)
	for {
		doc, err := docs.next()
		if errors.Is(err, io.EOF) {
			return got, docs.many
		}
		if err != nil {
			t.Fatalf("next: %v", err)
		}
		text := string(doc.text)
		if doc.tooLong {
			text = ""
		}
		got = append(got, read{doc.line, text, doc.tooLong})
	}
}

func TestDocumentsTellOneJobFromMany(t *testing.T) {
	long := `{"a": "` + strings.Repeat("x", maxDocumentBytes) + `"}`
	edge := `{"a": "` + strings.Repeat("x", maxDocumentBytes-len(`{"a": ""}`)) + `"}`
	tests := []struct {
		name, input string
		want        []read
		many        bool
	}{
		{"nothing", "", []read{{Line: 1}}, false},
		{"blank lines only", "\n  \n\t\r\n", []read{{Line: 1}}, false},
		{"one line", `{"a": 1}`, []read{{1, `{"a": 1}`, false}}, false},
		{"one line and a newline", "\n{\"a\": 1}\r\n", []read{{2, `{"a": 1}`, false}}, false},
		{"a byte order mark", "\uFEFF{}\n{}\n", []read{{1, "{}", false}, {2, "{}", false}}, true},
		{"many lines", "{}\n\n[]\n3", []read{{1, "{}", false}, {3, "[]", false}, {4, "3", false}}, true},
		{"one over several lines", "{\n  \"a\": 1\n\n}\n", []read{{1, "{\n  \"a\": 1\n\n}", false}}, false},
		{"an object at the margin inside one job", "{\"a\":\n{\"b\": 1}\n}",
			[]read{{1, "{\"a\":\n{\"b\": 1}\n}", false}}, false},
		{"one that is cut off", "{\n  \"a\": 1,\n", []read{{1, "{\n  \"a\": 1,", false}}, false},
		{"one that is not JSON", "my model\nand more\n", []read{{1, "my model\nand more", false}},
			false},
		{"a bad first line among jobs", "{bad}\n{\"a\": 1}\n", []read{{1, "{bad}", false}, {2, `{"a": 1}`, false}},
			true},
		{"a first line cut off among jobs", "{\"a\":\n{\"a\": 1}\n{\"a\": 2}\n",
			[]read{{1, `{"a":`, false}, {2, `{"a": 1}`, false}, {3, `{"a": 2}`, false}}, true},
		{"two bad lines before a job", "bad\nworse\n{}\n", []read{{1, "bad", false}, {2, "worse", false},
			{3, "{}", false}}, true},
		{"the longest line", edge + "\n{}", []read{{1, edge, false}, {2, "{}", false}}, true},
		{"a line too long", "{}\n" + long + "\n{}", []read{{1, "{}", false}, {2, "", true}, {3, "{}", false}}, true},
		{"a first line too long", long + "\n{}", []read{{1, "", true}, {2, "{}", false}}, true},
		{"several lines too long", "{\n" + strings.Repeat("\"a\": 1,\n", maxDocumentBytes/8) + "}",
			[]read{{1, "", true}}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, many := readAll(t, tt.input, false)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("documents (-want +got):\n%s", diff)
			}
			if many != tt.many {
				t.Errorf("many = %v, want %v", many, tt.many)
			}
		})
	}
}

// A program that reads each answer before it writes the next job must get one.
func TestEagerDocumentsDoNotWait(t *testing.T) {
	r, w := io.Pipe()
	docs := newDocuments(r, nil, true)
	go func() { _, _ = io.WriteString(w, "{\"a\": 1}\n") }()
	doc, err := docs.next()
	if err != nil || string(doc.text) != `{"a": 1}` {
		t.Fatalf("next = %q, %v", doc.text, err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := docs.next(); !errors.Is(err, io.EOF) {
		t.Errorf("next at the end = %v, want io.EOF", err)
	}
}

// Telling the forms apart must not take time that grows with the square of the file.
func TestContrivedDocumentIsReadOnce(t *testing.T) {
	input := "{\"a\": [\n" + strings.Repeat("{}\n,\n", maxDocumentBytes/8) + "{}\n]}"
	got, many := readAll(t, input, false)
	if many || len(got) != 1 || got[0].Text != input {
		t.Errorf("got %d documents, many = %v; want the whole as one", len(got), many)
	}
}

func TestReadErrorsAreNotTheEnd(t *testing.T) {
	broken := errors.New("the disk is gone")
	docs := newDocuments(io.MultiReader(strings.NewReader("{}\n{}\n"), errReader{broken}), nil, true)
	var err error
	for range 3 {
		_, err = docs.next()
	}
	if !errors.Is(err, broken) {
		t.Errorf("next = %v, want %v", err, broken)
	}
}

type errReader struct{ err error }

func (r errReader) Read([]byte) (int, error) { return 0, r.err }

// Whatever the input, reading ends, no document is longer than the limit, and
// the lines go up.
func FuzzDocuments(f *testing.F) {
	for _, seed := range []string{"", "{}", "{}\n{}", "{\n}\n", "bad\n{}\n", "\uFEFF{}", "{\"a\":\n{}\n}",
		"\r\n\x00\n{", "#", "#!/bin/bash\n{}\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, input string) {
		if _, err := newDocuments(strings.NewReader(input), nil, false).next(); err != nil {
			if !strings.Contains(err.Error(), "--from FILE") {
				t.Fatal(err) // nothing else is refused before a document is decoded
			}
			return
		}
		got, many := readAll(t, input, false)
		if len(got) == 0 || (!many && len(got) != 1) {
			t.Fatalf("%d documents, many = %v", len(got), many)
		}
		last := 0
		for _, doc := range got {
			if doc.Line <= last {
				t.Errorf("line %d after line %d", doc.Line, last)
			}
			if len(doc.Text) > maxDocumentBytes {
				t.Errorf("line %d has %d bytes", doc.Line, len(doc.Text))
			}
			last = doc.Line
		}
	})
}

// What another tool reads is told from a job document by its first line.
func TestDocumentsOfOtherTools(t *testing.T) {
	for text, other := range map[string]bool{
		"#!/bin/bash\n": true, "# comment\nmodel: x": true, "model: gpt2\nmicro_batch: 4\n": true, "---\na: 1": true, "[model]\nname = 1": true,
		"name = \"x\"": true, "torchrun --nproc_per_node=1 train.py": true, "import torch": true,
		"{": false, "{\"model\": {}}": false, "[1]": false, "[": false, "null": false, "true": false, "bad": false, "": false,
	} {
		_, err := newDocuments(strings.NewReader(text), nil, false).read()
		if got := err != nil && strings.Contains(err.Error(), "--from FILE"); got != other {
			t.Errorf("%q: %v", text, err)
		}
	}
}
