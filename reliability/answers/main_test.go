package main

import (
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// put writes a file below root, zipped where its name says so.
func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, ".gz") {
		w := gzip.NewWriter(f)
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	} else if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestMakeAndCompare: the same tree gives the same bytes, and what changed is found and named.
func TestMakeAndCompare(t *testing.T) {
	const (
		wrong = `{"id":"wrong","job":{"model":{"hf_config":{"model_type":"gpt2"}},"training":{"micro_batch":-1}}}` + "\n"
		small = `{"id":"small","job":{"model":{"hf_config":{"model_type":"gpt2","n_layer":2}},"training":{"micro_batch":1,` +
			`"sequence_length":64,"precision":"fp32","versions":{"torch":"2.15.0"}}}}` + "\n"
	)
	first, second, folder := t.TempDir(), t.TempDir(), t.TempDir()
	put(t, first, "estimator/testdata/a.jsonl", `{"id":"no job"}`+"\n"+wrong)
	put(t, first, "estimator/testdata/traces/b.jsonl.gz", small)
	put(t, first, "elsewhere/c.jsonl", small)
	put(t, second, "estimator/testdata/traces/b.jsonl.gz", strings.Replace(small, `"fp32"`, `"bf16"`, 1))
	call := func(args ...string) (string, error) {
		var out strings.Builder
		err := run(t.Context(), args, &out)
		return out.String(), err
	}
	of := map[string]string{}
	for name, root := range map[string]string{"first": first, "again": first, "second": second} {
		of[name] = filepath.Join(folder, name)
		said, err := call("make", "-jobs", root, "-cards", "^(Tesla T4|H100 SXM5 80GB)$", of[name])
		if err != nil {
			t.Fatal(err)
		}
		want := "3 jobs on 2 cards: 6 answers"
		if name == "second" {
			want = "1 jobs on 2 cards: 2 answers"
		}
		if !strings.Contains(said, want) {
			t.Errorf("%s: it says %q", name, said)
		}
	}
	if said, err := call("compare", of["first"], of["again"]); err != nil ||
		said != "6 answers are the same, 0 differ, of 0 jobs\n" {
		t.Errorf("got %v, %q", err, said)
	}
	said, err := call("compare", of["first"], of["second"])
	if err == nil {
		t.Error("two trees that answer otherwise pass")
	}
	for _, part := range []string{"estimator/testdata/traces/b.jsonl.gz:1 small on Tesla T4\n",
		"/assumed/precision: \"fp32\", then \"bf16\"",
		"0 answers are the same, 2 differ, of 1 jobs, 4 are in the first file alone",
		"2 times /assumed/precision"} {
		if !strings.Contains(said, part) {
			t.Errorf("it does not say %q:\n%s", part, said)
		}
	}
	// Plans of every third job, in turn a whole one, a brief one and layouts.
	planned := filepath.Join(folder, "planned")
	if said, err := call("make", "-jobs", first, "-plans", "3", "-cards", "^(Tesla T4|H100 SXM5 80GB)$",
		planned); err != nil || !strings.Contains(said, "1 jobs on 2 cards: 2 answers") {
		t.Errorf("got %v, %q", err, said)
	}
	if said, err := call("compare", planned, planned); err != nil || !strings.HasPrefix(said, "2 answers are the same") {
		t.Errorf("got %v, %q", err, said)
	}
	for _, args := range [][]string{{}, {"make", "-plans", "-1", "x"}, {"make"}, {"compare", of["first"]}, {"make", "-cards", "no such card", "x"}} {
		if _, err := call(args...); err == nil {
			t.Errorf("%v passes", args)
		}
	}
}
