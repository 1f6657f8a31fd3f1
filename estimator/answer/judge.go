package answer

import (
	"fmt"
	"math"

	"github.com/vramplan/vramplan/estimator/job"
	"github.com/vramplan/vramplan/estimator/memory"
	"github.com/vramplan/vramplan/estimator/result"
)

// DisplayNote says of a job that fits on the card that was named that its display may want the room; of many cards it
// would be a list.
func DisplayNote(res *result.Result, j *job.Job, g *job.GPU, high int64) {
	fit := &res.GPUs[len(res.GPUs)-1]
	if spare := fit.UsableBytes - high; len(j.GPUs) == 1 && j.GPUs[0].Name != "*" && fit.Verdict == result.Fits &&
		spare < j.DisplayRoom(g) {
		res.Notes = append(res.Notes, result.Note{Code: "display", Text: fmt.Sprintf("%s leaves %s at the upper bound: where "+
			"the card drives a display, "+
			"its programs often hold 1 GiB; say in reserve_bytes (--reserve 300MiB) what is held, or display: "+
			"false (--no-display)", g.ID, result.Bytes(spare))})
	}
}

// Judge holds a card against the figures.
func Judge(g *job.GPU, f memory.Figures, reserve int64) result.GPUFit {
	fit := result.GPUFit{GPU: g.ID, Verdict: result.Unknown, Probability: 0.5}
	if g.UsableBytes <= 0 {
		return fit
	}
	usable := max(g.UsableBytes-reserve, 0)
	fit.UsableBytes = usable
	fit.HeadroomBytes = usable - f.Device
	switch {
	case f.High <= usable:
		fit.Verdict = result.Fits
	case f.Device <= usable:
		fit.Verdict = result.Tight
	case f.Low <= usable:
		fit.Verdict = result.Unlikely
	default:
		fit.Verdict = result.DoesNotFit
	}
	fit.Probability = math.Round(f.Probability(usable)*1000) / 1000
	return fit
}
