package decision_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service"
	"github.com/vramplan/vramplan/service/decision"
)

// published are runs on real cards that people reported, with the card's name in the catalog.
const published = "../../estimator/accuracy/testdata/measured/one-gpu.jsonl"

// No published run that went well would have been refused, and most of those that ran out of
// memory would. go test ./service/decision -run Published -v prints the counts, which docs/hooks.md has.
func TestPublishedRuns(t *testing.T) {
	text, err := os.ReadFile(published)
	if err != nil {
		t.Fatal(err)
	}
	s := service.New(service.EmbeddedCatalog())
	ran, failed := map[string]int{}, map[string]int{}
	for line := range strings.Lines(string(text)) {
		var run struct {
			ID       string           `json:"id"`
			Job      estimator.Job    `json:"job"`
			GPU      string           `json:"gpu"`
			Measured map[string]int64 `json:"measured"`
		}
		if err := json.Unmarshal([]byte(line), &run); err != nil {
			t.Fatal(err)
		}
		if run.GPU == "" {
			continue
		}
		run.Job.GPUs = []estimator.GPURef{{Name: run.GPU}}
		verdict := decision.NoVerdict
		if result, err := s.Estimate(t.Context(), run.Job, service.EstimateOptions{}); err == nil {
			verdict = string(decision.Best(result.GPUs).Verdict)
		}
		counts := ran
		if run.Measured["oom_in_bytes"] > 0 {
			counts = failed
		} else if verdict == string(estimator.DoesNotFit) {
			t.Errorf("%s ran on %s and would have been refused", run.ID, run.GPU)
		}
		counts[verdict]++
	}
	t.Logf("that ran: %v; that ran out of memory: %v", ran, failed)
	if len(ran) == 0 || len(failed) == 0 {
		t.Error("there are not both kinds of runs")
	}
	if caught, all := failed[string(estimator.DoesNotFit)], sum(failed); 10*caught < 9*all {
		t.Errorf("of %d runs that ran out of memory %d would have been refused, want nine in ten", all, caught)
	}
}

func sum(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}
