package estimator

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestSideBySide: estimates that run at the same time, of the same job and of others, share workspaces, tables and
// replays, and say what they say alone. It is what the race detector looks at in this package.
func TestSideBySide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type asked struct {
			in   Input
			want *Result
			err  error
		}
		jobs := make([]asked, 3)
		for i := range jobs {
			one := &jobs[i]
			one.in = Input{Job: randomJob(t)}
			for _, name := range []string{"rtx-4090", "h100-sxm5"} {
				card := tracedGPUs[name]
				card.ID, card.UsableBytes = name, 20<<30
				one.in.GPUs = append(one.in.GPUs, card)
			}
			one.want, one.err = Estimate(one.in)
		}
		replays := NewReplays()
		var all sync.WaitGroup
		for range 2 {
			for _, one := range jobs {
				all.Go(func() {
					got, err := replays.Estimate(one.in)
					if (err == nil) != (one.err == nil) {
						t.Errorf("alone %v, beside others %v", one.err, err)
					} else if diff := cmp.Diff(one.want, got); diff != "" {
						t.Errorf("the answer differs (-alone +beside others):\n%s", diff)
					}
				})
			}
		}
		all.Wait()
	})
}
