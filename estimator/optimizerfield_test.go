package estimator

import (
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vramplan/vramplan/estimator/resolve/fields"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// TestEveryOptimizerCanBeNamed holds the enums of the job document against the table of optimizers, and asks for each
// of them.
func TestEveryOptimizerCanBeNamed(t *testing.T) {
	accepted := func(field string) []string {
		f, _ := reflect.TypeFor[Optimizer]().FieldByName(field)
		list := regexp.MustCompile(`oneof=(.*)$`).FindStringSubmatch(f.Tag.Get("validate"))
		return slices.Sorted(slices.Values(strings.Fields(list[1])))
	}
	names := slices.Sorted(slices.Values(fields.OptimizerNames(func(*optim.Optimizer) bool { return true })))
	if got := accepted("Name"); !slices.Equal(got, names) {
		t.Errorf("a job may name %v, and the table has %v", got, names)
	}
	known := map[string]bool{}
	for _, name := range names {
		for _, i := range append(fields.Implementations(name), "") {
			if i != "" {
				known[i] = true
			}
			job := gpt2Job()
			job.Training.Optimizer = &Optimizer{Name: name, Implementation: i}
			res := mustEstimate(t, Input{Job: job})
			if how := component(res, "optimizer_state").How; how == "" || strings.Contains(how, "%!") ||
				strings.Contains(how, "%s") {
				t.Errorf("%s by %q: the states are %q", name, i, how)
			}
		}
	}
	for _, i := range accepted("Implementation") {
		if !known[i] {
			t.Errorf("a job may name the implementation %s, and no row has it", i)
		}
	}
}
