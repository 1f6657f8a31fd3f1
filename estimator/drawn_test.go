package estimator

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"
)

// TestDrawn holds the jobs of testdata/drawn.jsonl, each of which a random test once failed with, against what random
// tests hold all jobs against. A row names the refusal of a job that is refused by now.
func TestDrawn(t *testing.T) {
	f, err := os.Open("testdata/drawn.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows := 0
	for lines := bufio.NewScanner(f); lines.Scan(); rows++ {
		var row struct {
			Found   string `json:"found"`
			Refused string `json:"refused"`
			Job     Job    `json:"job"`
		}
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			t.Fatal(err)
		}
		t.Run(row.Found, func(t *testing.T) {
			if row.Refused != "" {
				if !refusedFor(row.Job, row.Refused) {
					t.Errorf("it is not refused for %s alone", row.Refused)
				}
				return
			}
			in := Input{Job: row.Job}
			ledgerEqualsReplay(t, in, true)
			ledgerEqualsReplay(t, in, false)
			nothingIsForgotten(t, in)
			leavesWhatTheFormerStepLeft(t, in)
			foldedEqualsPlain(t, in)
		})
	}
	if rows == 0 {
		t.Error("no rows")
	}
}
