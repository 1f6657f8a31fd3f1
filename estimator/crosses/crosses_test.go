package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/oracle/traced"
)

const nano = `{"model": {"nanogpt": {"n_layer": 2, "n_head": 2, "n_embd": 64, "block_size": 64, "vocab_size": 100}},
	"training": {"micro_batch": 2}}`

// trace is what the oracle would write, had PyTorch done what is replayed.
func trace(t *testing.T, id, job string) map[string]any {
	t.Helper()
	c := traced.Job{ID: id, Card: [2]int{80, 108}}
	if err := json.Unmarshal([]byte(job), &c.Job); err != nil {
		t.Fatal(err)
	}
	events, err := c.Replayed(nil)
	if err != nil {
		t.Fatal(err)
	}
	line := map[string]any{"id": id, "job": json.RawMessage(job), "card": c.Card, "names": []string{"forward mm h.1"}}
	signed, what := make([]int64, len(events)), make([]int, len(events))
	for i, e := range events {
		signed[i] = e.Bytes
	}
	line["events"], line["what"] = signed, what
	return line
}

func write(t *testing.T, lines ...map[string]any) string {
	t.Helper()
	var text []byte
	for _, line := range lines {
		encoded, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, encoded...), '\n')
	}
	path := filepath.Join(t.TempDir(), "events.jsonl")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestCrosses tells equal, unequal and refused jobs apart, and keeps the equal ones.
func TestCrosses(t *testing.T) {
	equal, larger, refused := trace(t, "equal", nano), trace(t, "larger", nano), trace(t, "refused", nano)
	events := larger["events"].([]int64)
	at := len(events) / 2
	for events[at] < 0 {
		at++
	}
	larger["events"] = append(append(events[:at:at], 1<<30, -1<<30), events[at:]...)
	larger["what"] = make([]int, len(events)+2)
	refused["job"] = json.RawMessage(`{"model": {"hf_config": {"model_type": "nothing"}}, "training": {"micro_batch": 1}}`)
	kept := filepath.Join(t.TempDir(), "kept.jsonl")
	var out, errs bytes.Buffer
	if code := run([]string{"-equal", kept, write(t, equal, larger, refused)}, &out, &errs); code != 1 {
		t.Errorf("unequal crosses exit with 1, not %d: %s", code, errs.String())
	}
	for _, want := range []string{"larger: peak -", "traced     +1073741824  forward mm h.1", "refused: refused: ",
		"3 crosses: 1 equal, 1 unequal, 1 refused"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not said:\n%s", want, out.String())
		}
	}
	if strings.Contains(out.String(), "    replayed") {
		t.Errorf("nothing is replayed that was not traced:\n%s", out.String())
	}
	text, err := os.ReadFile(kept)
	if err != nil || strings.Count(string(text), "\n") != 1 || !strings.Contains(string(text), `"equal"`) {
		t.Errorf("the equal trace is kept, not %.80q (%v)", text, err)
	}
}

// TestUnreadable refuses what is no trace.
func TestUnreadable(t *testing.T) {
	whole := trace(t, "a", nano)
	for name, change := range map[string]func(map[string]any){
		"no card":   func(m map[string]any) { delete(m, "card") },
		"no events": func(m map[string]any) { delete(m, "events") },
		"names":     func(m map[string]any) { m["names"] = []string{} },
		"what":      func(m map[string]any) { m["what"] = []int{0} },
	} {
		line := map[string]any{}
		for k, v := range whole {
			line[k] = v
		}
		change(line)
		var errs bytes.Buffer
		if code := run([]string{write(t, line)}, &errs, &errs); code != 2 {
			t.Errorf("%s: exit %d: %s", name, code, errs.String())
		}
	}
	if code := run(nil, &bytes.Buffer{}, &bytes.Buffer{}); code != 2 {
		t.Error("no files are an error")
	}
}

// TestInequalitiesAreAll says that what differs and what is equal together are both lists.
func TestInequalitiesAreAll(t *testing.T) {
	list := rapid.SliceOf(rapid.Custom(func(t *rapid.T) estimator.Event {
		return estimator.Event{Bytes: rapid.Int64Range(-3, 3).Draw(t, "bytes")}
	}))
	rapid.Check(t, func(t *rapid.T) {
		a, b := list.Draw(t, "traced"), list.Draw(t, "replayed")
		left, right := len(a), len(b)
		for _, d := range inequalities(a, b) {
			left, right = left-len(d.traced), right-len(d.replayed)
		}
		if left != right {
			t.Fatalf("%d events of one list are equal to %d of the other", left, right)
		}
	})
}
