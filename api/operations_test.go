package api_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const operationsPage = "../docs/operations.md"

// Every metric is explained, and what is explained is there.
func TestEveryMetricIsDocumented(t *testing.T) {
	declared, documented := metricNames(t), map[string]bool{}
	for line := range strings.Lines(textOf(t, operationsPage)) {
		if strings.HasPrefix(line, "| `vramplan_") {
			names, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " |")
			for name := range strings.SplitSeq(names, ", ") {
				documented[strings.Trim(name, "`")] = true
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(declared)); !slices.Equal(got, want) {
		t.Errorf("documented are %q\ndeclared are %q", got, want)
	}
}

// Every alert asks for metrics that there are, and has a page that says what to do.
func TestEveryAlertHasARunbook(t *testing.T) {
	rules, page, declared := textOf(t, "../deploy/prometheus/alerts.yaml"), textOf(t, operationsPage), metricNames(t)
	alerts := regexp.MustCompile(`(?m)^ +- alert: (\w+)$`).FindAllStringSubmatch(rules, -1)
	headings := regexp.MustCompile(`(?m)^### (Vramplan\w+)$`).FindAllStringSubmatch(page, -1)
	if len(alerts) == 0 || len(alerts) != len(headings) {
		t.Errorf("%d alerts, %d pages", len(alerts), len(headings))
	}
	for _, alert := range alerts {
		if !strings.Contains(page, "\n### "+alert[1]+"\n") {
			t.Errorf("%s has no page", alert[1])
		}
	}
	for _, name := range regexp.MustCompile(`vramplan_\w+`).FindAllString(rules, -1) {
		if !declared[strings.TrimSuffix(name, "_bucket")] {
			t.Errorf("the rules ask for %s, which is not there", name)
		}
	}
}

// metricNames are the names in the sources: a metric with labels shows itself to
// Prometheus only once it has a value.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	var files []string
	for _, folder := range []string{".", "../service/workplace"} {
		found, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	names := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, name := range regexp.MustCompile(`"(vramplan_[a-z_]+)"`).FindAllStringSubmatch(textOf(t, file), -1) {
			names[name[1]] = true
		}
	}
	return names
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
