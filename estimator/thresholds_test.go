package estimator

import (
	"bufio"
	order "cmp"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator/release"
)

var update = flag.Bool("update", false, "write testdata/thresholds.txt anew")

// thresholds hold the table of releases where its rows begin and end. On either side of a threshold a trace is the
// witness, of the nearest traced release of the library whose traces show the change: were the threshold moved past
// that release, the change would come or go there, and the trace would differ from its replay. The file names the
// witnesses; "no trace" stands where no trace on that side shows the change. After a change of the table or of the
// traces: go test ./estimator -run TestReplayEqualsTraces -update (minutes).
type thresholds struct {
	sides    []side
	releases map[string][]string // that were traced, by library, oldest first
	of       map[string][]*side  // by trace; those that were read are taken out
	files    int
	read     int // of the files
}

const thresholdsFile = "testdata/thresholds.txt"

// noTrace stands in place of a witness.
const noTrace = "no trace"

// side is one side of a threshold.
type side struct {
	change    *release.Change
	threshold string // "from 5.14" or "before 5.14"
	in        bool   // whether the change is on this side
	releases  []string
	witnesses []string // by release
	witness   string   // a release and a trace of it
}

func (s *side) String() string {
	in := "not in"
	if s.in {
		in = "in"
	}
	return fmt.Sprintf("%s %s: %s, %s", s.change.Library, s.threshold, s.change.Switch, in)
}

// sidesOf are the sides of all thresholds, with the traced releases on each, the nearest first.
func sidesOf(traced map[string][]string) []side {
	var sides []side
	all := release.Changes()
	for i := range all {
		c := &all[i]
		for _, at := range [...]struct {
			words, release string
			in             bool // above it
		}{{"from ", c.From, true}, {"before ", c.To, false}} {
			threshold, given := release.Parse(at.release)
			if !given {
				continue
			}
			below := side{change: c, threshold: at.words + at.release, in: !at.in}
			above := side{change: c, threshold: at.words + at.release, in: at.in}
			for _, r := range traced[c.Library] {
				switch v, _ := release.Parse(r); {
				case v.Before(threshold) && c.Holds(v) == below.in:
					below.releases = slices.Insert(below.releases, 0, r)
				case !v.Before(threshold) && c.Holds(v) == above.in:
					above.releases = append(above.releases, r)
				}
			}
			below.witnesses, above.witnesses = make([]string, len(below.releases)), make([]string, len(above.releases))
			sides = append(sides, below, above)
		}
	}
	return sides
}

// readThresholds reads the file; with -update it asks for what stands there no longer.
func readThresholds(t *testing.T, files []string) *thresholds {
	t.Helper()
	h := &thresholds{releases: map[string][]string{}, of: map[string][]*side{}, files: len(files)}
	text, err := os.ReadFile(thresholdsFile)
	if err != nil && !*update {
		t.Fatal(err)
	}
	witnesses := map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, witness, _ := strings.Cut(strings.TrimSpace(line), " | ")
		witnesses[key] = witness
		if _, releases, ok := strings.Cut(key, "traced of "); ok {
			library, list, _ := strings.Cut(releases, ": ")
			h.releases[library] = strings.Split(list, ", ")
		}
	}
	if *update {
		h.releases = tracedReleases(t, files)
	}
	h.sides = sidesOf(h.releases)
	for i := range h.sides {
		s := &h.sides[i]
		s.witness = witnesses[s.String()]
		if s.witness == "" && !*update {
			t.Errorf("%s says nothing of %s: go test ./estimator -run TestReplayEqualsTraces -update", thresholdsFile, s)
		}
		of, key, ok := strings.Cut(s.witness, " ")
		if !ok || s.witness == noTrace {
			continue
		}
		if at := slices.Index(s.releases, of); at >= 0 {
			s.witnesses[at] = key
		}
		h.of[key] = append(h.of[key], s)
	}
	return h
}

// tracedReleases are the releases of every library that traces name, oldest first.
func tracedReleases(t *testing.T, files []string) map[string][]string {
	t.Helper()
	found := map[string]map[string]bool{}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		unzipped, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(unzipped)
		lines.Buffer(nil, 8<<20)
		for lines.Scan() {
			var c struct{ Job Job }
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				t.Fatal(err)
			}
			for library, r := range onFormerStack(c.Job.Training.Versions) {
				if found[library] == nil {
					found[library] = map[string]bool{}
				}
				found[library][r] = true
			}
		}
		if err := lines.Err(); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	lists := map[string][]string{}
	for library, of := range found {
		lists[library] = slices.SortedFunc(maps.Keys(of), byRelease)
	}
	return lists
}

func byRelease(a, b string) int {
	v, _ := release.Parse(a)
	w, _ := release.Parse(b)
	switch {
	case v.Before(w):
		return -1
	case w.Before(v):
		return 1
	}
	return order.Compare(a, b)
}

// hold moves the thresholds that a trace, which its replay equals, is the witness of.
func (h *thresholds) hold(key string, c *traced) *difference {
	if *update {
		h.look(key, c)
		return nil
	}
	told := h.of[key]
	delete(h.of, key)
	for _, s := range told {
		if c.equalWithout(s) {
			return &difference{"a threshold", fmt.Sprintf("%s: it is equal with the threshold moved past its release, too", s)}
		}
	}
	return nil
}

// look makes a trace the witness of what it is the first of its release to show. One that no longer shows what it did
// makes room.
func (h *thresholds) look(key string, c *traced) {
	named := onFormerStack(c.Job.Training.Versions)
	for i := range h.sides {
		s := &h.sides[i]
		at := slices.Index(s.releases, named[s.change.Library])
		if at >= 0 && s.witnesses[at] == key && c.equalWithout(s) {
			s.witnesses[at] = ""
		}
		if at < 0 || slices.ContainsFunc(s.witnesses[:at+1], func(w string) bool { return w != "" }) {
			continue // a nearer release has one
		}
		if !c.equalWithout(s) {
			s.witnesses[at] = key
		}
	}
}

// equalWithout says whether the replay equals the trace with the change of the side in it that was not, or the other
// way round.
func (c *traced) equalWithout(s *side) bool {
	in, steps := c.asked()
	in.Held = map[release.Switch]bool{s.change.Switch: !s.in}
	var got tape
	if err := Replay(in, &got, steps, false); err != nil {
		return false
	}
	return slices.Equal(ordered(c.Events), ordered(got.events)) && cmp.Equal(c.Aside, got.aside)
}

// end misses the witnesses that are in no file. With -update, which takes all traces, it writes the file.
func (h *thresholds) end(t *testing.T) {
	t.Helper()
	all := h.read == h.files
	if !*update {
		if all && !t.Failed() {
			for _, key := range slices.Sorted(maps.Keys(h.of)) {
				t.Errorf("%s names the trace %s, which is in no file", thresholdsFile, key)
			}
		}
		return
	}
	if !all {
		t.Fatalf("-update takes all traces, and %d of %d files were read", h.read, h.files)
	}
	var out strings.Builder
	for _, library := range slices.Sorted(maps.Keys(h.releases)) {
		fmt.Fprintf(&out, "traced of %s: %s\n", library, strings.Join(h.releases[library], ", "))
	}
	for i := range h.sides {
		s := &h.sides[i]
		s.witness = noTrace
		for n, key := range s.witnesses {
			if key != "" {
				s.witness = s.releases[n] + " " + key
				break
			}
		}
		fmt.Fprintf(&out, "%s | %s\n", s, s.witness)
	}
	if err := os.WriteFile(thresholdsFile, []byte(out.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}
