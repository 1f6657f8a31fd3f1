package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
)

// TestRecordedIsCompared: what cases want is listed once for each model, and a recording is held against its family.
func TestRecordedIsCompared(t *testing.T) {
	family := filepath.Join("..", "testdata", "recordings", "family")
	text, err := os.ReadFile(filepath.Join(family, "configs.json"))
	if err != nil {
		t.Fatal(err)
	}
	var configs map[string]json.RawMessage
	if err := json.Unmarshal(text, &configs); err != nil {
		t.Fatal(err)
	}
	given := func(id, change string) Case {
		c := Case{ID: id, Job: estimator.Job{Model: estimator.Model{HFConfig: configs["llama"]}}}
		c.Job.Training = estimator.Training{MicroBatch: 2, SequenceLength: 128, Precision: "amp-bf16"}
		if err := json.Unmarshal([]byte(change), &c.Job.Training); err != nil {
			t.Fatal(err)
		}
		c.name()
		return c
	}
	cases := []Case{given("autocast", `{}`), given("bf16", `{"precision":"bf16","sequence_length":64}`),
		given("checkpointed", `{"gradient_checkpointing":"full"}`), given("compiled", `{"compile":true}`)}
	var listed bytes.Buffer
	if err := writeWanted(&listed, cases, false); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(listed.String()), "\n")
	if len(lines) != 2 {
		t.Fatalf("%d models are wanted of two that differ in their cache:\n%s", len(lines), listed.String())
	}
	var wanted Wanted
	if err := json.Unmarshal([]byte(lines[0]), &wanted); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(wanted.Precisions, ",") + " " + string(must(json.Marshal(wanted.Tokens))); got !=
		"amp,half [128,64]" {
		t.Errorf("the first is wanted in %s", got)
	}
	dir := t.TempDir()
	recorded, err := os.ReadFile(filepath.Join(family, "llama.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, wanted.ID+".json"), recorded, 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := compareRecorded(dir, cases, false)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	r.Print(&out)
	for _, want := range []string{"| all | 3 | 2 | 100.0 % | 100.0 % | - |",
		"1 rows without: the recorder: there is no recording"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not said:\n%s", want, out.String())
		}
	}
	if broken := r.Broken(); len(broken) > 0 {
		t.Errorf("broken: %v", broken)
	}
	r.Rows[0].Shown += r.Rows[0].Shown / 50
	if broken := r.Broken(); len(broken) != 2 {
		t.Errorf("a recording that is 2 %% off breaks %v", broken)
	}
}

func must(text []byte, _ error) []byte { return text }
