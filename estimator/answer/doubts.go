package answer

import (
	"fmt"

	"github.com/vramplan/vramplan/estimator/bounds"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/resolved"
	"github.com/vramplan/vramplan/estimator/result"
)

// explainDoubts says what each doubt comes to in bytes; the context's stands last.
func (r Answerer) explainDoubts(run *resolved.Replayed) []result.DoubtSource {
	b, times := run.Base, run.Figures.Times
	out := r.measuredDoubt(run)
	for _, d := range bounds.On(r.Job).Doubts(run) {
		out = append(out, result.DoubtSource{Source: d.Source, How: d.How,
			BelowBytes: int64(times.Below * d.Below * float64(b.Limit)),
			AboveBytes: int64(times.Above * d.Above * float64(b.Reserved))})
	}
	if r.Copies > 0 {
		out = append(out, result.DoubtSource{Source: "nccl",
			How: fmt.Sprintf("NCCL's communicator was not measured; NVIDIA's planner assumes %s, and nothing "+
				"to %s is allowed for", result.Bytes(r.Nccl.Bytes), result.Bytes(r.Nccl.High)),
			BelowBytes: int64(times.Below * float64(r.Nccl.Bytes-r.Nccl.Low)),
			AboveBytes: int64(times.Above * float64(r.Nccl.High-r.Nccl.Bytes))})
	}
	c := bounds.On(r.Job).CUDAContext(run.Recipe)
	how := fmt.Sprintf("the context took %s to %s in published runs", result.Bytes(c.Low), result.Bytes(c.High))
	if c == memory.ContextHopper {
		how = fmt.Sprintf("the context took 751 to %s on one H200; the spread is that of published runs of other cards",
			result.Bytes(c.Bytes))
	}
	return append(out, result.DoubtSource{Source: "cuda-context", How: how,
		BelowBytes: int64(times.Below * float64(c.Bytes-c.Low)),
		AboveBytes: int64(times.Above * float64(c.High-c.Bytes))})
}
