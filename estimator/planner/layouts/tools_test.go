package layouts

import (
	"slices"
	"testing"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner/samples"
)

// What torchtitan cannot be asked for is no layout of torchtitan's.
func TestLayoutsOfOtherOptimizers(t *testing.T) {
	for name, runs := range map[string]bool{"": true, "adamw": true, "adamw-8bit": false, "muon": false} {
		in := estimator.Input{Job: estimator.Job{Model: samples.Llama(4)}}
		in.Job.Training.Optimizer = &estimator.Optimizer{Name: name}
		if got := slices.Contains(layoutTools(in), "torchtitan"); got != runs {
			t.Errorf("with the optimizer %q torchtitan's layouts are looked at: %t", name, got)
		}
	}
}
