package jobdoc_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/jobdoc"
)

// TestEveryRuleIsChecked holds the reader, which leaves out the validator where it has seen that all rules are kept,
// against the validator: what the one takes, the other takes.
func TestEveryRuleIsChecked(t *testing.T) {
	numbers := []string{"-9007199254740991", "-5", "-1", "-0.5", "0", "0.5", "1", "2", "20", "21", "64", "257", "65537",
		"1048577", "16777217", "1e15"}
	texts := []string{`""`, `"none"`, `"x"`, `"` + strings.Repeat("x", 5000) + `"`}
	lists := []string{`[]`, `[1]`, `[1, 2]`, `[1, 2, 3]`, `[0, 2]`, `["x"]`, `["x", ""]`}
	values := slices.Concat(numbers, texts, lists)
	taken := 0
	for _, path := range leaves(reflect.TypeFor[estimator.Job](), nil, 0) {
		for _, value := range values {
			data := within(t, path, json.RawMessage(value))
			job, err := jobdoc.Decode(data)
			if err != nil {
				continue
			}
			taken++
			if err := jobdoc.Check(&job); err != nil {
				t.Errorf("%s is taken, and breaks a rule: %v", data, err)
			}
		}
	}
	if taken < 300 {
		t.Errorf("only %d documents were taken; their base is refused", taken)
	}
}

// leaves are the paths of all fields that are no objects.
func leaves(t reflect.Type, at []string, depth int) [][]string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct || depth == 8 {
		return nil
	}
	if t.Kind() != reflect.Struct {
		return [][]string{at}
	}
	var all [][]string
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); f.IsExported() && name != "" && name != "-" {
			all = append(all, leaves(f.Type, append(slices.Clone(at), name), depth+1)...)
		}
	}
	return all
}

// within is a job with one value at a path.
func within(t *testing.T, path []string, value any) []byte {
	t.Helper()
	job := map[string]any{
		"model":    map[string]any{"preset": "gpt2"},
		"training": map[string]any{"micro_batch": 1, "sequence_length": 8},
	}
	at := job
	for i, name := range path {
		if i == len(path)-1 {
			at[name] = value
			break
		}
		inner, _ := at[name].(map[string]any)
		inner = maps.Clone(inner)
		if inner == nil {
			inner = map[string]any{}
		}
		at[name], at = inner, inner
	}
	data, err := json.Marshal(job)
	if err != nil {
		t.Fatal(fmt.Errorf("%v: %w", path, err))
	}
	return data
}
