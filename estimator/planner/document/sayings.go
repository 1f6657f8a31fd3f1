package document

import (
	"fmt"
	"strings"

	"github.com/vramplan/vramplan/estimator"
)

// plain is a verdict in words.
func plain(v estimator.Verdict) string {
	switch v {
	case estimator.DoesNotFit:
		return "does not fit"
	case estimator.Unlikely:
		return "is unlikely to fit"
	case estimator.Tight:
		return "is tight"
	}
	return string(v)
}

// Least is a size, which may be the least of what is taken.
func Least(bytes int64, atLeast bool) string {
	if atLeast {
		return "at least " + estimator.Bytes(bytes).String()
	}
	return estimator.Bytes(bytes).String()
}

// PeakOf is where the peak of an answer is.
func PeakOf(r *estimator.Result) string {
	if r.Peak.Where == "" || r.Peak.Where == r.Peak.Phase {
		return "the " + r.Peak.Phase + " phase"
	}
	return fmt.Sprintf("the %s phase (%s)", r.Peak.Phase, r.Peak.Where)
}

// Count is a number of things.
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// LowerFirst is a title within a sentence.
func LowerFirst(t string) string { return strings.ToLower(t[:1]) + t[1:] }

// Seconds prints a time.
func Seconds(s float64) string {
	switch {
	case s >= 100:
		return fmt.Sprintf("%.0f s", s)
	case s >= 0.1:
		return fmt.Sprintf("%.2g s", s)
	}
	return fmt.Sprintf("%.2g ms", s*1000)
}

// ExpertsNotShared is the code of explainExperts.
const ExpertsNotShared = "experts-not-shared"

// BestChoice is the word on the option that a plan recommends.
const BestChoice = "best choice"
