package fleet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/service/decision"
)

// Slurm's filter decides within the user's sbatch, before the job has a number: a decision is a job's where the
// same user submitted it at most so long after it, to the second, and every other decision that could be meant
// says the same.
const (
	longestSubmit = 10 * time.Second
	clockSkew     = time.Second
)

// decided is what is held of a decision.
type decided struct {
	at      time.Time
	verdict string
	low     int64
}

// readDecisions reads records of decisions, a line each: in a file, behind what syslog puts in front of them, or
// in the service's log.
func (f *Fleet) readDecisions(s *Source) error {
	return s.lines(func(place string, line []byte) error {
		start := bytes.IndexByte(line, '{')
		if start < 0 {
			s.Passed++
			return nil
		}
		var r struct {
			decision.Record
			Decision *decision.Record `json:"decision"`
		}
		if err := json.Unmarshal(line[start:], &r); err != nil {
			s.unreadable(place, "no JSON object of a decision")
			return nil
		}
		if r.Decision != nil {
			r.Record = *r.Decision
		}
		if r.ID == "" || r.Verdict == "" {
			s.Passed++ // another line of a log
			return nil
		}
		s.Read++
		f.said(r.Verdict).Decisions++
		if r.Action == "deny" {
			f.said(r.Verdict).Denied++
		}
		if r.User == "" {
			return nil
		}
		if f.decisions++; f.decisions > maxMeasured {
			return fmt.Errorf("%s: more than %d decisions: give the files of fewer days at once", place, maxMeasured)
		}
		f.decided[r.User] = append(f.decided[r.User], decided{r.Time, r.Verdict, r.LowBytes})
		return nil
	})
}

// verdictPrefix begins what the hook of Slurm writes into a job's comment (record_verdict).
const verdictPrefix = "vramplan:verdict="

// verdictOf is what was said of a job before it ran; empty where nothing is found.
func (f *Fleet) verdictOf(j *job) (verdict string, low int64) {
	if _, after, ok := strings.Cut(j.comment, verdictPrefix); ok {
		verdict, _, _ = strings.Cut(after, ";")
	}
	if known(verdict) {
		return verdict, 0
	}
	if j.submitted.IsZero() || j.user == "" {
		return "", 0
	}
	verdict = ""
	list := f.decided[j.user] // the oldest first
	from, _ := slices.BinarySearchFunc(list, j.submitted.Add(-longestSubmit), func(d decided, at time.Time) int {
		return d.at.Compare(at)
	})
	for _, d := range list[from:] {
		if d.at.After(j.submitted.Add(clockSkew)) {
			break
		}
		if verdict != "" && (verdict != d.verdict || low != d.low) {
			f.counts.Ambiguous++
			return "", 0
		}
		verdict, low = d.verdict, d.low
	}
	if !known(verdict) {
		return "", 0
	}
	return verdict, low
}

// known says whether a word is a verdict, so that what stands in comments does not become one.
func known(verdict string) bool {
	switch estimator.Verdict(verdict) {
	case estimator.Fits, estimator.Tight, estimator.Unlikely, estimator.DoesNotFit, estimator.Unknown,
		decision.NoVerdict:
		return true
	}
	return false
}
