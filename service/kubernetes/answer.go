package kubernetes

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/vramplan/vramplan/estimator"
	"github.com/vramplan/vramplan/estimator/planner"
	"github.com/vramplan/vramplan/service/decision"
)

// The limits of an answer. The API server cuts warnings of more than 256 characters, and all of them where
// they have more than 4096; Kubernetes asks for 120.
const (
	maxWarning = 120
	maxMessage = 1024
	maxAudit   = 512
)

// Allow lets an object in without a word.
func Allow(uid string) *Answer {
	return &Answer{APIVersion: APIVersion, Kind: Kind, Response: &Response{UID: uid, Allowed: true}}
}

// Skip lets a workload in whose job could not be judged, and says why where the mode says anything.
func Skip(uid string, r *decision.Record) *Answer {
	a := Allow(uid)
	a.Response.audit(r)
	if r.Mode != decision.Audit {
		a.Response.warn("not checked: %s", strings.TrimPrefix(r.Reason, ErrUnclear.Error()+": "))
	}
	return a
}

// Judge answers for a job with a verdict. plan is advice, and may be nil. It sets the record's action.
func Judge(uid string, q *Question, r *decision.Record, model string, plan *planner.Plan) *Answer {
	a := Allow(uid)
	verdict := estimator.Verdict(r.Verdict)
	r.Action = "allow"
	refusable := verdict == estimator.DoesNotFit && r.Override == "" && (q.GPUs <= 1 || !q.Single)
	switch {
	case refusable && r.Mode == decision.Enforce:
		r.Action = "deny"
	case verdict != estimator.Fits && verdict != estimator.Unknown && r.Mode != decision.Audit:
		r.Action = "warn"
	}
	a.Response.audit(r)
	if r.Action == "allow" {
		return a
	}
	needs := fmt.Sprintf("%.40s needs %s (%s to %s), %.40s has %s: %s", model, estimator.Bytes(r.DeviceBytes),
		estimator.Bytes(r.LowBytes),
		estimator.Bytes(r.HighBytes), r.GPU, estimator.Bytes(r.UsableBytes), strings.ReplaceAll(r.Verdict, "_", " "))
	change := advice(plan)
	if r.Action == "deny" {
		parts := []string{needs + "."}
		if change != "" {
			parts = append(parts, "What to change: "+change+".")
		}
		parts = append(parts, fmt.Sprintf("To run it anyway, annotate it with %s: REASON.", OverrideAnnotation))
		if r.ID != "" {
			parts = append(parts, "Decision "+r.ID+".")
		}
		a.Response.Allowed = false
		a.Response.Status = &Status{Status: "Failure", Reason: "Forbidden", Code: 403,
			Message: clip("vramplan: "+printable(strings.Join(parts, " ")), maxMessage)}
		return a
	}
	a.Response.warn("%s", needs)
	if change != "" {
		a.Response.warn("%s", change)
	}
	switch {
	case r.Override != "":
		a.Response.warn("overridden: %s", r.Override)
	case q.GPUs > 1 && q.Single && verdict == estimator.DoesNotFit:
		a.Response.warn("it asks for %d GPUs and its document describes one, so it is not refused", q.GPUs)
	}
	return a
}

// advice is the pair that reaches the same effective batch, the first option that fits, or a card.
func advice(plan *planner.Plan) string {
	if plan == nil {
		return ""
	}
	if c := plan.Recommended; c != nil {
		return fmt.Sprintf("micro_batch %d with gradient_accumulation %d fits", c.MicroBatch, c.GradientAccumulation)
	}
	for _, o := range plan.Options {
		if o.Verdict == estimator.Fits {
			return strings.ToLower(o.Title[:1]) + o.Title[1:] + " (" + strings.Join(o.Settings, ", ") + ")"
		}
	}
	if len(plan.SmallestGPUs) > 0 {
		return "no setting makes it fit; " + plan.SmallestGPUs[0] + " is large enough"
	}
	return "no setting of this job makes it fit"
}

// audit notes the decision for the API server's audit log.
func (r *Response) audit(d *decision.Record) {
	r.AuditAnnotations = map[string]string{"verdict": d.Verdict, "mode": string(d.Mode)}
	for name, value := range map[string]string{
		"decision-id": d.ID, "gpu": d.GPU, "override": d.Override, "reason": d.Reason, "job-digest": d.JobDigest,
	} {
		if value != "" {
			r.AuditAnnotations[name] = clip(printable(value), maxAudit)
		}
	}
	if v := d.Versions; v != nil {
		r.AuditAnnotations["versions"] = fmt.Sprintf("%s %s %s %s", v.Estimator, v.Reference, v.Catalog, v.Calibration)
	}
}

func (r *Response) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, clip("vramplan: "+printable(fmt.Sprintf(format, args...)), maxWarning))
}

// printable keeps to what a header may hold: warnings travel in one.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '×':
			return 'x'
		case r == '…':
			return '.'
		case r > unicode.MaxASCII || unicode.IsControl(r):
			return ' '
		}
		return r
	}, s)
}

// clip shortens text of one byte a character.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return s[:most-3] + "..."
}
