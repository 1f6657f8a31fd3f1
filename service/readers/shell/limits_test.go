package shell

import (
	"errors"
	"strings"
	"testing"
)

// A script that is more than is read is called by what there is too much of: a thousand branches one after the other
// nest nowhere.
func TestLimitsAreNamed(t *testing.T) {
	for what, script := range map[string]string{
		"the number of branches":   strings.Repeat("if true; then x=1; fi\n", 2001),
		"the number of loops":      strings.Repeat("while false; do x=1; done\n", 1001),
		"the number of backquotes": strings.Repeat("x=`date`\n", 201),
		"the number of !":          strings.Repeat("! x=1\n", 4001),
		"nested brackets":          strings.Repeat("$(", 201),
	} {
		_, err := Read(t.Context(), Input{Name: "job.sh", Text: []byte(script)})
		limit, ok := errors.AsType[*LimitError](err)
		if !ok || limit.What != what {
			t.Errorf("%q is too much: %v", what, err)
		}
	}
}
