package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/vramplan/vramplan/estimator/release"
	"github.com/vramplan/vramplan/oracle/drift/result"
	"github.com/vramplan/vramplan/oracle/traced"
)

// replayedWith writes what a stack without one row would have traced, had PyTorch done what is replayed.
func replayedWith(t *testing.T, held map[release.Switch]bool, besides ...int64) string {
	t.Helper()
	j := traced.Job{ID: "llama", Card: [2]int{80, 108}, Names: []string{"forward mm.default model.layers.1.mlp"}}
	given := `{"model": {"hf_config": {"model_type": "llama", "hidden_size": 64, "intermediate_size": 96,
		"num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 100}},
		"training": {"micro_batch": 2, "sequence_length": 16}}`
	if err := json.Unmarshal([]byte(given), &j.Job); err != nil {
		t.Fatal(err)
	}
	events, err := j.Replayed(held)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		j.Events, j.What = append(j.Events, e.Bytes), append(j.What, 0)
	}
	for _, bytes := range besides {
		j.Events, j.What = append(j.Events, bytes), append(j.What, 0)
	}
	line, err := json.Marshal(j)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "traces.jsonl")
	if err := os.WriteFile(path, line, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func answer(t *testing.T, path string) result.Stack {
	t.Helper()
	var out, errs bytes.Buffer
	if code := run([]string{"-library", "transformers", "-stack", "between", path}, &out, &errs); code != 0 {
		t.Fatalf("code %d: %s", code, errs.String())
	}
	var s result.Stack
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// TestRows tells the rows that a stack has from those that it has not.
func TestRows(t *testing.T) {
	s := answer(t, replayedWith(t, map[release.Switch]bool{"multiplies-angles": false}))
	if s.Jobs != 1 || s.Equal != 1 || len(s.Unexplained) > 0 {
		t.Errorf("%+v", s)
	}
	want := map[string][2]int{"multiplies-angles": {0, 1}, "keeps-frequencies": {1, 0}, "sums-mask": {1, 0}}
	for row, counts := range want {
		i := slices.IndexFunc(s.Rows, func(r result.Row) bool { return r.Switch == row })
		if i < 0 || s.Rows[i].With != counts[0] || s.Rows[i].Without != counts[1] {
			t.Errorf("%s: %+v", row, s.Rows)
			continue
		}
		if len(s.Rows[i].Moved) == 0 || s.Rows[i].Moved[0] != "forward mm.default model.layers.*.mlp" {
			t.Errorf("%s moves %q", row, s.Rows[i].Moved)
		}
	}
}

// TestUnexplained names what moved as no row says.
func TestUnexplained(t *testing.T) {
	s := answer(t, replayedWith(t, nil, 123456, -123456))
	if s.Equal != 0 || !slices.Equal(s.Unequal, []string{"llama"}) ||
		!slices.Equal(s.Unexplained, []string{"forward mm.default model.layers.*.mlp"}) {
		t.Errorf("%+v", s)
	}
}

// TestUsage: a library without such rows, no file, or a file of something else ends in 2.
func TestUsage(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.jsonl")
	if err := os.WriteFile(bad, []byte("{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{}, {"-stack", "x"}, {"-stack", "x", "-library", "numpy", bad},
		{"-stack", "x", bad}, {"-stack", "x", bad + ".gone"}} {
		var out, errs bytes.Buffer
		if code := run(args, &out, &errs); code != 2 || errs.Len() == 0 {
			t.Errorf("%q: code %d, %q", args, code, errs.String())
		}
	}
}
