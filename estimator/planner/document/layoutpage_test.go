package document

import "testing"

// That nothing fits is said with what was not looked at: layouts that may fit, that there was no work left for.
func TestNoLayoutSaysWhy(t *testing.T) {
	for code, want := range map[string]string{"tight": "No layout fits for sure on 16 GPUs. A with torchtitan may: it why.",
		"not_asked": "None of the 5 layouts looked at fits on 16 GPUs; 3 were not looked at.",
		"batch":     "No layout fits on 16 GPUs."} {
		p := &Plan{Layouts: &Layouts{GPUs: 16, LeftOut: []LeftOutLayout{
			{Count: 5, Code: "does_not_fit"},
			{Name: "A", Framework: "torchtitan", Count: 3, Code: code, Reason: "why"}}}}
		if got := p.noLayout(); got != want {
			t.Errorf("%s: %s", code, got)
		}
	}
}
