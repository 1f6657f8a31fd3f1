package release

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write docs/releases.md anew")

const page = "../../docs/releases.md"

const head = `# Releases

What releases of the training software changed in what a step allocates. ` + "`training.versions`" + ` of a job picks the rows; a library that a job does
not name counts as that of the first stack, which is the reference, or, where the job names an older torch or transformers, as that of the
newest stack that is not newer than what it names: nobody runs an old torch with today's transformers. A release beside the traced ones, or a family that was not traced with them, widens the bounds of
an answer, whose note ` + "`versions`" + ` says so. "Not yet in" is the last release that is known not to have the change: in which release between
the two it came is not known.

` + "`vramplan releases`" + ` prints these tables, ` + "`GET /v1/releases`" + ` answers with them. This page is generated: go test ./estimator/release -update.

`

// TestPage holds docs/releases.md against the table.
func TestPage(t *testing.T) {
	made := head + Markdown(Stacks(), Changes())
	if *update {
		if err := os.WriteFile(page, []byte(made), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), made); diff != "" {
		t.Errorf("%s is not what the table says; run go test ./estimator/release -update (-page +table):\n%s", page, diff)
	}
}
