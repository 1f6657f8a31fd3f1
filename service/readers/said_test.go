package readers_test

import (
	"context"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/service/readers"
)

// ofNothing finds a sentence in which a word has been left empty: "is not a plain value" of nothing, brackets around
// nothing, a colon with no reason behind it, or what fmt writes for a value that is not there.
var ofNothing = regexp.MustCompile(`^[\s:;,.]|^(is|are|may|cannot) |\(\s*\)|: *[;,)]|: +$|\( |, ,|; ;` +
	`|\b(and|or|because) *$|%!|<nil>`)

// sentences are all sentences of an answer, each with what it is.
func sentences(a *readers.Answer) map[string]string {
	all := map[string]string{}
	for i, r := range a.Refusals {
		all[fmt.Sprintf("refusal %d", i)] = r.String()
	}
	for i, j := range a.Jobs {
		for k, q := range j.Questions {
			all[fmt.Sprintf("question %d of job %d", k, i)] = q.Ask
			all[fmt.Sprintf("answer of question %d of job %d", k, i)] = q.Flag
		}
		for k, s := range j.Assumptions {
			all[fmt.Sprintf("assumption %d of job %d", k, i)] = s.Say
		}
		for k, d := range j.Doubts {
			all[fmt.Sprintf("doubt %d of job %d", k, i)] = d.String()
		}
	}
	return all
}

// Whatever becomes of one line of the files of a job, every refusal, question, assumption and doubt says something of
// something, and an answer that is neither a job nor a reason is none.
func TestEverySentenceSays(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	refused := 0
	rapid.Check(t, func(t *rapid.T) {
		archive, err := txtar.ParseFile(rapid.SampledFrom(names).Draw(t, "case"))
		if err != nil {
			t.Fatal(err)
		}
		spoil(t, archive)
		source, _ := sourceOf(archive)
		answer, err := readers.Read(context.Background(), source)
		if err != nil {
			return // a file that cannot be opened, which the error names
		}
		if len(answer.Jobs) == 0 && len(answer.Refusals) == 0 {
			t.Fatalf("neither a job nor a reason:\n%s", txtar.Format(archive))
		}
		refused += len(answer.Refusals)
		for what, text := range sentences(answer) {
			if text == "" || ofNothing.MatchString(text) {
				t.Fatalf("the %s says nothing of something: %q", what, text)
			}
		}
	})
	if refused == 0 && !t.Failed() {
		t.Error("nothing was refused")
	}
}

// spoil changes the value of a line of one of the files, as people leave files half done.
func spoil(t *rapid.T, archive *txtar.Archive) {
	var files []int
	for i, f := range archive.Files {
		if f.Name != "want" && len(f.Data) > 0 {
			files = append(files, i)
		}
	}
	if len(files) == 0 {
		return
	}
	file := &archive.Files[rapid.SampledFrom(files).Draw(t, "file")]
	lines := strings.Split(string(file.Data), "\n")
	i := rapid.IntRange(0, len(lines)-1).Draw(t, "line")
	at := strings.LastIndexAny(lines[i], ":= ")
	if at < 0 {
		return
	}
	lines[i] = lines[i][:at+1] + rapid.SampledFrom([]string{"", `""`, "''", "null", "None", "[]", "{}", "~",
		"${NOBODY}", "${NOBODY-}", "$1", "{{ x }}", "f(x)", "-1", "0", "1e400", "nan", "<here>", "\\"}).Draw(t, "value")
	file.Data = []byte(strings.Join(lines, "\n"))
}
