// Package decision is the record of one judgement on a submitted job: enough to give the same
// answer again from it, and to compare that with what the job took in the end.
package decision

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"github.com/vramplan/vramplan/estimator"
)

// Mode is what a hook does with a job that does not fit.
type Mode string

// The modes, in the order in which a site takes them up.
const (
	Audit   Mode = "audit"   // record, say nothing
	Warn    Mode = "warn"    // record and say it, let everything pass
	Enforce Mode = "enforce" // refuse what does not fit
)

// Valid says whether m is one of the modes.
func (m Mode) Valid() bool { return m == Audit || m == Warn || m == Enforce }

// NoVerdict stands in a record where there is no answer: the job could not be understood, or
// something of ours failed. Such a job is let through.
const NoVerdict = "none"

// Record is one decision. Written as one line of JSON it can be replayed: the field job is a
// job document, and the same versions answer it with the same bytes.
type Record struct {
	ID   string    `json:"decision_id"`
	Time time.Time `json:"time"`
	// Hook is where the job was handed in: check, kubernetes.
	Hook string `json:"hook"`
	Mode Mode   `json:"mode,omitempty"`
	// Action is what was done: allow, warn or deny.
	Action   string `json:"action"`
	Verdict  string `json:"verdict"`
	Override string `json:"override,omitempty"`
	// Reason says why there is no verdict.
	Reason string `json:"reason,omitempty"`
	// Source is where the job was found; Workload what it is to its scheduler.
	Source   string `json:"source,omitempty"`
	Workload string `json:"workload,omitempty"`
	User     string `json:"user,omitempty"`

	GPU         string `json:"gpu,omitempty"`
	UsableBytes int64  `json:"usable_bytes,omitempty"`
	LowBytes    int64  `json:"low_bytes,omitempty"`
	DeviceBytes int64  `json:"device_bytes,omitempty"`
	HighBytes   int64  `json:"high_bytes,omitempty"`

	Versions  *estimator.Versions `json:"versions,omitempty"`
	JobDigest string              `json:"job_digest,omitempty"`
	Job       json.RawMessage     `json:"job,omitempty"`
}

// NewID makes an id that no other decision has.
func NewID() string { return "d-" + rand.Text() }

// SetJob puts the job document into the record, with its digest.
func (r *Record) SetJob(document []byte) {
	var compact bytes.Buffer
	if json.Compact(&compact, document) != nil { // not JSON: there is nothing to replay
		return
	}
	r.Job = compact.Bytes()
	r.JobDigest = Digest(document)
}

// SetResult puts the figures of an answer into the record; card is the one that decided.
func (r *Record) SetResult(result *estimator.Result, card estimator.GPUFit) {
	r.Verdict, r.GPU, r.UsableBytes = string(card.Verdict), card.GPU, card.UsableBytes
	r.LowBytes, r.DeviceBytes, r.HighBytes = result.Peak.LowBytes, result.Peak.DeviceBytes, result.Peak.HighBytes
	r.Versions = &result.Versions
}

// Line is the record on one line, with its line feed.
func (r *Record) Line() ([]byte, error) {
	line, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("write a decision: %w", err)
	}
	return append(line, '\n'), nil
}

// Digest identifies a job document whatever the order of its fields and the space between
// them. It is empty for what is not JSON.
func Digest(document []byte) string {
	d := json.NewDecoder(bytes.NewReader(document))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return ""
	}
	canonical, err := json.Marshal(v) // sorts the fields
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(canonical)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Best judges a job that may run on any of several cards: it has the verdict of the card that suits it
// best. A card whose memory nobody knows comes before one that it does not fit.
func Best(cards []estimator.GPUFit) estimator.GPUFit {
	best := cards[0]
	for _, g := range cards[1:] {
		if a, b := rank[g.Verdict], rank[best.Verdict]; a > b || a == b && g.HeadroomBytes > best.HeadroomBytes {
			best = g
		}
	}
	return best
}

var rank = map[estimator.Verdict]int{
	estimator.Fits: 4, estimator.Tight: 3, estimator.Unlikely: 2, estimator.Unknown: 1, estimator.DoesNotFit: 0,
}
