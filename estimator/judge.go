package estimator

import (
	"math"

	"github.com/vramplan/vramplan/estimator/calibration"
	"github.com/vramplan/vramplan/estimator/memory"
)

// judged is a card that a run is held against.
type judged struct {
	usable int64
	group  *calibration.Group
	index  int // of the card in the answer
	// whenFull is the process figure where the run gets through on the card only because cached segments are given
	// back; 0 elsewhere.
	whenFull int64
}

// judge holds a card against the figures.
func judge(g *GPU, f memory.Figures, reserve int64) GPUFit {
	fit := GPUFit{GPU: g.ID, Verdict: Unknown, Probability: 0.5}
	if g.UsableBytes <= 0 {
		return fit
	}
	usable := max(g.UsableBytes-reserve, 0)
	fit.UsableBytes = usable
	fit.HeadroomBytes = usable - f.Device
	switch {
	case f.High <= usable:
		fit.Verdict = Fits
	case f.Device <= usable:
		fit.Verdict = Tight
	case f.Low <= usable:
		fit.Verdict = Unlikely
	default:
		fit.Verdict = DoesNotFit
	}
	fit.Probability = math.Round(f.Probability(usable)*1000) / 1000
	return fit
}
