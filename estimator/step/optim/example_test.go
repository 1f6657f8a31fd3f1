package optim_test

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/step"
	"github.com/vramplan/vramplan/estimator/step/alloc"
	"github.com/vramplan/vramplan/estimator/step/optim"
)

// book keeps states apart from what comes and goes.
type book struct {
	alloc.Tally
	states int64
}

func (b *book) Keep(bytes int64) { b.states += alloc.Rounded(bytes) }

// What the doc comment of the package works out.
func ExampleOptimizerOf() {
	matrix := step.Parameter{Numel: 1_000_000, Rows: 1000, Cols: 1000, Dtype: step.F32}
	for _, implementation := range []string{"foreach", "fused"} {
		adamw, _ := optim.OptimizerOf("adamw", implementation)
		var b book
		adamw.UpdateOne(&b, &step.Recipe{}, &matrix)
		fmt.Println(implementation, b.states, b.Most)
	}
	// Output:
	// foreach 8000512 4000256
	// fused 8001024 0
}
