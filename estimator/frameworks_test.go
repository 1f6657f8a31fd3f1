package estimator

import (
	"reflect"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/frameworks"
)

// TestEveryFrameworkSaysEverything fails when a row lacks a property.
func TestEveryFrameworkSaysEverything(t *testing.T) {
	var walk func(name string, v reflect.Value)
	walk = func(name string, v reflect.Value) {
		for i := range v.NumField() {
			field, what := v.Field(i), v.Type().Field(i)
			switch {
			case what.Anonymous:
				walk(name, field)
			case field.IsZero():
				t.Errorf("%s does not say %s", name, what.Name)
			}
		}
	}
	for name, row := range frameworks.Frameworks {
		walk(name, reflect.ValueOf(*row))
	}
}

// TestLossWithAdaptersOfLitGPT: its head runs by itself then, and the replay of a loss that takes it is refused.
func TestLossWithAdaptersOfLitGPT(t *testing.T) {
	job := gpt2Job()
	job.Model = Model{HFConfig: []byte(`{"model_type":"llama","num_hidden_layers":2}`)}
	job.Training.Framework, job.Training.LoRA = "litgpt", &LoRA{Rank: 8}
	job.Training.Loss = &Loss{Kind: "fused-linear"}
	if _, err := Estimate(Input{Job: job}); err == nil || !strings.Contains(err.Error(), "fused-linear") {
		t.Errorf("a fused-linear loss of litgpt's with adapters: %v", err)
	}
}
