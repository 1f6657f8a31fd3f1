package python

import (
	"bufio"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

var trees = flag.String("trees", "", "a file of testdata/trees.py's, to hold the trees of this package against")

// TestTreesOfCPython compares trees node by node: kinds, names, values and places (those within f-strings without
// their places, which CPython reports differently from release to release).
func TestTreesOfCPython(t *testing.T) {
	path := *trees
	if path == "" {
		path = "testdata/trees.txt"
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	equal, refused, bytes, took := 0, 0, 0, time.Duration(0)
	for {
		line, err := r.ReadString('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		file, want, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		module, gaps, err := Parse(src)
		took += time.Since(began)
		bytes += len(src)
		if want == "!" {
			refused++ // CPython refuses more than the grammar does: what a compiler forbids
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if len(gaps) > 0 {
			t.Errorf("%s: %v", file, gaps[0])
			continue
		}
		var b strings.Builder
		dumped(module, &b, newLines(src), false)
		if got := b.String(); got != want {
			i := 0
			for i < len(got) && i < len(want) && got[i] == want[i] {
				i++
			}
			from := max(0, i-120)
			t.Errorf("%s:\n got …%s\nwant …%s", file, got[from:min(len(got), i+80)], want[from:min(len(want), i+80)])
			continue
		}
		equal++
	}
	if equal == 0 {
		t.Error("no tree was compared")
	}
	t.Logf("%d trees are equal, %d files are none of CPython's; %d bytes in %v", equal, refused, bytes, took)
}
