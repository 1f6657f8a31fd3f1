package play

import (
	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"github.com/vramplan/vramplan/estimator/step/optim"
	"slices"
	"strings"
	"testing"
)

// TestOptimizersLeaveTheirStates runs every row twice over the same parameters: the first update makes the states, the
// second leaves nothing behind; and what a session adds up without playing is what it finds when it plays.
func TestOptimizersLeaveTheirStates(t *testing.T) {
	list := []step.Parameter{
		{Name: "embedding", Numel: 3000 * 64, Rows: 3000, Cols: 64},
		{Name: "matrix", Numel: 64 * 256, Rows: 64, Cols: 256, InLayer: true, First: true},
		{Name: "bias", Numel: 256, Rows: 256, Cols: 1, InLayer: true},
	}
	parameters := step.Parameters{List: list, LayerStart: len(list)}
	for _, clip := range []bool{false, true} {
		for i := range optim.Optimizers() {
			o := &optim.Optimizers()[i]
			t.Run(o.Name+"/"+strings.Join(o.Implementations, ","), func(t *testing.T) {
				s := &Session{}
				s.Reset(Session{Parameters: parameters, Optimizer: o, Rank: 16, Clip: clip,
					Recipe: step.Recipe{Hardware: step.Hardware{Multiprocessors: 108, ThreadsPerMultiprocessor: 2048}}})
				var heap alloc.Tally
				s.construct(&heap)
				s.optimizerStep(&heap)
				states := slices.Clone(heap.Sizes)
				once := heap.Live
				s.optimizerStep(&heap)
				if heap.Live != once {
					t.Errorf("%d bytes after one update, %d after two: %v", once, heap.Live, states)
				}
				if o.Stateless() != (once == 0) {
					t.Errorf("%d bytes of states", once)
				}
				by := reckoner{s}
				if added, ok := by.plainTotals(); ok {
					if played := by.playedTotals(&heap); added != played {
						t.Errorf("added up %+v, played %+v", added, played)
					}
				}
			})
		}
	}
}
