package estimator

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/vramplan/vramplan/estimator/release"
)

// besides are the releases on both sides of the thresholds of a change.
func besides(c *release.Change) []string {
	var at []string
	for _, threshold := range []string{c.From, c.To} {
		v, given := release.Parse(threshold)
		if !given {
			continue
		}
		before := fmt.Sprintf("%d.%d", v.Major, v.Minor-1)
		if v.Minor == 0 {
			before = fmt.Sprintf("%d.99", v.Major-1)
		}
		at = append(at, before, threshold)
	}
	if c.After != "" {
		at = append(at, c.After)
	}
	return at
}

// TestReleasesBesideTheTracedAreInDoubt asks for the releases beside every threshold of the table. Of torch and
// transformers only the traced ones are without doubt, whatever they change; of other libraries a release that changes
// the answer is in doubt, but for that of the reference.
func TestReleasesBesideTheTracedAreInDoubt(t *testing.T) {
	changes, reference := release.Changes(), release.Stacks()[0].Releases
	for i := range changes {
		c := &changes[i]
		for _, r := range besides(c) {
			t.Run(c.Library+" "+r+" "+string(c.Switch), func(t *testing.T) {
				decides := c.Library == "torch" || c.Library == "transformers" // whatever the job
				for name, text := range wordJobs {
					if decides && name != "plain" {
						continue
					}
					ask := func(release string) (Peak, bool, error) {
						job := map[string]any{"training": map[string]any{}}
						if err := json.Unmarshal([]byte(text), &job); err != nil {
							t.Fatal(err)
						}
						versions := map[string]string{"torch": reference["torch"], "transformers": reference["transformers"]}
						versions[c.Library] = release
						job["training"].(map[string]any)["versions"] = versions
						return answered(t, job)
					}
					with, doubted, err := ask(r)
					if err != nil || doubted {
						continue
					}
					if decides {
						if !slices.ContainsFunc(release.Stacks(), func(s release.Stack) bool {
							return same(s.Releases[c.Library], r)
						}) {
							t.Errorf("%s: no stack has that release, and it is in no doubt", name)
						}
						continue
					}
					if as, _, err := ask(reference[c.Library]); err != nil || with != as {
						t.Errorf("%s: it changes the answer (%v) and is in no doubt", name, err)
					}
				}
			})
		}
	}
}

// same says whether two releases have the same first two numbers.
func same(a, b string) bool {
	v, _ := release.Parse(a)
	w, _ := release.Parse(b)
	return v == w
}
