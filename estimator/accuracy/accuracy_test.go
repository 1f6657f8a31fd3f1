package main

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vramplan/vramplan/estimator/calibration"
)

var update = flag.Bool("update", false, "write docs/lab/accuracy.md anew")

const page = "../../docs/lab/accuracy.md"

func read(t *testing.T) []Case {
	t.Helper()
	files, err := filepath.Glob("testdata/*.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := Read(files...)
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

// TestPromises fails when a reference case leaves its band, and when the published page is not the one that the
// estimator makes.
func TestPromises(t *testing.T) {
	cases := read(t)
	report := Score(cases)
	for _, b := range report.Broken() {
		t.Error(b)
	}
	var made bytes.Buffer
	published, err := readPublished("../..")
	if err != nil {
		t.Fatal(err)
	}
	several, err := readSeveral("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range several.Broken() {
		t.Error(b)
	}
	undescribed, err := readUndescribed("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range undescribed.Broken() {
		t.Error(b)
	}
	for _, b := range published.Broken() {
		t.Error(b)
	}
	calibrated, err := readCalibrated("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range calibrated.Broken() {
		t.Error(b)
	}
	ranks, err := readRanks("../..")
	if err != nil {
		t.Fatal(err)
	}
	today, err := readToday("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range today.Broken() {
		t.Error(b)
	}
	report.Document(&made, today, published, several, ranks, undescribed, calibrated, 10)
	if *update {
		if err := os.WriteFile(page, made.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(committed), made.String()); diff != "" {
		t.Errorf("%s is not what the estimator makes; run go test ./estimator/accuracy -update (-published +made):\n%s",
			page, diff)
	}
}

// TestRanks holds the answers about several GPUs against traced ranks of DeepSpeed, transformers' Trainer, torchtitan
// and PyTorch.
func TestRanks(t *testing.T) {
	ranks, err := readRanks("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range ranks.Broken() {
		t.Error(b)
	}
	answered := map[string]bool{}
	for _, row := range ranks.answered() {
		answered[row.ID] = true
	}
	for _, row := range ranks.rows {
		if !answered[row.ID] && !strings.Contains(row.ID, "-interleaved-") && !strings.HasPrefix(row.ID, "hfplan") {
			t.Errorf("%s is not answered: %v", row.ID, row.Failure)
		}
	}
	off := &Ranks{rows: slices.Clone(ranks.answered())}
	for i := range off.rows {
		off.rows[i].Allocated += 0.04
	}
	if len(off.Broken()) == 0 {
		t.Error("ranks that are 4 % off break no promise")
	}
}

// TestBandsBite shows that the promises can be broken.
func TestBandsBite(t *testing.T) {
	cases := read(t)
	for name, spoil := range map[string]func(*Case){
		"one row off by 2 %":        func(c *Case) { c.Truth.AllocatedBytes = c.Truth.AllocatedBytes * 102 / 100 },
		"one wrong parameter count": func(c *Case) { c.Truth.Parameters++ },
		"one job without an answer": func(c *Case) { c.Job.Training.MicroBatch = -1 },
	} {
		few := append([]Case(nil), cases[:12]...)
		spoil(&few[0])
		if len(Score(few).Broken()) == 0 {
			t.Errorf("%s: no promise was broken", name)
		}
	}
	few := append([]Case(nil), cases[:12]...)
	for i := range 3 {
		few[i].Truth.ReservedBytes = few[i].Truth.ReservedBytes * 110 / 100
	}
	if len(Score(few).Broken()) == 0 {
		t.Error("a quarter of the reserved bytes off by 10 %: no promise was broken")
	}

	far := &Published{Above: 1, Contradicted: []string{"a run"}}
	for range 10 {
		e := []seriesError{{"one", 0.2}}
		far.Allocated, far.Reserved, far.Device = append(far.Allocated, e...), append(far.Reserved, e...),
			append(far.Device, e...)
	}
	if got := len(far.Broken()); got != 6 {
		t.Errorf("published runs off by 20 %%, one over its bound and one contradicted: %d promises broken, want 6",
			got)
	}

	worse := &Calibrated{}
	worse.BySeries.All.Fitted = calibration.Outcome{Within: 0.8, Contradicted: 1}
	if got := len(worse.Broken()); got != 3 {
		t.Errorf("a calibration that is worth nothing: %d promises broken, want 3", got)
	}
}

// TestKinds holds the answers about other kinds of training against traced runs of their own trainers.
func TestKinds(t *testing.T) {
	kinds, err := readKinds("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range kinds.Broken() {
		t.Error(b)
	}
}
