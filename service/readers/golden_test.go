package readers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/jobdoc"
	"github.com/vramplan/vramplan/service/readers"
)

var update = flag.Bool("update", false, "write down what the readers answer")

// TestCases reads every archive of testdata: its first file, or those that the line "read: a b" names, with the others
// around it. The section "want" is the answer.
func TestCases(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			source, want := sourceOf(archive)
			answer, err := readers.Read(context.Background(), source)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range answer.Jobs {
				wellFormed(t, j.Document)
			}
			got := written(t, answer)
			if *update {
				setWant(archive, got)
				if err := os.WriteFile(name, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("answer (-want +got):\n%s", d)
			}
		})
	}
}

// sourceOf makes a source of an archive, in a directory of its own.
func sourceOf(archive *txtar.Archive) (s readers.Source, want []byte) {
	texts := map[string][]byte{}
	catalog := service.EmbeddedCatalog()
	s = readers.Source{Dir: "/job", Pictures: func(name string) readers.Pictures {
		return readers.PicturesOf(catalog.ShowsPictures(name))
	}, ModelType: catalog.ModelType, HasModel: func(name string) bool {
		_, err := catalog.Model(name)
		return err == nil
	}}
	for _, f := range archive.Files {
		if f.Name == "want" {
			want = f.Data
			continue
		}
		if len(s.Files) == 0 {
			s.Files = []string{f.Name}
		}
		texts["/job/"+f.Name] = f.Data
	}
	for _, line := range strings.Split(string(archive.Comment), "\n") {
		if rest, ok := strings.CutPrefix(line, "read: "); ok {
			s.Files = strings.Fields(rest)
		}
		if rest, ok := strings.CutPrefix(line, "command: "); ok {
			s.Command, s.Files = strings.Fields(rest), nil
		}
		if rest, ok := strings.CutPrefix(line, "set: "); ok {
			key, value, _ := strings.Cut(rest, "=")
			s.Set = append(s.Set, readers.Said{Path: key, Value: value})
		}
	}
	s.ReadFile = func(name string) ([]byte, error) {
		if text, ok := texts[name]; ok {
			return text, nil
		}
		return nil, fs.ErrNotExist
	}
	s.List = func(dir string) []string {
		var names []string
		for name := range texts {
			if path.Dir(name) == dir {
				names = append(names, path.Base(name))
			}
		}
		sort.Strings(names)
		return names
	}
	return s, want
}

// written is an answer as the archives keep it.
func written(t *testing.T, a *readers.Answer) []byte {
	t.Helper()
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(a); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func setWant(archive *txtar.Archive, text []byte) {
	for i := range archive.Files {
		if archive.Files[i].Name == "want" {
			archive.Files[i].Data = text
			return
		}
	}
	archive.Files = append(archive.Files, txtar.File{Name: "want", Data: text})
}

// wellFormed holds a document against the job document's own reader: all its fields and values are of the contract.
func wellFormed(t *testing.T, document []byte) {
	t.Helper()
	_, err := jobdoc.Read[estimator.Job](document)
	if err != nil {
		t.Errorf("%s: %v", document, err)
	}
}
