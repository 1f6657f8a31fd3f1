package draws_test

import (
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/vramplan/vramplan/reliability/draws"
	"github.com/vramplan/vramplan/reliability/steady/find"
)

// TestEveryRandomTestDrawsTheSame fails for a package with random tests that does not import draws.
func TestEveryRandomTestDrawsTheSame(t *testing.T) {
	packages, err := find.Packages(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	random := 0
	for _, p := range packages {
		random += len(p.Random)
		if len(p.Random) > 0 && !p.Imports["github.com/vramplan/vramplan/reliability/draws"] {
			t.Errorf("%s has random tests, %v, and none of its tests imports reliability/draws", p.Folder, p.Random)
		}
		if p.Imports["pgregory.net/rapid"] && len(p.Random) == 0 {
			t.Errorf("no test of %s reaches a check of rapid's, which its tests import", p.Folder)
		}
	}
	if random < 40 {
		t.Errorf("only %d random tests were found", random)
	}
}

// TestSeed: nobody has to say where to begin.
func TestSeed(t *testing.T) {
	want := os.Getenv(draws.Variable)
	if want == "" {
		want = strconv.Itoa(draws.Seed)
	}
	if got := flag.Lookup("rapid.seed").Value.String(); got != want {
		t.Errorf("random tests begin at %s, want %s", got, want)
	}
}
