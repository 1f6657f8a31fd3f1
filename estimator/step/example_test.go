package step_test

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/step"
)

// linear is a model of one layer, whose loss is the mean of what it returns.
type linear struct{ w step.Weight }

func (linear) Batch(t *step.Tape) []step.T { return []step.T{t.Input(64*256, step.F32)} }

func (m linear) Forward(t *step.Tape, batch []step.T) (loss step.T, outputs []step.T) {
	y := t.Linear(batch[0], m.w, step.NoWeight, step.LabelLinear)
	loss = t.MeanRows(y, y.Numel(), step.LabelLoss)
	t.Drop(y)
	return loss, nil
}

// What the doc comment of the package works out.
func ExampleTape_Record() {
	var t step.Tape
	weight := step.Parameter{Name: "weight", Numel: 512 * 256, Rows: 512, Cols: 256, Dtype: step.F32}
	recipe := step.Recipe{Numerics: step.Numerics{Stored: step.F32, Compute: step.F32},
		Hardware: step.Hardware{WorkspaceBytes: 8_519_680}}
	t.Reset(recipe, step.Shape{Batch: 1, Tokens: 64}, step.Parameters{List: []step.Parameter{weight}, LayerStart: 1})
	p := t.Record(linear{step.Weight{Index: 0, Rows: 512, Cols: 256}})
	names := map[step.Op]string{step.Alloc: "allocate", step.AllocOnce: "allocate once", step.Free: "free",
		step.FreePrev: "free the last one's", step.Keep: "keep"}
	for _, e := range p.Events[p.Prologue:] {
		s := p.Slots[e.Slot]
		fmt.Printf("%-20s %9d  %v\n", names[e.Op], s.Bytes, s.Label)
	}
	// Output:
	// allocate                131072  output of a linear layer
	// allocate once          8519680  cuBLAS workspace
	// allocate                     4  loss
	// free                    131072  output of a linear layer
	// allocate                     4  loss
	// allocate                131072  gradient of an activation
	// allocate                524288  gradient of a weight, before it is stored
	// allocate once          8519680  cuBLAS workspace
	// free                    131072  gradient of an activation
	// free the last one's      65536  batch: token ids, labels, masks
	// keep                    524288  gradient of a weight, before it is stored
	// free                         4  loss
	// free                         4  loss
	// allocate                 65536  batch: token ids, labels, masks
}
