package parallel_test

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/parallel"
)

// What the doc comment of the package works out.
func ExampleFSDP2_Parts() {
	whole := step.Parameters{List: []step.Parameter{
		{Name: "matrix", Numel: 1_000_000, Rows: 1000, Cols: 1000, Dtype: step.BF16},
		{Name: "vector", Numel: 10, Rows: 10, Cols: 1, Dtype: step.BF16},
	}, LayerStart: 2}
	s := parallel.FSDP2{Sharding: parallel.Sharding{World: 8, Stored: step.F32}}
	var list []step.Parameter
	for _, p := range s.Parts(whole, &list).List {
		fmt.Println(p.Name, p.Rows, p.Numel*p.Dtype.Size())
	}
	// Output:
	// matrix 125 500000
	// vector 2 8
}
