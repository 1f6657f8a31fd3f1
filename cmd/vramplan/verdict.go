package main

import (
	"errors"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/decision"
)

// verdictOf judges a job that may run on any of the cards. It does not fit only
// where it fits on none of them for certain: a card whose memory nobody knows
// leaves the question open. Strict asks for every card instead.
func verdictOf(cards []estimator.GPUFit, strict bool) (best estimator.GPUFit, code int) {
	best = decision.Best(cards)
	all := true
	for _, g := range cards {
		all = all && g.Verdict == estimator.Fits
	}
	switch best.Verdict {
	case estimator.DoesNotFit:
		return best, exitFailure
	case estimator.Fits, estimator.Tight, estimator.Unlikely:
		if strict && !all {
			return best, exitTight
		}
		return best, exitOK
	}
	return best, exitUndecided
}

// worse is the exit code of two jobs. A job that does not fit decides, then one
// that was described badly, then one without an answer.
func worse(a, b int) int {
	rank := map[int]int{exitFailure: 4, exitUsage: 3, exitUndecided: 2, exitTight: 1, exitOK: 0}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// checkError gives an error of check its exit code, which is never 1.
func checkError(err error) *exitError {
	known, coded := errors.AsType[*exitError](err)
	switch p, refused := asProblem(err); {
	case coded && known.code != exitFailure:
		return known
	case refused && !p.undecided(), isFileError(err):
		return &exitError{exitUsage, err}
	default:
		return &exitError{exitUndecided, err}
	}
}
