package estimator

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// rowsOfTraces are the jobs of the rows below testdata, so manyth of each file, as they are written.
func rowsOfTraces(t *testing.T, every int) []json.RawMessage {
	t.Helper()
	var jobs []json.RawMessage
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(path, "testdata") || !strings.Contains(path, ".jsonl") {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		text := io.Reader(f)
		if strings.HasSuffix(path, ".gz") {
			if text, err = gzip.NewReader(f); err != nil {
				return err
			}
		}
		lines := bufio.NewScanner(text)
		lines.Buffer(nil, 64<<20)
		for n := 0; lines.Scan(); {
			var row struct {
				Job json.RawMessage `json:"job"`
			}
			if json.Unmarshal(lines.Bytes(), &row) != nil || row.Job == nil ||
				bytes.Contains(row.Job, []byte(`"preset"`)) {
				continue
			}
			if n++; n%every == 0 {
				jobs = append(jobs, row.Job)
			}
		}
		return lines.Err()
	})
	if err != nil || len(jobs) < 100 {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	return jobs
}

// answerTo is what a job takes, and what it was taken to be; nil for a job that is refused.
func answerTo(j Job) (res *Result, err error) { return Judge(Input{Job: j}) }

func asJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// saidAsNothing puts objects that say nothing where there are none, as {"compile": false} does.
func saidAsNothing(t *Training) {
	if t.Compile == nil {
		t.Compile = &Compile{}
	}
	if t.States == nil {
		t.States = &States{}
	}
	if t.Allocator == nil {
		t.Allocator = &Allocator{}
	}
	if t.Loss == nil {
		t.Loss = &Loss{}
	}
	if t.Dropout == nil {
		t.Dropout = &Dropout{}
	}
}

// A job that says what it was taken to be has the same bytes and bounds, and leaves nothing to assume. Rows of traces
// are the jobs, and the fields that are left out of each are drawn. Of two of them, completed alike, the bytes are
// alike: what is assumed is all that decides.
func TestCompletedJobsAreTheSame(t *testing.T) {
	jobs := rowsOfTraces(t, 7)
	answered := 0
	rapid.Check(t, func(rt *rapid.T) {
		var whole map[string]json.RawMessage
		var training map[string]json.RawMessage
		if json.Unmarshal(rapid.SampledFrom(jobs).Draw(rt, "job"), &whole) != nil ||
			json.Unmarshal(whole["training"], &training) != nil {
			rt.Fatal("a row's job cannot be read")
		}
		less := func(name string) (j Job, ok bool) {
			rest := maps.Clone(training)
			for _, field := range slices.Sorted(maps.Keys(training)) {
				if field != "micro_batch" && field != "sequence_length" && rapid.IntRange(0, 2).Draw(rt, name+" without "+field) == 0 {
					delete(rest, field)
				}
			}
			return j, json.Unmarshal([]byte(asJSON(map[string]any{"model": whole["model"], "training": rest})), &j) == nil
		}
		first, ok := less("first")
		second, also := less("second")
		if !ok || !also {
			return
		}
		a, err := answerTo(first)
		if err != nil {
			return // it lacks what it needs
		}
		answered++
		said := first
		said.Training = Training{}
		if err := json.Unmarshal([]byte(asJSON(a.Assumed.Training)), &said.Training); err != nil {
			rt.Fatalf("%s\nis completed as what cannot be read: %v", asJSON(first), err)
		}
		saidAsNothing(&said.Training)
		b, err := answerTo(said)
		if err != nil {
			rt.Fatalf("%s\ncompleted is refused: %v\n%s", asJSON(first), err, asJSON(said.Training))
		}
		if asJSON(a.Peak) != asJSON(b.Peak) {
			rt.Fatalf("%s\ntakes %s\nand completed %s:\n%s", asJSON(first), asJSON(a.Peak), asJSON(b.Peak),
				asJSON(said.Training))
		}
		if was, is := asJSON(a.Assumed), asJSON(b.Assumed); was != is {
			rt.Fatalf("%s\nis taken as %s\nand completed as %s", asJSON(first), was, is)
		}
		if c, err := answerTo(second); err == nil && asJSON(a.Assumed) == asJSON(c.Assumed) &&
			asJSON(a.Peak) != asJSON(c.Peak) {
			rt.Fatalf("%s\nand %s\nare both taken as %s, and take %s and %s", asJSON(first), asJSON(second),
				asJSON(a.Assumed), asJSON(a.Peak), asJSON(c.Peak))
		}
	})
	t.Logf("%d jobs were answered", answered)
}
